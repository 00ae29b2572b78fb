"""The proof that what is read of an archive is complete and in order, and that damage is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive import reading
from gapless_archive.catalog.entry import Entry, Segment
from gapless_archive.catalog.state import TopicState
from gapless_archive.reading import TopicArchive
from gapless_archive.segments import row_buffer
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.level_zero import LevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage
from gapless_archive.segments.row_buffer import Limits as SegmentLimits
from gapless_archive.segments.rows import HEADERS, SCHEMA, PartitionRows
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from gapless_spark.archiving.restore.plan import Limits
from gapless_spark.archiving.restore.segments import Unreadable, prepare_records, read_ranges

import pyarrow as pa  # isort: skip
import pyarrow.parquet as pq  # isort: skip

if TYPE_CHECKING:
    import pytest


LIMITS = (Limits(), Limits(since=10, until=50))


def write(
    place: Place, offsets: Sequence[int], first: int, end: int, *, segment: int = 1000, at_once: int = 1000
) -> list[Segment]:
    """One object with the records of partition 0, in segments of so many and row groups of what comes at once."""
    coverage = Coverage(
        topic="t",
        partition=0,
        first=first,
        end=end,
        prefix="r/t/i",
        limits=SegmentLimits(segment, 1 << 30),
        origin=Origin(log_start=0, high_watermark=end, epoch=1),
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([0] * len(offsets), pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([None if offset % 4 == 0 else offset for offset in offsets], pa.int64()),
            pa.array([0] * len(offsets), pa.int8()),
            pa.array([b"%d" % offset for offset in offsets], pa.binary()),
            pa.array([None if offset % 3 else b"" for offset in offsets], pa.binary()),
            pa.array([[(b"h", None), (b"h", b"%d" % offset)] * (offset % 3) for offset in offsets], HEADERS),
        ],
        schema=SCHEMA,
    )
    with place.scratch() as scratch, LevelZeroWriter(place, scratch, [coverage]) as writer:
        for number in range(0, len(offsets), at_once):
            writer.add(PartitionRows("t", 0, rows.slice(number, at_once)))
        return [one.segment for one in writer.close()]


class Chained:
    """Stands for a chain of commits; `state` is what it says when it is read."""

    layout = "gapless"

    def __init__(self, state: TopicState) -> None:
        self.state = state

    def is_newest(self, state: TopicState) -> bool:
        return state is self.state

    def load(self) -> TopicState:
        return self.state


def state_of(segments: Iterable[Segment]) -> TopicState:
    state = TopicState()
    state.apply(
        Entry(
            sequence=1,
            epoch=1,
            writer="w",
            at="2026-11-22T10:00:00Z",
            action="archive",
            region="r",
            topic="t",
            topic_id="i",
            cluster_id="c",
            added=tuple(segments),
        )
    )
    return state


def archive(place: Place, segments: Iterable[Segment], later: Iterable[Segment] | None = None) -> TopicArchive:
    """An archive of segments, and of others when its chain is read again."""
    state = state_of(segments)
    chain: Any = Chained(state if later is None else state_of(later))
    return TopicArchive(place, chain, state)


def shape(found: Iterable[Any]) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(type(each).__name__, [tuple(each) for each in each.ranges]) for each in found]


def place_in(folder: Path) -> Place:
    return open_place(parse_place(str(folder)), S3Access())


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 59)), st.sets(st.integers(0, 59)), st.integers(1, 7), st.sampled_from(LIMITS))
def test_each_record_comes_once_in_order_with_all_offsets_behind_it(
    tmp_path_factory: Any, held: set[int], done: set[int], most: int, limits: Limits
) -> None:
    place = place_in(tmp_path_factory.mktemp("archive"))
    parts = [
        write(place, sorted(o for o in held if first <= o < first + 20), first, first + 20) for first in (0, 20, 40)
    ]
    found = archive(place, [segment for part in parts for segment in part])
    wanted = OffsetRanges([(0, 59)]) - OffsetRanges.of_offsets(sorted(done))
    behind, offsets = OffsetRanges(), []
    for part in prepare_records(read_ranges(found, 0, wanted, limits), most):
        assert not isinstance(part, Unreadable)
        assert not (behind and part.ranges.first_offset <= behind.last_offset)
        behind |= part.ranges
        if part.columns is None:
            continue
        assert len(part.columns.offsets) <= most
        for number, offset in enumerate(part.columns.offsets):
            assert offset in part.ranges
            assert part.columns.keys[number] == b"%d" % offset
            assert part.columns.values[number] == (None if offset % 3 else b"")
            assert part.columns.timestamps[number] == (None if offset % 4 == 0 else offset)
            headers = list((part.columns.headers or [()] * (number + 1))[number])
            assert headers == [(b"h", None), (b"h", b"%d" % offset)] * (offset % 3)
        offsets += part.columns.offsets
    assert behind == wanted
    expected = sorted(held & {offset for first, last in wanted for offset in range(first, last + 1)})
    assert offsets == [offset for offset in expected if not limits.by_time or (offset % 4 and 10 <= offset < 50)]


def test_a_damaged_segment_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    segments = [
        segment for first in (0, 10, 20) for segment in write(place, range(first, first + 10), first, first + 10)
    ]
    (tmp_path / segments[1].object).write_bytes(b"no Parquet")
    found = list(read_ranges(archive(place, segments), 0, OffsetRanges([(5, 27)]), Limits()))
    unreadable = [each for each in found if isinstance(each, Unreadable)]
    assert [each.ranges for each in unreadable] == [OffsetRanges([(10, 19)])]
    assert segments[1].object in unreadable[0].reason
    assert [each.ranges for each in found] == [
        OffsetRanges([(5, 9)]),
        OffsetRanges([(10, 19)]),
        OffsetRanges([(20, 27)]),
    ]


def test_another_segment_takes_the_place_of_a_damaged_one(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    long, short = write(place, range(30), 0, 30)[0], write(place, range(10, 20), 10, 20)[0]
    (tmp_path / long.object).unlink()
    found = list(read_ranges(archive(place, [long, short]), 0, OffsetRanges([(0, 29)]), Limits()))
    assert [(type(each).__name__, list(each.ranges)) for each in found] == [
        ("Unreadable", [(0, 9)]),
        ("Readable", [(10, 19)]),
        ("Unreadable", [(20, 29)]),
    ]


def test_only_the_damaged_row_group_of_a_segment_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_buffer, "ROW_GROUP_BYTES", 1)
    place = place_in(tmp_path)
    (segment,) = write(place, [*range(12), *range(20, 40)], 0, 50, at_once=10)
    assert [(group.first, group.last) for group in segment.row_groups] == [(0, 9), (10, 27), (28, 37), (38, 39)]
    damage(tmp_path / segment.object, row_group=1)
    found = list(read_ranges(archive(place, [segment]), 0, OffsetRanges([(5, 13), (15, 45)]), Limits()))
    assert shape(found) == [
        ("Readable", [(5, 9)]),
        ("Unreadable", [(10, 13), (15, 27)]),
        ("Readable", [(28, 37)]),
        ("Readable", [(38, 39)]),
        ("Readable", [(40, 45)]),
    ]


def test_other_segments_of_a_damaged_object_are_read(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    segments = write(place, range(30), 0, 30, segment=10)
    assert len({segment.object for segment in segments}) == 1
    damage(tmp_path / segments[0].object, row_group=1)
    found = list(read_ranges(archive(place, segments), 0, OffsetRanges([(0, 29)]), Limits()))
    assert shape(found) == [("Readable", [(0, 9)]), ("Unreadable", [(10, 19)]), ("Readable", [(20, 29)])]


def test_segments_that_compaction_has_joined_meanwhile_are_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_STATE_AGE_SECONDS", 0)
    place = place_in(tmp_path)
    small = [segment for first in (0, 10, 20) for segment in write(place, range(first, first + 10), first, first + 10)]
    joined, newer = write(place, range(20), 0, 20), write(place, range(20, 30), 20, 30)
    found = read_ranges(archive(place, small, later=[*joined, *newer]), 0, OffsetRanges([(0, 29)]), Limits())
    assert next(found).ranges == OffsetRanges([(0, 9)])
    for segment in small:
        (tmp_path / segment.object).unlink()
    assert shape(found) == [("Readable", [(10, 19)]), ("Readable", [(20, 29)])]


def damage(file: Path, *, row_group: int) -> None:
    """Flip a bit in the values of a row group."""
    about = pq.read_metadata(file).row_group(row_group)
    (column,) = [
        about.column(n) for n in range(about.num_columns) if about.column(n).path_in_schema in {"value", "key"}
    ][:1]
    content = bytearray(file.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    file.write_bytes(content)


def test_offsets_that_no_segment_has_are_unreadable(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    found = list(read_ranges(archive(place, write(place, [3], 0, 5)), 0, OffsetRanges([(0, 9)]), Limits()))
    assert [(type(each).__name__, list(each.ranges)) for each in found] == [
        ("Readable", [(0, 3)]),
        ("Readable", [(4, 4)]),
        ("Unreadable", [(5, 9)]),
    ]
