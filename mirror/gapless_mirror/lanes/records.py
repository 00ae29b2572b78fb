"""The records of a mirror's control topic: the run, the positions of source partitions, and their offset maps.

Must not know how they are read or written. Keys are JSON with members in a fixed order, so that compaction keeps the
last record of each key.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from gapless_api.wire.form import Form, Offset, PartitionNumber, parse_json
from gapless_kafka.writing.offset_map import Run, pack_runs, runs_before, unpack_runs
from gapless_kafka.writing.positions import content

Kind = Literal["layout", "run", "flow", "position", "map"]
FAMILY = "gaplessMirror"
"""The member of each record that holds its version."""
Message = TypeVar("Message")
MAX_RUNS = 250
"""In one part of an offset map. The last part is written again with each transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneKey:
    """The key of a record."""

    kind: Kind
    source: str = ""
    partition: PartitionNumber = 0
    first_offset: Offset = 0
    """The first source offset of a part of an offset map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRecord:
    """How source partitions are divided among lanes. Stored in the first lane, and never changed."""

    lanes: int
    """The number of partitions that the control topic had when the mirror ran first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The run of the engine that owns the lane. The later epoch wins."""

    engine: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OppositeFlow:
    """What a mirror in the opposite direction copied when this one started."""

    name: str
    topics: tuple[str, ...]
    prefixes: tuple[str, ...]
    pattern: str | None
    excluded: tuple[str, ...]
    rename: str
    source_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRecord:
    """What the mirror copies, and from where. Stored in the first lane; mirrors in the opposite direction read it."""

    source_id: str
    """Kafka's id of the source cluster."""
    target_id: str
    topics: tuple[str, ...]
    prefixes: tuple[str, ...]
    pattern: str | None
    excluded: tuple[str, ...]
    """Regular expressions."""
    rename: str
    source_name: str
    provenance: Literal["auto", "always", "never"]
    target_name: str = ""
    """The target's name in the names of topics that were copied from it."""
    opposite: tuple[OppositeFlow, ...] = ()
    """With provenance auto, topics that these mirrors copy back get the header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Source offsets that are not in the target topic: deleted before they were copied, or refused by it."""

    first: Offset
    last: Offset
    """Inclusive."""
    reason: str
    source_id: str
    """The topic ID that the offsets belong to."""
    time: str
    """When it was recorded."""


