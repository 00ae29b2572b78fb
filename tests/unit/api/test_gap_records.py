from __future__ import annotations

import contextlib
import json
import struct
import time
from pathlib import Path
from typing import Any

import pyroaring
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless_api.codec.roaring import MalformedBitmapError, bitmap_ranges
from gapless_api.gaps.keys import GapKey, UndecodableRecordError, decode_gap_key
from gapless_api.gaps.records import GapRecord, decode_gap_record
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges

EMPTY_BITMAP = bytes.fromhex("3a30000000000000")


def header(window_min: int, window_max: int) -> bytes:
    return struct.pack(">Bqq", 1, window_min, window_max)


def record(key: str, window_max: int, bitmap: pyroaring.BitMap) -> tuple[bytes, bytes]:
    window_min = int(key.rpartition(":")[2])
    return key.encode(), header(window_min, window_max) + bitmap.serialize()


def old_record(**changed: Any) -> bytes:
    members = {
        "topic": "t_1",
        "partition": 3,
        "window_min": 1000,
        "window_max": 1999,
        "gaps": [[5], [10, 15]],
        **changed,
    }
    return json.dumps({name: value for name, value in members.items() if value is not ...}).encode()


def test_every_record_that_the_peer_wrote_is_decoded(vectors: Path) -> None:
    written = json.loads((vectors / "gap-records.json").read_text())
    assert len(written) >= 9
    for vector in written:
        decoded = decode_gap_record(vector["key"].encode(), bytes.fromhex(vector["value_hex"]))
        topic, partition, _ = vector["key"].split(":")
        base = vector["windowMin"]
        assert decoded == GapRecord(
            topic,
            int(partition),
            base,
            vector["windowMax"],
            OffsetRanges((base + gap[0], base + gap[-1]) for gap in vector["relative_gaps"]),
        ), vector["name"]


def test_a_topic_of_mixed_records_gives_what_can_be_decoded_and_why_not(vectors: Path) -> None:
    decoded, refused = {}, {}
    for vector in json.loads((vectors / "bundle-in-gap-topic.json").read_text())["records"]:
        try:
            found = decode_gap_record(vector["key"].encode(), bytes.fromhex(vector["value_hex"]))
        except UndecodableRecordError as error:
            refused[vector["name"]] = str(error)
        else:
            decoded[vector["key"]] = list(found.missing)
    assert decoded == {
        "transfer:0:0": [(5, 5)],
        "transfer:0:1000": [(1005, 1005), (1010, 1015), (1050, 1050)],
        "transfer:0:2000": [],
        "transfer:1:0": [(0, 899)],
        "transfer:2:0": [],
        "transfer_3:1000": [(1005, 1005), (1010, 1015)],
    }
    assert refused == {
        "bad-version": "the value has version 2, and only version 1 is supported",
        "short": "the value has 2 bytes, fewer than its header of 17",
        "tombstone": "the value is empty",
    }


@st.composite
def bitmaps(draw: st.DrawFn) -> pyroaring.BitMap:
    """Bitmaps with array, bitset and run containers, in one or in many blocks of 65536."""
    bitmap = pyroaring.BitMap()
    for block in draw(st.sets(st.integers(0, 12), max_size=6)):
        base = block << 16
        shape = draw(st.sampled_from(["array", "bitset", "runs", "full"]))
        if shape == "array":
            bitmap.update(base + o for o in draw(st.sets(st.integers(0, 65535), min_size=1, max_size=50)))
        elif shape == "bitset":
            step, start = draw(st.integers(2, 7)), draw(st.integers(0, 3))
            bitmap.update(range(base + start, base + 65536, step))
        elif shape == "runs":
            for first in draw(st.sets(st.integers(0, 65000), min_size=1, max_size=9)):
                bitmap.add_range(base + first, base + min(first + draw(st.integers(1, 3000)), 65536))
        else:
            bitmap.add_range(base, base + 65536)
    if draw(st.booleans()):
        bitmap.run_optimize()
    return bitmap


@given(bitmaps(), st.sampled_from([0, 1000, 2**53 + 1, MAX_OFFSET - 13 * 65536]))
def test_what_a_library_writes_is_what_we_read(bitmap: pyroaring.BitMap, window_min: int) -> None:
    decoded = decode_gap_record(*record(f"my.topic_x-1:2:{window_min}", window_min + 13 * 65536, bitmap))
    assert (decoded.topic, decoded.partition, decoded.window_min) == ("my.topic_x-1", 2, window_min)
    assert decoded.missing.count == len(bitmap)
    read = pyroaring.BitMap()
    for first, last in decoded.missing:
        read.add_range(first - window_min, last - window_min + 1)
    assert read == bitmap


