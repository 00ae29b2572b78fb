"""Owns which steps a history of an archive has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from state.topic_machine import COUNTS, PARTITIONS, TopicMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.archive_site import ArchiveSite


class ArchiveMachine(TopicMachine):
    """Histories of one topic, its archive and its restored copies."""

    create: ClassVar[Callable[..., ArchiveSite]]
    site: ArchiveSite

    @initialize(partitions=st.integers(1, 2), count=COUNTS, compacted=st.booleans())
    def begin(self, partitions: int, count: int, *, compacted: bool) -> None:
        self.site = type(self).create(partitions, compacted=compacted)
        self.site.produce(0, count)
        self.site.archive()

    @rule()
    def archive(self) -> None:
        self.site.archive()

    @rule(before=st.integers(1, 2), partition=PARTITIONS)
    def kill_archive(self, before: int, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.archive(before)

    @rule(kill_before=st.integers(0, 1))
    def compact(self, kill_before: int) -> None:
        self.site.compact(kill_before)

    @rule()
    def compare(self) -> None:
        self.site.compare()

    @rule()
    def restore(self) -> None:
        self.site.restore()

    @rule(delete=st.booleans())
    def lose_copy(self, *, delete: bool) -> None:
        if delete:
            self.site.delete_copy()
        else:
            self.site.expire_copy()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "site"):
            self.site.archive()
            self.site.compact()
            self.site.compare()
            self.site.restore()
