"""The byte-by-byte comparison of an upstream topic with the received events; must not know the product."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kit.kafka.records import is_before_end, watermarks_of

_DIGEST_BYTES = 16
_SILENCE_SECONDS = 30.0


@dataclass
class PartitionComparison:
    """Counts for one upstream partition."""

    expected: int = 0
    """Offsets that exist upstream (not expired, compacted away, or a transaction marker)."""
    missing: int = 0
    different: int = 0
    """Arrived with different bytes; each offset counts once."""
    duplicates: int = 0
    """Arrived again with the same bytes."""
    extra: int = 0
    """Arrived with an offset that does not exist upstream."""
    missing_ranges: list[tuple[int, int]] = field(default_factory=list)
    """First and last offset, both inclusive, over upstream offsets that exist."""


@dataclass(frozen=True)
class Comparison:
    """The differences between an upstream topic and the received events."""

    by_partition: Mapping[int, PartitionComparison]
    """By upstream partition."""
    not_events: int
    """Received records whose key is not an event ID of the topic."""
    extra_partitions: int
    """Received events of partitions that do not exist upstream."""

    def _sum(self, name: str) -> int:
        return sum(getattr(counts, name) for counts in self.by_partition.values())

    @property
    def expected(self) -> int:
        """Events upstream."""
        return self._sum("expected")

    @property
    def missing(self) -> int:
        """Events that did not arrive."""
        return self._sum("missing")

    @property
    def different(self) -> int:
        """Events that arrived with different bytes."""
        return self._sum("different")

    @property
    def duplicates(self) -> int:
        """Repetitions with the same bytes."""
        return self._sum("duplicates")

    @property
    def extra(self) -> int:
        """Events that arrived and do not exist upstream."""
        return self._sum("extra") + self.extra_partitions

    @property
    def complete(self) -> bool:
        """Whether every event arrived unchanged, and nothing else arrived."""
        return self.missing == self.different == self.extra == 0


class _Partition:
    """The digests of an upstream partition by offset, and which of them arrived."""

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self._digests = bytearray(_DIGEST_BYTES * (end - first))
        self._state = bytearray(end - first)  # 0 absent upstream, 1 expected, 2 arrived, 3 arrived with different bytes

    def expect(self, offset: int, value: bytes) -> None:
        index = offset - self.first
        self._digests[index * _DIGEST_BYTES : (index + 1) * _DIGEST_BYTES] = _digest(value)
        self._state[index] = 1

    def arrive(self, offset: int, value: bytes, counts: PartitionComparison) -> None:
        index = offset - self.first
        if not 0 <= index < len(self._state) or self._state[index] == 0:
            counts.extra += 1
            return
        same = self._digests[index * _DIGEST_BYTES : (index + 1) * _DIGEST_BYTES] == _digest(value)
        if not same:
            self._state[index] = 3
        elif self._state[index] == 1:
            self._state[index] = 2
        else:
            counts.duplicates += 1

    def conclude(self, counts: PartitionComparison) -> None:
        state = self._state
        counts.expected = len(state) - state.count(0)
        counts.missing = state.count(1)
        counts.different = state.count(3)
        start = state.find(1)
        while start >= 0:
            end = start
            while end + 1 < len(state) and state[end + 1] == 1:
                end += 1
            counts.missing_ranges.append((self.first + start, self.first + end))
            start = state.find(1, end + 1)


def compare_topics(
    upstream_bootstrap: str,
    downstream_bootstrap: str,
    topic: str,
    *,
    received_topic: str | None = None,
    id_topic: str | None = None,
    partition_shift: int = 0,
    empties_expected: bool = True,
    client_options: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare every event of an upstream topic with the received ones, up to the current ends; null equals empty.

    Args:
        upstream_bootstrap: bootstrap servers of the sending cluster.
        downstream_bootstrap: bootstrap servers of the receiving cluster.
        topic: the upstream topic.
        received_topic: the topic with the received events: raw (default: the same name) or dedup.
        id_topic: the topic in the event IDs, if the sender translated it.
        partition_shift: what the sender adds to partition numbers.
        empties_expected: False for a dedup topic, which omits empty events; they are then not expected.
        client_options: more options for both consumers.
    """
    options = dict(client_options or {})
    partitions: dict[int, _Partition] = {}
    for message in _read_to_end(upstream_bootstrap, topic, options, partitions):
        value = message.value() or b""
        if value or empties_expected:
            partitions[message.partition()].expect(message.offset(), value)
    counts = {number: PartitionComparison() for number in partitions}
    not_events = extra_partitions = 0
    for message in _read_to_end(downstream_bootstrap, received_topic or topic, options, {}):
        event = _parse_event_id(message.key(), id_topic or topic)
        if event is None:
            not_events += 1
            continue
        downstream_partition, offset = event
        number = downstream_partition - partition_shift
        if number not in partitions:
            extra_partitions += 1
            continue
        partitions[number].arrive(offset, message.value() or b"", counts[number])
    for number, partition in partitions.items():
        partition.conclude(counts[number])
    return Comparison(counts, not_events, extra_partitions)


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=_DIGEST_BYTES).digest()


def _parse_event_id(key: bytes | None, topic: str) -> tuple[int, int] | None:
    """Return the partition and offset of an event ID of `topic`, or None if `key` is not one."""
    try:
        id_topic, partition, offset = (key or b"").decode().rsplit("_", 2)
        return (int(partition), int(offset)) if id_topic == topic else None
    except ValueError:
        return None


def _read_to_end(
    bootstrap: str, topic: str, more_options: Mapping[str, Any], partitions: dict[int, _Partition]
) -> Iterator[Message]:
    """Yield the records of a topic up to its current end, after adding its partitions to `partitions`.

    Raises:
        TimeoutError: no record arrived for `_SILENCE_SECONDS`.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "compare",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 100_000,
            "fetch.message.max.bytes": 4 << 20,
            "log_level": 2,
            **more_options,
        }
    )
    try:
        ends = _add_partitions(consumer, topic, partitions)
        consumer.assign([TopicPartition(topic, number, partitions[number].first) for number in ends])
        deadline = time.monotonic() + _SILENCE_SECONDS
        while ends:
            messages = consumer.consume(2000, 0.5)
            if messages:
                deadline = time.monotonic() + _SILENCE_SECONDS
            elif time.monotonic() > deadline:
                raise TimeoutError(f"the end of {topic} was not reached: no record arrived for {_SILENCE_SECONDS} s")
            for message in messages:
                if is_before_end(message, ends):
                    yield message
    finally:
        consumer.close()


def _add_partitions(consumer: Consumer, topic: str, partitions: dict[int, _Partition]) -> dict[int, int]:
    """Add every partition of the topic to `partitions`; return the end offsets of those that are not empty."""
    described = consumer.list_topics(topic, timeout=10).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    ends = {}
    for number, (low, high) in watermarks_of(consumer, topic).items():
        partitions[number] = _Partition(low, high)
        if high > low:
            ends[number] = high
    return ends
