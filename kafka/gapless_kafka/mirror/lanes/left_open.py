"""Owns how a lane settles a transaction that was ended, and that Kafka has left open all the same.

Kafka's coordinator leaves out a partition that has no leader at this moment when it ends a transaction, and says that
all is done (KAFKA-20734, up to Kafka 4.3). Neither a new producer nor time ends such a transaction; the next commit of
the lane would make its records visible, although its positions were not known and the records are written again.

The owner of the lane reads what the transaction did. What is visible in the target stays. The records that are in doubt
are written once more and aborted, which aborts those that were left open with them. The positions that hold are written
last: whoever is killed before that finds the same again.

Kafka answers before it has ended a transaction in each partition. What is open just after an answer is looked at again.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException

from gapless_api.base.errors import SourceStalledError
from gapless_api.wire.form import WireError
from gapless_kafka.mirror.lanes.control import lane_state, read_open_records, unreadable_record
from gapless_kafka.mirror.lanes.reader import LaneReader
from gapless_kafka.mirror.lanes.records import MAP, POSITION, content, position_key, read_record
from gapless_kafka.writing.faults import failure_of
from gapless_kafka.writing.offset_map import unpack_runs
from gapless_kafka.writing.positions import latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.control import LaneState
    from gapless_kafka.mirror.lanes.reader import Reader
    from gapless_kafka.mirror.lanes.records import LanePosition
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.writer import LaneWriter
    from gapless_kafka.writing.offset_map import Run

LEFT_OPEN = "TRANSACTION_LEFT_OPEN"
"""How the error is named beside those of Kafka."""
_PATIENCE_SECONDS = 30.0
MARKER_SECONDS = 5.0
"""How long a transaction may stay open in a partition after Kafka has said that it is ended."""
_WAIT_SECONDS = 0.2
_AT_ONCE = 10_000
_MOST_NAMED = 5


class TransactionLeftOpenError(SourceStalledError):
    """A transaction is open that nobody here can end."""


class _Outcome(Enum):
    """What became of the records of a partition."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class _InDoubt(NamedTuple):
    """What the transaction did with a partition."""

    place: TopicPartition
    """Of the source."""
    before: LanePosition | None
    """The position that holds without the transaction; ``None`` for none."""
    after: LanePosition
    begin: int
    """The source offset from which its records were copied."""
    target_offset: int | None
    """Of the first record in the target; ``None`` when it is not known."""

    @property
    def target(self) -> TopicPartition:
        return (self.after.target, self.place[1])

    @property
    def has_records(self) -> bool:
        return self.after.records > (self.before.records if self.before is not None else 0)


