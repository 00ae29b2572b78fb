"""The control topic: its creation and validation, and its current records about some work.

It is read up to its current end, after all transactions before this end have completed: the position of a transaction
that is being committed must not be missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Literal

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_api.wire.form import WireError
from gapless_kafka.access.admin import ELECTION_SECONDS
from gapless_kafka.reading.cuts import Slice
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.writing.offset_map import OffsetMap, Run, unpack_runs
from gapless_kafka.writing.positions import (
    MAPS,
    POSITIONS,
    ChangedConfiguration,
    Key,
    Position,
    RefusedRecords,
    RunOfWork,
    latest,
    read_record,
)

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.target_topics import TargetTopics

_PARTITIONS = 2
_CONFIGURATION = {
    "cleanup.policy": "compact",
    "segment.bytes": str(32 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
    "message.timestamp.type": "CreateTime",
}
MAX_TRANSACTION_SECONDS = 120.0
"""The transaction timeout: Kafka then aborts the transaction of a dead producer."""
_POLL_SECONDS = 0.25
_WAIT_SECONDS = MAX_TRANSACTION_SECONDS + 30


class ControlTopic:
    """The topic that stores positions, on the cluster that is written to."""

    def __init__(
        self,
        connection: KafkaConnection,
        topics: TargetTopics,
        name: str,
        *,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the topic; nothing is sent yet.

        Args:
            connection: to the cluster.
            topics: of the cluster.
            name: of the topic.
            waiting: called when an open transaction must end first, which takes at most two minutes.
        """
        self._connection = connection
        self._topics = topics
        self._waiting = waiting
        self.name = name

    def exists(self) -> bool:
        """Whether the topic exists; an existing topic is validated.

        Raises:
            ConfigurationError: a topic of that name cannot store positions.
            SourceUnreachableError: Kafka does not respond, or denies the request.
        """
        topic = self._topics.describe([self.name]).get(self.name)
        if topic is None:
            return False
        policy = topic.configuration.get("cleanup.policy", "compact")
        if topic.partitions < _PARTITIONS or "delete" in policy.split(","):
            raise ConfigurationError(
                f"The control topic {self.name} has {topic.partitions} partitions and cleanup.policy={policy}; it "
                f"requires {_PARTITIONS} partitions or more and cleanup.policy=compact. Correct it, or give another "
                f"topic as --control-topic."
            )
        return True

    def ensure(self) -> None:
        """Create the topic if it does not exist. Raises like `exists`."""
        if not self.exists():
            replicas = min(3, self._topics.cluster().brokers)
            self._topics.create(self.name, _PARTITIONS, _CONFIGURATION, replication_factor=replicas)

    def state(self, *, settled: bool = True) -> ControlState:
        """Read the current runs and positions.

        Args:
            settled: whether to wait for open transactions; otherwise positions may be outdated.

        Raises:
            GaplessError: Kafka does not respond, or a record cannot be decoded.
        """
        read_end = self._settled_end if settled else self._stable_end
        return ControlState(self._records(POSITIONS, read_end(POSITIONS)))

    def run(self, work: str, *, behind: int = -1) -> RunOfWork | None:
        """Return the last run of `work`, including one whose transaction is open or was aborted.

        Args:
            work: the identity of the work.
            behind: the offset of a record that was written; a log that ends before it is outdated.

        Raises:
            GaplessError: Kafka does not respond, or a record cannot be decoded.
        """
        deadline = time.monotonic() + ELECTION_SECONDS
        while (end := self._topics.end_offset(self.name, POSITIONS, committed=False)) <= behind:
            if time.monotonic() > deadline:
                raise self.outdated_error()
            time.sleep(_POLL_SECONDS)
        return ControlState(self._records(POSITIONS, end, isolation="read_uncommitted")).run(work)

    def outdated_error(self) -> SourceStalledError:
        """The error to raise when a record that was written is not found."""
        return SourceStalledError(
            f"Kafka at {self._connection.bootstrap_servers} has accepted a record of the control topic {self.name} and "
            f"does not return it: a broker answers that is not the leader of the topic any more, or the topic was "
            f"deleted or has lost records. Check the brokers and the topic, and run again."
        )

    def offset_maps(self, works: Collection[str], *, settled: bool = True) -> dict[tuple[str, int], OffsetMap]:
        """Return the offset maps of some works, by work and source partition.

        Args:
            works: of which to return the maps.
            settled: whether to wait for open transactions; otherwise the last runs may be missing.

        Raises:
            GaplessError: Kafka does not respond, or a record cannot be decoded.
        """
        read_end = self._settled_end if settled else self._stable_end
        runs: dict[tuple[str, int], list[Run]] = {}
        for key, part in self._records(MAPS, read_end(MAPS)):
            if key.kind == "map" and key.work in works:
                runs.setdefault((key.work, key.partition), []).extend(unpack_runs(part.runs))
        return {work_partition: OffsetMap(found) for work_partition, found in runs.items()}

    def _records(
        self, partition: int, end: int, isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    ) -> Iterator[tuple[Key, Any]]:
        if not end:
            return
        complete = Slice(self.name, partition, 0, end, may_skip_expired=True)
        records: Iterator[tuple[Any, Any]] = (
            (message.key(), message.value())
            for messages in read_slices(self._connection, [complete], isolation=isolation)
            for message in messages
        )
        for key, value in latest(records).items():
            try:
                yield read_record(key, value)
            except (WireError, ValueError) as error:
                raise ConfigurationError(
                    f"A record of the control topic {self.name} cannot be decoded ({error}); use one release of "
                    f"all programs, or give another topic as --control-topic."
                ) from None

    def _stable_end(self, partition: int) -> int:
        return self._topics.end_offset(self.name, partition, committed=True)

    def _settled_end(self, partition: int) -> int:
        """Return the current end of the partition, once no transaction before it is open."""
        end = self._topics.end_offset(self.name, partition, committed=False)
        deadline = time.monotonic() + _WAIT_SECONDS
        is_reported = False
        while self._stable_end(partition) < end:
            if not is_reported:
                self._waiting()
                is_reported = True
            if time.monotonic() > deadline:
                raise SourceStalledError(
                    f"A transaction in the topic {self.name} has been open for {_WAIT_SECONDS:.0f} s; stop its "
                    f"producer and run again. If it has none, the transaction is hanging: find it with "
                    f"kafka-transactions.sh --bootstrap-server {self._connection.bootstrap_servers} find-hanging "
                    f"--broker-id ID on each broker, and abort it in every listed partition."
                )
            time.sleep(_POLL_SECONDS)
        return end


