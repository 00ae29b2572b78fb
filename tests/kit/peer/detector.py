"""The Kafka side of the gap detector's stand-in: it reads raw topics and writes dedup and gaps topics.

Must not know the product. Its state is in memory only: a new object reads the raw topics from the beginning.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kit.kafka.records import enqueue
from kit.kafka.writing import transactional_producer
from kit.peer.gap_detector import GapDetector, GapReport, Verdict

_POLL_RECORDS = 2000
_MAX_TRANSACTION_RECORDS = 20_000


class Detector:
    """Finds gaps in the events that the receiver wrote, as the peer's deduplication program does.

    Use `drain` to process everything up to the current end and report at once, or `start` (or a `with` block) to run in
    the background and report every `emit_interval_seconds`. Both can be combined.

    Args:
        bootstrap: bootstrap servers of the downstream cluster.
        raw_topics: topics that the receiver writes; they need not exist yet.
        dedup_topic: gets every event once, except empty ones; the partition depends on the hash of the key.
        gap_topic: gets the gap records.
        window_size: offsets in a window.
        max_windows: windows kept in memory for each partition.
        emit_interval_seconds: interval of the reports in the background (the peer's default is 60).
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
        self._metadata_seconds = 0.0
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._transactional_id = f"dedup-gap-app-{uuid.uuid4()}"
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._counts = {"received": 0, "forwarded": 0, "duplicates": 0, "gap_fill": 0, "below_range": 0}
        self._counts |= {"not_an_event": 0, "records_emitted": 0}

    # Lifecycle

    def start(self) -> Self:
        """Run in the background until `close`."""
        self._thread = threading.Thread(target=self._background, name="detector", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop without another report.

        Raises:
            BaseException: the error that stopped the background thread.
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
        """Process everything up to the current end of the raw topics, report once, and return `stats`.

        When this returns, every reader sees the written records.

        Raises:
            TimeoutError: the end was not reached.
        """
        with self._lock:
            self._follow_topics()
            deadline = time.monotonic() + timeout_seconds
            ends = self._ends()
            while any(self._positions.get(partition, 0) < end for partition, end in ends.items()):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the detector did not reach the end within {timeout_seconds} s")
                self._process(0.02)  # a batch waits this long for more records
            self._emit()
            # A new producer gets the transactional ID only after the markers of the last transaction are written.
            self._producer = None
            self._writer()
            return self.stats()

    def stats(self) -> dict[str, int]:
        """Return the counts so far, and the number of missing offsets in the windows in memory."""
        missing = sum(detector.missing_count() for detector in self._detectors.values())
        return {**self._counts, "missing": missing}

    def _background(self) -> None:
        try:
            next_emission = time.monotonic() + self._emit_interval_seconds
            while not self._stop.is_set():
                with self._lock:
                    if time.monotonic() - self._metadata_seconds > 1.0:
                        self._follow_topics()
                    self._process(0.05)
                    if time.monotonic() >= next_emission:
                        self._emit()
                        next_emission = time.monotonic() + self._emit_interval_seconds
                time.sleep(0.005)  # lets a waiting `drain` acquire the lock
        except BaseException as failure:  # noqa: BLE001 - raised by `close` in the caller's thread
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
            self._producer = transactional_producer(
                {
                    **self._options,
                    "transactional.id": self._transactional_id,
                    "partitioner": "murmur2_random",
                    "linger.ms": 20,
                    "queue.buffering.max.kbytes": 512 << 10,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
        return self._producer

    def _follow_topics(self) -> None:
        """Assign new partitions, and keep the positions in the others."""
        topics = AdminClient(self._options).list_topics(timeout=10).topics
        self._metadata_seconds = time.monotonic()
        existing = {
            (topic, number) for topic in self._raw_topics if topic in topics for number in topics[topic].partitions
        }
        new = existing - self._assigned
        if new:
            self._reader().incremental_assign([TopicPartition(topic, number, 0) for topic, number in sorted(new)])
            self._assigned |= new

    def _ends(self) -> dict[tuple[str, int], int]:
        """Return the current end offsets of all partitions that are not empty."""
        ends = {}
        for topic, number in self._assigned:
            low, high = self._reader().get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            if high > low:
                ends[topic, number] = high
        return ends

    def _process(self, timeout_seconds: float) -> None:
        if not self._assigned:
            time.sleep(timeout_seconds)
            return
        events: list[dict[str, Any]] = []
        for message in self._batch(timeout_seconds):
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:
                    # The position behind transaction markers at the end, which are not messages.
                    self._positions[message.topic(), message.partition()] = message.offset()
                    continue
                raise KafkaException(message.error())
            self._positions[message.topic(), message.partition()] = message.offset() + 1
            value = message.value()
            if self._is_forwarded(message.key(), empty=not value):
                events.append({"key": message.key(), "value": value, "timestamp": message.timestamp()[1]})
        purged = self._pending
        self._pending = []
        if events or purged:
            self._write(events, list(_as_records(purged)))

    def _batch(self, timeout_seconds: float) -> list[Message]:
        """Read enough records for one transaction, because a commit costs as much as a few thousand records."""
        messages: list[Message] = self._reader().consume(_POLL_RECORDS, timeout_seconds)
        while messages and len(messages) < _MAX_TRANSACTION_RECORDS:
            more = self._reader().consume(_POLL_RECORDS, 0.01)
            if not more:
                break
            messages += more
        return messages

    def _is_forwarded(self, key: bytes | None, *, empty: bool) -> bool:
        """Record the event, and return whether it belongs in the dedup topic."""
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
        reports = [(identity, report) for identity, detector in self._detectors.items() for report in detector.emit()]
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
    """Run until SIGTERM or SIGINT; then print the counts as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m kit.peer.detector")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--raw-topics", default="transfer", help="comma-separated")
    parser.add_argument("--dedup-topic", default="dedup")
    parser.add_argument("--gap-topic", default="gaps")
    parser.add_argument("--window-size", type=int, default=1000)
    parser.add_argument("--max-windows", type=int, default=5)
    parser.add_argument("--emit-interval-seconds", type=float, default=1.0)
    options = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    detector = Detector(
        options.bootstrap,
        options.raw_topics.split(","),
        dedup_topic=options.dedup_topic,
        gap_topic=options.gap_topic,
        window_size=options.window_size,
        max_windows=options.max_windows,
        emit_interval_seconds=options.emit_interval_seconds,
    )
    with detector:
        print(json.dumps({"ready": True}), flush=True)
        while not stopped.wait(0.5):
            if detector._failure is not None:
                break
        detector.drain()
    print(json.dumps(detector.stats()), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
