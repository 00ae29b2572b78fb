"""The proof that what Kafka no longer has comes out of an archive once, or is unavailable for the right reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive import reading
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.reading import open_archive
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.rows import SCHEMA, content_bytes
from gapless_archive.segments.writer import ObjectWriter
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from gapless_sender.link.transmitter import BatchSize
from gapless_sender.settings.archive import ArchiveSettings
from gapless_sender.source.archive_source import ArchivedPartition, DamagedObjects
from gapless_sender.source.archived import ArchivedCounts, TopicIdentity
from gapless_sender.source.archived_topics import ArchivedTopics
from gapless_sender.source.plan import FILLED, NOT_REQUESTED, PartitionPlan, Reason
from gapless_sender.source.range_cursor import Chunk, RangeCursor, split_chunk
from gapless_sender.source.requests import MappedPartition
from kit.machine.examples import examples
from kit.story.peer_segments import write_peer_segment

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment

PARTITION = MappedPartition("t", 0, "t", 0)
ID = "AAAAAAAAAAAAAAAAAAAAAA"
ORIGIN = Origin(log_start=0, high_watermark=2**62, epoch=1)


class Archive:
    """An archive in a folder, written by hand."""

    def __init__(self, folder: Path, topic: str = "t", topic_id: str = ID, cluster_id: str = "c") -> None:
        self.folder = folder
        self.place = open_place(parse_place(str(folder)), S3Access())
        self.chain = Chain(self.place, "here", topic, topic_id)
        self.segments: list[Segment] = []
        self._cluster_id = cluster_id
        self._committed = 0

    def add(
        self,
        offsets: Sequence[int],
        first: int,
        end: int,
        *,
        partition: int = 0,
        in_group: int = 3,
        times: dict[int, int | None] | None = None,
    ) -> Segment:
        """Add a segment that covers `first` to `end` (exclusive) and has records at `offsets`."""
        builder = SegmentBuilder(partition, first)
        name = f"{self.chain.prefix}/level-0/{len(self.segments):04d}.parquet" if offsets else ""
        size = 0
        if offsets:
            file = self.folder.parent / f"{self.folder.name}.written"
            writer = ObjectWriter(file)
            for start in range(0, len(offsets), in_group):
                rows = record_rows(partition, offsets[start : start + in_group], times or {})
                builder.add(rows)
                (group,) = writer.write([rows], content_bytes(rows))
                builder.add_row_group(group)
            size = writer.close()
            self.place.put(name, file)
        self.segments.append(builder.build(name, size, end, ORIGIN))
        return self.segments[-1]

    def commit(self) -> None:
        """Commit the segments that were added since the last commit."""
        added, self._committed = tuple(self.segments[self._committed :]), len(self.segments)
        self.chain.commit(
            self.chain.load(),
            Changes(action="archive", epoch=1, cluster_id=self._cluster_id, partitions=1, added=added),
        )

    def join(self, *segments: Segment) -> None:
        """Replace `segments` by the one that was added last, as a compaction does, and delete their objects."""
        self.chain.commit(
            self.chain.load(), Changes(action="compact", added=(self.segments[-1],), removed=tuple(segments))
        )
        for segment in segments:
            self.damage(segment, "missing")

    def damage(self, segment: Segment, how: str) -> None:
        """Remove an object, cut it, or change a byte of the values of the row group with an offset."""
        file = self.folder / segment.object
        content = file.read_bytes()
        if how == "missing":
            file.unlink()
        elif how == "cut":
            file.write_bytes(content[: len(content) // 2])
        else:
            group = next(group.number for group in segment.row_groups if group.first <= int(how) <= group.last)
            values = pq.ParquetFile(file).metadata.row_group(group).column(SCHEMA.get_field_index("value"))
            at = values.data_page_offset + values.total_compressed_size - 2
            file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])

    def partition(self, damage: DamagedObjects | None = None) -> ArchivedPartition:
        return ArchivedPartition(open_archive(self.place, "t"), 0, damage or DamagedObjects())


def value_of(offset: int) -> bytes | None:
    return None if offset % 7 == 0 else b"the value %d of an event" % offset


def record_rows(partition: int, offsets: Sequence[int], times: dict[int, int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": partition,
                "offset": offset,
                "timestamp": times.get(offset, 1000 + offset),
                "timestamp_type": 0,
                "key": b"k",
                "value": value_of(offset),
                "headers": [],
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def cursor(requested: Any, **more: Any) -> RangeCursor:
    ranges = requested if isinstance(requested, OffsetRanges) else OffsetRanges.of_offsets(requested)
    open_from = more.pop("open_from", None)
    return RangeCursor(PartitionPlan(PARTITION, ranges, open_from), 0, **more)


def outcomes(chunks: list[Chunk]) -> dict[int, Any]:
    """What became of each offset: its value, a reason, or "outside"; in the order in which they came, each once."""
    found: dict[int, Any] = {}
    reached = -1
    for chunk in chunks:
        these: dict[int, Any] = dict(zip(chunk.offsets, chunk.values, strict=True))
        assert list(these) == sorted(these)
        for first, last, outcome in chunk.absent:
            these.update(dict.fromkeys(range(first, last + 1), outcome))
        for first, last in chunk.outside:
            these.update(dict.fromkeys(range(first, last + 1), "outside"))
        assert not these.keys() & found.keys()
        assert all(reached < offset < chunk.upto for offset in these)
        reached = max([reached, *these])
        found |= these
    return found


def read(archive: Archive, ranges: RangeCursor, end: int, damage: DamagedObjects | None = None) -> dict[int, Any]:
    return outcomes(list(archive.partition(damage).read(ranges, end)))


@st.composite
def scenes(draw: st.DrawFn) -> tuple[set[int], set[int], list[tuple[int, int]], set[int]]:
    existing = draw(st.sets(st.integers(0, 60), max_size=60))
    requested = draw(st.sets(st.integers(0, 60), min_size=1))
    bounds = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=6))
    segments = [(first, first + length) for first, length in bounds]
    return existing, requested, segments, draw(st.sets(st.sampled_from(range(len(segments) or 1))))


@settings(max_examples=examples(150), deadline=None)
@given(scene=scenes(), end=st.integers(1, 70), how=st.sampled_from(["missing", "cut"]))
def test_each_offset_comes_from_a_segment_that_can_be_read_or_has_its_reason(
    scene: Any, end: int, how: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    existing, requested, bounds, broken = scene
    archive = Archive(tmp_path_factory.mktemp("archive") / "a")
    for first, behind in bounds:
        archive.add(sorted(offset for offset in existing if first <= offset < behind), first, behind)
    archive.commit()
    for number in broken & set(range(len(bounds))):
        if archive.segments[number].object:
            archive.damage(archive.segments[number], how)

    def expected(offset: int) -> Any:
        covering = [number for number, (first, behind) in enumerate(bounds) if first <= offset < behind]
        if not covering:
            return Reason.EXPIRED
        if offset not in existing:
            return Reason.NON_EXISTENT
        return (value_of(offset) or b"") if set(covering) - broken else Reason.ARCHIVE_DAMAGED

    found = read(archive, cursor(requested), end)
    assert found == {offset: expected(offset) for offset in sorted(requested) if offset < end}


def test_only_the_row_group_that_is_damaged_is_lost_and_its_object_is_named_once(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    segment = archive.add(range(12), 0, 12)
    archive.commit()
    archive.damage(segment, "4")
    damage = DamagedObjects()
    found = read(archive, cursor(range(12)), 12, damage)
    assert {offset for offset, outcome in found.items() if outcome == Reason.ARCHIVE_DAMAGED} == {3, 4, 5}
    assert found[11] == value_of(11)
    (noted,) = damage.objects.values()
    assert noted.object == f"{tmp_path}/a/{segment.object}"
    assert noted.object in noted.problem


def test_what_a_damaged_row_group_had_comes_from_another_segment(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    damaged = archive.add(range(12), 0, 12)
    archive.add([2, 3, 5, 6], 2, 7)
    archive.commit()
    archive.damage(damaged, "4")
    found = read(archive, cursor(range(12)), 12)
    assert found == {offset: value_of(offset) or b"" for offset in range(12)} | {4: Reason.NON_EXISTENT}


def test_what_is_archived_while_a_resend_runs_is_found_before_it_counts_as_expired(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    archive.add(range(3), 0, 3)
    archive.commit()
    partition = archive.partition()
    archive.add(range(3, 6), 3, 6)
    archive.commit()
    found = outcomes(list(partition.read(cursor(range(8)), 8)))
    assert found == {offset: value_of(offset) or b"" for offset in range(6)} | dict.fromkeys((6, 7), Reason.EXPIRED)


def test_segments_that_a_compaction_joins_while_a_resend_runs_are_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, damage = Archive(tmp_path / "a"), DamagedObjects()
    joined = [archive.add(range(3), 0, 3), archive.add(range(3, 6), 3, 6)]
    archive.commit()
    reads = archive.partition(damage).read(cursor(range(6)), 6)
    chunks = [next(reads)]
    archive.add(range(6), 0, 6)
    archive.join(*joined)
    monkeypatch.setattr(reading, "MAX_STATE_AGE_SECONDS", 0.0)
    chunks += reads
    assert outcomes(chunks) == {offset: value_of(offset) or b"" for offset in range(6)}
    assert not damage.objects


def test_commits_are_not_read_again_when_there_are_no_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(tmp_path / "a")
    archive.add(range(3), 0, 3)
    archive.commit()
    partition, lists = archive.partition(), list[bool]()
    newest = Chain.is_newest
    monkeypatch.setattr(Chain, "is_newest", lambda *given: lists.append(newest(*given)) or lists[-1])
    monkeypatch.setattr(Chain, "load", lambda _chain: pytest.fail("there is nothing new"))
    for requested in ([0, 1], [0, 4, 6], [1, 5]):
        outcomes(list(partition.read(cursor(requested), 9)))
    assert lists == [True, True], "only where something is not there, once each time"


def test_records_outside_the_time_range_are_told_from_those_in_it_without_reading_segments(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    old = archive.add([0, 1, 3], 0, 5)
    archive.add([5, 6], 5, 7)
    archive.commit()
    archive.damage(old, "missing")
    found = read(archive, cursor(range(7), first_ms=1005, last_ms=1005), 7)
    assert found == {
        0: "outside",
        1: "outside",
        2: Reason.NON_EXISTENT,
        3: "outside",
        4: Reason.NON_EXISTENT,
        5: value_of(5),
        6: "outside",
    }


def test_a_record_without_a_timestamp_is_in_a_time_range_without_a_start(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    archive.add([1, 2], 0, 3, times={1: None, 2: 5000})
    archive.commit()
    assert read(archive, cursor([1, 2], last_ms=4000), 3) == {1: value_of(1), 2: "outside"}
    assert read(archive, cursor([1, 2], first_ms=0), 3) == {1: "outside", 2: value_of(2)}


def test_a_time_range_holds_for_few_records_of_many(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    archive.add(range(2000), 0, 2000, in_group=2000)
    archive.commit()
    found = read(archive, cursor([100, 900, 1900], first_ms=1500, last_ms=2000), 2000)
    assert found == {100: "outside", 900: value_of(900), 1900: "outside"}
    assert read(archive, cursor([100, 1900]), 2000) == {100: value_of(100), 1900: value_of(1900)}


def test_holes_of_the_archive_are_filled_or_not_asked_for_like_those_of_kafka(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    archive.add([1, 4], 0, 6)
    archive.commit()
    filled = read(archive, cursor(range(6), fill={Reason.NON_EXISTENT}, max_filled=lambda: 1), 6)
    assert filled == {0: FILLED, 1: value_of(1), 2: FILLED, 3: FILLED, 4: value_of(4), 5: FILLED}
    assert read(archive, cursor(range(4), open_from=2), 6)[3] == NOT_REQUESTED


def test_records_of_an_archive_are_marked_and_stay_marked(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    archive.add(range(10), 0, 10, in_group=10)
    archive.commit()
    (chunk,) = archive.partition().read(cursor(range(10)), 10)
    assert chunk.from_archive
    cut = list(split_chunk(chunk, lambda: BatchSize(events=4, bytes=10**6)))
    assert [(len(part.offsets), part.from_archive) for part in cut] == [(4, True), (4, True), (2, True)]


def test_the_catalog_says_what_would_be_read(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a")
    archive.add([0, 1, 3], 0, 5)
    archive.add([5, 6], 5, 8)
    archive.commit()
    partition = archive.partition()
    requested = OffsetRanges([(1, 9)])
    held = partition.count(requested, cursor(requested))
    assert (held.events, held.absent, held.outside) == (4, 3, 0)
    assert held.value_bytes == pytest.approx(4 * 22, rel=0.2)
    late = partition.count(requested, cursor(requested, first_ms=1005))
    assert (late.events, late.absent, late.outside) == (2, 3, 2)
    assert [partition.first_since(ms) for ms in (None, 0, 1004, 1006, 1007)] == [0, 0, 5, 5, None]
    assert partition.end == 8
    assert ArchivedCounts() == ArchivedCounts(0, 0, 0, 0.0)


def known(topic: str = "t", topic_id: str | None = ID, *, exists: bool = True) -> TopicIdentity:
    return TopicIdentity(topic, topic_id, "c", exists)


def archived(folder: Path, region: str | None = None) -> ArchivedTopics:
    return ArchivedTopics(ArchiveSettings(parse_place(str(folder)), region, S3Access(), refuse_local=False))


OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBB"


def two_generations(folder: Path) -> None:
    for topic_id, offsets in ((ID, [0, 1]), (OTHER_ID, [0])):
        archive = Archive(folder, topic_id=topic_id)
        archive.add(offsets, 0, 2)
        archive.commit()


def test_the_generation_that_kafka_has_is_read(tmp_path: Path) -> None:
    two_generations(tmp_path / "a")
    for topic_id in (ID, OTHER_ID):
        found = archived(tmp_path / "a").topic(known(topic_id=topic_id))
        assert found is not None
        assert found.chain.topic_id == topic_id


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (known(topic_id="C" * 22), f"has the ID {'C' * 22}, but .* has the IDs {ID}, {OTHER_ID} of it, whose offsets"),
        (known(topic_id=None), f"does not return the ID of the topic t, and .* has the IDs {ID}, {OTHER_ID} of it"),
        (known(topic_id="C" * 22, exists=False), "has the IDs"),
        (known(topic_id=None, exists=False), "no commit proves which one is the newest; choose one with --archive-t"),
    ],
)
def test_another_generation_is_refused(topic: TopicIdentity, message: str, tmp_path: Path) -> None:
    two_generations(tmp_path / "a")
    with pytest.raises(ConfigurationError, match=message):
        archived(tmp_path / "a").topic(topic)


@pytest.mark.parametrize("topic_id", [ID, OTHER_ID])
def test_of_a_topic_that_kafka_no_longer_has_the_chosen_generation_is_read(topic_id: str, tmp_path: Path) -> None:
    two_generations(tmp_path / "a")
    chosen = ArchiveSettings(parse_place(str(tmp_path / "a")), None, S3Access(), refuse_local=False, topic_id=topic_id)
    found = ArchivedTopics(chosen).topic(known(topic_id=None, exists=False))
    assert found is not None
    assert found.chain.topic_id == topic_id
    other = OTHER_ID if topic_id == ID else ID
    current = ArchivedTopics(chosen).topic(known(topic_id=other))
    assert current is not None
    assert current.chain.topic_id == other, "it does not replace the ID that Kafka says"


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    Archive(tmp_path / "a").commit()
    with pytest.raises(ConfigurationError, match="of the cluster c, but this cluster is d"):
        archived(tmp_path / "a").topic(known(topic_id=None, exists=False)._replace(cluster_id="d"))


def test_a_topic_that_kafka_no_longer_has_is_the_one_that_is_known_or_was_archived_last(tmp_path: Path) -> None:
    Archive(tmp_path / "a").commit()
    found = archived(tmp_path / "a").topic(known(topic_id=None, exists=False))
    assert found is not None
    assert archived(tmp_path / "a").topic(known(topic_id=ID, exists=False)) is not None


def test_other_topics_of_an_archive_are_not_looked_through_for_each_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number:02d}" for number in range(20)]
    for name in names:
        Archive(tmp_path / "a", topic=name).commit()
    topics, listed = archived(tmp_path / "a"), list[str]()
    place = type(open_place(parse_place(str(tmp_path / "a")), S3Access()))
    children = place.children
    monkeypatch.setattr(place, "children", lambda self, folder: listed.append(folder) or children(self, folder))
    for name in (*names, "other"):
        topics.topic(known(name))
    assert len(listed) < 10 * len(names)


def test_a_topic_that_is_not_archived_is_no_error_but_an_archive_without_topics_is(tmp_path: Path) -> None:
    Archive(tmp_path / "a").commit()
    assert archived(tmp_path / "a").topic(known("other")) is None
    with pytest.raises(ConfigurationError, match="holds no archived topic of the region there; correct"):
        archived(tmp_path / "a", "there").topic(known())
    with pytest.raises(ConfigurationError, match="holds no archived topic; correct"):
        archived(tmp_path / "b").topic(known())


def test_a_local_store_is_refused_where_local_brokers_are() -> None:
    access = S3Access(endpoint_url="http://169.254.169.254")
    with pytest.raises(ConfigurationError, match="The store"):
        ArchivedTopics(ArchiveSettings(parse_place("s3://bucket/a"), None, access, refuse_local=True))


def test_segments_of_kafka_replicator_are_read_although_their_topic_id_is_not_known(tmp_path: Path) -> None:
    write_peer_segment(tmp_path, range(10), region="here")
    broken = write_peer_segment(tmp_path, range(10, 20), region="here", footer={"level": "7"})
    write_peer_segment(tmp_path, range(12, 15), region="here", level=1)
    topics = archived(tmp_path)
    partition = topics.partition(known(), 0)
    assert partition is not None
    found = outcomes(list(partition.read(cursor(range(5, 25)), 22)))
    values = {offset: b"value %d" % offset for offset in (*range(5, 10), *range(12, 15))}
    damaged = dict.fromkeys((10, 11, *range(15, 20)), Reason.ARCHIVE_DAMAGED)
    assert found == values | damaged | dict.fromkeys((20, 21), Reason.EXPIRED)
    assert list(topics.damaged.objects) == [broken]
    assert partition.end == 20
    assert partition.first_since(10**15) == 0


def test_times_of_segments_of_kafka_replicator_are_not_known_before_they_are_read(tmp_path: Path) -> None:
    write_peer_segment(tmp_path, range(10), region="here")
    partition = archived(tmp_path).partition(known(topic_id=None), 0)
    assert partition is not None
    since = 1_700_000_000_006
    assert partition.count(OffsetRanges([(0, 9)]), cursor(range(10), first_ms=since)).events == 10
    found = outcomes(list(partition.read(cursor(range(10), first_ms=since), 10)))
    assert [offset for offset, outcome in found.items() if outcome == "outside"] == list(range(6))
    assert found[6] == b"value 6"
