"""Owns which steps a history of a mirror has, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state.mirror_claims import COMMANDS, check_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.mirror_site import MirrorSite

PARTITIONS = st.integers(0, 2)
COUNTS = st.integers(1, 4)
CHOICES = st.integers(0, 3)


class MirrorMachine(RuleBasedStateMachine):
    """Histories of one topic and its mirror."""

    create: ClassVar[Callable[[int], MirrorSite]]
    """Creates a site with a number of partitions."""
    most_cuts: ClassVar[int] = 0
    """Of logs in one history; each restarts a broker."""
    site: MirrorSite

    def __init__(self) -> None:
        super().__init__()
        self._cuts = 0

    @initialize(partitions=st.integers(1, 2), count=COUNTS)
    def begin(self, partitions: int, count: int) -> None:
        self.site = type(self).create(partitions)
        self.site.produce(0, count)
        self.site.mirror()

    @rule(partition=PARTITIONS, count=COUNTS)
    def produce(self, partition: int, count: int) -> None:
        self.site.produce(partition, count)

    @rule(count=COUNTS, commit=st.booleans())
    def transact(self, count: int, *, commit: bool) -> None:
        self.site.transact(count, commit=commit)

    @rule(choice=CHOICES)
    def mirror(self, choice: int) -> None:
        self.site.mirror(choice)

    @rule(before=st.integers(1, 2), partition=PARTITIONS)
    def kill(self, before: int, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.kill_mirror(before)

    @rule(partition=PARTITIONS, share=st.sampled_from([0.5, 1.0]))
    def expire(self, partition: int, share: float) -> None:
        self.site.expire(partition, share)

    @rule()
    def recreate_source(self) -> None:
        self.site.recreate_source()

    @rule(recreate=st.booleans())
    def delete_target(self, *, recreate: bool) -> None:
        self.site.delete_target(recreate=recreate)

    @rule(partition=PARTITIONS)
    def expire_target(self, partition: int) -> None:
        self.site.expire_target(partition)

    @rule()
    def delete_control(self) -> None:
        self.site.delete_control()

    @precondition(lambda self: self.site.topic.partitions < 3)
    @rule()
    def add_partition(self) -> None:
        self.site.add_partition()

    @precondition(lambda self: self._cuts < self.most_cuts)
    @rule(partition=PARTITIONS, choice=CHOICES)
    def cut_source(self, partition: int, choice: int) -> None:
        self._cuts += 1
        self.site.cut_source(partition, choice)

    @rule(hours=st.sampled_from([-1, 1]))
    def jump(self, hours: int) -> None:
        self.site.jump(3600 * hours)

    @rule(command=st.sampled_from(COMMANDS), share=st.sampled_from([0.0, 0.5, 1.0]))
    def ask(self, command: str, share: float) -> None:
        check_claim(self.site, command, share)

    @invariant()
    def claims_are_true(self) -> None:
        self.site.check()

    def teardown(self) -> None:
        if hasattr(self, "site"):
            self.site.mirror()
