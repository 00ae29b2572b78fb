"""Owns the records of the control topic: how far source partitions are written, by which run, and where records went.

Must not know how they are read or written. Keys are JSON with members in a fixed order, so that compaction keeps the
last record of each.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_api.wire.form import Form, Offset, PartitionNumber, WireError, parse_json

CONTROL_TOPIC = "_gapless_positions"
"""The default name. Partition 0 holds runs of programs and positions, partition 1 the offset maps."""
POSITIONS, MAPS = 0, 1
Kind = Literal["run", "position", "map", "configuration"]
Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class WorkPartition:
    """A source partition of some work."""

    work: str
    """The identity of the work: the same for each run of it."""
    source: str
    """The topic of the source, with its region if it has one."""
    partition: PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a record of the control topic is about."""

    kind: Kind
    work: str
    source: str = ""
    partition: PartitionNumber = 0
    first_offset: Offset = 0
    """Of a part of an offset map: its first source offset."""


@dataclass(frozen=True, slots=True)
class DoneRange:
    """Source offsets that are behind us."""

    first: Offset
    last: Offset
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a source partition is written."""

    topic: str
    """The target."""
    topic_id: str
    target_partition: PartitionNumber
    source_id: str
    """The topic ID of the source."""
    epoch: int
    """Of the run that wrote this."""
    done: tuple[DoneRange, ...] = ()
    """Ascending; offsets that hold no record count as done, those that nobody has any more too."""
    records: int = 0
    """How many were written in all."""
    bytes: int = 0
    """Of their keys, values and headers, and 16 for each record."""
    lost: int = 0
    """How many of the offsets that are done were missing in the source and skipped by request."""

    @property
    def ranges(self) -> OffsetRanges:
        """The source offsets that are behind us."""
        return OffsetRanges((one.first, one.last) for one in self.done)

    @property
    def next_offset(self) -> int:
        """The source offset after the last one that is behind us; 0 before the first."""
        return self.done[-1].last + 1 if self.done else 0

    def behind(self, ranges: OffsetRanges, *, records: int = 0, size: int = 0, lost: int = 0) -> "Position":
        """The position after `ranges`, which follow on all that are done, and what was written of them."""
        if ranges and ranges.first_offset < self.next_offset:
            raise ValueError(f"offset {ranges.first_offset} comes after {self.next_offset - 1}")
        builder = RangesBuilder()
        for one in self.done[-1:]:
            builder.add(one.first, one.last)
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
    """The last program that began to write for some work. The later epoch wins."""

    epoch: int
    slots: int
    """How many transactional ids the runs of the work have used, the most of any run."""
    source: str
    source_id: str
    """The topic ID of the source."""
    topic: str
    """The target."""
    topic_id: str
    since: int | None = None
    until: int | None = None
    """Limits of the records' timestamps, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """Where some records went."""

    topic: str
    target_partition: PartitionNumber
    runs: str
    """See `gapless_kafka.writing.offset_map.packed_runs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedConfiguration:
    """What a topic's settings were before a program changed them, to be put back."""

    topic: str
    before: Mapping[str, str]
    """The topic's own values."""
    unset: tuple[str, ...]
    """Settings for which it had no value of its own."""


KEY: Form[Key] = Form("key of a position", "gaplessPosition", 1, Key)
POSITION: Form[Position] = Form("position", "gaplessPosition", 1, Position)
RUN: Form[RunOfWork] = Form("run of a program", "gaplessPosition", 1, RunOfWork)
MAP: Form[MapPart] = Form("part of an offset map", "gaplessPosition", 1, MapPart)
CONFIGURATION: Form[ChangedConfiguration] = Form("changed settings", "gaplessPosition", 1, ChangedConfiguration)
FORMS: Mapping[str, Form[Any]] = {"run": RUN, "position": POSITION, "map": MAP, "configuration": CONFIGURATION}


def content(form: Form[Message], message: Message) -> bytes:
    """A message as the key or value of a record."""
    return json.dumps(form.to_json(message), separators=(",", ":")).encode()


def position_key(partition: WorkPartition) -> bytes:
    """The key of a partition's position."""
    return content(
        KEY, Key(kind="position", work=partition.work, source=partition.source, partition=partition.partition)
    )


def map_key(partition: WorkPartition, first_offset: int) -> bytes:
    """The key of the part of a partition's offset map that begins with `first_offset`."""
    return content(
        KEY,
        Key(
            kind="map",
            work=partition.work,
            source=partition.source,
            partition=partition.partition,
            first_offset=first_offset,
        ),
    )


def read_record(key: bytes | None, value: bytes) -> tuple[Key, Any]:
    """Read a record of the control topic. Raises WireError for what is none."""
    found = KEY.from_json(parse_json((key or b"").decode("utf-8", "replace")))
    if found.kind not in FORMS:  # pragma: no cover -- the form has looked
        raise WireError(f"the kind {found.kind} is unknown")
    return found, FORMS[found.kind].from_json(parse_json(value.decode("utf-8", "replace")))


def latest(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[bytes, bytes]:
    """The last value of each key, without those that were removed."""
    found: dict[bytes, bytes] = {}
    for key, value in records:
        if value is None:
            found.pop(key or b"", None)
        else:
            found[key or b""] = value
    return found
