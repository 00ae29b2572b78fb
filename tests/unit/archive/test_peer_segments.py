"""The proof that segments of kafka-replicator are read as they are, and that what is wrong with one is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import find_chain, generations, regions, topics
from gapless_archive.cli.segments import segments
from gapless_archive.reading import open_archive
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.segments.rows import Record, records_of
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.story.peer_segments import ZERO_TIME, peer_key, write_peer_segment
from unit.archive.archives import ID, archived


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def add(place: Place, offsets: Sequence[int], **settings: Any) -> str:
    return write_peer_segment(place.name, offsets, **settings)


def read(place: Place, first: int = 0, last: int = 10**6, partition: int = 0) -> list[Record]:
    archive = open_archive(place, "t")
    wanted = OffsetRanges([(first, last)])
    pieces = archive.pieces(partition, wanted)
    return [record for piece in pieces for rows in archive.read(piece) for record in records_of(rows)]


def run(place: Place, *arguments: str) -> str:
    given = [*arguments, f"--archive={place.name}"]
    return CliRunner().invoke(segments, given, catch_exceptions=False, standalone_mode=False).output


def test_records_come_out_as_they_are_stored(place: Place) -> None:
    add(
        place,
        [5, 7],
        records={
            5: {"key": b"", "value": b"", "timestamp": ZERO_TIME, "headers": []},
            7: {
                "key": b"\xff",
                "value": b"v",
                "timestamp": 1_700_000_000_123_000_000,
                "headers": [{"key": b"h", "value": b""}, {"key": b"h", "value": b"\x00"}],
            },
        },
    )
    empty, full = read(place)
    assert empty == (0, 5, None, None, b"", b"", [])
    assert full == (0, 7, 1_700_000_000_123, None, b"\xff", b"v", [(b"h", b""), (b"h", b"\x00")])


def test_overlapping_segments_give_each_offset_once(place: Place) -> None:
    add(place, range(10))
    add(place, range(6, 15))
    add(place, range(3, 8), level=1)
    add(place, range(4), partition=3)
    assert [record.offset for record in read(place)] == list(range(15))
    assert [record.offset for record in read(place, 7, 11)] == list(range(7, 12))
    assert [record.offset for record in read(place, partition=3)] == list(range(4))


def test_large_row_groups_are_read_in_parts(place: Place) -> None:
    large = {number: {"value": bytes([number % 251]) * 100_000} for number in range(150)}
    add(place, range(150), records=large)
    archive = open_archive(place, "t")
    (piece,) = archive.pieces(0, OffsetRanges([(10, 140)]))
    parts = list(archive.read(piece))
    assert len(parts) > 2
    found = [record for rows in parts for record in records_of(rows)]
    assert [(one.offset, one.value) for one in found] == [(n, large[n]["value"]) for n in range(10, 141)]
    values = [pair for some in archive.read_values(piece) for pair in zip(some.offsets, some.values, strict=True)]
    assert values == [(n, large[n]["value"]) for n in range(10, 141)]


@pytest.mark.parametrize(
    ("footer", "problem"),
    [
        ({"topic": "other"}, "its footer names topic other, its key t"),
        ({"region": "x"}, "its footer names region x"),
        ({"partition": "1"}, "its footer names partition 1"),
        ({"level": "1"}, "its footer names level 1"),
        ({"startOffset": "1"}, "its footer names startOffset 1"),
        ({"endOffset": "9"}, "its footer names endOffset 9, its key 4"),
        ({"endOffset": None}, "its footer has no endOffset"),
    ],
)
def test_an_object_that_is_another_than_its_key_says_is_damaged(
    place: Place, footer: dict[str, str | None], problem: str
) -> None:
    key = add(place, range(5), footer=footer)
    with pytest.raises(SegmentDamagedError) as caught:
        read(place)
    assert f"{place.name}/{key} is damaged ({problem}" in str(caught.value)


@pytest.mark.parametrize(
    ("offsets", "problem"),
    [
        ([0, 2, 1, 4], "its offsets do not ascend from 0 on"),
        ([0, 1, 1, 4], "its offsets do not ascend from 0 on"),
        ([0, 1, 2, 3], "it ends at offset 3, and its key at 4"),
    ],
)
def test_an_object_with_other_offsets_is_damaged(place: Place, offsets: list[int], problem: str) -> None:
    add(place, offsets, first=0, last=4)
    with pytest.raises(SegmentDamagedError, match=problem):
        read(place)


def test_an_object_that_is_cut_or_no_parquet_is_damaged(place: Place, tmp_path: Path) -> None:
    file = tmp_path / add(place, range(5))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(SegmentDamagedError, match="is damaged"):
        read(place)
    pq.write_table(pa.table({"a": [1]}), file)
    with pytest.raises(SegmentDamagedError, match="its footer has no region"):
        read(place)


def test_a_compacted_object_whose_key_ends_too_early_is_read_completely_and_reported(place: Place) -> None:
    key = add(place, range(20), last=14, level=1)
    assert [record.offset for record in read(place)] == list(range(20))
    text = run(place, "verify")
    assert f"{place.name}/{key} holds offsets up to 19, beyond its key. Gapless reads them; kafka-replicator" in text
    assert text.splitlines()[-1].startswith("20 records with ")
    assert json.loads(run(place, "verify", "--json"))["misnamed"] == [{"object": key, "last": 19}]


def test_what_is_no_segment_is_left_alone(place: Place, tmp_path: Path) -> None:
    add(place, range(5))
    for name in ("r/t/0/0/notes.txt", "r/t/0/0/1-2", "r/t/00/0/x", "r/other/readme", f"r/t/0/0/{9:020d}-{1:020d}"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert (regions(place), topics(place, "r"), generations(place, "r", "t")) == (["r"], ["t"], [""])
    assert [segment.object for segment in find_chain(place, "t").load().all_segments()] == [peer_key(0, 0, 0, 4)]


def test_where_a_topic_has_both_a_reader_must_choose(place: Place) -> None:
    """As after an archive of an earlier release, which did not refuse the place."""
    add(place, range(5))
    archived(place, {0: (0, 3)})
    assert generations(place, "r", "t") == [ID, ""]
    with pytest.raises(ConfigurationError, match=rf"2 generations of the topic t .*\({ID}, kafka-replicator\), and no"):
        open_archive(place, "t")
    layouts = [
        {segment.layout for segment in open_archive(place, "t", topic_id=topic_id).state.all_segments()}
        for topic_id in (ID, "kafka-replicator")
    ]
    assert layouts == [{"gapless"}, {"kafka-replicator"}]
    assert f"t has 2 generations: kafka-replicator, {ID}. No commit proves" in run(place, "list")
    (partition,) = json.loads(run(place, "list", "--json", "--topic-id=kafka-replicator"))["partitions"]
    assert (partition["topicId"], partition["covered"]) == ("", [[0, 4]])
    run(place, "hold", "--topics=t")
    assert open_archive(place, "t", topic_id=ID).state.is_held


def test_the_commands_read_them_and_change_nothing(place: Place) -> None:
    add(place, range(5))
    add(place, range(8, 10))
    text = run(place, "list")
    assert text.splitlines()[1].endswith("0-4; 8-9")
    assert "t: its segments were written by kafka-replicator, which stores null as empty" in text
    (partition,) = json.loads(run(place, "list", "--json"))["partitions"]
    assert (partition["topicId"], partition["nextOffset"], partition["records"]) == ("", 10, 7)
    assert "layout kafka-replicator" in run(place, "show", "t/0/9")
    assert "layout kafka-replicator" in run(place, "show", peer_key(0, 0, 0, 4))
    assert run(place, "verify").startswith("7 records with ")
    for command in (["delete", "--all", "--topics=t", "--plan"], ["hold", "--topics=t"]):
        with pytest.raises(ConfigurationError, match="r/t was written by kafka-replicator and is read-only"):
            run(place, *command)
    chain = find_chain(place, "t")
    with pytest.raises(ConfigurationError, match="is read-only"):
        chain.update(lambda _: None)
    assert len(place.keys("r")) == 2
