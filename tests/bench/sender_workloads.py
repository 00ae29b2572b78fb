"""The workloads of the sender's benchmark, and the programs that it is compared with; must not know the benchmark.

Each function in `PROGRAMS` runs as a process of its own, so that its CPU seconds and memory can be measured and those
of the benchmark stay small.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from gapless_sender.wire.compression import gzip_body
from gapless_sender.wire.encryption import OVERHEAD_BYTES
from gapless_sender.wire.packets import GZIP_FLAG, HEADER_BYTES, EventPacketizer, PacketType
from kit.kafka.records import enqueue

PORT = 9900
PAYLOAD_SIZE = 1400
COMPRESS_ABOVE = 1024
_CHUNK = 10_000
_GROUPED = 16_000
_UDP_SEGMENT = 103
_WORDS = ("accepted", "address", "backend", "cache", "closed", "denied", "error", "handler", "packet", "user")


@dataclass(frozen=True, slots=True)
class Topic:
    """The records of a topic."""

    name: str
    partitions: int
    records: int
    """In each partition."""
    size: int | None
    """Bytes of a value; None for sizes like those of real logs."""

    def values(self, partition: int, first: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the reproducible values of records `first` to `end` (exclusive); `first` is a multiple of 10,000."""
        end = self.records if end is None else end
        for begin in range(first, end, _CHUNK):
            chance = random.Random(f"{partition} {begin}")
            text = _log_text(chance)
            for number in range(begin, min(begin + _CHUNK, end)):
                size = self.size if self.size is not None else log_size(chance)
                head = b'{"n":%d,"t":"2026-11-20T10:%02d:%02dZ","m":"' % (number, number // 60 % 60, number % 60)
                start = chance.randrange(len(text) - 16_384)
                yield (head + text[start : start + max(size - len(head) - 2, 0)] + b'"}')[:size]


def log_size(chance: random.Random) -> int:
    """Return a size like those of real logs: log-normal, median 350 bytes, tail up to 16 KiB."""
    return min(max(int(chance.lognormvariate(5.858, 0.72)), 1), 16_384)


def _log_text(chance: random.Random) -> bytes:
    """Return words and numbers that compress about as well as log lines."""
    parts = [f"{chance.choice(_WORDS)} {chance.choice(_WORDS)}={chance.randrange(10**6)}" for _ in range(4000)]
    return " ".join(parts).encode()


@dataclass(frozen=True, slots=True)
class Workload:
    """One measured resend."""

    title: str
    topic: Topic
    gaps: tuple[tuple[int, int], ...]
    """Of every partition."""
    settings: dict[str, Any] = field(default_factory=dict)
    encrypted: bool = False
    in_clear: Workload | None = None
    """The same without encryption, measured in the same turns."""
    beside_plain: bool = False
    """Whether the program ``plain`` supports it, too, and is measured in the same turns."""
    goals: dict[str, float] = field(default_factory=dict)
    """Maximum of each figure (see `bench_sender`); for events per second the minimum."""

    @property
    def events(self) -> int:
        """The number of requested events."""
        return self.topic.partitions * sum(last - first + 1 for first, last in self.gaps)

    def as_json(self) -> str:
        """Return the description for the other programs."""
        topic = self.topic
        return json.dumps([topic.name, topic.partitions, topic.records, topic.size, self.gaps, self.encrypted])


def workloads(scale: float) -> dict[str, Workload]:
    """Return all workloads, with `scale` times as many records."""
    million, part, large = int(1_000_000 * scale), int(200_000 * scale), int(300_000 * scale)
    small, logs = Topic(f"small-{million}", 1, million, 200), Topic(f"logs-{million}", 1, million, None)
    gzip = {"compressWhenLengthExceeds": COMPRESS_ABOVE}
    whole = ((0, million - 1),)
    in_clear = Workload("sizes of real logs, one gap", logs, whole, beside_plain=True, goals={"cpu_s_per_million": 5.0})
    return {
        "a": Workload(
            "200 B, one gap",
            small,
            whole,
            beside_plain=True,
            goals={"cpu_s_per_million": 3.5, "events_per_s": 250_000, "drops": 0},
        ),
        "b": in_clear,
        "c": Workload(
            "10,000 single offsets spread over a million",
            small,
            tuple((offset, offset) for offset in range(0, million, 100)),
            goals={"wall_s": 2.0, "cpu_s": 1.3},
        ),
        "d": Workload("the first 1,000 of a million", small, ((0, 999),), goals={"wall_s": 0.5}),
        "e": Workload(
            "1300 B, gzip above 1 KiB",
            Topic(f"large-{large}", 1, large, 1300),
            ((0, large - 1),),
            gzip,
            goals={"wall_s": 6.0},
        ),
        "f": Workload(
            "sizes of real logs, encrypted", logs, whole, {"encryption": "true"}, encrypted=True, in_clear=in_clear
        ),
        "g": Workload(
            "200 B, six partitions, two shards",
            Topic(f"six-{part}", 6, part, 200),
            ((0, part - 1),),
            {"parallelism": 2},
        ),
    }


def _read(described: str) -> tuple[Topic, list[list[int]], bool]:
    name, partitions, records, size, gaps, encrypted = json.loads(described)
    return Topic(name, partitions, records, size), gaps, encrypted


def produce(bootstrap: str, described: str) -> None:
    """Write the records of a topic."""
    topic, _, _ = _read(described)
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1 << 20})
    for partition in range(topic.partitions):
        for value in topic.values(partition):
            enqueue(
                producer,
                topic.name,
                value,
                partition=partition,
                on_delivery=lambda error, _: refused.append(error) if error is not None else None,
            )
            producer.poll(0)
    if producer.flush(120) or refused:
        raise SystemExit(f"records were not acknowledged: {refused[:1]}")


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 10 << 20,
        }
    )


