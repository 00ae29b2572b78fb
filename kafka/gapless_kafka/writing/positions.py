"""The records of the control topic: positions of source partitions, runs, offset maps, and refused records.

Must not know how they are read or written. Keys are JSON with members in a fixed order, so that compaction keeps the
last record of each key.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_api.wire.form import Form, Offset, PartitionNumber, parse_json

CONTROL_TOPIC = "_gapless_positions"
"""The default name. Partition 0 holds runs of programs and positions, partition 1 the offset maps."""
POSITIONS, MAPS = 0, 1
Kind = Literal["run", "position", "map", "configuration", "refused"]
Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class WorkPartition:
    """A source partition of some work."""

    work: str
    """The identity of the work, the same for each of its runs."""
    source: str
    """The source topic, with its region if it has one."""
    partition: PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The key of a record in the control topic."""

    kind: Kind
    work: str
    source: str = ""
    partition: PartitionNumber = 0
    first_offset: Offset = 0
    """The first source offset of a part of an offset map, or of refused records."""


@dataclass(frozen=True, slots=True)
class DoneRange:
    """Source offsets that have been processed."""

    first: Offset
    last: Offset
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The progress of one source partition."""

    topic: str
    """The target topic."""
    topic_id: str
    target_partition: PartitionNumber
    source_id: str
    """The topic ID of the source."""
    epoch: int
    """The epoch of the run that wrote the position."""
    done: tuple[DoneRange, ...] = ()
    """Ascending; offsets without a record and lost offsets count as done."""
    records: int = 0
    """The total of written records."""
    bytes: int = 0
    """The size of their keys, values and headers, plus 16 for each record."""
    lost: int = 0
    """How many of the done offsets were missing in the source and skipped by request."""

    @property
    def ranges(self) -> OffsetRanges:
        """The source offsets that are done."""
        return OffsetRanges((done.first, done.last) for done in self.done)

    @property
    def next_offset(self) -> int:
        """The source offset after the last one that is done; 0 for none."""
        return self.done[-1].last + 1 if self.done else 0

    def advance(self, ranges: OffsetRanges, *, records: int = 0, size: int = 0, lost: int = 0) -> "Position":
        """Return the position after `ranges`, which follow all done ranges.

        Args:
            ranges: the offsets that are done now.
            records: how many records were written.
            size: their bytes.
            lost: how many offsets were missing and skipped.

        Raises:
            ValueError: `ranges` do not follow the done ranges.
        """
        if ranges and ranges.first_offset < self.next_offset:
            raise ValueError(f"offset {ranges.first_offset} does not follow {self.next_offset - 1}")
        builder = RangesBuilder()
        for last_done in self.done[-1:]:
            builder.add(last_done.first, last_done.last)
        for first, last in ranges:
            builder.add(first, last)
        return replace(
            self,
            done=(*self.done[:-1], *(DoneRange(*each) for each in builder.build())),
            records=self.records + records,
            bytes=self.bytes + size,
            lost=self.lost + lost,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfWork:
    """The last run that started to write for some work. The later epoch wins."""

    epoch: int
    slots: int
    """The largest number of transactional IDs that any run of the work has used."""
    source: str
    source_id: str
    """The topic ID of the source."""
    topic: str
    """The target topic."""
    topic_id: str
    since: int | None = None
    until: int | None = None
    """Limits of the record timestamps, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """Target offsets of some records."""

    topic: str
    target_partition: PartitionNumber
    runs: str
    """See `gapless_kafka.writing.offset_map.pack_runs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRecords:
    """Records that the target refused, and that were skipped by request; their offsets count as done."""

    first: Offset
    last: Offset
    """Inclusive; every offset in between is that of a refused record."""
    cause: str
    """Why, as the end of a sentence about one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedConfiguration:
    """The settings of a topic before a program changed them, to be restored."""

    topic: str
    before: Mapping[str, str]
    """The values set on the topic itself."""
    unset: tuple[str, ...]
    """Settings that had no value on the topic itself."""


KEY: Form[Key] = Form("key of a position", "gaplessPosition", 1, Key)
POSITION: Form[Position] = Form("position", "gaplessPosition", 1, Position)
RUN: Form[RunOfWork] = Form("run of a program", "gaplessPosition", 1, RunOfWork)
MAP: Form[MapPart] = Form("part of an offset map", "gaplessPosition", 1, MapPart)
CONFIGURATION: Form[ChangedConfiguration] = Form("changed settings", "gaplessPosition", 1, ChangedConfiguration)
REFUSED: Form[RefusedRecords] = Form("refused records", "gaplessPosition", 1, RefusedRecords)
_FORMS: Mapping[str, Form[Any]] = {
    "run": RUN,
    "position": POSITION,
    "map": MAP,
    "configuration": CONFIGURATION,
    "refused": REFUSED,
}


def content(form: Form[Message], message: Message) -> bytes:
    """Encode a message as the key or value of a record."""
    return json.dumps(form.to_json(message), separators=(",", ":")).encode()


def position_key(partition: WorkPartition) -> bytes:
    """Return the key of a partition's position."""
    return content(
        KEY, Key(kind="position", work=partition.work, source=partition.source, partition=partition.partition)
    )


def map_key(partition: WorkPartition, first_offset: int) -> bytes:
    """Return the key of the part of a partition's offset map that starts at `first_offset`."""
    return _offset_key("map", partition, first_offset)


def refused_key(partition: WorkPartition, first_offset: int) -> bytes:
    """Return the key of the refused records of a partition that start at `first_offset`."""
    return _offset_key("refused", partition, first_offset)


def _offset_key(kind: Kind, partition: WorkPartition, first_offset: int) -> bytes:
    return content(
        KEY,
        Key(
            kind=kind,
            work=partition.work,
            source=partition.source,
            partition=partition.partition,
            first_offset=first_offset,
        ),
    )


def read_record(key: bytes | None, value: bytes) -> tuple[Key, Any]:
    """Decode a record of the control topic. Raises WireError for any other record."""
    decoded = KEY.from_json(parse_json((key or b"").decode("utf-8", "replace")))
    return decoded, _FORMS[decoded.kind].from_json(parse_json(value.decode("utf-8", "replace")))


def latest(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[bytes, bytes]:
    """Return the last value of each key, in the order of these values, without keys deleted by a tombstone."""
    values: dict[bytes, bytes] = {}
    for key, value in records:
        values.pop(key or b"", None)
        if value is not None:
            values[key or b""] = value
    return values
