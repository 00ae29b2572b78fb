"""The current records of a lane in the control topic, and what a record concerns that cannot be read. Pure.

A record that cannot be read stops the source partition that its key names, and no other. A record with a key of another
program cannot replace one of a mirror, so it is only reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.form import WireError
from gapless_kafka.writing.offset_map import unpack_runs
from gapless_mirror.lanes.records import FAMILY, LaneKey, read_key, read_value

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition

POSITION_UNREADABLE = "PositionUnreadable"
"""The reason for which a partition stops whose position or offset map cannot be read."""


class StoredRecord(NamedTuple):
    """A record of the control topic."""

    key: bytes | None
    value: bytes | None
    offset: int = 0


class UnreadableRecord(NamedTuple):
    """A record that cannot be read."""

    sentence: str
    """Where it is, what it concerns, and what to do."""
    map_part: int | None
    """The first offset by which it is stored if it is a part of an offset map, otherwise ``None``."""


class Decoded(NamedTuple):
    """The current records of a lane, in the order in which they were written."""

    records: list[tuple[LaneKey, Any]]
    unreadable: dict[TopicPartition, list[UnreadableRecord]]
    """By the source partition that they concern."""
    foreign: list[str]
    """A sentence about each record that is not of a mirror."""


def current_records(records: Iterable[StoredRecord]) -> list[StoredRecord]:
    """Return the last record of each key in the order of offsets, without keys deleted by a tombstone."""
    last: dict[bytes, StoredRecord] = {}
    for record in records:
        last.pop(record.key or b"", None)
        if record.value is not None:
            last[record.key or b""] = record
    return list(last.values())


def decode_records(topic: str, lane: int, records: Iterable[StoredRecord]) -> Decoded:
    """Decode the current records of a lane.

    Args:
        topic: the control topic, for messages.
        lane: its partition.
        records: in offset order.

    Raises:
        ConfigurationError: a record that concerns the whole lane cannot be read.
    """
    decoded = Decoded([], {}, [])
    for record in current_records(records):
        where, key = f"The record at offset {record.offset:,} of {topic}/{lane}", record.key or b""
        part: int | None = None
        try:
            lane_key = read_key(key)
            part = lane_key.first_offset if lane_key.kind == "map" else None
            message = read_value(lane_key, record.value or b"")
            if lane_key.kind == "map":
                unpack_runs(message.runs)
        except (WireError, ValueError) as error:
            is_ours, source = _concerned(key)
            if not is_ours:
                decoded.foreign.append(
                    f"{where} is not one of a mirror, and is ignored; find the program that writes to this topic."
                )
            elif source is None:
                raise ConfigurationError(
                    f"{where} cannot be read ({error}); run the same release of Gapless everywhere."
                ) from None
            else:
                name = f"{source[0]}/{source[1]}"
                sentence = (
                    f"{where} is about {name} and cannot be read ({error}), so {name} is not copied; run the same "
                    f"release of Gapless everywhere, or if the record is damaged, start the mirror with "
                    f"--start-at-target, which finds the position again, or with --copy-again."
                )
                decoded.unreadable.setdefault(source, []).append(UnreadableRecord(sentence, part))
            continue
        decoded.records.append((lane_key, message))
    return decoded


def _concerned(key: bytes) -> tuple[bool, TopicPartition | None]:
    """Return whether a key is one of a mirror, perhaps of another release, and the source partition that it names."""
    try:
        members = json.loads(key)
    except ValueError:
        return False, None
    if not isinstance(members, dict) or FAMILY not in members:
        return False, None
    source, partition = members.get("source"), members.get("partition", 0)
    return True, (source, partition) if source and isinstance(source, str) and isinstance(partition, int) else None
