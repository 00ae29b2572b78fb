"""The kinds of latest records: a complete window, a tombstone, a record without a window, or one to be decoded.

Must not know how records are read. Most windows are complete: these take one bit each, so that the memory of the driver
depends on the number of missing events.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from pyroaring import BitMap

from gapless_api.codec.roaring import EMPTY_BITMAP
from gapless_api.gaps.keys import PLAIN_KEY, WINDOW_KEY
from gapless_spark.model.arrow_schema import arrow_schema
from gapless_spark.model.bitmap_runs import bounds_of_runs
from gapless_spark.model.gap_windows import (
    LISTED_UNREADABLE,
    CompleteWindows,
    LatestRecord,
    ScanOptions,
    WindowFindings,
    read_windows,
)
from gapless_spark.scan.latest_records import Latest, merge_sorted_rows

if TYPE_CHECKING:
    import pyarrow as pa


_PLAIN_KEY, _WINDOW_KEY = re.compile(PLAIN_KEY.encode("ascii")), re.compile(WINDOW_KEY.encode("ascii"))
_HEADER = struct.Struct(">Bqq")
_LARGEST_WINDOW = 2**31
"""In offsets, the maximum of the detector. Larger or unaligned windows are decoded."""
_BLOCK_BITS = 20
_BLOCK = (1 << _BLOCK_BITS) - 1
_BATCH_ROWS = 4096
_BATCH_BYTES = 4 * 1024 * 1024

KINDS = (
    "kind string, records long, topic string, number int, size long, block long, bits binary, "
    "partition int, offset long, key binary, value binary"
)
"""The columns that `kind_rows` yields."""
_COMPLETE, _TOMBSTONES, _TOMBSTONE, _FOREIGN, _WINDOW = "complete", "tombstones", "taken-back", "foreign", "window"


class _WindowBlock(NamedTuple):
    """2^20 consecutive windows of one size in one partition."""

    topic: str
    partition: int
    size: int
    number: int


class WindowKinds:
    """The latest records of windows, by kind."""

    def __init__(self, *, with_tombstones: bool) -> None:
        """Start empty; `with_tombstones` also keeps the keys of tombstones."""
        self._with_tombstones = with_tombstones
        self._complete: dict[_WindowBlock, BitMap] = {}
        self._windows: list[LatestRecord] = []
        self._tombstones = 0
        self._tombstone_keys: list[bytes] = []
        self._foreign = 0
        self._listed: list[LatestRecord] = []
        """The first foreign records, and some more."""

    def add(self, latest: Latest) -> None:
        """Add the latest record of a window, or of foreign records."""
        key, value = latest.key, latest.value
        if key is None or (value is not None and not _WINDOW_KEY.match(latest.identity or b"")):
            self._foreign += latest.records
            self._list_foreign([_record(latest)])
        elif value is None:
            self._tombstones += 1
            if self._with_tombstones:
                self._tombstone_keys.append(latest.identity or b"")
        elif (complete := _complete(key, value)) is not None:
            block, position = complete
            self._bits(block).add(position)
        else:
            self._windows.append(_record(latest))

    def findings(self, options: ScanOptions) -> WindowFindings:
        """Return the findings of all records."""
        listed = _first_records(self._listed)
        return read_windows(
            [*self._windows, *listed],
            [run for block, bits in self._complete.items() for run in _runs(block, bits)],
            tombstones=self._tombstones,
            tombstone_keys=self._tombstone_keys,
            further_unreadable=self._foreign - len(listed),
            options=options,
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Write all as rows of `KINDS`."""
        batch: list[dict[str, Any]] = []
        size = 0
        for row in self._rows():
            batch.append(row)
            size += len(row.get("value") or row.get("bits") or b"")
            if len(batch) == _BATCH_ROWS or size >= _BATCH_BYTES:
                yield _batch(batch)
                batch, size = [], 0
        yield _batch(batch)

    def _rows(self) -> Iterator[dict[str, Any]]:
        yield {"kind": _TOMBSTONES, "records": self._tombstones}
        for identity in self._tombstone_keys:
            yield {"kind": _TOMBSTONE, "key": identity}
        for block, bits in self._complete.items():
            bits.run_optimize()
            topic, partition, size, number = block
            yield {
                "kind": _COMPLETE,
                "topic": topic,
                "number": partition,
                "size": size,
                "block": number,
                "bits": bits.serialize(),
            }
        listed = _first_records(self._listed)
        yield {"kind": _FOREIGN, "records": self._foreign - len(listed)}
        for kind, records in ((_FOREIGN, listed), (_WINDOW, self._windows)):
            for record in records:
                yield {"kind": kind, "records": 1, **record._asdict()}

    def add_rows(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows of `KINDS`, from any number of tasks."""
        for batch in batches:
            for row in batch.to_pylist():
                kind = row["kind"]
                if kind == _COMPLETE:
                    block = _WindowBlock(row["topic"], row["number"], row["size"], row["block"])
                    self._complete[block] = self._bits(block) | BitMap.deserialize(row["bits"])
                elif kind == _TOMBSTONES:
                    self._tombstones += row["records"]
                elif kind == _TOMBSTONE:
                    self._tombstone_keys.append(row["key"])
                elif kind == _WINDOW:
                    self._windows.append(_record_in(row))
                else:
                    self._foreign += row["records"]
                    if row["offset"] is not None:
                        self._list_foreign([_record_in(row)])

    def _bits(self, block: _WindowBlock) -> BitMap:
        bits = self._complete.get(block)
        if bits is None:
            bits = self._complete[block] = BitMap()
        return bits

    def _list_foreign(self, records: list[LatestRecord]) -> None:
        self._listed += records
        if len(self._listed) > 100 * LISTED_UNREADABLE:
            self._listed = _first_records(self._listed)


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 -- see `arrow_schema`

    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(KINDS))


def kind_rows(batches: Iterable[pa.RecordBatch], *, with_tombstones: bool) -> Iterator[pa.RecordBatch]:
    """Turn rows of `LATEST`, sorted by identity, into rows of `KINDS`."""
    kinds = WindowKinds(with_tombstones=with_tombstones)
    for latest in merge_sorted_rows(batches):
        kinds.add(latest)
    yield from kinds.rows()


def _complete(key: bytes, value: bytes) -> tuple[_WindowBlock, int] | None:
    """Return the block and the position of a window without gaps; ``None`` if the record has to be decoded."""
    if len(value) != _HEADER.size + len(EMPTY_BITMAP) or not value.endswith(EMPTY_BITMAP):
        return None
    plain = _PLAIN_KEY.match(key)
    version, first, last = _HEADER.unpack_from(value)
    if plain is None or version != 1 or first != int(plain[3]) or last < first:
        return None
    size = last - first + 1
    number, rest = divmod(first, size)
    if rest or size > _LARGEST_WINDOW:
        return None
    block = _WindowBlock(plain[1].decode("ascii"), int(plain[2]), size, number >> _BLOCK_BITS)
    return block, number & _BLOCK


def _runs(block: _WindowBlock, bits: BitMap) -> Iterator[CompleteWindows]:
    topic, partition, size, number = block
    base = number << _BLOCK_BITS
    for first, last in zip(*bounds_of_runs(bits), strict=True):
        yield CompleteWindows(topic, partition, (base + first) * size, (base + last + 1) * size - 1, last - first + 1)


def _record(latest: Latest) -> LatestRecord:
    return LatestRecord(latest.key, latest.value, latest.age.partition, latest.age.offset)


def _record_in(row: dict[str, Any]) -> LatestRecord:
    return LatestRecord(row["key"], row["value"], row["partition"], row["offset"])


def _first_records(records: list[LatestRecord]) -> list[LatestRecord]:
    return heapq.nsmallest(LISTED_UNREADABLE, records, key=attrgetter("partition", "offset"))