class LeftOpen:
    """A transaction of a lane that was left open."""

    def __init__(
        self, setup: LaneSetup, lane: int, state: LaneState, writer: LaneWriter, pulse: Callable[[], None]
    ) -> None:
        """Nothing is asked before `settle`.

        Args:
            setup: what all lanes have in common.
            lane: whose transaction it is.
            state: what the control topic holds before the transaction, with the offset where it begins.
            writer: of the producer that has fenced the former ones.
            pulse: called while Kafka is waited for; it may raise to end the work.
        """
        self._setup, self._lane, self._state, self._writer, self._pulse = setup, lane, state, writer, pulse
        self._topic = setup.identity.control_topic
        self._first = state.open_from or 0

    def settle(self, reader: Reader) -> None:
        """Bring positions and records to agreement, with nothing lost and nothing twice.

        Args:
            reader: of the source, from which nothing was read yet; it is of no use afterwards.

        Raises:
            KafkaException: Kafka does not take part now; the next owner begins again.
            TransactionLeftOpenError: it cannot be ended from here.
            GaplessError: Kafka denies it or does not answer.
        """
        left = latest(read_open_records(self._setup.target, self._topic, self._lane, self._first, pulse=self._pulse))
        doubts = self._doubts(left)
        outcomes = self._outcomes(doubts)
        undone = [one for one in doubts if one.has_records and outcomes.get(one.place) in {None, _Outcome.OPEN}]
        if undone:
            self._abort(undone, reader)
            outcomes |= self._outcomes(undone, open_seconds=MARKER_SECONDS)
        stuck = [one for one in undone if outcomes.get(one.place) is _Outcome.OPEN]
        if stuck:
            raise self.error(stuck)
        self._restore({one.place: one for one in doubts if outcomes.get(one.place) is not _Outcome.COMMITTED}, left)

    def error(self, stuck: Iterable[_InDoubt] = ()) -> TransactionLeftOpenError:
        """The error when the transaction stays open, in these partitions of the target, too."""
        servers = self._setup.target.bootstrap_servers
        places = [(self._topic, self._lane, self._first)]
        places += [(*one.target, one.target_offset or 0) for one in stuck]
        shown = ", ".join(
            f"{topic}/{partition} from offset {first}" for topic, partition, first in places[:_MOST_NAMED]
        )
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        return TransactionLeftOpenError(
            f"Kafka at {servers} has left a transaction of this mirror open that was ended ({shown}{more}); abort it "
            f"in each of these partitions with kafka-transactions.sh --bootstrap-server {servers} abort --topic TOPIC "
            f"--partition NUMBER --start-offset OFFSET."
        )

    def _doubts(self, left: Mapping[bytes, bytes]) -> list[_InDoubt]:
        try:
            after = lane_state(left.items())
            runs: dict[TopicPartition, list[Run]] = {}
            for key, value in left.items():
                about, part = read_record(key, value)
                if about.kind == "map":
                    runs.setdefault((about.source, about.partition), []).extend(unpack_runs(part.runs))
        except (WireError, ValueError) as error:
            raise unreadable_record(self._topic, error) from None
        found = []
        for place, position in after.positions.items():
            before = self._state.positions.get(place)
            begin = position.start
            if before is not None and (before.target, before.source_id) == (position.target, position.source_id):
                begin = before.next_offset
            new = sorted(run for run in runs.get(place, ()) if run.first + run.length > begin)
            target_offset = None
            if new:
                passed = max(begin - new[0].first, 0)
                begin, target_offset = new[0].first + passed, new[0].target + passed
            found.append(_InDoubt(place, before, position, begin, target_offset))
        return found

    def _outcomes(self, doubts: Iterable[_InDoubt], *, open_seconds: float = 0.0) -> dict[TopicPartition, _Outcome]:
        """What became of the records, by source partition, where the target can tell.

        Args:
            doubts: the partitions to look at.
            open_seconds: how long is looked again where the transaction is open.
        """
        unknown = {one.target: one for one in doubts if one.has_records and one.target_offset is not None}
        found: dict[TopicPartition, _Outcome] = {}
        if not unknown:
            return found
        reader = LaneReader(self._setup.target)
        now = time.monotonic()
        deadline, open_until = now + _PATIENCE_SECONDS, now + open_seconds
        try:
            reader.add({place: one.target_offset or 0 for place, one in unknown.items()})
            while any(one.place not in found or time.monotonic() < open_until for one in unknown.values()):
                self._wait(deadline)
                reading = reader.read(_AT_ONCE, _WAIT_SECONDS)
                for batch in reading.batches:
                    one = unknown.pop(batch.place, None)
                    if one is not None:
                        is_there = batch.messages[0].offset() == one.target_offset
                        found[one.place] = _Outcome.COMMITTED if is_there else _Outcome.ABORTED
                        reader.drop([batch.place])
                for place, end in reading.ends.items():
                    one = unknown.get(place)
                    if one is not None and end <= (one.target_offset or 0):
                        found[one.place] = _Outcome.OPEN
                    elif one is not None:
                        found[one.place] = _Outcome.ABORTED
                        del unknown[place]
                        reader.drop([place])
                for _, error in reading.errors:
                    raise KafkaException(error)
        finally:
            reader.close()
        return found

    def _abort(self, doubts: Iterable[_InDoubt], reader: Reader) -> None:
        """Write the records once more, and abort them together with those that were left open."""
        writer, unread = self._writer, {one.place: one for one in doubts}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        reader.add({place: one.begin for place, one in unread.items()})
        writer.begin()
        while unread:
            self._wait(deadline)
            reading = reader.read(_AT_ONCE, _WAIT_SECONDS)
            for place, messages, target in reading.batches:
                one = unread.get(place)
                if one is None:
                    continue
                if (messages[-1].offset() or 0) >= one.after.next_offset - 1:
                    del unread[place]
                self._write_again(one, target, messages)
            for place in reading.ends:
                unread.pop(place, None)  # what was read of it is all that can be read here
            for _, error in reading.errors:
                raise KafkaException(error)
        writer.flush()
        errors = [error for written in writer.written for error in written.errors]
        if errors:
            raise KafkaException(failure_of(errors))
        writer.abort()

    def _write_again(self, one: _InDoubt, target: str | None, messages: list[Any]) -> None:
        some = [message for message in messages if one.begin <= (message.offset() or 0) < one.after.next_offset]
        kept = self._setup.provenance.kept(some)
        if kept:
            self._writer.append(target or one.after.target, one.place, kept)

    def _restore(self, undone: Mapping[TopicPartition, _InDoubt], left: Mapping[bytes, bytes]) -> None:
        """Commit what the transaction wrote to the control topic, with what held before for partitions not copied."""
        writer = self._writer
        writer.begin()
        writer.touch()
        for place, one in undone.items():
            writer.put(position_key(*place), None if one.before is None else content(POSITION, one.before))
        for key, value in left.items():
            about, _ = read_record(key, value)
            place = (about.source, about.partition)
            if about.kind == "map" and place in undone:
                tail = self._state.tails.get(place)
                is_tail = tail is not None and tail.runs and tail.runs[0].first == about.first_offset
                writer.put(key, content(MAP, tail.record()) if tail is not None and is_tail else None)
        writer.commit()

    def _wait(self, deadline: float) -> None:
        self._pulse()
        if time.monotonic() > deadline:
            raise self.error()
