"""Owns the control topic: that it exists as it must, and what it holds of some work at this moment.

It is read up to its end at that moment, and all transactions before this end must be over: the position of a
transaction that is being committed must not be missed.
"""

from __future__ import annotations

import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_api.wire.form import WireError
from gapless_kafka.reading.cuts import Slice
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.writing.offset_map import OffsetMap, unpack_runs
from gapless_kafka.writing.positions import MAPS, POSITIONS, latest, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.target_topics import TargetTopics
    from gapless_kafka.writing.offset_map import Run
    from gapless_kafka.writing.positions import ChangedConfiguration, Key, Position, RunOfWork

_PARTITIONS = 2
_CONFIGURATION = {
    "cleanup.policy": "compact",
    "segment.bytes": str(32 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
    "message.timestamp.type": "CreateTime",
}
MAX_TRANSACTION_SECONDS = 120.0
"""After which Kafka aborts the transaction of a program that is dead."""
_LOOK_EVERY_SECONDS = 0.25
_WAIT_SECONDS = MAX_TRANSACTION_SECONDS + 30


class ControlTopic:
    """The topic in which programs keep positions, on the cluster that they write to."""

    def __init__(
        self,
        connection: KafkaConnection,
        topics: TargetTopics,
        name: str,
        *,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is asked before the first call.

        Args:
            connection: to the cluster.
            topics: of the cluster.
            name: of the topic.
            waiting: called when a transaction of a dead program must end first, which takes two minutes at most.
        """
        self._connection = connection
        self._topics = topics
        self._waiting = waiting
        self.name = name

    def exists(self) -> bool:
        """Whether there is one, which then must be as it must be.

        Raises:
            ConfigurationError: a topic of that name cannot keep positions.
            SourceUnreachableError: Kafka does not answer, or denies it.
        """
        found = self._topics.describe([self.name]).get(self.name)
        if found is None:
            return False
        policy = found.configuration.get("cleanup.policy", "compact")
        if found.partitions < _PARTITIONS or "delete" in policy.split(","):
            raise ConfigurationError(
                f"The topic {self.name} has {found.partitions} partitions and cleanup.policy={policy}; positions need "
                f"{_PARTITIONS} partitions or more and cleanup.policy=compact. Correct it, or name another one with "
                f"--control-topic."
            )
        return True

    def ensure(self) -> None:
        """Create the topic if there is none. Raises like `exists`."""
        if not self.exists():
            copies = min(3, self._topics.cluster().brokers)
            self._topics.create(self.name, _PARTITIONS, _CONFIGURATION, replication_factor=copies)

    def state(self, *, settled: bool = True) -> ControlState:
        """What the topic holds now about runs and positions.

        Args:
            settled: ``False`` not to wait for transactions that are open; positions may then be older ones.

        Raises:
            GaplessError: Kafka does not answer, or a record cannot be read.
        """
        if settled:
            return ControlState(self._records(POSITIONS, self._stable_end(POSITIONS)))
        return ControlState(self._records(POSITIONS, self._topics.end_offset(self.name, POSITIONS, committed=True)))

    def run(self, work: str) -> RunOfWork | None:
        """The last run of `work`, whatever transactions are open; one that did not begin after all counts, too."""
        end = self._topics.end_offset(self.name, POSITIONS, committed=False)
        return ControlState(self._records(POSITIONS, end, isolation="read_uncommitted")).run(work)

    def offset_maps(self, works: Collection[str]) -> dict[tuple[str, int], OffsetMap]:
        """Where records of some works went, by work and source partition. Raises GaplessError."""
        found: dict[tuple[str, int], list[Run]] = {}
        for key, part in self._records(MAPS, self._stable_end(MAPS)):
            if key.kind == "map" and key.work in works:
                found.setdefault((key.work, key.partition), []).extend(unpack_runs(part.runs))
        return {place: OffsetMap(runs) for place, runs in found.items()}

    def _records(
        self, partition: int, end: int, isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    ) -> Iterator[tuple[Key, Any]]:
        if not end:
            return
        one = Slice(self.name, partition, 0, end, may_skip_expired=True)
        read: Iterator[tuple[Any, Any]] = (
            (message.key(), message.value())
            for messages in read_slices(self._connection, [one], isolation=isolation)
            for message in messages
        )
        for key, value in latest(read).items():
            try:
                yield read_record(key, value)
            except (WireError, ValueError) as error:
                raise ConfigurationError(
                    f"A record of the topic {self.name} cannot be read ({error}); use programs of one release, or name "
                    f"another topic with --control-topic."
                ) from None

    def _stable_end(self, partition: int) -> int:
        """The end of the partition now, once no transaction before it is open."""
        end = self._topics.end_offset(self.name, partition, committed=False)
        deadline = time.monotonic() + _WAIT_SECONDS
        told = False
        while self._topics.end_offset(self.name, partition, committed=True) < end:
            if not told:
                self._waiting()
                told = True
            if time.monotonic() > deadline:
                raise SourceStalledError(
                    f"A transaction in the topic {self.name} has been open for {_WAIT_SECONDS:.0f} s; end the program "
                    f"that it belongs to and run again. If none has it, Kafka has left it open: find it with "
                    f"kafka-transactions.sh --bootstrap-server {self._connection.bootstrap_servers} find-hanging "
                    f"--broker-id ID for each broker, and abort it in every partition that is listed."
                )
            time.sleep(_LOOK_EVERY_SECONDS)
        return end


class ControlState:
    """Runs, positions and changed settings, as the control topic had them at some moment."""

    def __init__(self, records: Iterable[tuple[Key, Any]]) -> None:
        self._found = {(key.kind, key.work, key.source, key.partition): message for key, message in records}

    def run(self, work: str) -> RunOfWork | None:
        """The last run of `work`; ``None`` for none yet."""
        return self._found.get(("run", work, "", 0))

    def works(self, topic_id: str) -> dict[str, RunOfWork]:
        """All work that was written to a topic, by its identity."""
        runs = {work: found for (kind, work, _, _), found in self._found.items() if kind == "run"}
        return {work: run for work, run in sorted(runs.items(), key=itemgetter(0)) if run.topic_id == topic_id}

    def position(self, work: str, source: str, partition: int) -> Position | None:
        """How far a source partition is written; ``None`` for not at all."""
        return self._found.get(("position", work, source, partition))

    def positions(self, work: str) -> dict[int, Position]:
        """The positions of `work`, by source partition."""
        return {
            partition: message
            for (kind, found, _, partition), message in sorted(self._found.items())
            if kind == "position" and found == work
        }

    def configuration(self, work: str) -> ChangedConfiguration | None:
        """The settings to put back when `work` is done."""
        return self._found.get(("configuration", work, "", 0))
