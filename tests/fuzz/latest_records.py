"""The comparison of both readers of a gaps topic, and of a simple oracle, on hostile records.

Must not know Kafka. All get the same records of all partitions, and must return the same result for any keys and
values. The readers, one in Spark tasks and one in this process, share their folds; the oracle is a dictionary. Keys are
built from few parts on purpose, so that many of them are about the same window, or almost.
"""

from __future__ import annotations

import itertools
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from pyroaring import BitMap

from gapless_api.gaps.keys import identity_of
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_spark.model.gap_windows import LatestRecord, ScanOptions, WindowFindings, read_windows
from gapless_spark.runtime.session import Engine, session
from gapless_spark.scan.find_windows import find_in_process, findings_of_rows
from gapless_spark.scan.latest_records import LATEST, latest_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PARTITIONS = 3
BATCH_RECORDS = 50_000
SCAN_OPTIONS = (
    ScanOptions(),
    ScanOptions(infer=True, all_tails=True),
    ScanOptions(infer=True, skip_stale=True, remembered_windows=2),
)
_PIECES = 5
"""Number of tasks; a key occurs in several of them."""


class Record(NamedTuple):
    """A record of the gaps topic."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds."""
    key: bytes | None
    value: bytes | None


def binary(first: int, last: int, missing: Sequence[int] = (), *, version: int = 1) -> bytes:
    """Return the value of a gap record; `missing` is relative to `first`."""
    return struct.pack(">Bqq", version, first, last) + BitMap(missing).serialize()


def old_form(topic: str, partition: int, first: int, last: int, gaps: str = "[[1]]") -> bytes:
    """Return the value of a record in the old format."""
    return (
        f'{{"topic":"{topic}","partition":{partition},"window_min":{first},"window_max":{last},"gaps":{gaps}}}'.encode()
    )


_COMPLETE, _GAPPY = binary(0, 9), binary(0, 9, [3])
EDGE_CASES: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"t:0:0", _GAPPY),
    (b"t:0:0\n", _COMPLETE),
    (b"t:1:0", _COMPLETE),
    (b"t:1:0\n", _GAPPY),
    *((b"nl%d:0:0%s" % pair, _COMPLETE) for pair in enumerate((b"\r", b"\r\n", b"\xc2\x85", b"\xe2\x80\xa8", b"\x85"))),
    (b"\nt:0:0", _GAPPY),
    (b"t\n:0:0", _GAPPY),
    (b"o_3:0", old_form("o", 3, 0, 9)),
    (b"o_3:0\n", None),
    (b"o_4:0\n", old_form("o", 4, 0, 9)),
    ("u\ufffd:0:0".encode(), _GAPPY),
    (b"u\xff:0:0", _COMPLETE),
    (b"u\xfe\xff:0:0", None),
    ("u\ufffd_7:0".encode(), old_form("u\ufffd", 7, 0, 9)),
    (b"u\x80_7:0", b""),
    (b"\xf0:0:0", _GAPPY),
    (b"\xc3:0:0", _GAPPY),
    (b"t\xe2\x80:2:0", _GAPPY),
    (b"a\x00b:0:0", _GAPPY),
    (b"t:0:0\x00", _COMPLETE),
    (b"\x00", b"x"),
    (b"", _GAPPY),
    (b"", None),
    (None, _GAPPY),
    (None, None),
    (None, b""),
    (b"t:00:0", _COMPLETE),
    (b"t:0:00", _COMPLETE),
    (b"t_00:0", old_form("t", 0, 0, 9)),
    (b"t:2147483647:0", _GAPPY),
    (b"t:2147483648:0", _GAPPY),
    (b"t:999999999:0", _COMPLETE),
    (b"t:1000000000:0", _COMPLETE),
    (b"big:0:%d" % (MAX_OFFSET - 9), binary(MAX_OFFSET - 9, MAX_OFFSET, [0, 9])),
    (b"big:1:%d" % (MAX_OFFSET - 9), binary(MAX_OFFSET - 9, MAX_OFFSET)),
    (b"big:2:9223372036854775808", _COMPLETE),
    (b"big:3:%s" % (b"9" * 40), _COMPLETE),
    (b"big:%s:0" % (b"9" * 40), _COMPLETE),
    (b"w:0:0", binary(0, 2**31 - 1)),
    (b"w:1:0", binary(0, 2**31)),
    (b"w:2:0", binary(0, MAX_OFFSET)),
    (b"w:3:0", struct.pack(">Bqq", 1, 0, -1) + BitMap().serialize()),
    (b"w:4:5", binary(5, 14)),
    (b"w:5:0", _COMPLETE + b"\x00"),
    (b"w:6:0", _COMPLETE[:-1]),
    (b"w:7:0", binary(0, 9, version=2)),
    (b"w:8:0", binary(10, 19)),
    (b"w:9:0", b"{"),
    ("\u0661:0:0".encode(), _GAPPY),
    ("t:\u0661:0".encode(), _GAPPY),
    (b"s:0:0", _GAPPY),
    (b"s:0:0", b""),
    (b"s_1:0", old_form("s", 1, 0, 9)),
    (b"s:1:0", None),
    (b"s:2:0", _GAPPY),
    (b"s_2:0", b""),
    (b":0:0", _COMPLETE),
    (b"_0:0", old_form("", 0, 0, 9)),
    (b"x:y:0:0", _GAPPY),
    (b"x_1:0:0", _GAPPY),
    (b"a_b_1:0", old_form("a_b", 1, 0, 9)),
    (b"a_b:1:0", _COMPLETE),
    (b"foreign", b"x" * 5000),
    (b"foreign", None),
    (b"x" * 5000 + b":0:0", _GAPPY),
)
"""Hand-picked edge cases, several of them about the same window."""