def with_range(ranges: tuple[LostRange, ...], one: LostRange) -> tuple[LostRange, ...]:
    """Return `ranges` with one more, which extends the last one if it follows it and has the same reason."""
    last = ranges[-1] if ranges else None
    if last is None or (last.last + 1, last.reason, last.source_id) != (one.first, one.reason, one.source_id):
        return (*ranges, one)
    return (*ranges[:-1], replace(one, first=last.first))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLoss:
    """Copies that the target lost, and where copying started again by request."""

    reason: str
    """TargetDeleted, TargetRecreated, TargetTruncated or TargetDiverged."""
    target_id: str
    """The topic ID that the lost copies were written to."""
    copied_to: Offset
    """The source offset that had been reached."""
    restart: Offset
    """The source offset where copying started again."""
    time: str
    """When it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePosition:
    """The position of a source partition."""

    target: str
    """The topic on the target cluster; the partition has the same number."""
    source_id: str
    """The topic ID of the source; empty where brokers have none."""
    epoch: int
    """Of the run that wrote this."""
    start: Offset
    """The first source offset that the mirror is responsible for."""
    next_offset: Offset
    """The source offset to read next."""
    records: int = 0
    """Written in total."""
    bytes: int = 0
    """Of their keys and values."""
    returned: int = 0
    """Records that came from the target and were not copied back."""
    lost: tuple[LostRange, ...] = ()
    """Ascending, unless the source lost records that were copied."""
    leader_epoch: int | None = None
    """The source's leader epoch (KIP-101) of the last record that was read; ``None`` where it is unknown."""
    epoch_end: Offset | None = None
    """The offset after this record: the source's log of this epoch ended there or later."""
    target_id: str = ""
    """The topic ID of the target; empty where brokers have none, or before the first look at the target."""
    target_end: Offset | None = None
    """The target offset after the last written record; ``None`` before the first one."""
    lanes: int = 0
    """The number of lanes of the mirror; 0 in a position of an earlier release."""
    copied_again: tuple[TargetLoss, ...] = ()
    """Losses in the target after which the source was copied again by request."""
    target_epoch: int | None = None
    """A leader epoch of the target; ``None`` where it is unknown."""
    target_epoch_end: Offset | None = None
    """The target's log had reached this offset in that epoch; at most `target_end`."""
    source_epoch: int | None = None
    """A leader epoch of the source; ``None`` where it is unknown, or nothing after `next_offset` was seen."""
    source_end: Offset | None = None
    """The source's log had reached this offset in that epoch: it had records that are not copied yet."""
    source_partitions: int = 0
    """How many partitions the source topic had when this was written first; 0 in a position of an earlier release."""

    @property
    def lost_offsets(self) -> int:
        """How many offsets are not in the target topic by request."""
        return sum(lost.last - lost.first + 1 for lost in self.lost)

    def without_copies(self) -> "LanePosition":
        """Return the position of a target that has no copies yet."""
        return replace(self, target_id="", target_end=None, target_epoch=None, target_epoch_end=None, records=0)

    def without_source_end(self) -> "LanePosition":
        """Return the position with nothing known about the source after it."""
        return replace(self, source_epoch=None, source_end=None)

    def of_new_log(self) -> "LanePosition":
        """Return the position without what it says about the source's log, which is another one now."""
        return replace(self.without_source_end(), leader_epoch=None, epoch_end=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMapPart:
    """A part of an offset map: the target offsets of a range of source offsets."""

    target: str
    source_id: str
    runs: str
    """See `gapless_kafka.writing.offset_map.pack_runs`."""


KEY: Form[LaneKey] = Form("key of a mirror's record", FAMILY, 1, LaneKey)
LAYOUT: Form[LayoutRecord] = Form("layout of a mirror", FAMILY, 1, LayoutRecord)
RUN: Form[RunRecord] = Form("run of a mirror", FAMILY, 1, RunRecord)
FLOW: Form[FlowRecord] = Form("flow of a mirror", FAMILY, 2, FlowRecord)
POSITION: Form[LanePosition] = Form("position of a mirror", FAMILY, 4, LanePosition)
_UPGRADES: dict[str, dict[int, dict[str, Any]]] = {
    "flow": {1: {"targetName": "", "opposite": []}},
    "position": {
        1: {
            "leaderEpoch": None,
            "epochEnd": None,
            "targetId": "",
            "targetEnd": None,
            "lanes": 0,
            "copiedAgain": [],
        },
        2: {"targetEpoch": None, "targetEpochEnd": None, "sourceEpoch": None, "sourceEnd": None},
        3: {"sourcePartitions": 0},
    },
}
"""The members that the next version added to records of a version, by kind and version.

In positions, they are unknown until the first look at both clusters. A mirror with an old flow adds the header to all
records, or to none.
"""
MAP: Form[LaneMapPart] = Form("part of a mirror's offset map", FAMILY, 1, LaneMapPart)
_FORMS: dict[str, Form[Any]] = {"layout": LAYOUT, "run": RUN, "flow": FLOW, "position": POSITION, "map": MAP}
LAYOUT_KEY = content(KEY, LaneKey(kind="layout"))
RUN_KEY = content(KEY, LaneKey(kind="run"))
FLOW_KEY = content(KEY, LaneKey(kind="flow"))


def position_key(source: str, partition: int) -> bytes:
    """Return the key of a partition's position."""
    return content(KEY, LaneKey(kind="position", source=source, partition=partition))


def map_key(source: str, partition: int, first_offset: int) -> bytes:
    """Return the key of the part of a partition's offset map that begins with `first_offset`."""
    return content(KEY, LaneKey(kind="map", source=source, partition=partition, first_offset=first_offset))


NOOP_KEY = map_key("", 0, 0)
"""The key of a part of an offset map that never exists."""


def read_record(key: bytes | None, value: bytes) -> tuple[LaneKey, Any]:
    """Decode a record of the control topic. Raises WireError."""
    lane_key = read_key(key)
    return lane_key, read_value(lane_key, value)


def read_key(key: bytes | None) -> LaneKey:
    """Decode the key of a record. Raises WireError."""
    return KEY.from_json(parse_json((key or b"").decode("utf-8", "replace")))


def read_value(lane_key: LaneKey, value: bytes) -> Any:
    """Decode the value of a record. Raises WireError."""
    members = parse_json(value.decode("utf-8", "replace"))
    upgrades = _UPGRADES.get(lane_key.kind, {})
    while isinstance(members, dict) and isinstance(version := members.get(FAMILY), int) and version in upgrades:
        members = {**upgrades[version], **members, FAMILY: version + 1}
    return _FORMS[lane_key.kind].from_json(members)


@dataclass
class MapTail:
    """The last part of a partition's offset map, which grows with each transaction until it is full."""

    target: str
    source_id: str
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def of(cls, part: LaneMapPart) -> "MapTail":
        """Return the tail for a part that was read. Raises ValueError if its runs are invalid."""
        return cls(part.target, part.source_id, unpack_runs(part.runs))

    @property
    def first_offset(self) -> int:
        """The first source offset, by which the part is stored. Requires a run."""
        return self.runs[0].first

    def ended(self, offset: int) -> "MapTail":
        """Return the part without what it has at or after a source offset, where copying goes back to."""
        last = self.runs[-1]
        marker = Run(offset, 0, last.target + last.length)
        return MapTail(self.target, self.source_id, [*runs_before(self.runs, offset), marker])

    def extended(self, runs: Iterable[Run]) -> "list[MapTail]":
        """Return copies: this part with `runs` appended, and further parts when one is full."""
        parts = [MapTail(self.target, self.source_id, list(self.runs))]
        for run in runs:
            last = parts[-1].runs
            if last and _continues(last[-1], run):
                last[-1] = Run(last[-1].first, last[-1].length + run.length, last[-1].target)
            elif len(last) < MAX_RUNS:
                last.append(run)
            else:
                parts.append(MapTail(self.target, self.source_id, [run]))
        return parts

    def record(self) -> LaneMapPart:
        """Return the record to write."""
        return LaneMapPart(target=self.target, source_id=self.source_id, runs=pack_runs(self.runs))


def _continues(previous: Run, run: Run) -> bool:
    return run.first == previous.first + previous.length and run.target == previous.target + previous.length
