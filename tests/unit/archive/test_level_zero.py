"""The proof that segments hold every record once and cover every offset, however records come and limits are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import LocalStorageError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.entry import Segment, absent_ranges
from gapless_archive.segments import level_zero, row_buffer, writer
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.level_zero import LevelZeroWriter, TopicSegment
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import SCHEMA, PartitionRows, content_bytes
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place

ORIGIN = Origin(log_start=0, high_watermark=2**62, epoch=3)


def rows(partition: int, offsets: Sequence[int], size: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": partition,
                "offset": offset,
                "timestamp": 1000 + offset % 7 if offset % 3 else None,
                "timestamp_type": 0,
                "key": str(offset).encode(),
                "value": b"v" * size if offset % 5 else None,
                "headers": [("k", b"v")] * (offset % 2),
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def coverage(topic: str, partition: int, first: int, end: int, limits: Limits) -> Coverage:
    return Coverage(
        topic=topic, partition=partition, first=first, end=end, prefix=f"here/{topic}/id", limits=limits, origin=ORIGIN
    )


def kept(place: Place, segment: Segment) -> pa.Table:
    """The rows of a segment, by its index and nothing else."""
    if not segment.object:
        return SCHEMA.empty_table()
    file = pq.ParquetFile(io.BytesIO(place.read(segment.object)), page_checksum_verification=True)
    parts = []
    for group in segment.row_groups:
        part = file.read_row_group(group.number).slice(group.first_row, group.rows)
        assert (part["offset"][0].as_py(), part["offset"][-1].as_py()) == (group.first, group.last)
        parts.append(part)
    return pa.concat_tables(parts).cast(SCHEMA)


def check(place: Place, coverages: Sequence[Coverage], given_rows: dict[Any, list[Any]], found: Any) -> None:
    """Compare segments with what was given."""
    for one in coverages:
        segments: list[Segment] = [
            each.segment for each in found if (each.topic, each.segment.partition) == (one.topic, one.partition)
        ]
        assert [segment.first for segment in segments] == [one.first, *(segment.end for segment in segments[:-1])]
        assert segments[-1].end == one.end
        table = pa.concat_tables([kept(place, segment) for segment in segments])
        batches = given_rows[one.topic, one.partition]
        assert table.to_pylist() == pa.Table.from_batches(batches, SCHEMA).to_pylist()
        for segment in segments:
            inside = kept(place, segment)
            offsets = inside["offset"].to_pylist()
            covered = OffsetRanges([(segment.first, segment.end - 1)])
            assert absent_ranges(segment.absent) == covered - OffsetRanges.of_offsets(offsets)
            assert segment.records == len(offsets) == sum(group.rows for group in segment.row_groups)
            digest = ContentDigest()
            times = [time for time in inside["timestamp"].to_pylist() if time is not None]
            assert segment.min_timestamp == min(times, default=None)
            assert segment.max_timestamp == max(times, default=None)
            size = 0
            for batch in inside.to_batches():
                digest.update(batch)
                size += content_bytes(batch)
            assert (segment.digest, segment.bytes) == (digest.text(), size)
            assert segment.object == "" or segment.object.startswith(f"here/{one.topic}/id/level-0/00000003-")
            if segment.records > 1:
                assert segment.records <= one.limits.records


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Coverage], list[PartitionRows]]:
    """Partitions, and records that come in any order among them."""
    limits = Limits(draw(st.integers(1, 60)), draw(st.sampled_from([1, 300, 3000, 10**9])))
    coverages, runs = [], []
    for topic in ("a", "b"):
        for partition in range(draw(st.integers(0, 3))):
            next_offset = first = draw(st.sampled_from([0, 2**62]))
            for _ in range(draw(st.integers(0, 4))):
                steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 9]), min_size=1, max_size=12))
                offsets = [next_offset + sum(steps[:count]) - 1 for count in range(1, len(steps) + 1)]
                runs.append(PartitionRows(topic, partition, rows(partition, offsets, draw(st.sampled_from([0, 50])))))
                next_offset = offsets[-1] + 1
            end = next_offset + draw(st.integers(0 if next_offset > first else 1, 3))
            coverages.append(coverage(topic, partition, first, end, limits))
    order = draw(st.permutations(range(len(runs))))
    places: dict[Any, list[PartitionRows]] = {}
    for run in runs:
        places.setdefault(run[:2], []).append(run)
    return coverages, [places[runs[index][:2]].pop(0) for index in order]


@given(workloads(), st.sampled_from([1, 200, 10**9]), st.sampled_from([1, 1000]))
def test_every_record_is_kept_once_and_every_offset_covered(
    tmp_path_factory: pytest.TempPathFactory,
    workload: tuple[list[Coverage], list[PartitionRows]],
    held: int,
    worth: int,
) -> None:
    coverages, runs = workload
    place = open_place(parse_place(str(tmp_path_factory.mktemp("archive"))), S3Access())
    given_rows: dict[Any, list[Any]] = {(one.topic, one.partition): [] for one in coverages}
    with pytest.MonkeyPatch.context() as sizes:
        sizes.setattr(row_buffer, "MAX_BUFFERED_BYTES", held)
        sizes.setattr(row_buffer, "MAX_RETAINED_BYTES", held)
        sizes.setattr(row_buffer, "ROW_GROUP_BYTES", 500)
        sizes.setattr(level_zero, "_MIN_ROW_GROUP_BYTES", worth)
        sizes.setattr(level_zero, "MAX_ROW_GROUP_BYTES", 700)
        with place.scratch() as scratch, LevelZeroWriter(place, scratch, coverages) as writing:
            for run in runs:
                given_rows[run[:2]].append(run.rows)
                writing.add(run)
            found = writing.close()
    check(place, coverages, given_rows, found)
    assert {each.segment.object for each in found} - {""} == {key for key in place.keys("") if "level-0" in key}


def archived(place: Place, coverages: Sequence[Coverage], runs: Sequence[PartitionRows]) -> list[TopicSegment]:
    with place.scratch() as scratch, LevelZeroWriter(place, scratch, coverages) as writing:
        for run in runs:
            writing.add(run)
        return writing.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path / "archive")), S3Access())


def test_a_partition_of_markers_alone_is_covered_without_an_object(place: Place) -> None:
    ((_, segment),) = archived(place, [coverage("a", 0, 7, 9, Limits(10, 10**6))], [])
    assert (segment.object, segment.records, segment.first, segment.end) == ("", 0, 7, 9)
    assert absent_ranges(segment.absent) == OffsetRanges([(7, 8)])
    assert place.keys("") == []


def test_quiet_partitions_share_an_object_and_its_row_groups(place: Place) -> None:
    coverages = [coverage("a", partition, 0, 2, Limits(10, 10**6)) for partition in range(200)]
    found = archived(
        place, coverages, [PartitionRows("a", number, rows(number, [0, 1])) for number in reversed(range(200))]
    )
    assert len({segment.object for _, segment in found}) == 1
    assert {group.number for _, segment in found for group in segment.row_groups} == {0}
    table = pq.read_table(io.BytesIO(place.read(found[0].segment.object)))
    assert table["partition"].to_pylist() == [number // 2 for number in range(400)]


def test_what_a_store_has_taken_is_not_kept_on_this_machine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[int] = []
    put = place.put

    def copied(key: str, file: Path) -> None:
        waiting.append(len(list(file.parent.iterdir())))
        content = file.read_bytes()
        put(key, file)
        file.write_bytes(content)  # as a store leaves it

    monkeypatch.setattr(place, "put", copied)
    runs = [PartitionRows("a", 0, rows(0, range(first, first + 10), 1000)) for first in range(0, 100, 10)]
    archived(place, [coverage("a", 0, 0, 100, Limits(10**6, 10_000))], runs)
    assert len(waiting) > 3
    assert max(waiting) <= 2


def test_an_object_ends_when_it_is_large_enough(place: Place) -> None:
    runs = [
        PartitionRows("a", number % 2, rows(number % 2, range(number // 2 * 10, number // 2 * 10 + 10), 1000))
        for number in range(20)
    ]
    limits = Limits(10**6, 30_000)
    found = archived(place, [coverage("a", number, 0, 100, limits) for number in range(2)], runs)
    objects = {segment.object for _, segment in found}
    assert len(objects) > 4
    for name in objects:
        inside = [segment for _, segment in found if segment.object == name]
        assert sum(segment.bytes for segment in inside) < 60_000
        size = place.size(name)
        assert size is not None
        assert size - len(inside) <= sum(segment.stored_bytes for segment in inside) <= size


def test_what_is_written_does_not_stay_in_memory_beside_what_waits(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_buffer, "MAX_RETAINED_BYTES", 1_000_000)
    limits = Limits(10**6, 10**9)
    before = pa.total_allocated_bytes()
    with place.scratch() as scratch:
        coverages = [coverage("a", 0, 0, 10**6, limits), coverage("a", 1, 0, 10**6, limits)]
        with LevelZeroWriter(place, scratch, coverages) as writing:
            for number in range(60):
                both = pa.Table.from_batches(
                    [rows(0, range(number * 99, number * 99 + 99), 5000), rows(1, [number])]
                ).combine_chunks()
                (together,) = both.to_batches()
                writing.add(PartitionRows("a", 0, together.slice(0, 99)))
                writing.add(PartitionRows("a", 1, together.slice(99)))
                del both, together
            assert pa.total_allocated_bytes() - before < 12_000_000  # of 30 MB
            writing.close()


def test_rows_of_a_damaged_order_are_refused() -> None:
    builder = SegmentBuilder(0, 5)
    with pytest.raises(ValueError, match="offset 4 comes after 4"):
        builder.add(rows(0, [4]))
    with pytest.raises(ValueError, match="do not ascend"):
        builder.add(rows(0, [5, 7, 7, 9]))


def test_a_full_disk_is_named() -> None:
    def fill() -> None:
        full = writer.ObjectWriter(Path("/dev/full"))
        full.write([rows(0, range(20_000), 500)], 1)
        full.close()

    with pytest.raises(LocalStorageError, match=r"/dev/full cannot be written \(.*free disk space"):
        fill()
