"""Which steps a history of an archive has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from state.commands import Kill
from state.topic_machine import COUNTS, PARTITIONS, TopicMachine

if TYPE_CHECKING:
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

    @rule(number=st.integers(1, 2), after=st.booleans(), partition=PARTITIONS)
    def kill_archive(self, number: int, *, after: bool, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.archive(Kill(number, after=after))

    @rule(partition=PARTITIONS)
    def archive_twice_at_once(self, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.archive_twice_at_once()

    @rule(after=st.sampled_from([None, False, True]))
    def compact(self, after: bool | None) -> None:  # noqa: FBT001 -- three choices
        self.site.compact(None if after is None else Kill(1, after=after))

    @rule(number=st.integers(1, 3), after=st.booleans())
    def kill_restore(self, number: int, *, after: bool) -> None:
        self.site.kill_restore(Kill(number, after=after))

    @rule()
    def compare(self) -> None:
        self.site.compare()

    @rule()
    def restore(self) -> None:
        self.site.restore()

    @rule(delete=st.booleans())
    def lose_copy(self, *, delete: bool) -> None:
        self.site.restore()
        if delete:
            self.site.delete_copy()
        else:
            self.site.expire_copy()
        self.site.restore()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "site"):
            self.site.archive()
            self.site.compact()
            self.site.compare()
            self.site.restore()