_TOPICS = (
    b"t", b"a_b", b"a.b-c", b"x:y", b"a\x00b", b"t\n", b"\n", b"", b"_", b":", b"1", b"t ",
    b"\xff", b"\xfe", b"t\xc3", b"\xf0", b"t\xe2\x80", b"\x85", "\ufffd".encode(), "t\ufffd".encode(),
    "\u00e9".encode(), "\u2028".encode(), "\u0661".encode(), "\U0001f600".encode(),
)  # fmt: skip
_PARTITIONS = (b"0", b"0", b"1", b"2", b"00", b"-1", b"", b"2147483647", b"2147483648", b"1e3", "\u0661".encode())
_FIRSTS = (
    *(b"0", b"0", b"0", b"10", b"10", b"20", b"50", b"00", b"010", b"5", b"", b"+0", b"1_0", b"9" * 30),
    *(b"9223372036854775798", b"9223372036854775800", b"9223372036854775808", b"999999999999999999"),
)
_ENDS = (*(b"",) * 12, b"\n", b"\r", b"\r\n", b"\x00", b" ", b"\x85", b"\xff", "\u2028".encode(), "\ufffd".encode())
_SIZES = (10, 10, 10, 10, 1, 20, 2**31, 2**31 + 1, 0, -5)


def hostile_key(chance: random.Random) -> bytes | None:
    """Return a valid or almost valid key of a window."""
    kind = chance.random()
    if kind < 0.02:
        return None
    if kind < 0.04:
        return chance.randbytes(chance.randrange(6))
    form = (b"%s:%s:%s%s", b"%s_%s:%s%s")[kind < 0.4]
    key = form % (chance.choice(_TOPICS), chance.choice(_PARTITIONS), chance.choice(_FIRSTS), chance.choice(_ENDS))
    if chance.random() < 0.1:
        key = _change_byte(key, chance)
    return key


def hostile_value(key: bytes | None, chance: random.Random) -> bytes | None:
    """Return a value that matches `key`, or almost."""
    kind = chance.random()
    if kind < 0.1:
        return None
    if kind < 0.15:
        return b""
    if kind < 0.2:
        return chance.randbytes(chance.randrange(30))
    digits = (key or b"").rpartition(b":")[2].strip()
    first = int(digits) if digits.isdigit() and len(digits) < 20 else 0
    first = min(first, MAX_OFFSET)
    last = max(min(first + chance.choice(_SIZES) - 1, MAX_OFFSET), -MAX_OFFSET)
    missing = chance.sample(range(10), chance.choice((0, 0, 0, 1, 3)))
    if kind < 0.4:
        topic_partition = (key or b"").rpartition(b":")[0].decode("utf-8", "replace")
        topic, _, partition = topic_partition.rpartition("_")
        number = int(partition) if partition.isascii() and partition.isdigit() else 0
        gaps = str([[offset] for offset in sorted(missing)])
        return old_form(topic, number, first, last, gaps)
    value = binary(first, last, missing, version=chance.choice((*(1,) * 30, 2)))
    return _change_byte(value, chance) if chance.random() < 0.05 else value


