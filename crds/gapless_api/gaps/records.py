"""The records of the gap detector's topic, in both of its formats; must not know Kafka, or who reads them.

A record lists the missing offsets of the window that its key names (see `gaps.keys`). The value is
``01 | windowMin | windowMax | bitmap`` with 64-bit big-endian numbers, windowMax inclusive, and a portable Roaring
bitmap of missing positions relative to windowMin. Until version 0.1.11 of the detector it was a JSON object.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from gapless_api.codec.roaring import EMPTY_BITMAP, MalformedBitmapError, bitmap_ranges
from gapless_api.gaps.keys import GapKey, UndecodableRecordError, decode_gap_key
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder

_HEADER = struct.Struct(">Bqq")
_VERSION = 1
_JSON_BEGINS_WITH = b"{ \t\r\n"


@dataclass(frozen=True, slots=True)
class GapRecord:
    """The missing offsets in a window of one partition."""

    topic: str
    partition: int
    """The downstream partition."""
    window_min: int
    window_max: int
    """Inclusive."""
    missing: OffsetRanges
    """Absolute offsets, all within the window."""


def decode_gap_record(key: bytes | None, value: bytes) -> GapRecord:
    """Decode a record of either format. Raises no other error than UndecodableRecordError, for any bytes.

    Args:
        key: the key of the record.
        value: the value of the record. For a tombstone, which has none, see `decode_gap_key`.

    Raises:
        UndecodableRecordError: key or value is not what a gap detector writes, or they contradict each other.
    """
    window = decode_gap_key(key)
    if value and value[0] in _JSON_BEGINS_WITH:
        return _decode_json(window, value)
    return _decode_binary(window, value)


def _decode_binary(key: GapKey, value: bytes) -> GapRecord:
    if not value:
        raise UndecodableRecordError("the value is empty")
    if value[0] != _VERSION:
        raise UndecodableRecordError(f"the value has version {value[0]}, and only version {_VERSION} is supported")
    if len(value) < _HEADER.size:
        raise UndecodableRecordError(f"the value has {len(value)} bytes, fewer than its header of {_HEADER.size}")
    _, window_min, window_max = _HEADER.unpack_from(value)
    _check_window(key, window_min, window_max)
    bitmap = value[_HEADER.size :]
    missing = RangesBuilder()
    try:
        for first, last in bitmap_ranges(bitmap) if bitmap != EMPTY_BITMAP else ():
            _check_inside(first, last, window_min, window_max)
            missing.add(window_min + first, window_min + last)
    except MalformedBitmapError as error:
        raise UndecodableRecordError(str(error)) from None
    return GapRecord(key.topic, key.partition, window_min, window_max, missing.build())


def _decode_json(key: GapKey, value: bytes) -> GapRecord:
    try:
        record = json.loads(value.decode("utf-8"), object_pairs_hook=_unique_members)
    except UndecodableRecordError:
        raise
    except (ValueError, RecursionError) as error:
        raise UndecodableRecordError(f"the value begins like JSON but is not valid ({type(error).__name__})") from None
    if not isinstance(record, dict):
        raise UndecodableRecordError("the JSON value is not an object")
    topic, partition = record.get("topic"), _integer(record, "partition")
    window_min, window_max = _integer(record, "window_min"), _integer(record, "window_max")
    if (topic, partition) != (key.topic, key.partition):
        raise UndecodableRecordError("the JSON value names another topic or partition than the key")
    _check_window(key, window_min, window_max)
    if "gaps" not in record:
        raise UndecodableRecordError("the JSON value has no gaps")
    pairs = [_json_gap(gap) for gap in _list(record["gaps"])]
    for first, last in pairs:
        _check_inside(first, last, window_min, window_max)
    missing = OffsetRanges((window_min + first, window_min + last) for first, last in pairs)
    return GapRecord(key.topic, key.partition, window_min, window_max, missing)


def _json_gap(gap: Any) -> tuple[int, int]:
    if not isinstance(gap, list) or len(gap) not in {1, 2} or not all(type(end) is int for end in gap):
        raise UndecodableRecordError("a gap of the JSON value is not one or two integers")
    if gap[0] < 0 or gap[-1] < gap[0]:
        raise UndecodableRecordError("a gap of the JSON value is negative or reversed")
    return gap[0], gap[-1]


def _list(gaps: Any) -> list[Any]:
    if gaps is None:
        return []
    if not isinstance(gaps, list):
        raise UndecodableRecordError("the gaps of the JSON value are not a list")
    return gaps


def _integer(record: dict[str, Any], name: str) -> int:
    number = record.get(name)
    if type(number) is not int or not 0 <= number <= MAX_OFFSET:
        raise UndecodableRecordError(f"the {name} of the JSON value is not an integer from 0 to {MAX_OFFSET}")
    return number


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise UndecodableRecordError("the JSON value has a duplicate member")
    return members


def _check_window(key: GapKey, window_min: int, window_max: int) -> None:
    if window_min != key.window_min:
        raise UndecodableRecordError(f"the value begins at {window_min}, but the key at {key.window_min}")
    if window_max < window_min:
        raise UndecodableRecordError(f"the window ends at {window_max}, before it begins at {window_min}")


def _check_inside(first: int, last: int, window_min: int, window_max: int) -> None:
    if last > window_max - window_min:
        raise UndecodableRecordError(
            f"positions {first} to {last} reach beyond the window of {window_min} to {window_max}"
        )
