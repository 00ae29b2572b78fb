"""The proof that single values are read by their pages as pyarrow reads all of them, or not at all."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.segments import values as values_module
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.pages import Column, UnsupportedPagesError, decode_page, find_columns, read_values_at
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError
from gapless_archive.segments.rows import SCHEMA, content_bytes
from gapless_archive.segments.values import read_segment_values
from gapless_archive.segments.writer import ObjectWriter, page_size_for
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.machine.examples import examples

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment


class Object:
    """A segment in a folder, and how many bytes of it are read."""

    def __init__(self, folder: Path, values: Sequence[bytes | None], in_group: int, other: int = 0) -> None:
        """Write `values`; each row group begins with `other` rows of another partition."""
        folder.mkdir(exist_ok=True)
        self.place: Place = open_place(parse_place(str(folder / "place")), S3Access())
        self.file = folder / "place" / "object"
        self.bytes_read = 0
        writer, builder = ObjectWriter(folder / "written"), SegmentBuilder(7, 100)
        for start in range(0, len(values), in_group):
            parts = [rows(6, start, [b"other"] * other)] if other else []
            parts.append(rows(7, 100 + start, values[start : start + in_group]))
            placed = writer.write(parts, sum(map(content_bytes, parts)))
            builder.add(parts[-1])
            builder.add_row_group(placed[-1])
        size = writer.close()
        self.place.put("object", folder / "written")
        origin = Origin(log_start=0, high_watermark=2**62, epoch=1)
        self.segment: Segment = builder.build("object", size, 100 + len(values), origin)
        self.stored_bytes = size

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        found = self.place.read_ranges(key, spans)
        self.bytes_read += sum(map(len, found))
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self.place, name)

    def read(self, wanted: OffsetRanges) -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        for some in read_segment_values(self, self.segment, wanted):  # type: ignore[arg-type]
            assert [1000 + offset for offset in some.offsets] == some.timestamps
            found.update(zip(some.offsets, some.values, strict=True))
        return found


def rows(partition: int, first: int, values: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": partition,
                "offset": first + number,
                "timestamp": 1000 + first + number,
                "timestamp_type": 0,
                "key": b"key",
                "value": value,
                "headers": [],
            }
            for number, value in enumerate(values)
        ],
        schema=SCHEMA,
    )


contents = st.one_of(
    st.none(), st.just(b""), st.binary(max_size=40), st.integers(0, 9000).map(lambda size: b"x" * size)
)


@settings(max_examples=examples(60), deadline=None)
@given(
    some=st.lists(contents, min_size=1, max_size=30),
    times=st.integers(1, 40),
    in_group=st.integers(1, 900),
    other=st.sampled_from([0, 0, 3]),
    data=st.data(),
)
def test_any_values_are_read_as_they_were_written(  # noqa: PLR0917
    some: list[bytes | None],
    times: int,
    in_group: int,
    other: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    values = some * times
    chosen = data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1, max_size=12))
    found = Object(tmp_path_factory.mktemp("object"), values, in_group, other)
    assert found.read(OffsetRanges.of_offsets(100 + row for row in chosen)) == {
        100 + row: values[row] for row in sorted(chosen)
    }
    metadata = pq.read_metadata(found.file)
    columns = find_columns(found.file.read_bytes(), "value")
    assert [column.stored_bytes for column in columns] == [
        metadata.row_group(number).column(5).total_compressed_size for number in range(metadata.num_row_groups)
    ]


def test_offsets_without_holes_and_times_that_nobody_needs_are_not_read(tmp_path: Path) -> None:
    chance = random.Random(4)
    values: list[bytes | None] = [chance.randbytes(40) for _ in range(60_000)]
    found = Object(tmp_path, values, 30_000)
    wanted = OffsetRanges.of_offsets(range(100, 60_000, 9000))
    with_times = found.read(wanted)
    bytes_with_times, found.bytes_read = found.bytes_read, 0
    without = list(read_segment_values(found, found.segment, wanted, times=False))  # type: ignore[arg-type]
    assert [dict(zip(some.offsets, some.values, strict=True)) for some in without] == [
        {offset: value for offset, value in with_times.items() if first <= offset < first + 30_000}
        for first in (100, 30_100)
    ]
    assert {time for some in without for time in some.timestamps} == {None}
    assert found.bytes_read < bytes_with_times

    group = found.segment.row_groups[1]
    lies = replace(group, first=group.first + 5, last=group.last + 5)
    segment = replace(found.segment, row_groups=(lies,))
    with pytest.raises(SegmentDamagedError, match="row group 1 holds 7/30100-60099"):
        list(read_segment_values(found, segment, wanted, times=False))  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [0, 50])
def test_few_records_of_many_are_read_with_few_bytes(other: int, tmp_path: Path) -> None:
    chance = random.Random(1)
    values = [chance.choice([None, b"", chance.randbytes(200), chance.randbytes(300)]) for _ in range(40_000)]
    found = Object(tmp_path, values, 20_000, other)
    chosen = sorted(chance.sample(range(40_000), 40))
    assert list(found.read(OffsetRanges.of_offsets(100 + row for row in chosen)).values()) == [
        values[row] for row in chosen
    ]
    assert found.bytes_read < 0.1 * found.stored_bytes


def test_the_end_of_an_object_is_read_once_and_alone(tmp_path: Path) -> None:
    chance = random.Random(5)
    values: list[bytes | None] = [chance.randbytes(200) for _ in range(2000)]
    found = Object(tmp_path / "few row groups", values, 1000)
    reader = ObjectReader(found, "object")  # type: ignore[arg-type]
    reader.locate_column("value", 0)
    assert found.bytes_read == 16 * 1024

    found = Object(tmp_path / "many row groups", values, 50)
    footer = pq.read_metadata(found.file).serialized_size + 8
    assert footer > 16 * 1024
    reader = ObjectReader(found, "object")  # type: ignore[arg-type]
    reader.locate_column("value", 39)
    assert found.bytes_read == 16 * 1024 + footer
    assert found.read(OffsetRanges([(2050, 2060)])) == {100 + row: values[row] for row in range(1950, 1961)}


def test_pages_are_small_unless_that_costs_compression() -> None:
    chance = random.Random(1)
    noise = [chance.randbytes(200) for _ in range(2000)]
    lines = [
        json.dumps({"level": "INFO", "host": "app-1.example.com", "message": "Order accepted", "id": number}).encode()
        for number in range(4000)
    ]
    assert page_size_for(pa.array(noise, pa.binary())).content_bytes == 6 * 1024
    assert page_size_for(pa.array(lines, pa.binary())).content_bytes > 6 * 1024
    assert page_size_for(pa.array([None, b""], pa.binary())).content_bytes == 6 * 1024
    traced = [
        json.dumps({"level": "INFO", "host": "app-1", "trace": noise[number].hex()[:40], "id": number}).encode() * 2
        for number in range(2000)
    ]
    assert page_size_for(pa.array(traced, pa.binary())).content_bytes == 12 * 1024


def test_a_page_has_some_rows_so_that_compression_is_not_called_too_often() -> None:
    chance = random.Random(1)
    assert page_size_for(pa.array([chance.randbytes(1024) for _ in range(300)], pa.binary())).content_bytes == 24 * 1024
    assert page_size_for(pa.array([chance.randbytes(2048) for _ in range(300)], pa.binary())).content_bytes == 48 * 1024
    assert page_size_for(pa.array([chance.randbytes(9000) for _ in range(40)], pa.binary())).content_bytes == 64 * 1024


@pytest.mark.parametrize(("least", "most", "rows_of_a_page"), [(1024, 1024, 24), (100, 300, 31), (0, 40, 257)])
def test_pages_have_the_size_that_was_chosen(least: int, most: int, rows_of_a_page: int, tmp_path: Path) -> None:
    chance = random.Random(3)
    values = [chance.randbytes(chance.randint(least, most)) for _ in range(5000)]
    found = Object(tmp_path, values, 5000)
    (column,) = find_columns(found.file.read_bytes(), "value")
    lengths: list[int] = []

    def read(spans: Sequence[tuple[int, int]]) -> list[bytes]:
        lengths.extend(length for _, length in spans)
        return found.place.read_ranges("object", spans)

    chosen = range(0, 5000, 1000)
    assert read_values_at(read, column, chosen) == [values[row] for row in chosen]
    pages = lengths[1:]
    assert sum(pages) / len(pages) / ((least + most) / 2 + 4) == pytest.approx(rows_of_a_page, rel=0.3)


def sparse(tmp_path: Path) -> tuple[Object, list[bytes]]:
    chance = random.Random(2)
    values = [chance.randbytes(100) for _ in range(3000)]
    return Object(tmp_path, values, 3000), values


@pytest.mark.parametrize("where", ["page", "index", "footer"])
def test_what_is_damaged_is_never_returned(where: str, tmp_path: Path) -> None:
    found, values = sparse(tmp_path)
    content = bytearray(found.file.read_bytes())
    (column,) = find_columns(bytes(content), "value")
    at = {"page": content.index(values[1500]) + 5, "index": column.index_start + 3, "footer": len(content) - 40}[where]
    content[at] ^= 0x55
    found.file.write_bytes(content)
    try:
        assert found.read(OffsetRanges([(1600, 1600)])) == {1600: values[1500]}
    except SegmentDamagedError as error:
        assert "place/object is damaged" in str(error)  # noqa: PT017 -- both ends are right for index and footer
    else:
        assert where != "page"


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_more_than_an_error(content: bytes) -> None:
    with pytest.raises((UnsupportedPagesError, LookupError, ValueError, TypeError, OSError)):
        decode_page(content)
    with pytest.raises(UnsupportedPagesError):
        find_columns(content + b"PAR1", "value")


@pytest.mark.parametrize(
    "content",
    [
        b"\x19\xf1" + b"\xff" * 8 + b"\x7f",  # a list of 2^63 booleans
        b"\x19\xf7" + b"\xff" * 8 + b"\x7f" + bytes(8),  # and of numbers with eight bytes each
        b"\x16" + b"\xff" * 100_000,  # one number
        b"\x1c" * 100_000,  # structures in each other
    ],
)
def test_what_claims_more_than_there_is_fills_no_memory(content: bytes) -> None:
    with pytest.raises(UnsupportedPagesError):
        find_columns(content + len(content).to_bytes(4, "little") + b"PAR1", "value")
    with pytest.raises(UnsupportedPagesError):
        read_values_at(lambda _spans: [content], Column(0, len(content), 1000, 1), [0])


def test_a_page_that_claims_more_values_or_bytes_than_a_page_has_is_another(tmp_path: Path) -> None:
    found = Object(tmp_path, [None] * 100, 100)
    (column,) = find_columns(found.file.read_bytes(), "value")
    spans: list[tuple[int, int]] = []

    def read(some: Sequence[tuple[int, int]]) -> list[bytes]:
        spans.extend(some)
        return found.place.read_ranges("object", some)

    assert read_values_at(read, column._replace(stored_bytes=10**6), [5]) == [None]
    (page,) = found.place.read_ranges("object", spans[1:])
    assert decode_page(page) == [None] * 100
    hundred = b"\xc8\x01"  # as the format writes it
    assert hundred in page
    for many in (b"\xfe\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"):
        with pytest.raises((UnsupportedPagesError, ValueError)):
            decode_page(page.replace(hundred, many, 1))


def test_an_object_without_an_index_of_pages_is_read_completely(tmp_path: Path) -> None:
    found, values = sparse(tmp_path)
    table = pq.read_table(found.file, schema=SCHEMA)
    pq.write_table(table, found.file, compression="zstd", row_group_size=3000, write_page_checksum=True)
    with pytest.raises(UnsupportedPagesError):
        find_columns(found.file.read_bytes(), "value")
    assert found.read(OffsetRanges([(1600, 1600)])) == {1600: values[1500]}


def test_pages_are_left_alone_where_most_of_them_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, values = sparse(tmp_path)
    (column,) = find_columns(found.file.read_bytes(), "value")

    def read(spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return found.place.read_ranges("object", spans)

    assert read_values_at(read, column, [3, 2999]) == [values[3], values[2999]]
    with pytest.raises(UnsupportedPagesError, match="most of the pages"):
        read_values_at(read, column, range(0, 3000, 40))
    monkeypatch.setattr(values_module, "_MIN_ROWS_PER_SELECTED", 1)
    every = OffsetRanges.of_offsets(range(100, 3100, 40))
    assert found.read(every) == {100 + row: values[row] for row in range(0, 3000, 40)}