@given(bitmaps(), st.data())
def test_a_changed_byte_is_refused_or_means_what_the_library_reads(
    bitmap: pyroaring.BitMap, data: st.DataObject
) -> None:
    changed = bytearray(bitmap.serialize())
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        ours = list(bitmap_ranges(bytes(changed)))
    except MalformedBitmapError:
        return
    theirs = pyroaring.BitMap.deserialize(bytes(changed))
    assert sum(last - first + 1 for first, last in ours) == len(theirs)
    assert sum((first + last) * (last - first + 1) // 2 for first, last in ours) == sum(theirs)


@given(bitmaps(), st.data())
def test_a_bitmap_that_is_cut_or_followed_by_something_is_refused(
    bitmap: pyroaring.BitMap, data: st.DataObject
) -> None:
    whole = bitmap.serialize()
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"\0"):
        with pytest.raises(MalformedBitmapError):
            list(bitmap_ranges(wrong))


@given(st.binary(max_size=200), st.binary(max_size=200))
@example(b"t:0:0", b"{" + b"[" * 100)
@example(b"t:0:0", header(0, 9) + b"\x3b\x30\xff\xff")
@example(b"t:0:0", header(0, 9) + b"\x3a\x30\0\0\xff\xff\xff\xff")
@example(b"t:0:0", b"\x01")
def test_garbage_is_never_more_than_an_undecodable_record(key: bytes, value: bytes) -> None:
    for garbled_key in (key, b"t:0:0"):
        for garbled_value in (value, header(0, 1000) + value):
            with contextlib.suppress(UndecodableRecordError):
                decode_gap_record(garbled_key, garbled_value)


def test_deeply_nested_and_endless_json_is_an_undecodable_record() -> None:
    for value in (b'{"gaps":' + b"[" * 500_000, b'{"window_min":' + b"9" * 10_000 + b"}", b'{"a":NaN}', b"{}"):
        with pytest.raises(UndecodableRecordError):
            decode_gap_record(b"t:0:0", value)


def test_a_small_record_that_names_four_thousand_million_offsets_is_decoded_at_once() -> None:
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, 2**32)
    bitmap.run_optimize()
    key, value = record(f"t:0:{2**40}", 2**40 + 2**32 - 1, bitmap)
    assert len(value) < 1_000_000
    begun = time.process_time()
    assert list(decode_gap_record(key, value).missing) == [(2**40, 2**40 + 2**32 - 1)]
    assert time.process_time() - begun < 5, "of the processor; offset by offset it would be minutes"


MALFORMED = {
    "an unknown cookie": ("39300000", "begins with 0x00003039"),
    "too many containers": ("3a30000001000100" + "00" * 20, "claims 65537 containers"),
    "containers out of order": (
        "3a300000 02000000 0100 0000 0000 0000 18000000 1a000000 0500 0600",
        "key 0 after key 1",
    ),
    "a table that points elsewhere": ("3a300000 01000000 0000 0000 11000000 0500", "not at the position in the table"),
    "an array out of order": ("3a300000 01000000 0000 0100 10000000 0500 0500", "position 5 after 5"),
    "a run beyond the block": ("3b300000 01 0000 0100 0100 ffff 0100", "goes from 65535 to 65536"),
    "runs that overlap": (
        "3b300000 01 0000 0300 0200 0500 0100 0600 0100",
        "run 1 of a run container goes from 6 to 7",
    ),
    "a wrong cardinality of runs": ("3b300000 01 0000 0300 0100 0500 0100", "has 2 positions and claims 4"),
    "a wrong cardinality of bits": ("3a300000 01000000 0000 ff1f 10000000" + "00" * 8192, "has 0 positions and claims"),
    "something behind": ("3a300000 00000000 00", "1 bytes follow the bitmap"),
    "an end in the cookie": ("3a30", "ends within the cookie: 4 bytes are needed at 0"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_bitmap_says_which_check_failed(case: str) -> None:
    bitmap, sentence = MALFORMED[case]
    with pytest.raises(UndecodableRecordError, match=sentence):
        decode_gap_record(b"t:0:0", header(0, MAX_OFFSET) + bytes.fromhex(bitmap))


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("transfer:0:1000", GapKey("transfer", 0, 1000)),
        ("my.own_topic-1:2147483647:9223372036854775807", GapKey("my.own_topic-1", 2**31 - 1, MAX_OFFSET)),
        ("a_1:2:0", GapKey("a_1", 2, 0)),
        ("transfer_3:1000", GapKey("transfer", 3, 1000)),
        ("a_b_1_2:0", GapKey("a_b_1", 2, 0)),
    ],
)
def test_keys_of_both_forms_are_split_from_the_right(key: str, wanted: GapKey) -> None:
    assert decode_gap_key(key.encode()) == wanted


