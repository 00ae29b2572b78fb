"""The content of an archive's commits and their JSON format; must not know where they are stored."""

import base64
import binascii
import sys
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.form import Form, Offset, PartitionNumber

Action = Literal["archive", "claim", "compact", "expire", "delete", "hold"]
"""The reason for a commit."""
Layout = Literal["gapless", "kafka-replicator"]
"""The format of keys and objects."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of a segment in one row group of its object."""

    number: int
    """Of the row group, which may also contain rows of other segments."""
    first_row: int
    rows: int
    first: Offset
    """The lowest offset of the rows."""
    last: Offset
    """The highest offset of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive offsets of a partition, and where their records are stored."""

    object: str
    """The key below the place; empty for a segment without records."""
    partition: PartitionNumber
    level: int
    first: Offset
    """The first covered offset, inclusive."""
    end: Offset
    """The last covered offset plus one. Each covered offset has a record, or will never have one."""
    absent: str
    """The offsets without a record, such as markers of transactions: see `absent_ranges`."""
    records: int
    bytes: int
    """Size of all records: 16 bytes each, plus key, value, header keys and values."""
    stored_bytes: int
    """Size of the object, or the segment's share of it when the object has several segments."""
    min_timestamp: int | None
    """In milliseconds; null when no record has a timestamp."""
    max_timestamp: int | None
    digest: str
    """Of key, value, headers and timestamp of all records, in order."""
    isolation: Literal["read_committed"]
    log_start: Offset
    """The partition's first offset when the segment was read."""
    high_watermark: Offset
    """The partition's high watermark at that time."""
    epoch: int
    """Of the program that wrote the segment."""
    codec: str
    layout: Layout
    written_at: str
    row_groups: tuple[RowGroup, ...]
    """By offset; empty in a layout without this index."""

    @property
    def last(self) -> int:
        """The last covered offset."""
        return self.end - 1

    def row_group_end(self, offset: int) -> int:
        """Return the last offset of the row group with the next record at or after `offset`; `last` without one."""
        return next((group.last for group in self.row_groups if group.last >= offset), self.last)

    @property
    def is_listed(self) -> bool:
        """Whether only the key and size of the object are known, as for segments that kafka-replicator has written.

        `records` is then an upper bound, `bytes` the size of the object, and timestamps, absent offsets and the digest
        are unknown.
        """
        return self.layout == "kafka-replicator" and not self.digest


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets that Kafka deleted before they were archived."""

    partition: PartitionNumber
    first: Offset
    end: Offset
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class Head:
    """The next offset of a partition to archive."""

    partition: PartitionNumber
    next_offset: Offset


@dataclass(frozen=True, slots=True)
class ReachedEpoch:
    """At which leader epoch (KIP-320) a partition's log was archived up to its head.

    After a truncation under the same topic ID, Kafka's end of this epoch is lower than the head.
    """

    partition: PartitionNumber
    leader_epoch: Offset


@dataclass(frozen=True, slots=True)
class Predecessor:
    """Another generation of a topic, as it was when Kafka had the generation that records it."""

    topic_id: str
    epoch: int
    """The highest epoch of an archiving program in its chain."""
    archived_offsets: int
    """The sum of the next offsets to archive of its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit. Fields that it does not change are null or empty."""

    sequence: int
    epoch: int
    """Of the archiving program; the highest epoch wins."""
    writer: str
    """ID of the run that made the commit."""
    at: str
    action: Action
    region: str
    topic: str
    topic_id: str
    cluster_id: str
    partitions: int | None = None
    """How many partitions the topic has."""
    configuration: Mapping[str, str] | None = None
    """The topic's own settings, without defaults."""
    added: tuple[Segment, ...] = ()
    removed: tuple[Segment, ...] = ()
    """Segments that are no longer part of the archive; their objects are deleted later."""
    lost: tuple[LostRange, ...] = ()
    deleted: tuple[str, ...] = ()
    """Objects that were deleted."""
    hold: bool | None = None
    """Whether the topic is on hold from now on: nothing is removed because of its age or size."""
    reached: tuple[ReachedEpoch, ...] = ()
    """Of the partitions whose head this commit moves; without old brokers."""
    predecessors: tuple[Predecessor, ...] | None = None
    """All other generations of the topic in the archive, which this one follows; see `GenerationOrder`."""
    started: tuple[Head, ...] = ()
    """Where archiving begins, of the partitions that have no head: what Kafka deletes from there on is lost."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object whose segments were all removed."""

    object: str
    removed_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state that results from all commits up to one."""

    last: Entry
    """The last commit, with the partition count, configuration and hold that apply after it."""
    archive_writer: str
    """The run that archived last; empty for none."""
    archived_at: str
    segments: tuple[Segment, ...]
    lost: tuple[LostRange, ...]
    garbage: tuple[Garbage, ...]
    heads: tuple[Head, ...]
    reached: tuple[ReachedEpoch, ...] = ()
    """Of the heads, as far as known."""


ENTRY: Form[Entry] = Form("commit of the archive", "gaplessArchive", 3, Entry)
SNAPSHOT: Form[Snapshot] = Form("snapshot of the archive", "gaplessArchiveSnapshot", 3, Snapshot)
"""Earlier versions of both are read as well: 2 had no ``started``, 1 neither ``reached`` nor ``predecessors``."""
SEGMENT: Form[Segment] = Form("segment manifest", "gaplessSegment", 1, Segment)
"""A single segment, as a task returns it to the program that commits it."""


_ADDED: Mapping[int, Mapping[str, Any]] = {2: {"reached": [], "predecessors": None}, 3: {"started": []}}
"""The fields of a commit that a version has added, with their values for earlier ones."""


def upgrade(content: Any) -> Any:
    """Convert a commit or a snapshot of an earlier version; return anything else unchanged."""
    if not isinstance(content, dict):
        return content
    for form in (ENTRY, SNAPSHOT):
        version = content.get(form.marker)
        if type(version) is not int or not 0 < version < form.version:
            continue
        entry = {name: value for since, added in _ADDED.items() if since > version for name, value in added.items()}
        added = entry if form is ENTRY else {name: value for name, value in entry.items() if name == "reached"}
        if added.keys() & content.keys():
            return content  # it is not what its version says
        content = {**content, **added, form.marker: form.version}
        if isinstance(content.get("last"), dict):
            content["last"] = {**entry, **content["last"]}
    return content


def absent_text(ranges: OffsetRanges) -> str:
    """Encode ranges as text: the distances between their bounds as 64-bit integers, deflated, in Base64."""
    if not ranges:
        return ""
    bounds = list(chain.from_iterable((first, last + 1) for first, last in ranges))
    distances = array("q", [bounds[0], *(after - before for before, after in pairwise(bounds))])
    if sys.byteorder == "big":
        distances.byteswap()
    return base64.b64encode(zlib.compress(distances.tobytes(), 6)).decode("ascii")


def absent_ranges(text: str) -> OffsetRanges:
    """Decode the text of `absent_text`. Raises ValueError for anything else."""
    if not text:
        return OffsetRanges()
    try:
        distances = array("q", zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"not encoded ranges ({error})") from None
    if sys.byteorder == "big":
        distances.byteswap()
    bounds = list(accumulate(distances))
    if len(bounds) % 2 or min(distances[1:], default=1) <= 0 or bounds[0] < 0 or bounds[-1] > MAX_OFFSET + 1:
        raise ValueError("not encoded ranges (bounds do not ascend)")
    return OffsetRanges(zip(bounds[::2], (end - 1 for end in bounds[1::2]), strict=True))
