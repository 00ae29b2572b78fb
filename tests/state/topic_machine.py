"""The steps that happen to a source topic in a history, whatever copies it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

if TYPE_CHECKING:
    from state.topic_site import TopicSite

PARTITIONS = st.integers(0, 2)
COUNTS = st.integers(1, 4)
CHOICES = st.integers(0, 3)


class TopicMachine(RuleBasedStateMachine):
    """Histories of one topic."""

    create: ClassVar[Callable[..., TopicSite]]
    """Creates a site with a number of partitions, whose topic Kafka perhaps compacts."""
    most_cuts: ClassVar[int] = 0
    """Of logs in one history; each restarts a broker."""
    site: TopicSite

    def __init__(self) -> None:
        super().__init__()
        self._cuts = 0

    @rule(partition=PARTITIONS, count=COUNTS)
    def produce(self, partition: int, count: int) -> None:
        self.site.produce(partition, count)

    @precondition(lambda self: not self.site.source.transaction)
    @rule(count=COUNTS, commit=st.booleans())
    def transact(self, count: int, *, commit: bool) -> None:
        self.site.transact(count, commit=commit)

    @precondition(lambda self: not self.site.source.transaction)
    @rule(count=COUNTS)
    def begin_transaction(self, count: int) -> None:
        self.site.begin_transaction(count)

    @precondition(lambda self: self.site.source.transaction)
    @rule(commit=st.booleans())
    def end_transaction(self, *, commit: bool) -> None:
        self.site.end_transaction(commit=commit)

    @precondition(lambda self: self.site.source.is_compacted and not self.site.source.transaction)
    @rule()
    def clean(self) -> None:
        self.site.clean()

    @rule(partition=PARTITIONS, share=st.sampled_from([0.5, 1.0]))
    def expire(self, partition: int, share: float) -> None:
        self.site.expire(partition, share)

    @precondition(lambda self: not self.site.source.transaction)
    @rule()
    def recreate_source(self) -> None:
        self.site.recreate_source()

    @precondition(lambda self: self.site.source.partitions < 3)
    @rule()
    def add_partition(self) -> None:
        self.site.add_partition()

    @precondition(lambda self: self._cuts < self.most_cuts and self.site.source.can_be_cut)
    @rule(partition=PARTITIONS, choice=CHOICES)
    def cut_source(self, partition: int, choice: int) -> None:
        self._cuts += 1
        self.site.cut_source(partition, choice)

    @rule(hours=st.sampled_from([-1, 1]))
    def jump(self, hours: int) -> None:
        self.site.jump(3600 * hours)

    def teardown(self) -> None:
        if hasattr(self, "site") and self.site.source.transaction:
            self.site.end_transaction(commit=True)