def _change_byte(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice((b"", chance.randbytes(1))) + content[at + chance.randrange(2) :]


def hostile_records(count: int, seed: int) -> list[Record]:
    """Return records of all partitions in offset order, beginning with the edge cases."""
    chance = random.Random(seed)
    pairs: Iterator[tuple[bytes | None, bytes | None]] = itertools.chain(EDGE_CASES, _random_pairs(chance))
    offsets = itertools.count()
    return [
        Record(chance.randrange(PARTITIONS), offset, 1_700_000_000_000 + chance.randrange(20), key, value)
        for offset, (key, value) in zip(offsets, itertools.islice(pairs, count), strict=False)
    ]


def _random_pairs(chance: random.Random) -> Iterator[tuple[bytes | None, bytes | None]]:
    while True:
        key = hostile_key(chance)
        yield key, hostile_value(key, chance)


def messages_of(records: Sequence[Record]) -> list[Message]:
    """Return the records as messages of Kafka's client."""
    return [
        Message(
            topic="gaps",
            partition=record.partition,
            offset=record.offset,
            timestamp=(TIMESTAMP_CREATE_TIME, record.timestamp),
            key=record.key,
            value=record.value,
        )
        for record in records
    ]


def findings_of_oracle(records: Sequence[Record], options: ScanOptions) -> WindowFindings:
    """Return the findings of the oracle: a dictionary of the latest records, each decoded."""
    latest_by_key = {(record.partition, record.key): record for record in sorted(records, key=attrgetter("offset"))}
    latest: dict[bytes | None, Record] = {}
    for record in sorted(latest_by_key.values(), key=attrgetter("timestamp", "partition", "offset")):
        latest[None if record.key is None else identity_of(record.key)] = record
    return read_windows(
        [LatestRecord(record.key, record.value, record.partition, record.offset) for record in latest.values()],
        further_unreadable=max(sum(record.key is None for record in records) - 1, 0),
        options=options,
    )


def findings_in_process(records: Sequence[Record], options: ScanOptions) -> WindowFindings:
    """Return the findings of the reader in this process."""
    found = find_in_process([messages_of(records)], options, max_bytes=sys.maxsize)
    assert found is not None
    return found


def findings_of_spark(spark: SparkSession, records: Sequence[Record], options: ScanOptions) -> WindowFindings:
    """Return the findings of the reader with Spark, whose tasks read one piece each."""
    size = -(-len(records) // _PIECES)
    pieces = [messages_of(records[start : start + size]) for start in range(0, len(records), size)]
    rows = [row for piece in pieces for row in latest_rows([piece])]
    return findings_of_rows(spark.createDataFrame(pa.Table.from_batches(rows), LATEST), options)


def difference(spark: SparkSession, records: Sequence[Record], options: ScanOptions) -> str | None:
    """Return how the findings of the readers and the oracle differ, or None if they are equal."""
    oracle = findings_of_oracle(records, options)
    local, with_spark = findings_in_process(records, options), findings_of_spark(spark, records, options)
    if local == with_spark == oracle:
        return None
    return f"oracle: {oracle}\nin this process: {local}\nwith Spark: {with_spark}"


def minimize(records: Sequence[Record], differ: Callable[[Sequence[Record]], bool]) -> list[Record]:
    """Return a small part of `records` for which `differ` still holds."""
    smallest, piece = list(records), max(len(records) // 2, 1)
    while piece:
        for start in range(0, len(smallest), piece):
            fewer = smallest[:start] + smallest[start + piece :]
            if fewer and differ(fewer):
                smallest = fewer
                break
        else:
            piece //= 2
    return smallest


def compare(runs: int, seconds: float = 0, seed: int | None = None) -> int:
    """Compare the readers on `runs` records, for at most `seconds` (0: no limit); return the number of records.

    Raises:
        AssertionError: the findings differ; contains the seed and a minimized list of records.
    """
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    began = time.monotonic()
    done = 0
    with session(Engine("fuzz", master="local[2]")) as spark:
        while done < runs and not (seconds and time.monotonic() - began > seconds):
            batch_seed, options = seed + done, SCAN_OPTIONS[done // BATCH_RECORDS % len(SCAN_OPTIONS)]
            records = hostile_records(min(BATCH_RECORDS, runs - done), batch_seed)
            if difference(spark, records, options) is not None:
                few = minimize(records, lambda fewer, options=options: difference(spark, fewer, options) is not None)  # type: ignore[misc]
                lines = "\n".join(map(str, few))
                raise AssertionError(f"seed {batch_seed}, {options}:\n{lines}\n{difference(spark, few, options)}")
            done += len(records)
            print(f"  {done:,} records, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return done
