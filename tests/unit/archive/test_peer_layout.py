"""The proof that segments in the layout of kafka-replicator are written as its readers expect, and read again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import find_chain, generations, regions, topics
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.catalog.entry import Segment, absent_ranges
from gapless_archive.catalog.peer_keys import next_key_first
from gapless_archive.compaction.compactor import CompactionOptions, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules, Join
from gapless_archive.compaction.removal import find_orphans
from gapless_archive.compaction.retention import Retention
from gapless_archive.inspection.verification import Verification, verify_topic
from gapless_archive.reading import open_archive
from gapless_archive.segments import peer_level_zero, row_buffer
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.peer_adoption import find_foreign_changes
from gapless_archive.segments.peer_level_zero import PeerLevelZeroWriter
from gapless_archive.segments.peer_writer import drop_unstorable
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import SCHEMA, PartitionRows, records_of
from gapless_archive.selection import Selection
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.peer.segment_reader import SegmentReader
from kit.story.peer_segments import peer_key, write_peer_segment
from unit.archive.archives import ID, rows

if TYPE_CHECKING:
    from gapless_archive.compaction.join import DamagedInput

ALL = CompactionRules(min_segment_age=timedelta(0), min_segment_count=2, min_segment_bytes=0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def chain(place: Place) -> Chain:
    return Chain(place, "r", "t", ID, layout="kafka-replicator")


def claimed(place: Place, epoch: int = 1) -> None:
    ours = chain(place)
    ours.commit(ours.load(), Changes(action="claim", epoch=epoch))


def written(
    place: Place,
    parts: dict[int, tuple[int, int]],
    *,
    lacking: Sequence[int] = (),
    most: int = 10**6,
    epoch: int = 1,
    made: Any = rows,
) -> list[Segment]:
    """Write offsets of partitions, from first to end, behind what is archived; nothing is committed."""
    state = chain(place).load()
    origin = Origin(log_start=0, high_watermark=2**62, epoch=epoch, codec="snappy", layout="kafka-replicator")
    coverages = [
        Coverage(
            topic="t",
            partition=partition,
            first=first,
            end=end,
            prefix="r/t",
            limits=Limits(most, 10**9),
            origin=origin,
            key_first=next_key_first(state.segments(partition), first),
        )
        for partition, (first, end) in parts.items()
    ]
    with place.scratch() as scratch, PeerLevelZeroWriter(place, scratch, coverages) as writer:
        for partition, (first, end) in parts.items():
            offsets = [offset for offset in range(first, end) if offset not in lacking]
            if offsets:
                writer.add(PartitionRows("t", partition, made(partition, offsets)))
        return [segment for _, segment in writer.close()]


def archived(place: Place, parts: dict[int, tuple[int, int]], **settings: Any) -> list[Segment]:
    found = written(place, parts, **settings)
    ours = chain(place)
    ours.commit(ours.load(), Changes(action="archive", epoch=settings.get("epoch", 1), added=tuple(found)))
    return found


def read(place: Place, partition: int = 0) -> pa.Table:
    archive = open_archive(place, "t")
    pieces = archive.pieces(partition, archive.covered(partition))
    return pa.Table.from_batches([part for piece in pieces for part in archive.read(piece)], SCHEMA).combine_chunks()


def expected(partition: int, offsets: Sequence[int]) -> pa.Table:
    return pa.Table.from_batches([drop_unstorable(rows(partition, offsets))], SCHEMA)


def test_records_come_back_but_for_null_and_the_type_of_timestamps(place: Place) -> None:
    claimed(place)
    (segment,) = archived(place, {3: (100, 400)})
    assert segment.object == peer_key(3, 0, 100, 399)
    found = read(place, 3)
    assert found.equals(expected(3, range(100, 400)))
    for before, after in zip(records_of(rows(3, range(100, 400))), records_of(found.to_batches()[0]), strict=True):
        assert after.timestamp_type is None
        assert (after.key, after.value) == (before.key or b"", before.value or b"")
        assert after.headers == [(key, value or b"") for key, value in before.headers]
        assert (after.offset, after.timestamp) == (before.offset, before.timestamp)


def test_an_object_has_what_the_reader_of_kafka_replicator_needs(place: Place, tmp_path: Path) -> None:
    """It takes schema elements by their number, and compares the footer with the key."""
    claimed(place)
    (segment,) = archived(place, {0: (0, 40)})
    found = pq.ParquetFile(tmp_path / segment.object)
    elements = [(column.path, column.physical_type, str(column.converted_type)) for column in found.schema]
    assert elements == [
        ("key", "BYTE_ARRAY", "NONE"),
        ("value", "BYTE_ARRAY", "NONE"),
        ("offset", "INT64", "UINT_64"),
        ("timestamp", "INT64", "NONE"),
        ("headers.list.element.key", "BYTE_ARRAY", "NONE"),
        ("headers.list.element.value", "BYTE_ARRAY", "NONE"),
    ]
    assert [column.max_definition_level for column in found.schema] == [0, 0, 0, 0, 1, 1]
    about = found.metadata.row_group(0)
    for number in range(about.num_columns):
        assert about.column(number).compression == "SNAPPY"
        assert set(about.column(number).encodings) <= {"PLAIN", "RLE"}
    footer = found.metadata.metadata
    assert footer.pop(b"createdTimestamp").endswith(b"Z")
    assert footer == {
        b"region": b"r",
        b"topic": b"t",
        b"partition": b"0",
        b"level": b"0",
        b"startOffset": b"0",
        b"endOffset": b"39",
        b"messageCount": b"40",
        b"writer": b"gapless",
    }
    assert found.read(["timestamp"]).column("timestamp")[:2].to_pylist() == [-1_000_000, 1_700_000_000_001_000_000]


def test_the_commits_stand_beside_the_objects(place: Place) -> None:
    claimed(place)
    archived(place, {0: (0, 5)})
    assert place.children("") == ["_gapless", "r"]
    assert place.keys("r") == [peer_key(0, 0, 0, 4)]
    assert (regions(place), topics(place, "r"), generations(place, "r", "t")) == (["r"], ["t"], [ID])
    assert find_chain(place, "t").layout == "kafka-replicator"


def test_offsets_without_a_record_make_no_hole_between_keys(place: Place) -> None:
    """The reader waits a day for an offset that no key covers."""
    claimed(place)
    archived(place, {0: (0, 10)}, lacking=[9])
    archived(place, {0: (10, 20)}, lacking=range(10, 20))
    archived(place, {0: (20, 40)}, lacking=[20, 29, 30, 39], most=9)
    archived(place, {0: (40, 45)})
    keys = place.keys("r")
    assert keys == [peer_key(0, 0, 0, 8), peer_key(0, 0, 9, 31), peer_key(0, 0, 32, 38), peer_key(0, 0, 39, 44)]
    segments = chain(place).load().segments(0)
    assert [(segment.first, segment.end) for segment in segments] == [(0, 10), (10, 20), (20, 32), (32, 40), (40, 45)]
    absent = OffsetRanges(pair for segment in segments for pair in absent_ranges(segment.absent))
    assert list(absent) == [(9, 20), (29, 30), (39, 39)]
    reader = SegmentReader(place.name, "r", "t")
    assert reader.take(0) == [n for n in range(45) if n not in absent_of(absent)]
    assert reader.lost == []


def absent_of(ranges: OffsetRanges) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def test_what_was_lost_is_a_hole_for_both(place: Place) -> None:
    claimed(place)
    archived(place, {0: (0, 10)})
    archived(place, {0: (15, 20)})
    assert place.keys("r") == [peer_key(0, 0, 0, 9), peer_key(0, 0, 15, 19)]
    reader = SegmentReader(place.name, "r", "t")
    assert reader.take(0) == [*range(10), *range(15, 20)]
    assert reader.lost == [(10, 14)]


def test_limits_end_segments_and_many_partitions_are_written_at_once(place: Place) -> None:
    claimed(place)
    parts = {number: (number, number + 25) for number in range(150)}
    found = archived(place, parts, most=10)
    assert len(found) == 450
    for number in (0, 77, 149):
        assert read(place, number).equals(expected(number, range(number, number + 25)))


def test_high_offsets_and_large_records(place: Place) -> None:
    claimed(place)
    first = 2**62

    def large(partition: int, offsets: Sequence[int]) -> pa.RecordBatch:
        made = rows(partition, range(len(offsets)))  # whose timestamps follow from the offsets
        values = pa.array([bytes([offset % 251]) * 1_000_000 for offset in offsets], pa.binary())
        numbers = pa.array(offsets, pa.int64())
        return made.set_column(5, SCHEMA.field("value"), values).set_column(1, SCHEMA.field("offset"), numbers)

    (segment,) = archived(place, {0: (first, first + 30)}, made=large)
    file = pq.ParquetFile(f"{place.name}/{segment.object}")
    assert file.num_row_groups > 3
    found = read(place)
    assert found.column("offset").to_pylist() == list(range(first, first + 30))
    assert found.column("value").to_pylist() == [bytes([n % 251]) * 1_000_000 for n in range(first, first + 30)]


def test_few_records_are_read_without_the_other_row_groups(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from gapless_archive.segments import peer  # noqa: PLC0415 -- where the reader is opened

    claimed(place)
    values = pa.array([random.Random(n).randbytes(100_000) for n in range(300)], pa.binary())
    (segment,) = archived(
        place, {0: (0, 300)}, made=lambda p, o: rows(p, o).set_column(5, SCHEMA.field("value"), values)
    )
    opened = []

    class Kept(peer.ObjectReader):
        def __init__(self, *given: Any, **settings: Any) -> None:
            super().__init__(*given, **settings)
            opened.append(self)

    monkeypatch.setattr(peer, "ObjectReader", Kept)
    archive = open_archive(place, "t")
    (piece,) = archive.pieces(0, OffsetRanges([(200, 201)]))
    assert [values.offsets for values in archive.read_values(piece)] == [[200, 201]]
    assert [record.offset for part in archive.read(piece) for record in records_of(part)] == [200, 201]
    assert [one.bytes_read < segment.stored_bytes / 3 for one in opened] == [True, True]


def test_a_timestamp_that_does_not_fit_is_refused(place: Place) -> None:
    claimed(place)

    def late(partition: int, offsets: Sequence[int]) -> pa.RecordBatch:
        return rows(partition, offsets).set_column(2, SCHEMA.field("timestamp"), pa.array([1, 9_223_372_036_855]))

    with pytest.raises(ConfigurationError, match=r"t/0 has a record at offset 8 with a timestamp after the year 2262"):
        written(place, {0: (7, 9)}, made=late)


def test_what_the_peer_has_written_is_taken_over_and_continued(place: Place) -> None:
    for offsets, level in ((range(10), 1), (range(10, 20), 0), (range(12, 15), 0)):
        write_peer_segment(place.name, offsets, level=level)
    claimed(place)
    ours = chain(place)
    state = ours.load()
    added, removed = find_foreign_changes(ours, state)
    assert (len(added), removed) == (3, [])
    state = ours.commit(state, Changes(action="archive", epoch=1, added=tuple(added)))
    assert state.head(0) == 20
    assert find_foreign_changes(ours, ours.load()) == ([], [])
    archived(place, {0: (20, 30)})
    assert read(place).column("offset").to_pylist() == list(range(30))
    reader = SegmentReader(place.name, "r", "t")
    assert (reader.take(0), reader.lost) == (list(range(30)), [])


def test_what_the_peer_has_joined_since_replaces_the_segments(place: Place) -> None:
    claimed(place)
    archived(place, {0: (0, 10), 1: (0, 5)})
    archived(place, {0: (10, 20)})
    write_peer_segment(place.name, range(20), level=1)
    write_peer_segment(place.name, range(20, 25))
    for first in (0, 10):
        place.delete(peer_key(0, 0, first, first + 9))
    place.delete(peer_key(1, 0, 0, 4))  # nobody has that any more, and it stays listed as damaged
    ours = chain(place)
    added, removed = find_foreign_changes(ours, ours.load())
    assert sorted(segment.object for segment in added) == [peer_key(0, 0, 20, 24), peer_key(0, 1, 0, 19)]
    assert [segment.object for segment in removed] == [peer_key(0, 0, 0, 9), peer_key(0, 0, 10, 19)]


def test_what_was_written_and_not_committed_is_not_taken_over(place: Place) -> None:
    claimed(place)
    written(place, {0: (0, 10)})
    write_peer_segment(place.name, range(5), partition=1)
    ours = chain(place)
    claimed(place, epoch=2)
    added, _ = find_foreign_changes(ours, ours.load())
    assert [segment.partition for segment in added] == [1]
    archived(place, {0: (0, 10)}, epoch=2)
    assert read(place).equals(expected(0, range(10)))


def test_joined_segments_have_the_keys_of_the_peer(place: Place) -> None:
    write_peer_segment(place.name, range(10))
    claimed(place)
    ours = chain(place)
    state = ours.load()
    ours.commit(state, Changes(action="archive", epoch=1, added=tuple(find_foreign_changes(ours, state)[0])))
    archived(place, {0: (10, 20)}, lacking=[19])
    archived(place, {0: (20, 40)}, lacking=[20, 39], most=10)
    before = read(place)
    options = CompactionOptions(rules=ALL, grace_period=timedelta(0))
    result = compact([ours], options, lambda _: LocalRunner(lambda _: place, max_row_group_records=7))
    assert (result.inputs, result.outputs, result.damaged) == (4, 1, [])
    assert place.keys("r") == [peer_key(0, 1, 0, 38)]
    (segment,) = ours.load().segments(0)
    assert (segment.first, segment.end, segment.records, segment.level) == (0, 40, 37, 1)
    assert list(absent_ranges(segment.absent)) == [(19, 20), (39, 39)]
    assert pq.ParquetFile(f"{place.name}/{segment.object}").num_row_groups == 6
    assert read(place).equals(before)
    found = Verification()
    verify_topic(ours, ours.load(), found)
    assert (found.records, found.damaged) == (37, [])
    reader = SegmentReader(place.name, "r", "t")
    assert (len(reader.take(0)), reader.lost) == (37, [])


def test_topics_of_the_peer_beside_ours_are_left_alone_unless_they_are_named(place: Place) -> None:
    claimed(place)
    archived(place, {0: (0, 5)})
    write_peer_segment(place.name, range(5), topic="other")
    all_topics = Selection(address=parse_place(place.name), access=S3Access())
    assert [chain.topic for chain in all_topics.chains(place)] == ["t"]
    assert [chain.topic for chain in all_topics.chains(place, changes=False)] == ["other", "t"]
    with pytest.raises(ConfigurationError, match="r/other was written by kafka-replicator"):
        replace(all_topics, topics=("other", "t")).chains(place)
    with pytest.raises(ConfigurationError, match="r/other was written by kafka-replicator"):
        replace(all_topics, topics=("o*",)).chains(place)


def test_of_two_compactors_none_deletes_what_the_other_has_committed(place: Place) -> None:
    claimed(place)
    for first in (0, 10):
        archived(place, {0: (first, first + 10)})
    before, others = read(place), []
    options = CompactionOptions(rules=ALL, grace_period=timedelta(0))

    class Slow(LocalRunner):
        def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
            found = super().run(prefix, joins)
            others.append(compact([chain(place)], options, lambda _: LocalRunner(lambda _: place)))
            return found

    result = compact([chain(place)], options, lambda _: Slow(lambda _: place))
    assert [(one.outputs, one.skipped) for one in (result, *others)] == [(0, 1), (1, 0)]
    assert place.keys("r") == [peer_key(0, 1, 0, 19)]
    assert read(place).equals(before)


def test_a_damaged_input_is_named_and_the_others_stay(place: Place, tmp_path: Path) -> None:
    claimed(place)
    for first in (0, 10, 20):
        archived(place, {0: (first, first + 10)})
    damaged = tmp_path / peer_key(0, 0, 20, 29)
    content = bytearray(damaged.read_bytes())
    content[40] ^= 1
    damaged.write_bytes(content)
    result = compact([chain(place)], CompactionOptions(rules=ALL), lambda _: LocalRunner(lambda _: place))
    assert len(result.damaged) == 1
    assert str(damaged) in result.damaged[0]
    assert (result.inputs, result.outputs) == (2, 1)


def test_an_input_with_other_records_than_its_manifest_says_is_not_joined(place: Place) -> None:
    claimed(place)
    for first in (0, 10, 20):
        archived(place, {0: (first, first + 10)})
    write_peer_segment(place.name, range(20, 30))
    result = compact([chain(place)], CompactionOptions(rules=ALL), lambda _: LocalRunner(lambda _: place))
    assert "bytes is" in result.damaged[0]
    assert (result.inputs, result.outputs) == (2, 1)


def test_files_that_are_open_at_once_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_level_zero, "_MAX_OPEN_FILES", 2)
    monkeypatch.setattr(row_buffer, "ROW_GROUP_BYTES", 1)
    writes = [list(range(5)), list(range(5, 20))]
    origin = Origin(log_start=0, high_watermark=2**62, epoch=1, codec="snappy", layout="kafka-replicator")
    coverages = [
        Coverage(topic="u", partition=n, first=0, end=20, prefix="r/u", limits=Limits(10**6, 10**9), origin=origin)
        for n in range(5)
    ]
    with place.scratch() as scratch, PeerLevelZeroWriter(place, scratch, coverages) as writer:
        for offsets in writes:
            for number in range(5):
                writer.add(PartitionRows("u", number, rows(number, offsets)))
        segments = [segment for _, segment in writer.close()]
    assert len(segments) > 5  # partitions made room for each other
    for number in range(5):
        ranges = [(one.first, one.end) for one in segments if one.partition == number]
        assert (ranges[0][0], ranges[-1][1]) == (0, 20)


def test_an_object_that_nobody_names_goes_once_it_is_not_written_again(place: Place) -> None:
    claimed(place)
    written(place, {0: (0, 10)})
    write_peer_segment(place.name, range(5), partition=1)
    ours, later = chain(place), datetime.now(UTC) + timedelta(days=2)
    assert find_orphans(ours, timedelta(days=1), later) == []  # the next run may write it again
    archived(place, {0: (0, 8), 1: (5, 9)})
    assert [one.key for one in find_orphans(ours, timedelta(days=1), later)] == [peer_key(0, 0, 0, 9)]
    assert find_orphans(ours, timedelta(days=3), later) == []


def test_retention_removes_segments_and_then_their_objects(place: Place) -> None:
    claimed(place)
    for first in (0, 10):
        archived(place, {0: (first, first + 10)})
    options = CompactionOptions(
        rules=CompactionRules(min_segment_count=9), retention=Retention(keep_bytes=1), grace_period=timedelta(0)
    )
    result = compact([chain(place)], options, lambda _: LocalRunner(lambda _: place))
    assert (result.expired, result.deleted) == (2, 2)
    assert place.keys("r") == []
    assert chain(place).load().head(0) == 20
