"""Owns the Kafka shell of the gap detector's stand-in: raw topics in, dedup and gaps topics out, in transactions.

Must not know the product. State is in memory only: a new object starts at the beginning of the raw topics.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kit.kafka.records import enqueue
from kit.peer.gap_detector import GapDetector, GapReport, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_READ = 2000
_TRANSACTION = 20_000


class Detector:
    """Finds gaps in what the receiver wrote, as the peer's deduplication program does.

    Use `drain` to handle everything there is and report at once; or `start` (or a `with` block) to work in the
    background with a report every `emit_interval_seconds`. Both may be mixed.

    Args:
        bootstrap: of the downstream Kafka.
        raw_topics: topics the receiver writes; those that do not exist yet are awaited.
        dedup_topic: gets every event once, empty ones left out, with its key; the partition follows the key's hash.
        gap_topic: gets the gap records.
        window_size: offsets in a window.
        max_windows: windows remembered for each partition.
        emit_interval_seconds: how often the background work reports (the peer's default is 60).
        client_options: more options for the Kafka clients, such as those of TLS.
    """

    def __init__(
        self,
        bootstrap: str,
        raw_topics: Sequence[str] = ("transfer",),
        *,
        dedup_topic: str = "dedup",
        gap_topic: str = "gaps",
        window_size: int = 1000,
        max_windows: int = 5,
        emit_interval_seconds: float = 1.0,
        client_options: dict[str, Any] | None = None,
    ) -> None:
        self._raw_topics = tuple(raw_topics)
        self._dedup_topic = dedup_topic
        self._gap_topic = gap_topic
        self._window_size = window_size
        self._max_windows = max_windows
        self._emit_interval_seconds = emit_interval_seconds
        self._options = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": 250,
            "log_level": 2,
            **(client_options or {}),
        }
        self._detectors: dict[tuple[str, int], GapDetector] = {}
        self._pending: list[tuple[tuple[str, int], GapReport]] = []
        self._assigned: set[tuple[str, int]] = set()
        self._positions: dict[tuple[str, int], int] = {}
        self._topics_known_at = 0.0
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._transactional_id = f"dedup-gap-app-{uuid.uuid4()}"
        self._working = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._counts = {"received": 0, "forwarded": 0, "duplicates": 0, "gap_fill": 0, "below_range": 0}
        self._counts |= {"not_an_event": 0, "records_emitted": 0}

    # Life

    def start(self) -> Self:
        """Work in the background until `close`."""
        self._thread = threading.Thread(target=self._background, name="detector", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop and report nothing more.

        Raises:
            BaseException: what ended the background work early.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # Work

    def drain(self, *, timeout_seconds: float = 120.0) -> dict[str, int]:
        """Handle everything up to the present end of the raw topics, report once, and return `stats`.

        Every reader sees what was written when this returns.

        Raises:
            TimeoutError: the end was not reached.
        """
        with self._working:
            self._follow_topics()
            deadline = time.monotonic() + timeout_seconds
            ends = self._ends()
            while any(self._positions.get(place, 0) < end for place, end in ends.items()):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the detector did not reach the end within {timeout_seconds} s")
                self._take(0.5)
            self._emit()
            # Kafka lets another producer have the ID only when the last transaction has its marker in each partition.
            self._producer = None
            self._writer()
            return self.stats()

    def stats(self) -> dict[str, int]:
        """Counts so far, and what is missing as far as the windows in memory tell."""
        missing = sum(detector.missing_count() for detector in self._detectors.values())
        return {**self._counts, "missing": missing}

    def _background(self) -> None:
        try:
            next_emission = time.monotonic() + self._emit_interval_seconds
            while not self._stop.is_set():
                with self._working:
                    if time.monotonic() - self._topics_known_at > 1.0:
                        self._follow_topics()
                    self._take(0.05)
                    if time.monotonic() >= next_emission:
                        self._emit()
                        next_emission = time.monotonic() + self._emit_interval_seconds
                time.sleep(0.005)  # lets a waiting `drain` have the lock
        except BaseException as failure:  # noqa: BLE001 - raised again by close, in the caller's thread
            self._failure = failure

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    **self._options,
                    "group.id": "dedup-gap-app",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                    "queued.min.messages": 100_000,
                    "fetch.message.max.bytes": 4 << 20,
                }
            )
        return self._consumer

    def _writer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {
                    **self._options,
                    "transactional.id": self._transactional_id,
                    "partitioner": "murmur2_random",
                    "linger.ms": 20,
                    "queue.buffering.max.kbytes": 512 << 10,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
            self._producer.init_transactions(60)
        return self._producer

    def _follow_topics(self) -> None:
        """Assign partitions that have appeared, keeping the place in the others."""
        known = AdminClient(self._options).list_topics(timeout=10).topics
        self._topics_known_at = time.monotonic()
        found = {(topic, number) for topic in self._raw_topics if topic in known for number in known[topic].partitions}
        new = found - self._assigned
        if new:
            self._reader().incremental_assign([TopicPartition(topic, number, 0) for topic, number in sorted(new)])
            self._assigned |= new

    def _ends(self) -> dict[tuple[str, int], int]:
        """Ask for the present ends of all partitions that hold anything."""
        ends = {}
        for topic, number in self._assigned:
            low, high = self._reader().get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            if high > low:
                ends[topic, number] = high
        return ends

    def _take(self, timeout_seconds: float) -> None:
        if not self._assigned:
            time.sleep(timeout_seconds)
            return
        onward: list[dict[str, Any]] = []
        for message in self._batch(timeout_seconds):
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:
                    # Steps over transaction markers at the end, which no message shows.
                    self._positions[message.topic(), message.partition()] = message.offset()
                    continue
                raise KafkaException(message.error())
            self._positions[message.topic(), message.partition()] = message.offset() + 1
            value = message.value()
            if self._passes(message.key(), empty=not value):
                onward.append({"key": message.key(), "value": value, "timestamp": message.timestamp()[1]})
        purged = self._pending
        self._pending = []
        if onward or purged:
            self._write(onward, list(_as_records(purged)))

    def _batch(self, timeout_seconds: float) -> list[Message]:
        """Read enough for one transaction, because a commit costs as much as a few thousand records."""
        found: list[Message] = self._reader().consume(_READ, timeout_seconds)
        while found and len(found) < _TRANSACTION:
            more = self._reader().consume(_READ, 0.01)
            if not more:
                break
            found += more
        return found

    def _passes(self, key: bytes | None, *, empty: bool) -> bool:
        """Record the event and say whether it goes on to the dedup topic."""
        if key is None:
            return False
        counts = self._counts
        counts["received"] += 1
        try:
            topic, partition, offset = key.decode().split("_")
            identity, number = (topic, int(partition)), int(offset)
        except ValueError:
            counts["not_an_event"] += 1
            return not empty
        detector = self._detectors.get(identity)
        if detector is None:
            detector = self._detectors[identity] = GapDetector(self._window_size, self._max_windows)
        verdict = detector.check(number)
        if detector.purged:
            self._pending += [(identity, report) for report in detector.take_purged()]
        if verdict is Verdict.DUPLICATE:
            counts["duplicates"] += 1
            return False
        if verdict is Verdict.GAP_FILL:
            counts["gap_fill"] += 1
        elif verdict is Verdict.BELOW_RANGE:
            counts["below_range"] += 1
        return not empty

    def _emit(self) -> None:
        reports = [(identity, report) for identity, each in self._detectors.items() for report in each.emit()]
        if reports:
            self._write([], list(_as_records(reports)))

    def _write(self, events: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
        writer = self._writer()
        writer.begin_transaction()
        for event in events:
            enqueue(writer, self._dedup_topic, **event)
        for record in records:
            enqueue(writer, self._gap_topic, **record)
        writer.commit_transaction(60)
        self._counts["forwarded"] += len(events)
        self._counts["records_emitted"] += len(records)


def _as_records(reports: list[tuple[tuple[str, int], GapReport]]) -> Iterator[dict[str, Any]]:
    for (topic, partition), report in reports:
        yield {"key": report.key(topic, partition).encode(), "value": report.value()}


def main() -> None:
    """Run until SIGTERM or SIGINT; print the counts as one line of JSON at the end."""
    parser = argparse.ArgumentParser(prog="python -m kit.peer.detector")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--raw-topics", default="transfer", help="comma-separated")
    parser.add_argument("--dedup-topic", default="dedup")
    parser.add_argument("--gap-topic", default="gaps")
    parser.add_argument("--window-size", type=int, default=1000)
    parser.add_argument("--max-windows", type=int, default=5)
    parser.add_argument("--emit-interval-seconds", type=float, default=1.0)
    given = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    detector = Detector(
        given.bootstrap,
        given.raw_topics.split(","),
        dedup_topic=given.dedup_topic,
        gap_topic=given.gap_topic,
        window_size=given.window_size,
        max_windows=given.max_windows,
        emit_interval_seconds=given.emit_interval_seconds,
    )
    with detector:
        print(json.dumps({"ready": True}), flush=True)
        while not ended.wait(0.5):
            if detector._failure is not None:
                break
        detector.drain()
    print(json.dumps(detector.stats()), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
