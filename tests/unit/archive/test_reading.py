import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.chain import Chain
from gapless_archive.catalog.entry import RowGroup, Segment
from gapless_archive.catalog.state import TopicState
from gapless_archive.reading import TopicArchive, choose_pieces
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError, read_segment
from gapless_archive.segments.rows import SCHEMA
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.story.segments import segment_with

OBJECT = "r/t/ID/level-0/00000001-aa.parquet"
EMPTY = segment_with(object=OBJECT, partition=3)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def rows(offsets: list[int], partition: int = 3, padding: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": partition,
                "offset": offset,
                "value": b"value %d" % offset + random.randbytes(padding),
                "headers": [],
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def written(place: Place, *groups: list[int], padding: int = 0) -> Segment:
    """Keep records with these offsets, those of each list in a row group."""
    with place.scratch() as folder:
        with pq.ParquetWriter(folder / "object", SCHEMA, compression="zstd", write_page_checksum=True) as writer:
            for offsets in groups:
                writer.write_batch(rows(offsets, padding=padding))
        place.put(OBJECT, folder / "object")
    index = tuple(RowGroup(number, 0, len(offsets), offsets[0], offsets[-1]) for number, offsets in enumerate(groups))
    count = sum(map(len, groups))
    return replace(EMPTY, first=groups[0][0], end=groups[-1][-1] + 1, records=count, row_groups=index)


def read(place: Place, segment: Segment, wanted: OffsetRanges | None = None) -> list[int]:
    return [offset for some in read_segment(place, segment, wanted) for offset in some.column("offset").to_pylist()]


def test_all_records_of_a_segment_come_in_their_order(place: Place) -> None:
    segment = written(place, [0, 1, 5], [7, 9])
    assert read(place, segment) == [0, 1, 5, 7, 9]


def test_only_what_is_wanted_comes(place: Place) -> None:
    segment = written(place, [0, 1, 5], [7, 9])
    assert read(place, segment, OffsetRanges([(1, 4), (9, 20)])) == [1, 9]
    assert read(place, segment, OffsetRanges([(2, 4), (10, 20)])) == []


def test_row_groups_that_nobody_wants_are_not_read(place: Place) -> None:
    segment = written(place, *(list(range(start, start + 100)) for start in range(0, 5000, 100)), padding=1000)
    size = place.size(OBJECT) or 0

    class Counting:
        read = 0

        def __getattr__(self, name: str) -> object:
            return getattr(place, name)

        def read_ranges(self, key: str, spans: list[tuple[int, int]]) -> list[bytes]:
            self.read += sum(length for _, length in spans)
            return place.read_ranges(key, spans)

    counting = Counting()
    assert read(counting, segment, OffsetRanges([(500, 509)])) == list(range(500, 510))  # type: ignore[arg-type]
    assert counting.read < size / 10


def test_rows_of_other_partitions_in_a_row_group_are_left_out(place: Place) -> None:
    with place.scratch() as folder:
        with pq.ParquetWriter(folder / "object", SCHEMA) as writer:
            writer.write_table(pa.Table.from_batches([rows([5, 6], 2), rows([1, 2], 3)]))
        place.put(OBJECT, folder / "object")
    segment = replace(EMPTY, first=0, end=3, records=2, row_groups=(RowGroup(0, 2, 2, 1, 2),))
    assert read(place, segment) == [1, 2]


def test_a_missing_object_is_named(place: Place) -> None:
    segment = written(place, [0])
    place.delete(OBJECT)
    with pytest.raises(SegmentDamagedError, match=r"00000001-aa\.parquet is missing; restore it from a backup"):
        read(place, segment)


def test_a_manifest_that_lists_something_else_is_noticed(place: Place) -> None:
    segment = written(place, [0, 1])
    for wrong in (RowGroup(0, 0, 3, 0, 1), RowGroup(0, 0, 2, 0, 2), RowGroup(1, 0, 2, 0, 1)):
        with pytest.raises(SegmentDamagedError, match="is damaged"):
            read(place, replace(segment, row_groups=(wrong,)))
    with pytest.raises(SegmentDamagedError, match="holds 3/0-1"):
        read(place, replace(segment, partition=4))


def test_a_changed_byte_is_noticed_wherever_it_is(place: Place, tmp_path: Path) -> None:
    segment = written(place, list(range(50)), list(range(50, 100)))
    whole = (tmp_path / OBJECT).read_bytes()
    right = list(range(100))
    unnoticed = []
    for at in range(4, len(whole), 7):
        (tmp_path / OBJECT).write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            if read(place, segment) != right:
                unnoticed.append(at)
        except SegmentDamagedError:
            pass
    assert unnoticed == []


@pytest.mark.parametrize("length", [0, 3, 8, 200])
def test_a_cut_object_is_noticed(place: Place, tmp_path: Path, length: int) -> None:
    segment = written(place, list(range(100)))
    (tmp_path / OBJECT).write_bytes((tmp_path / OBJECT).read_bytes()[:length])
    with pytest.raises(SegmentDamagedError, match="is damaged"):
        ObjectReader(place, OBJECT)
    with pytest.raises(SegmentDamagedError, match="is damaged"):
        read(place, segment)


BOUNDS = st.tuples(st.integers(0, 60), st.integers(1, 20))


@given(st.lists(BOUNDS, max_size=8), st.lists(BOUNDS, min_size=1, max_size=8))
def test_each_wanted_offset_that_is_covered_is_read_once(
    bounds: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    segments = sorted(
        (replace(EMPTY, first=first, end=first + length) for first, length in bounds),
        key=lambda one: (one.first, one.end),
    )
    ranges = OffsetRanges((first, first + length - 1) for first, length in wanted)

    pieces = choose_pieces(segments, ranges)

    chosen = [offset for piece in pieces for part in piece.offsets for offset in range(part.first, part.last + 1)]
    there = {offset for one in segments for offset in range(one.first, one.end)}
    assert chosen == sorted(offset for part in ranges for offset in range(part.first, part.last + 1) if offset in there)
    assert all(
        piece.segment.first <= part.first and part.last < piece.segment.end
        for piece in pieces
        for part in piece.offsets
    )


def test_a_damaged_segment_can_be_left_out(place: Place) -> None:
    segment = written(place, [0, 1, 2])
    state = TopicState()
    state._add(segment)
    state._add(replace(segment, object="other", end=2))
    archive = TopicArchive(place, Chain(place, "r", "t", "ID"), state)
    wanted = OffsetRanges([(0, 2)])
    assert [piece.segment.object for piece in archive.pieces(3, wanted)] == [OBJECT]
    left = archive.pieces(3, wanted, without={OBJECT})
    assert [(piece.segment.object, piece.offsets) for piece in left] == [("other", OffsetRanges([(0, 1)]))]
    assert archive.covered(3) == wanted