@pytest.mark.parametrize(
    "key",
    [None, b"", b":", b"::", b"t", b"t:0", b":0:0", b"_0:0", b"t:-1:0", b"t:0:-1", b"t:01:0", b"t:0:1.0", b"t:x:0",
     b"t:2147483648:0", b"t:0:9223372036854775808", b"\xff:0:0", b"a\nb:0:0", b"x" * 100_000],
)  # fmt: skip
def test_anything_else_is_no_key(key: bytes | None) -> None:
    with pytest.raises(UndecodableRecordError) as caught:
        decode_gap_key(key)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (b"t:0:5", header(0, 9) + EMPTY_BITMAP, "the value begins at 0, but the key at 5"),
        (b"t:0:5", header(5, 4) + EMPTY_BITMAP, "the window ends at 4, before it begins at 5"),
        (b"t:0:0", header(0, -1) + EMPTY_BITMAP, "the window ends at -1"),
        (b"t:0:0", b"\x00" * 30, "has version 0"),
        (b"t:0:0", header(0, 9), "ends within the cookie"),
    ],
)
def test_a_window_that_cannot_be_is_refused(key: bytes, value: bytes, sentence: str) -> None:
    with pytest.raises(UndecodableRecordError, match=sentence):
        decode_gap_record(key, value)


@pytest.mark.parametrize("window_min", [0, 1000, MAX_OFFSET - 10])
def test_a_position_beyond_the_window_is_refused(window_min: int) -> None:
    inside, beyond = pyroaring.BitMap([10]), pyroaring.BitMap([3, 11])
    assert list(decode_gap_record(*record(f"t:0:{window_min}", window_min + 10, inside)).missing) == [
        (window_min + 10, window_min + 10)
    ]
    with pytest.raises(UndecodableRecordError, match="positions 11 to 11 reach beyond the window"):
        decode_gap_record(*record(f"t:0:{window_min}", window_min + 10, beyond))


def test_the_old_form_is_decoded() -> None:
    wanted = GapRecord("t_1", 3, 1000, 1999, OffsetRanges([(1005, 1005), (1010, 1015)]))
    assert decode_gap_record(b"t_1_3:1000", old_record()) == wanted
    assert decode_gap_record(b"t_1:3:1000", b" " + old_record()) == wanted
    assert list(decode_gap_record(b"t_1_3:1000", old_record(gaps=None)).missing) == []
    assert list(decode_gap_record(b"t_1_3:1000", old_record(gaps=[[999], [0]])).missing) == [(1000, 1000), (1999, 1999)]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"topic": "other"}, "another topic or partition"),
        ({"partition": 4}, "another topic or partition"),
        ({"partition": "3"}, "the partition of the JSON value is not an integer"),
        ({"window_min": 0}, "begins at 0, but the key at 1000"),
        ({"window_max": 1999.0}, "the window_max of the JSON value"),
        ({"window_max": True}, "the window_max of the JSON value"),
        ({"window_max": 2**63}, "the window_max of the JSON value"),
        ({"gaps": ...}, "has no gaps"),
        ({"gaps": {}}, "are not a list"),
        ({"gaps": [5]}, "is not one or two integers"),
        ({"gaps": [[]]}, "is not one or two integers"),
        ({"gaps": [[1, 2, 3]]}, "is not one or two integers"),
        ({"gaps": [[1.0]]}, "is not one or two integers"),
        ({"gaps": [[False]]}, "is not one or two integers"),
        ({"gaps": [[-1]]}, "negative or reversed"),
        ({"gaps": [[6, 5]]}, "negative or reversed"),
        ({"gaps": [[1000]]}, "reach beyond the window"),
    ],
)
def test_an_old_record_that_is_wrong_says_which_check_failed(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UndecodableRecordError, match=sentence):
        decode_gap_record(b"t_1_3:1000", old_record(**changed))


def test_an_old_record_with_a_member_twice_is_refused() -> None:
    with pytest.raises(UndecodableRecordError, match="a duplicate member"):
        decode_gap_record(b"t_1_3:1000", b'{"gaps":[],' + old_record()[1:])
