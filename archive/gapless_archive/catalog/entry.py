"""Owns the commits of an archive: what each one says, and how it becomes JSON; must not know where it is kept."""

import base64
import binascii
import sys
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Literal

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.form import Form, Offset, PartitionNumber

Action = Literal["archive", "claim", "compact", "expire", "delete", "hold"]
"""Why a commit was made."""
Layout = Literal["gapless", "kafka-replicator"]
"""How keys and objects look."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Where records of a segment are in its object."""

    number: int
    """Of the row group, which may hold records of other segments as well."""
    first_row: int
    rows: int
    first: Offset
    """The lowest offset of the rows."""
    last: Offset
    """The highest offset of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive offsets of a partition, and where their records are."""

    object: str
    """The key below the place; empty for a segment without records."""
    partition: PartitionNumber
    level: int
    first: Offset
    """The first offset that it covers, inclusive."""
    end: Offset
    """The last offset that it covers plus one. Covered offsets hold a record or are absent for good."""
    absent: str
    """The offsets without a record, such as markers of transactions: see `absent_ranges`."""
    records: int
    bytes: int
    """Of all records: 16, key, value, header keys and values."""
    stored_bytes: int
    """Of the object, where the segment is the only one in it; else its share."""
    min_timestamp: int | None
    """In milliseconds; null without a record that has a timestamp."""
    max_timestamp: int | None
    digest: str
    """Of key, value, headers and timestamp of all records in their order."""
    isolation: Literal["read_committed"]
    log_start: Offset
    """The partition's first offset when the segment was read."""
    high_watermark: Offset
    """The partition's end at that time."""
    epoch: int
    """Of the program that wrote it."""
    codec: str
    layout: Layout
    written_at: str
    row_groups: tuple[RowGroup, ...]
    """In the order of their offsets; empty where the layout has no such index."""

    @property
    def last(self) -> int:
        """The last offset that it covers."""
        return self.end - 1

    @property
    def is_listed(self) -> bool:
        """Whether only its key is known: `records` is the most it can have, `bytes` those of the object.

        Timestamps, absent offsets and the digest are not known then, as of segments that kafka-replicator has written.
        """
        return self.layout == "kafka-replicator" and not self.digest


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets that Kafka deleted before they were archived."""

    partition: PartitionNumber
    first: Offset
    end: Offset
    """Exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit. What it does not change is null or empty."""

    sequence: int
    epoch: int
    """Of the archiving program; the later one wins."""
    writer: str
    """Who wrote this; unique for each run."""
    at: str
    action: Action
    region: str
    topic: str
    topic_id: str
    cluster_id: str
    partitions: int | None = None
    """How many the topic has."""
    configuration: Mapping[str, str] | None = None
    """The topic's own settings, without defaults."""
    added: tuple[Segment, ...] = ()
    removed: tuple[Segment, ...] = ()
    """Segments that are no longer part of the archive; their objects are deleted later."""
    lost: tuple[LostRange, ...] = ()
    deleted: tuple[str, ...] = ()
    """Objects that are gone."""
    hold: bool | None = None
    """Whether nothing may be removed for its age or size from now on."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object of segments that were removed."""

    object: str
    removed_at: str


@dataclass(frozen=True, slots=True)
class Head:
    """How far a partition is archived."""

    partition: PartitionNumber
    next_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the commits up to one say together."""

    last: Entry
    """The last commit, with what is in force after it: count of partitions, configuration, hold."""
    archive_writer: str
    """Who archived last; empty if nobody has."""
    archived_at: str
    segments: tuple[Segment, ...]
    lost: tuple[LostRange, ...]
    garbage: tuple[Garbage, ...]
    heads: tuple[Head, ...]


ENTRY: Form[Entry] = Form("commit of the archive", "gaplessArchive", 1, Entry)
SNAPSHOT: Form[Snapshot] = Form("snapshot of the archive", "gaplessArchiveSnapshot", 1, Snapshot)
SEGMENT: Form[Segment] = Form("segment manifest", "gaplessSegment", 1, Segment)
"""A segment by itself, as a task hands it to the program that commits it."""


def absent_text(ranges: OffsetRanges) -> str:
    """Pack ranges into text: the distances between their bounds as 64-bit integers, deflated, in Base64."""
    if not ranges:
        return ""
    bounds = list(chain.from_iterable((first, last + 1) for first, last in ranges))
    distances = array("q", [bounds[0], *(after - before for before, after in pairwise(bounds))])
    if sys.byteorder == "big":
        distances.byteswap()
    return base64.b64encode(zlib.compress(distances.tobytes(), 6)).decode("ascii")


def absent_ranges(text: str) -> OffsetRanges:
    """Unpack what `absent_text` packed. Raises ValueError for anything else."""
    if not text:
        return OffsetRanges()
    try:
        distances = array("q", zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"no packed ranges ({error})") from None
    if sys.byteorder == "big":
        distances.byteswap()
    bounds = list(accumulate(distances))
    if len(bounds) % 2 or min(distances[1:], default=1) <= 0 or bounds[0] < 0 or bounds[-1] > MAX_OFFSET + 1:
        raise ValueError("no packed ranges (its bounds do not ascend)")
    return OffsetRanges(zip(bounds[::2], (end - 1 for end in bounds[1::2]), strict=True))
