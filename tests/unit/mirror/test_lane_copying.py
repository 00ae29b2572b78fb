"""The proof that a lane passes over no record, whatever fails in between; without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import SourceStalledError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.access.connection import KafkaConnection
from gapless_mirror.lanes import refusals, topic_check
from gapless_mirror.lanes.commits import UnconfirmedCommit
from gapless_mirror.lanes.control import LaneState
from gapless_mirror.lanes.copying import LaneCopier
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.lane import Lane
from gapless_mirror.lanes.parking import ParkingTopic
from gapless_mirror.lanes.progress import PartitionProgress
from gapless_mirror.lanes.reader import NO_EPOCHS, Batch, Reading
from gapless_mirror.lanes.records import LanePosition
from gapless_mirror.lanes.setup import LaneSetup, OnBadRecord, OnDataLoss
from gapless_mirror.lanes.sources import SourceTopic, SourceView
from gapless_mirror.lanes.writer import LaneWriter
from gapless_mirror.sql.evaluation import Transformed

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.observations import LaneObservation, PartitionObservation


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000)

    def key(self) -> bytes:
        return b"%d" % self._offset

    def value(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def leader_epoch(self) -> None:
        return None


class Source:
    """Logs, and a reader that gives each record once, as a consumer does."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self.ends = dict(ends)
        self.ids: dict[str, str] = {topic: "S" for topic, _ in ends}
        self.transformed: Callable[[Message], Transformed] | None = None
        """How SQL changes a record."""
        self.grows = 0
        """By how many records a log grows when it was looked at."""
        self.unreadable: set[TopicPartition] = set()
        """Partitions whose next read fails, which is reported once, as a consumer does."""
        self.most_read = 1_000_000
        self._next: dict[TopicPartition, int] = {}
        self._told: set[TopicPartition] = set()
        """Partitions whose end was reported; again only after they are added again."""

    def recreate(self, topic: str, end: int) -> None:
        self.ids[topic], self.ends[topic, 0] = "R", end

    def view(self, number: int) -> SourceView:
        topics: dict[str, list[int]] = {}
        for (topic, _), end in sorted(self.ends.items()):
            topics.setdefault(topic, []).append(end)
        return SourceView(
            {
                topic: SourceTopic(topic, self.ids[topic], topic, (0,) * len(ends), tuple(ends), tuple(ends))
                for topic, ends in topics.items()
            },
            number=number,
        )

    def add(
        self, offsets: Mapping[TopicPartition, int], _epochs: Mapping[TopicPartition, tuple[int, int]] = NO_EPOCHS
    ) -> None:
        self._next |= offsets
        self._told -= offsets.keys()

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._next.pop(topic_partition, None)

    def log_range(self, topic_partition: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        assert timeout_seconds
        end = self.ends[topic_partition]
        self.ends[topic_partition] += self.grows
        return 0, end

    def read(self, _most: int, _timeout_seconds: float) -> Reading:
        reading = Reading([], {}, [])
        for topic_partition, first in sorted(self._next.items()):
            end = self.ends[topic_partition]
            if topic_partition in self.unreadable:
                self.unreadable.remove(topic_partition)
                reading.errors.append((topic_partition, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
                continue
            if first > end:
                reading.errors.append((topic_partition, KafkaError(KafkaError._AUTO_OFFSET_RESET)))
                self.drop([topic_partition])
                continue
            if first < end:
                end = min(end, first + self.most_read)
                messages: list[Any] = [Message(offset) for offset in range(first, end)]
                if self.transformed is not None:
                    messages = [self.transformed(message) for message in messages]
                reading.batches.append(Batch(topic_partition, messages))
            if topic_partition not in self._told and end == self.ends[topic_partition]:
                self._told.add(topic_partition)
                reading.ends[topic_partition] = end
            self._next[topic_partition] = end
        return reading

    def close(self) -> None:
        pass


class Target:
    """A producer whose client knows so many partitions of each topic."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.partitions = dict(partitions)
        self.committed: dict[TopicPartition, list[int]] = {}
        self.is_open = False
        self.was_cut_off = False
        self.client = self
        self.exist = dict(partitions)
        """Those that there are, of which the client learns when it asks."""
        self.refuses: set[str] = set()
        """Topics whose records Kafka refuses; the client takes them, and no record after that."""
        self.bad: set[tuple[TopicPartition, int]] = set()
        """Records that Kafka refuses, together with all others of their batch."""
        self._untold: list[Any] = []
        self._open: list[tuple[TopicPartition, int, Any]] = []

    def refresh_metadata(self, topic: str) -> None:
        self.partitions[topic] = self.exist[topic]

    def __len__(self) -> int:
        return 0

    def begin(self) -> None:
        self.is_open, self._open, self._untold = True, [], []

    def produce(self, topic: str, _value: Any, key: bytes, partition: int, report: Any, *_more: Any) -> None:
        if self._untold:
            raise KafkaException(KafkaError(KafkaError._STATE))
        if topic in self.refuses:
            self._untold = [report]
        if partition >= self.partitions[topic]:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self._open.append(((topic, partition), int(key), report))

    def put(self, *_record: Any) -> None:
        pass

    def poll(self, seconds: float = 0.1) -> None:
        for report in self._untold if seconds else ():
            report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)

    def flush(self, _probe: object = None) -> None:
        ends = {topic_partition: len(some) for topic_partition, some in self.committed.items()}
        for topic_partition, _, report in self._open:
            offset = ends[topic_partition] = ends.get(topic_partition, 0) + 1
            if report is not None and any(
                (topic_partition, each) in self.bad for each in self._offsets(topic_partition)
            ):
                report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
            elif report is not None:
                report(None, Message(offset))

    def _offsets(self, topic_partition: TopicPartition) -> list[int]:
        return [offset for other, offset, _ in self._open if other == topic_partition]

    def commit(self) -> None:
        for topic_partition, offset, _ in self._open:
            self.committed.setdefault(topic_partition, []).append(offset)
        self.is_open = False

    def abort(self) -> None:
        self.is_open = False


class Check:
    """Compares topic IDs."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._asked: Mapping[str, str] = {}

    def start(self, ids: Mapping[str, str]) -> None:
        self._asked = ids

    def changed_topics(self, _pulse: Any) -> set[str]:
        return {topic for topic, known in self._asked.items() if self._source.ids[topic] != known}


def copying(
    source: Source,
    target: Target,
    on_data_loss: OnDataLoss = OnDataLoss.FAIL,
    positions: Mapping[TopicPartition, LanePosition] | None = None,
    unconfirmed: UnconfirmedCommit | None = None,
    *,
    on_bad_record: OnBadRecord = OnBadRecord.FAIL,
) -> LaneCopier:
    setup = LaneSetup(
        identity=MirrorIdentity("m"),
        lanes=1,
        source=KafkaConnection(bootstrap_servers="source:9092"),
        target=KafkaConnection(bootstrap_servers="target:9092"),
        engine="workers",
        epoch=1,
        commit_interval_seconds=0.0,
        on_data_loss=on_data_loss,
        on_bad_record=on_bad_record,
        parking_topic="parked" if on_bad_record is OnBadRecord.PARK else "",
    )
    copier = LaneCopier(setup, unconfirmed)
    begin(copier, source, target, positions or {})
    copier.follow(source.view(1), 0)
    return copier


def begin(copier: LaneCopier, source: Source, target: Target, positions: Mapping[TopicPartition, LanePosition]) -> None:
    producer: Any = target
    check: Any = Check(source)
    copier.begin(LaneState(positions=dict(positions)), source, LaneWriter(producer, "control", 0), check)


def steps(copier: LaneCopier, count: int) -> None:
    for _ in range(count):
        copier.step(0.0, lambda: None, lambda: False)


def test_records_that_were_read_beside_refused_ones_are_read_again() -> None:
    """A partition that the target does not have, as when its topic was recreated with fewer."""
    source = Source({("a", 0): 3, ("a", 1): 3, ("b", 0): 3})
    target = Target({"a": 1, "b": 1})
    copier = copying(source, target)
    steps(copier, 3)
    assert target.committed == {("a", 0): [0, 1, 2], ("b", 0): [0, 1, 2]}
    assert copier.partitions["b", 0].position.next_offset == 3


def test_errors_and_ends_that_were_read_beside_refused_records_are_handled() -> None:
    """The reader reports each of them once."""
    source = Source({("a", 0): 3, ("a", 1): 3, ("b", 0): 3, ("c", 0): 9, ("z", 0): 9})
    target = Target({"a": 1, "b": 1, "c": 1, "z": 1})
    shortened = LanePosition(target="c", source_id="S", epoch=1, start=0, next_offset=12)
    markers_only = LanePosition(target="b", source_id="S", epoch=1, start=0, next_offset=3)
    source.unreadable = {("z", 0)}
    copier = copying(source, target, positions={("c", 0): shortened, ("b", 0): markers_only})
    steps(copier, 1)
    assert copier.partitions["a", 1].stop is not None
    error = copier.partitions["z", 0].error
    assert error is not None
    assert error.name == "TOPIC_AUTHORIZATION_FAILED"
    steps(copier, 3)
    stop = copier.partitions["c", 0].stop
    assert stop is not None, "the offset is out of range, which was read beside the refused records"
    assert copier.partitions["b", 0].end_seen == 3
    assert target.committed["a", 0] == [0, 1, 2]


def test_what_is_observed_during_a_commit_counts_all_that_its_positions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = Source({("a", 0): 3, ("b", 0): 3}), Target({"a": 1, "b": 1})
    copier = copying(source, target)
    lane = Lane(0, copier._setup)
    lane.copier = copier
    apply, observe = PartitionProgress.apply_commit, PartitionProgress.observation
    seen: list[LaneObservation] = []

    def observed_in_between(partition: PartitionProgress, *commit: Any) -> None:
        apply(partition, *commit)
        seen.append(lane.observation())

    with monkeypatch.context() as patch:
        patch.setattr(PartitionProgress, "apply_commit", observed_in_between)
        steps(copier, 1)

    def observed_late(partition: PartitionProgress) -> PartitionObservation:
        steps(copier, 1)
        return observe(partition)

    source.ends = {("a", 0): 6, ("b", 0): 6}
    monkeypatch.setattr(PartitionProgress, "observation", observed_late)
    seen.append(lane.observation())
    assert [one.records for one in seen] == [6, 6, 12]
    assert all(one.records >= sum(partition.position for partition in one.partitions) for one in seen)


def test_a_partition_that_was_added_a_moment_ago_is_copied_at_once() -> None:
    """The client asks for the partitions of a topic once a minute."""
    source, target = Source({("a", 0): 3, ("a", 1): 3}), Target({"a": 1})
    target.exist["a"] = 2
    copier = copying(source, target)
    steps(copier, 2)
    assert target.committed == {("a", 0): [0, 1, 2], ("a", 1): [0, 1, 2]}


def test_a_refusal_that_is_told_when_further_records_are_written_holds_up_its_partition_only() -> None:
    source, target = Source({("a", 0): 1, ("b", 0): 3}), Target({"a": 1, "b": 1})
    target.refuses = {"a"}
    copier = copying(source, target)
    steps(copier, 3)
    stop = copier.partitions["a", 0].stop
    assert stop is not None
    assert "too large" in stop.message
    assert target.committed == {("b", 0): [0, 1, 2]}


@given(
    bad=st.sets(st.integers(0, 19), max_size=20),
    most_read=st.integers(1, 20),
    way=st.sampled_from([OnBadRecord.SKIP_AND_RECORD, OnBadRecord.PARK]),
)
def test_each_refused_record_is_skipped_or_parked_alone_and_recorded(
    bad: set[int], most_read: int, way: OnBadRecord
) -> None:
    source, target = Source({("a", 0): 20, ("b", 0): 20}), Target({"a": 1, "b": 1, "parked": 1})
    source.most_read = most_read
    target.bad = {(("a", 0), offset) for offset in bad}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "_SEARCH_SECONDS", 0.0)
        patch.setattr(ParkingTopic, "check", lambda _topic: None)
        copier = copying(source, target, on_bad_record=way)
        steps(copier, 400)
    assert target.committed.get(("a", 0), []) == [offset for offset in range(20) if offset not in bad]
    assert target.committed["b", 0] == list(range(20))
    position = copier.partitions["a", 0].position
    assert (position.next_offset, copier.partitions["a", 0].stop) == (20, None)
    lost = [(lost.first, lost.last, lost.reason) for lost in position.lost]
    is_parked = way is OnBadRecord.PARK
    reason = "Parked" if is_parked else "TargetRefuses"
    assert lost == [(first, last, reason) for first, last in OffsetRanges.of_offsets(bad)]
    assert target.committed.get(("parked", 0), []) == (sorted(bad) if is_parked else [])
    assert position.records == 20 - len(bad)


def test_a_bad_record_holds_up_its_partition_only_while_it_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_SEARCH_SECONDS", 1000.0)
    source, target = Source({("a", 0): 20, ("b", 0): 20}), Target({"a": 1, "b": 1})
    target.bad = {(("a", 0), 7)}
    copier = copying(source, target, on_bad_record=OnBadRecord.SKIP_AND_RECORD)
    steps(copier, 3)
    assert target.committed == {("b", 0): list(range(20))}
    assert copier.partitions["a", 0].position.next_offset == 0
    assert not copier.is_done


def routed(message: Message, target: str | None) -> Transformed:
    return Transformed(message, message.key(), None, None, target)


def test_records_that_sql_leaves_out_are_behind_the_position_and_the_others_keep_their_order() -> None:
    source, target = Source({("a", 0): 9, ("b", 0): 4}), Target({"a": 1, "b": 1, "errors": 1})

    def transformed(message: Message) -> Transformed:
        kind = message.offset() % 3
        return Transformed.dropped(message) if kind == 2 else routed(message, "errors" if kind else None)

    source.transformed = transformed
    copier = copying(source, target)
    steps(copier, 1)
    assert (target.committed["a", 0], target.committed["b", 0]) == ([0, 3, 6], [0, 3])
    assert target.committed["errors", 0] == [1, 4, 7, 1]
    assert copier.partitions["a", 0].position.next_offset == 9
    assert copier.records == 9


def test_a_partition_of_which_sql_leaves_out_all_has_moved_although_nothing_was_written() -> None:
    source, target = Source({("a", 0): 5}), Target({"a": 1})
    source.transformed = Transformed.dropped
    copier = copying(source, target)
    steps(copier, 2)
    assert target.committed.get(("a", 0), []) == []
    assert copier.partitions["a", 0].next_offset == 5


@pytest.mark.parametrize("bad", [{7}, {0, 6}])
def test_a_record_that_the_target_refuses_is_found_among_those_that_sql_has_left(bad: set[int]) -> None:
    source, target = Source({("a", 0): 20, ("b", 0): 20}), Target({"a": 1, "b": 1, "parked": 1})
    target.bad = {(("a", 0), offset) for offset in bad}
    source.transformed = lambda message: (
        Transformed.dropped(message) if message.offset() % 5 == 4 else routed(message, None)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "_SEARCH_SECONDS", 0.0)
        copier = copying(source, target, on_bad_record=OnBadRecord.SKIP_AND_RECORD)
        steps(copier, 400)
    kept = [offset for offset in range(20) if offset % 5 != 4]
    assert target.committed["a", 0] == [offset for offset in kept if offset not in bad]
    assert target.committed["b", 0] == kept
    position = copier.partitions["a", 0].position
    assert [(lost.first, lost.last) for lost in position.lost] == [(offset, offset) for offset in sorted(bad)]
    assert position.next_offset >= max(kept) + 1


def test_a_refusal_names_the_topic_that_records_were_sent_to() -> None:
    source, target = Source({("a", 0): 3}), Target({"a": 1, "errors": 0})
    source.transformed = lambda message: routed(message, "errors")
    copier = copying(source, target)
    steps(copier, 1)
    stop = copier.partitions["a", 0].stop
    assert stop is not None
    assert stop.message.startswith("The topic errors of Kafka at target:9092 has fewer partitions")


def test_nothing_goes_on_in_memory_when_a_broker_was_away_before_a_transaction_is_given_up() -> None:
    """Kafka may have left the transaction before it open, which is then aborted with it; the control topic knows."""
    source, target = Source({("a", 0): 1, ("b", 0): 3}), Target({"a": 1, "b": 1})
    target.refuses, target.was_cut_off = {"a"}, True
    copier = copying(source, target)
    with pytest.raises(SourceStalledError):
        steps(copier, 1)


def test_a_refused_partition_that_is_new_waits_also_while_a_broker_is_away() -> None:
    """The lane is opened again then, and would be refused the same record for as long as the broker is away."""
    source, target = Source({("a", 0): 1, ("b", 0): 3}), Target({"a": 1, "b": 1})
    target.refuses, target.was_cut_off = {"a"}, True
    copier = copying(source, target)
    with pytest.raises(SourceStalledError):
        steps(copier, 1)
    begin(copier, source, target, {})
    copier.follow(source.view(2), 0)
    steps(copier, 1)
    assert target.committed == {("b", 0): [0, 1, 2]}
    assert copier.partitions["a", 0].stop is not None


@pytest.mark.parametrize("end", [4, 9, 50])
def test_a_topic_that_was_recreated_has_lost_nothing_that_was_copied(end: int) -> None:
    """A log that ends before the position is noticed before the topic ID is."""
    source, target = Source({("a", 0): 10}), Target({"a": 1})
    copier = copying(source, target, OnDataLoss.SKIP_AND_RECORD)
    steps(copier, 2)
    source.recreate("a", end)
    source.add({("a", 0): 10})
    source.grows = 2
    steps(copier, 3)
    assert copier.needs_refresh
    copier.follow(source.view(2), 0)
    steps(copier, 3)
    position = copier.partitions["a", 0].position
    assert target.committed["a", 0] == [*range(10), *range(source.ends["a", 0])]
    assert (position.source_id, position.next_offset, position.lost) == ("R", source.ends["a", 0], ())


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_seen_of_a_topic_and_not_copied_is_lost_when_it_is_recreated(fails: bool) -> None:  # noqa: FBT001
    """Also when the transaction with the decision fails and the lane is opened again."""
    source, target = Source({("a", 0): 10}), Target({"a": 1})
    copier = copying(source, target, OnDataLoss.SKIP_AND_RECORD)
    steps(copier, 2)
    committed = copier.partitions["a", 0].position
    source.ends["a", 0] = 30
    copier.follow(source.view(2), 0)
    source.recreate("a", 4)
    copier.follow(source.view(3), 0)
    if fails:
        begin(copier, source, target, {("a", 0): committed})
        copier.follow(source.view(3), 0)
    steps(copier, 3)
    position = copier.partitions["a", 0].position
    assert [(lost.first, lost.last, lost.reason) for lost in position.lost] == [(10, 29, "TopicRecreated")]
    assert target.committed["a", 0] == [*range(10), *range(4)]


def test_the_reason_of_a_stop_names_the_topic_ids_as_soon_as_they_are_known() -> None:
    source, target = Source({("a", 0): 10}), Target({"a": 1})
    copier = copying(source, target)
    steps(copier, 2)
    source.recreate("a", 4)
    steps(copier, 3)
    stop = copier.partitions["a", 0].stop
    assert stop is not None
    assert "from offset 4" in stop.message
    copier.follow(source.view(2), 0)
    stop = copier.partitions["a", 0].stop
    assert stop is not None
    assert "(topic ID S -> R)" in stop.message


def test_a_mirror_with_another_rename_answers_for_what_it_copies_to_the_new_name() -> None:
    source, target = Source({("a", 0): 10}), Target({"a": 1})
    former = LanePosition(target="old.a", source_id="S", epoch=1, start=0, next_offset=6)
    copier = copying(source, target, positions={("a", 0): former})
    steps(copier, 2)
    position = copier.partitions["a", 0].position
    assert target.committed == {("a", 0): [6, 7, 8, 9]}
    assert (position.target, position.start, position.next_offset) == ("a", 6, 10)


class Unanswered:
    def done(self) -> bool:
        return False

    def result(self, timeout: float) -> None:
        raise TimeoutError(timeout)


def test_a_question_about_topic_ids_that_is_not_answered_fails_like_one_of_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a process that was stopped for long; the lane is opened again then."""
    monkeypatch.setattr(topic_check, "_TIMEOUT_SECONDS", -1.0)
    check = topic_check.TopicCheck(KafkaConnection(bootstrap_servers="source:9092"))
    check._futures = {"a": Unanswered()}
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        check.changed_topics(lambda: None)


@pytest.mark.parametrize("was_made", [True, False])
def test_a_commit_in_doubt_is_counted_by_the_thread_that_takes_the_lane_next(*, was_made: bool) -> None:
    """As when the group that shares the lanes takes copier away in the middle of a commit, and gives it back."""
    source, target, unconfirmed = Source({("a", 0): 3}), Target({"a": 1}), UnconfirmedCommit()
    first = copying(source, target, unconfirmed=unconfirmed)
    commit = target.commit

    def interrupted() -> None:
        if was_made:
            commit()
        raise InterruptedError

    target.commit = interrupted  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        steps(first, 1)
    target.abort()  # as the end of a thread does
    target.commit = commit  # type: ignore[method-assign]
    positions = {("a", 0): first.partitions["a", 0].position_after(3, 3, 1, target_end=4)} if was_made else {}
    assert first.records == 0
    second = copying(source, target, positions=positions, unconfirmed=UnconfirmedCommit(unconfirmed))
    steps(second, 2)
    assert second.records == 3
    assert target.committed == {("a", 0): [0, 1, 2]}


@pytest.mark.parametrize("aborts", [True, False])
def test_a_thread_that_lost_its_lane_changes_nothing_of_what_its_successor_counts(*, aborts: bool) -> None:
    """It still runs when the lane is back in this process; its late changes were counted instead of the others."""
    source, target, lost = Source({("a", 0): 500, ("b", 0): 500}), Target({"a": 1, "b": 1}), UnconfirmedCommit()
    commit = target.commit

    def interrupted() -> None:
        raise InterruptedError

    target.commit = interrupted  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        steps(copying(source, target, unconfirmed=lost), 1)
    changes = lost.take()  # before it says so: it is slow
    assert sum(change.records for change in changes) == 1000
    target.abort()  # its successor fences it
    second = copying(source, target, unconfirmed=UnconfirmedCommit(lost))

    def late() -> None:
        lost.put(changes)
        commit()
        if aborts:
            lost.take()

    target.commit = late  # type: ignore[method-assign]
    steps(second, 3)
    assert target.committed == {(topic, 0): [*range(500)] for topic in "ab"}
    assert second.records == 1000
    assert not any(partition.has_moved for partition in second.partitions.values())
