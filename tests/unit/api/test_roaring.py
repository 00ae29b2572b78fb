"""Bitmaps are read as the format's specification says, to the last byte, and a refusal says what was wrong where."""

from __future__ import annotations

import struct

import pyroaring
import pytest

from gapless_api.codec.roaring import EMPTY_BITMAP, MalformedBitmapError, bitmap_ranges


def without_runs(*containers: tuple[int, bytes, int]) -> bytes:
    """A bitmap of containers (key, content, cardinality), none of which has runs."""
    described = b"".join(struct.pack("<HH", key, cardinality - 1) for key, _, cardinality in containers)
    place = 8 + 8 * len(containers)
    positions = b""
    for _, content, _ in containers:
        positions += struct.pack("<I", place)
        place += len(content)
    head = struct.pack("<II", 12346, len(containers))
    return head + described + positions + b"".join(content for _, content, _ in containers)


def shorts(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def ranges(serialized: bytes) -> list[tuple[int, int]]:
    return list(bitmap_ranges(serialized))


def refusal(serialized: bytes) -> str:
    with pytest.raises(MalformedBitmapError) as refused:
        ranges(serialized)
    return str(refused.value)


@pytest.mark.parametrize("containers", range(1, 10))
def test_runs_in_any_number_of_containers_are_read(containers: int) -> None:
    """From four containers on there is a table of positions, and from nine on a second byte of flags."""
    bitmap = pyroaring.BitMap()
    for key in range(containers):
        bitmap.add_range(key << 16 | 5, key << 16 | 9)
    bitmap.run_optimize()
    expected = [(key << 16 | 5, key << 16 | 8) for key in range(containers)]
    assert ranges(bitmap.serialize()) == expected


@pytest.mark.parametrize("other", range(10))
def test_each_container_has_its_own_flag(other: int) -> None:
    """All containers but one have runs: the flags are taken bit by bit, from the second byte as well."""
    inside = [[(5, 8)]] * 10
    inside[other] = [(5, 5), (7, 7)]
    expected = [(key << 16 | first, key << 16 | last) for key in range(10) for first, last in inside[key]]
    bitmap = pyroaring.BitMap()
    for first, last in expected:
        bitmap.add_range(first, last + 1)
    bitmap.run_optimize()
    assert ranges(bitmap.serialize()) == expected


def test_the_empty_bitmap_has_no_positions() -> None:
    assert pyroaring.BitMap().serialize() == EMPTY_BITMAP
    assert ranges(EMPTY_BITMAP) == []


def test_the_largest_array_and_the_smallest_bitset_are_told_apart() -> None:
    for count in (4096, 4097):
        bitmap = pyroaring.BitMap(range(0, 2 * count, 2))
        assert ranges(bitmap.serialize()) == [(offset, offset) for offset in range(0, 2 * count, 2)]


def test_positions_that_follow_each_other_in_an_array_are_one_range() -> None:
    assert ranges(without_runs((0, shorts(1, 2, 3, 7, 9, 10), 6))) == [(1, 3), (7, 7), (9, 10)]
    assert ranges(without_runs((1, shorts(0), 1), (3, shorts(65535), 1))) == [(65536, 65536), (262143, 262143)]


def test_a_position_that_does_not_ascend_is_refused() -> None:
    assert refusal(without_runs((0, shorts(4, 4), 2))) == "an array container has position 4 after 4"
    assert refusal(without_runs((0, shorts(4, 3), 2))) == "an array container has position 3 after 4"


def test_a_key_that_does_not_ascend_is_refused() -> None:
    assert refusal(without_runs((2, shorts(4), 1), (2, shorts(5), 1))) == "container 1 has key 2 after key 2"
    assert ranges(without_runs((0, shorts(4), 1))) == [(4, 4)]


@pytest.mark.parametrize(
    ("serialized", "part"),
    [
        (b"\x3a\x30\x00", "the cookie"),
        (struct.pack("<IH", 12346, 1), "the number of containers"),
        (struct.pack("<I", 12347), "the run flags"),
        (struct.pack("<II", 12346, 1), "the container table"),
        (struct.pack("<IIHH", 12346, 1, 0, 0), "the table of container positions"),
        (without_runs((0, b"", 1)), "an array container"),
        (without_runs((0, b"", 4097)), "a bitset container"),
        (struct.pack("<IBHH", 12347, 1, 0, 0), "a run container"),
        (struct.pack("<IBHHH", 12347, 1, 0, 0, 1), "a run container"),
    ],
)
def test_bytes_that_end_too_early_are_refused_with_what_was_being_read(serialized: bytes, part: str) -> None:
    assert f"the bitmap of {len(serialized)} bytes ends within {part}: " in refusal(serialized)


def test_bytes_that_are_left_over_are_refused() -> None:
    assert refusal(without_runs((0, shorts(4), 1)) + b"\0") == "1 bytes follow the bitmap"


def test_more_containers_than_positions_have_room_for_are_refused() -> None:
    text = "ends within the container table"
    assert text in refusal(struct.pack("<II", 12346, 65536))
    assert refusal(struct.pack("<II", 12346, 65537)) == "the bitmap claims 65537 containers, more than 65536"


def with_runs(pairs: list[int], cardinality: int) -> bytes:
    return struct.pack("<IBHH", 12347, 1, 0, cardinality - 1) + shorts(len(pairs) // 2, *pairs)


def test_runs_reach_the_last_position_and_not_beyond() -> None:
    assert ranges(with_runs([0, 0, 65535, 0], 2)) == [(0, 0), (65535, 65535)]
    assert ranges(with_runs([2, 2, 6, 1], 5)) == [(2, 4), (6, 7)]
    assert refusal(with_runs([65535, 1], 2)) == "run 0 of a run container goes from 65535 to 65536"


def test_runs_that_touch_or_miscount_are_refused() -> None:
    assert refusal(with_runs([2, 2, 5, 1], 5)) == "run 1 of a run container goes from 5 to 6"
    assert refusal(with_runs([2, 2], 4)) == "a run container has 3 positions and claims 4"
    bitset = b"\1" + bytes(8191)
    assert refusal(without_runs((0, bitset, 5000))) == "a bitset container has 1 positions and claims 5000"


def test_a_container_in_another_place_than_the_table_says_is_refused() -> None:
    moved = bytearray(without_runs((0, shorts(4), 1)))
    moved[12] += 1
    assert refusal(bytes(moved)) == "container 0 is not at the position in the table"