class ControlState:
    """Runs, positions and changed settings in the control topic at one moment."""

    def __init__(self, records: Iterable[tuple[Key, Any]]) -> None:
        self._messages: dict[tuple[str, str, str, int], Any] = {}
        self._refused: dict[str, dict[int, list[RefusedRecords]]] = {}
        for key, message in records:
            if key.kind == "refused":
                self._refused.setdefault(key.work, {}).setdefault(key.partition, []).append(message)
            else:
                self._messages[key.kind, key.work, key.source, key.partition] = message

    def run(self, work: str) -> RunOfWork | None:
        """Return the last run of `work`; ``None`` for none."""
        return self._messages.get(("run", work, "", 0))

    def works(self, topic_id: str) -> dict[str, RunOfWork]:
        """Return the last runs of all work that was written to a topic, by the identity of the work."""
        runs = {work: message for (kind, work, _, _), message in self._messages.items() if kind == "run"}
        return {work: run for work, run in sorted(runs.items(), key=itemgetter(0)) if run.topic_id == topic_id}

    def position(self, work: str, source: str, partition: int) -> Position | None:
        """Return the position of a source partition; ``None`` for none."""
        return self._messages.get(("position", work, source, partition))

    def positions(self, work: str) -> dict[int, Position]:
        """Return the positions of `work`, by source partition."""
        return {
            partition: message
            for (kind, of_work, _, partition), message in sorted(self._messages.items())
            if kind == "position" and of_work == work
        }

    def refused(self, work: str) -> dict[int, list[RefusedRecords]]:
        """Return the records that were refused and skipped, ascending, by source partition."""
        return {
            partition: sorted(found, key=attrgetter("first"))
            for partition, found in sorted(self._refused.get(work, {}).items())
        }

    def configuration(self, work: str) -> ChangedConfiguration | None:
        """Return the settings to restore when `work` is done; ``None`` for none."""
        return self._messages.get(("configuration", work, "", 0))
