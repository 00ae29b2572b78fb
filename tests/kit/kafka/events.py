"""The generator of test events: log lines of all sizes, reproducible by seed. Must not know the product.

Tests compare with the topic itself; the generator can also produce the same events again.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster

LARGEST = 64 << 10
DEFAULT_PAYLOAD_SIZE = 1400
FIRST_TIMESTAMP_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z; later events are up to 40 ms apart."""

_MEDIAN_BYTES = 348
_SPREAD = 0.7
_PACKET_HEADER = 13
_CORPUS_BYTES = 1 << 20
_TEXT = """
accepted authentication backend cache certificate client closed connection denied disk error expired failed
file gateway handshake host interface kernel latency limit login memory message network packet partition
password peer policy port process queue read refused request reset response retry route scheduler service
session signal socket started stopped storage timeout token transfer tunnel update user volume warning write
Überlauf größe 接続 ошибка
"""
_WORDS = _TEXT.split()


class Event(NamedTuple):
    """One record of an upstream topic."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp_ms: int


def capacity(topic: str, partition: int, offset: int, payload_size: int = DEFAULT_PAYLOAD_SIZE) -> int:
    """Return how many bytes of this event fit into one packet: the payload size minus the header with the event ID."""
    return payload_size - _PACKET_HEADER - len(f"{topic}_{partition}_{offset}")


class EventSource:
    """Generates the events of one partition in order, from offset 0.

    One event in fifty fills 1, 2 or 3 packets exactly, or is one byte longer or shorter; some are empty, some null;
    some have a key or headers; sizes are log-normal (median 348 bytes) with a tail up to 64 KiB.
    """

    def __init__(self, topic: str, partition: int, *, seed: int = 0, payload_size: int = DEFAULT_PAYLOAD_SIZE) -> None:
        self._topic = topic
        self._partition = partition
        self._payload_size = payload_size
        self._random = random.Random(f"{seed}/{topic}/{partition}")
        self._corpus = _corpus(seed)
        self._timestamp_ms = FIRST_TIMESTAMP_MS

    def events(self, count: int) -> Iterator[Event]:
        """Yield `count` events from offset 0; a second call continues the random sequence, also from offset 0."""
        draw = self._random.random
        for offset in range(count):
            self._timestamp_ms += int(draw() * 40)
            value = self._value(offset, draw())
            extras = draw()
            key = None if extras < 0.6 else b"host-%d" % int(extras * 1000)
            headers: list[tuple[str, bytes | None]] | None = None
            if extras > 0.97:
                headers = [("trace", b"%016x" % offset), ("trace", b"again"), ("empty", b""), ("null", None)]
            yield Event(key, value, headers, self._timestamp_ms)

    def _value(self, offset: int, draw: float) -> bytes | None:
        if draw < 0.005:
            return None
        if draw < 0.01:
            return b""
        if draw < 0.03:
            packets = 1 + offset % 3
            exact = packets * capacity(self._topic, self._partition, offset, self._payload_size)
            return self._text(offset, exact + (0, 0, 1, -1)[offset % 4])
        if draw < 0.033:
            return self._text(offset, int(LARGEST * self._random.random() ** 3) + 2000)
        size = math.exp(self._random.normalvariate(math.log(_MEDIAN_BYTES), _SPREAD))
        return self._text(offset, max(1, min(int(size), LARGEST)))

    def _text(self, offset: int, size: int) -> bytes:
        """Build a line of `size` bytes, unique to its offset if it is long enough to contain it."""
        size = min(size, LARGEST)
        if offset % 2:
            head = b'{"partition":%d,"offset":%d,"time":%d,"message":"' % (self._partition, offset, self._timestamp_ms)
            tail = b'"}'
        else:
            head = b"<%d>1 2026-01-01T00:00:00Z host-%d gapless %d %d - " % (
                offset % 192,
                self._partition,
                self._timestamp_ms,
                offset,
            )
            tail = b""
        filler = size - len(head) - len(tail)
        if filler < 0:
            return (head + tail)[:size]
        start = self._random.randrange(_CORPUS_BYTES - LARGEST)
        return head + self._corpus[start : start + filler] + tail


_corpora: dict[int, bytes] = {}


def _corpus(seed: int) -> bytes:
    """Build the megabyte of words and numbers, half of it highly compressible, that fills the events."""
    if seed not in _corpora:
        source = random.Random(seed)
        pieces: list[str] = []
        size = 0
        while size < _CORPUS_BYTES:
            piece = json.dumps({source.choice(_WORDS): source.choice(_WORDS), "n": source.getrandbits(40)})
            piece = piece if source.random() < 0.3 else " ".join(source.choices(_WORDS, k=6))
            pieces.append(piece)
            size += len(piece.encode()) + 1
        _corpora[seed] = " ".join(pieces).encode()[:_CORPUS_BYTES]
    return _corpora[seed]


def shares(events: int, partitions: int) -> dict[int, int]:
    """Divide `events` over partitions slightly unevenly, so that no two partitions end at the same offset."""
    counts = dict.fromkeys(range(partitions), events // partitions)
    counts[0] += events % partitions
    for partition in range(1, partitions):
        moved = min(partition * 7, counts[partition] // 2)
        counts[partition] -= moved
        counts[0] += moved
    return counts


def fill_topic(
    broker: KafkaCluster,
    topic: str,
    *,
    events: int,
    partitions: int = 1,
    seed: int = 0,
    payload_size: int = DEFAULT_PAYLOAD_SIZE,
) -> dict[int, int]:
    """Create the topic if needed and write generated events; return the number of events of each partition.

    Raises:
        KafkaException: a record was rejected.
    """
    if topic not in broker.admin().list_topics(timeout=10).topics:
        broker.create_topic(topic, partitions)
    counts = shares(events, partitions)
    sources = [
        _with_partition(partition, EventSource(topic, partition, seed=seed, payload_size=payload_size).events(count))
        for partition, count in counts.items()
    ]
    records = (
        {
            "value": event.value,
            "key": event.key,
            "headers": event.headers,
            "partition": partition,
            "timestamp": event.timestamp_ms,
        }
        for partition, event in _interleave(sources)
    )
    broker.write(topic, records)
    return counts


def _with_partition(partition: int, events: Iterator[Event]) -> Iterator[tuple[int, Event]]:
    return ((partition, event) for event in events)


def _interleave(sources: list[Iterator[tuple[int, Event]]]) -> Iterator[tuple[int, Event]]:
    """Yield 500 events of each source in turn until all are exhausted, so that partitions grow together."""
    remaining = list(sources)
    while remaining:
        for source in list(remaining):
            batch = list(itertools.islice(source, 500))
            if not batch:
                remaining.remove(source)
            yield from batch
