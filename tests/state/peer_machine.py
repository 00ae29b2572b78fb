"""Which steps a history of an archive has that kafka-replicator writes, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from state.commands import Kill
from state.topic_machine import COUNTS, PARTITIONS

if TYPE_CHECKING:
    from state.peer_site import PeerSite


class PeerMachine(RuleBasedStateMachine):
    """Histories of one topic and its archive in the layout of kafka-replicator, which knows no topic IDs."""

    create: ClassVar[Callable[..., PeerSite]]
    """Creates a site with a number of partitions."""
    site: PeerSite

    @initialize(partitions=st.integers(1, 2), count=COUNTS, is_first=st.booleans())
    def begin(self, partitions: int, count: int, *, is_first: bool) -> None:
        self.site = type(self).create(partitions)
        self.site.produce(0, count)
        if is_first:
            self.site.write_as_peer(0)
        self.site.archive()

    @rule(partition=PARTITIONS, count=COUNTS)
    def produce(self, partition: int, count: int) -> None:
        self.site.produce(partition, count)

    @rule(count=COUNTS, commit=st.booleans())
    def transact(self, count: int, *, commit: bool) -> None:
        self.site.transact(count, commit=commit)

    @rule(partition=PARTITIONS)
    def write_as_peer(self, partition: int) -> None:
        self.site.write_as_peer(partition)

    @rule(partition=PARTITIONS)
    def join_as_peer(self, partition: int) -> None:
        self.site.join_as_peer(partition)

    @rule()
    def archive(self) -> None:
        self.site.archive()

    @rule(number=st.integers(1, 2), partition=PARTITIONS)
    def kill_archive(self, number: int, partition: int) -> None:
        self.site.produce(partition, 2)
        self.site.archive(Kill(number))
        self.site.archive()

    @precondition(lambda self: self.site.source.partitions < 3)
    @rule()
    def add_partition(self) -> None:
        self.site.add_partition()

    def teardown(self) -> None:
        if hasattr(self, "site"):
            self.site.check()
            self.site.archive()
