"""Owns which steps a history of a mirror has, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from state.mirror_claims import COMMANDS, check_claim
from state.topic_machine import CHOICES, COUNTS, PARTITIONS, TopicMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.mirror_site import MirrorSite


class MirrorMachine(TopicMachine):
    """Histories of one topic and its mirror."""

    create: ClassVar[Callable[..., MirrorSite]]
    site: MirrorSite

    @initialize(partitions=st.integers(1, 2), count=COUNTS, compacted=st.booleans())
    def begin(self, partitions: int, count: int, *, compacted: bool) -> None:
        self.site = type(self).create(partitions, compacted=compacted)
        self.site.produce(0, count)
        self.site.mirror()

    @rule(choice=CHOICES)
    def mirror(self, choice: int) -> None:
        self.site.mirror(choice)

    @rule(before=st.integers(1, 2), partition=PARTITIONS)
    def kill(self, before: int, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.kill_mirror(before)

    @rule(recreate=st.booleans())
    def delete_target(self, *, recreate: bool) -> None:
        self.site.delete_target(recreate=recreate)

    @rule(partition=PARTITIONS)
    def expire_target(self, partition: int) -> None:
        self.site.expire_target(partition)

    @rule()
    def delete_control(self) -> None:
        self.site.delete_control()

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
