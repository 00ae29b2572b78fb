"""Owns which steps a history of an archive has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.archive_site import ArchiveSite

PARTITIONS = st.integers(0, 2)
COUNTS = st.integers(1, 4)


class ArchiveMachine(RuleBasedStateMachine):
    """Histories of one topic, its archive and its restored copies."""

    create: ClassVar[Callable[[int], ArchiveSite]]
    """Creates a site with a number of partitions."""
    most_cuts: ClassVar[int] = 0
    """Of logs in one history; each restarts a broker."""
    site: ArchiveSite

    def __init__(self) -> None:
        super().__init__()
        self._cuts = 0

    @initialize(partitions=st.integers(1, 2), count=COUNTS)
    def begin(self, partitions: int, count: int) -> None:
        self.site = type(self).create(partitions)
        self.site.source.produce(0, count)
        self.site.archive()

    @rule(partition=PARTITIONS, count=COUNTS)
    def produce(self, partition: int, count: int) -> None:
        self.site.source.produce(partition, count)

    @rule(count=COUNTS, commit=st.booleans())
    def transact(self, count: int, *, commit: bool) -> None:
        self.site.source.transact(count, commit=commit)

    @rule()
    def archive(self) -> None:
        self.site.archive()

    @rule(before=st.integers(1, 2), partition=PARTITIONS)
    def kill_archive(self, before: int, partition: int) -> None:
        self.site.source.produce(partition, 2)
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

    @rule(partition=PARTITIONS, share=st.sampled_from([0.5, 1.0]))
    def expire(self, partition: int, share: float) -> None:
        self.site.source.expire(partition, share)

    @rule()
    def recreate_source(self) -> None:
        self.site.source.recreate()

    @precondition(lambda self: self.site.source.partitions < 3)
    @rule()
    def add_partition(self) -> None:
        self.site.source.add_partition()

    @precondition(lambda self: self._cuts < self.most_cuts)
    @rule(partition=PARTITIONS, choice=st.integers(0, 3))
    def cut_source(self, partition: int, choice: int) -> None:
        self._cuts += 1
        self.site.cut(partition, choice)

    @rule(hours=st.sampled_from([-1, 1]))
    def jump(self, hours: int) -> None:
        self.site.jump(3600 * hours)

    def teardown(self) -> None:
        if hasattr(self, "site"):
            self.site.archive()
            self.site.compact()
            self.site.compare()
            self.site.restore()