def consume(bootstrap: str, described: str) -> None:
    """Read the requested records and discard them."""
    topic, gaps, _ = _read(described)
    consumer = _consumer(bootstrap)
    last = gaps[-1][1]
    remaining = dict.fromkeys(range(topic.partitions), last)
    consumer.assign([TopicPartition(topic.name, partition, gaps[0][0]) for partition in remaining])
    requested = {offset for first, end in gaps for offset in range(first, end + 1)} if len(gaps) > 1 else None
    found = 0
    while remaining:
        for message in consumer.consume(1000, 1.0):
            offset = message.offset()
            if message.error() is None and (requested is None or offset in requested):
                found += message.value() is not None
            if offset >= last:
                remaining.pop(message.partition(), None)
    consumer.close()
    print(json.dumps({"found": found}))


def pack(path: str, described: str) -> None:
    """Write the datagrams of a workload to a file for ``reference``; encryption only adds its overhead bytes."""
    topic, gaps, encrypted = _read(described)
    compressing = "large" in topic.name
    with Path(path).open("wb", buffering=1 << 20) as out:
        for partition in range(topic.partitions):
            packetizer = EventPacketizer(topic.name, partition, PAYLOAD_SIZE)
            offsets = iter([offset for first, last in gaps for offset in range(first, last + 1)])
            next_offset = next(offsets)
            for offset, value in enumerate(topic.values(partition, 0, gaps[-1][1] + 1)):
                if offset != next_offset:
                    continue
                next_offset = next(offsets, -1)
                packed = compressing and len(value) > COMPRESS_ABOVE
                body = gzip_body(value) if packed else value
                datagrams: list[bytes] = []
                kind = PacketType.CLEAR | GZIP_FLAG if packed else int(PacketType.CLEAR)
                sealed = body + bytes(OVERHEAD_BYTES) if encrypted else body
                packetizer.add_batch(datagrams, (offset,), kind, (sealed,))
                out.writelines(struct.pack("=I", len(datagram)) + datagram for datagram in datagrams)


def plain(bootstrap: str, described: str) -> None:
    """Send one gap with minimal code: no plan, ledger, checkpoint, rate limit or error handling."""
    topic, gaps, _ = _read(described)
    ((first, last),) = gaps
    remaining = last - first + 1
    consumer = _consumer(bootstrap)
    consumer.assign([TopicPartition(topic.name, 0, first)])
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    link.connect(("127.0.0.1", PORT))
    by_size: defaultdict[int, list[bytes]] = defaultdict(list)
    waiting = 0
    while remaining:
        messages = consumer.consume(1000, 1.0)
        for message in messages:
            name = b"%b_0_%d" % (topic.name.encode(), message.offset())
            value = message.value()
            assert value is not None
            capacity = PAYLOAD_SIZE - HEADER_BYTES - len(name)
            count = -(-len(value) // capacity)
            for number in range(count):
                part = value[number * capacity : (number + 1) * capacity]
                head = struct.pack(">BHHH", PacketType.CLEAR, number + 1, count, len(name))
                check = hashlib.md5(part, usedforsecurity=False).hexdigest()[28:].encode()
                datagram = head + name + check + struct.pack(">H", len(part)) + part
                by_size[len(datagram)].append(datagram)
        waiting += len(messages)
        remaining -= len(messages)
        if waiting >= _GROUPED or not remaining:
            for size, group in by_size.items():
                max_segments = min(64, 65507 // size)
                control = [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("=H", size))]
                for start in range(0, len(group), max_segments):
                    link.sendmsg((b"".join(group[start : start + max_segments]),), control)
            by_size.clear()
            waiting = 0
    consumer.close()


PROGRAMS = {program.__name__: program for program in (produce, consume, pack, plain)}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]).read_text())
