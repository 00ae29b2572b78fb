"""Which steps a history of a mirror has, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from state.mirror_claims import COMMANDS, check_claim
from state.topic_machine import CHOICES, COUNTS, PARTITIONS, TopicMachine

if TYPE_CHECKING:
    from state.mirror_site import MirrorSite


class MirrorMachine(TopicMachine):
    """Histories of one topic and its mirror."""

    create: ClassVar[Callable[..., MirrorSite]]
    may_use_spark: ClassVar[bool] = False
    """Whether the other engine runs once in one of ten histories; it starts a JVM."""
    site: MirrorSite

    def __init__(self) -> None:
        super().__init__()
        self._runs_by_spark = 0

    @initialize(partitions=st.integers(1, 2), count=COUNTS, compacted=st.booleans(), spark=st.integers(0, 9))
    def begin(self, partitions: int, count: int, *, compacted: bool, spark: int) -> None:
        self._runs_by_spark = 1 if self.may_use_spark and not spark else 0
        self.site = type(self).create(partitions, compacted=compacted)
        self.site.produce(0, count)
        self.site.mirror()

    @rule(choice=CHOICES)
    def mirror(self, choice: int) -> None:
        self.site.mirror(choice)

    @precondition(lambda self: self._runs_by_spark)
    @rule(choice=CHOICES)
    def switch_engine(self, choice: int) -> None:
        self._runs_by_spark -= 1
        self.site.mirror(choice, engine="spark")

    @rule(number=st.integers(1, 2), after=st.booleans(), partition=PARTITIONS)
    def kill(self, number: int, *, after: bool, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.kill_mirror(number, after=after)

    @rule(recreate=st.booleans())
    def delete_target(self, *, recreate: bool) -> None:
        self.site.delete_target(recreate=recreate)

    @rule(partition=PARTITIONS)
    def expire_target(self, partition: int) -> None:
        self.site.expire_target(partition)

    @precondition(lambda self: self._cuts < self.most_cuts)
    @rule(partition=PARTITIONS, choice=CHOICES, foreign=st.sampled_from([0, 2, 9]))
    def cut_target(self, partition: int, choice: int, foreign: int) -> None:
        self._cuts += 1
        self.site.cut_target(partition, choice, foreign)

    @rule(recreated=st.sampled_from([0, 0, 3]))
    def delete_control(self, recreated: int) -> None:
        self.site.delete_control(recreated)

    @precondition(lambda self: self._cuts < self.most_cuts)
    @rule(choice=CHOICES, decision=CHOICES)
    def cut_control(self, choice: int, decision: int) -> None:
        self._cuts += 1
        self.site.cut_control(choice)
        self.site.mirror(decision)

    @rule()
    def add_control_partition(self) -> None:
        self.site.add_control_partition()

    @rule()
    def add_target_partition(self) -> None:
        self.site.add_target_partition()

    @rule(command=st.sampled_from(COMMANDS), share=st.sampled_from([0.0, 0.5, 1.0]))
    def ask(self, command: str, share: float) -> None:
        check_claim(self.site, command, share)

    @invariant()
    def claims_are_true(self) -> None:
        self.site.check()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "site"):
            self.site.mirror()
