import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import find_chain, generations, regions, topics
from gapless_archive.catalog.chain import Chain, Changes, ConflictError
from gapless_archive.catalog.entry import (
    ENTRY,
    SNAPSHOT,
    Head,
    LostRange,
    ReachedEpoch,
    Segment,
    absent_ranges,
    absent_text,
)
from gapless_archive.catalog.state import ArchiveDamagedError, TopicState, covered_ranges
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.story.segments import segment_with

ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def segment(first: int, end: int, partition: int = 0, **more: object) -> Segment:
    offsets = {"first": first, "end": end, "records": end - first, "high_watermark": end, "partition": partition}
    stored = {"bytes": 100, "stored_bytes": 50, "min_timestamp": 1, "digest": "sha256:00"}
    return segment_with(**({"object": f"r/t/{ID}/{partition}-{first}"} | offsets | stored | more))


def chain(place: Place, topic: str = "t", topic_id: str = ID) -> Chain:
    return Chain(place, "r", topic, topic_id)


def archived(*segments: Segment, epoch: int = 1, **more: object) -> Changes:
    return Changes(action="archive", epoch=epoch, added=segments, **more)  # type: ignore[arg-type]


def test_what_was_committed_is_read_again(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), archived(segment(0, 10), segment(0, 5, 3), partitions=4, configuration={"a": "b"}))
    state = ours.commit(state, archived(segment(10, 20)))

    found = chain(place).load()

    assert found.snapshot() == state.snapshot()
    assert found.segments(0) == (segment(0, 10), segment(10, 20))
    assert (found.head(0), found.head(1), found.head(3)) == (20, None, 5)
    assert (found.partition_count, found.configuration, found.archive_writer) == (4, {"a": "b"}, ours.writer)


def test_a_commit_that_no_reader_would_accept_is_not_written(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), archived(segment(0, 10)))

    with pytest.raises(ArchiveDamagedError, match=r"was not written, .*added\[0\].logStart is -1001"):
        ours.commit(state, archived(segment(10, 20, log_start=-1001)))

    assert chain(place).load().segments(0) == (segment(0, 10),)


def test_of_two_programs_that_saw_the_same_one_commits(place: Place) -> None:
    ours, theirs = chain(place), chain(place)
    before, same = ours.load(), theirs.load()
    theirs.commit(same, archived(segment(0, 5)))

    with pytest.raises(ConflictError):
        ours.commit(before, archived(segment(0, 10)))

    assert chain(place).load().segments(0) == (segment(0, 5),)


def test_a_commit_whose_answer_was_lost_is_no_conflict(place: Place) -> None:
    class LosesAnswers:
        def __getattr__(self, name: str) -> object:
            return getattr(place, name)

        def create(self, key: str, content: bytes) -> bool:
            place.create(key, content)
            return place.create(key, content)

    ours = Chain(LosesAnswers(), "r", "t", ID)  # type: ignore[arg-type]
    assert ours.commit(ours.load(), archived(segment(0, 5))).head(0) == 5


def test_compaction_replaces_segments_and_leaves_the_head(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), archived(segment(0, 10), segment(10, 20)))
    joined = segment(0, 20, object="joined", level=1)
    state = ours.commit(state, Changes(action="compact", added=(joined,), removed=state.segments(0)))

    found = chain(place).load()
    assert found.segments(0) == (joined,)
    assert found.head(0) == 20
    assert set(found.garbage) == {segment(0, 10).object, segment(10, 20).object}
    assert ours.commit(found, Changes(action="delete", deleted=tuple(found.garbage))).garbage == {}


def test_an_object_of_several_segments_is_garbage_when_the_last_is_gone(place: Place) -> None:
    ours = chain(place)
    one, other = segment(0, 10, object="both"), segment(0, 10, 1, object="both")
    state = ours.commit(ours.load(), archived(one, other))
    state = ours.commit(state, Changes(action="expire", removed=(one,)))
    assert not state.garbage
    state = ours.commit(state, Changes(action="expire", removed=(other,)))
    assert set(state.garbage) == {"both"}
    assert (state.head(0), state.partitions) == (10, [0, 1])


def test_what_was_lost_moves_the_head(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), archived(lost=(LostRange(0, 0, 100),)))
    assert (state.head(0), state.lost) == (100, (LostRange(0, 0, 100),))


def test_a_later_epoch_takes_over(place: Place) -> None:
    ours, theirs = chain(place), chain(place)
    state = ours.commit(ours.load(), archived(segment(0, 10)))
    assert not state.is_fenced(1, ours.writer)
    theirs.commit(theirs.load(), Changes(action="claim", epoch=2))
    now = ours.load()
    assert now.is_fenced(1, ours.writer)
    assert not now.is_fenced(2, theirs.writer)
    assert now.is_fenced(2, ours.writer)


def test_snapshots_shorten_the_reading(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless_archive.catalog.chain._KEPT_COMMITS", 10)
    ours = chain(place)
    state = ours.load()
    for number in range(200):
        state = ours.commit(state, archived(segment(number, number + 1)))

    names = place.children(f"r/t/{ID}/chain")
    assert f"{192:020d}.snapshot.json" in names
    assert f"{1:020d}.json" not in names
    found = chain(place).load()
    assert found.snapshot() == state.snapshot()
    assert (found.sequence, found.head(0)) == (200, 200)


def test_who_may_not_delete_can_commit_all_the_same(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(key: str) -> None:
        raise ConfigurationError(f"The object {key} cannot be deleted; correct what the credentials may do.")

    monkeypatch.setattr("gapless_archive.catalog.chain._KEPT_COMMITS", 10)
    monkeypatch.setattr(place, "delete", refuse)
    ours = chain(place)
    state = ours.load()
    for number in range(130):
        state = ours.commit(state, archived(segment(number, number + 1)))
    assert chain(place).load().head(0) == 130


def test_a_chain_with_a_hole_is_damaged(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), archived(segment(0, 1)))
    state = ours.commit(state, archived(segment(1, 2)))
    ours.commit(state, archived(segment(2, 3)))
    place.delete(f"r/t/{ID}/chain/{2:020d}.json")
    with pytest.raises(ArchiveDamagedError, match=r"chain/0+2\.json does not exist; restore it from a backup"):
        chain(place).load()


def test_a_list_that_lacks_a_commit_made_meanwhile_hides_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), archived(segment(0, 1)))
    state = ours.commit(state, archived(segment(1, 2)))
    ours.commit(state, archived(segment(2, 3)))
    listed = place.children
    monkeypatch.setattr(
        type(place), "children", lambda _, folder: [one for one in listed(folder) if not one.endswith("2.json")]
    )
    assert chain(place).load().sequence == 3


@pytest.mark.parametrize("content", [b"", b"{}", b'{"gaplessArchive":%d}' % (ENTRY.version + 1), b"\xff"])
def test_a_commit_that_cannot_be_read_is_damaged(place: Place, content: bytes) -> None:
    place.create(f"r/t/{ID}/chain/{1:020d}.json", content)
    with pytest.raises(ArchiveDamagedError, match=rf"0001\.json cannot be read .*version {ENTRY.version}"):
        chain(place).load()


def test_the_leader_epoch_of_a_head_is_that_of_the_commit_that_moved_it(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), replace(archived(segment(0, 5)), reached=(ReachedEpoch(0, 3),)))
    state = ours.commit(state, Changes(action="hold", hold=True))
    for known in (state, chain(place).load(), TopicState.from_snapshot(state.snapshot())):
        assert (known.head(0), known.leader_epoch(0)) == (5, 3)
    state = ours.commit(state, archived(segment(5, 9)))  # from brokers that tell no epoch
    assert (state.head(0), state.leader_epoch(0)) == (9, None)


@pytest.mark.parametrize(
    ("version", "entry", "snapshot"), [(1, ["reached", "predecessors", "started"], ["reached"]), (2, ["started"], [])]
)
def test_commits_and_snapshots_of_earlier_versions_are_read(
    place: Place, version: int, entry: list[str], snapshot: list[str]
) -> None:
    """By what these versions did not have."""
    ours = chain(place)
    state = ours.load()
    for number in range(64):
        state = ours.commit(state, replace(archived(segment(number, number + 1)), reached=(ReachedEpoch(0, 3),)))
    for key in place.keys(""):
        content = json.loads(place.read(key))
        is_snapshot = ".snapshot" in key
        for name in snapshot if is_snapshot else entry:
            del content[name]
        for name in entry:
            content.get("last", {}).pop(name, None)
        form = SNAPSHOT if is_snapshot else ENTRY
        assert content.pop(form.marker) == form.version
        place.delete(key)
        assert place.create(key, json.dumps({form.marker: version, **content}).encode())
    state = chain(place).load()
    assert (state.sequence, state.head(0), state.leader_epoch(0)) == (64, 64, None if version == 1 else 3)
    state = chain(place).commit(state, archived(segment(64, 65)))
    assert (chain(place).load().sequence, state.head(0)) == (65, 65)


def test_a_commit_with_a_field_that_its_version_does_not_have_is_damaged(place: Place) -> None:
    ours = chain(place)
    ours.commit(ours.load(), archived(segment(0, 1)))
    (key,) = place.keys("")
    content = json.loads(place.read(key)) | {ENTRY.marker: ENTRY.version - 1}
    place.delete(key)
    place.create(key, json.dumps(content).encode())
    with pytest.raises(ArchiveDamagedError, match="cannot be read"):
        chain(place).load()


def test_a_partition_without_records_is_archived_from_where_it_began(place: Place) -> None:
    ours = chain(place)
    state = ours.commit(ours.load(), replace(archived(segment(0, 5)), started=(Head(0, 0), Head(1, 7))))
    state = ours.commit(state, replace(archived(), started=(Head(1, 9),)))
    for known in (state, chain(place).load(), TopicState.from_snapshot(state.snapshot())):
        assert (known.head(0), known.head(1), known.partitions) == (5, 7, [0, 1])


def test_the_catalog_finds_regions_topics_and_generations(place: Place) -> None:
    for topic, topic_id, offset in (("a.b", "X", 1), ("a.b", "Y", 2), ("c", "Z", 3), (".d", "Z", 4)):
        ours = chain(place, topic, topic_id)
        ours.commit(ours.load(), archived(segment(0, offset)))
    assert regions(place) == ["r"]
    assert topics(place, "r") == [".d", "a.b", "c"]
    assert generations(place, "r", "a.b") == ["X", "Y"]
    assert find_chain(place, "c").topic_id == "Z"
    assert find_chain(place, "a.b", region="r", topic_id="X").topic_id == "X"


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 1000)), max_size=30))
def test_absent_offsets_are_packed(pairs: list[tuple[int, int]]) -> None:
    ranges = OffsetRanges([(first, first + more) for first, more in pairs])
    assert absent_ranges(absent_text(ranges)) == ranges


def test_absent_offsets_reach_the_end() -> None:
    ranges = OffsetRanges([(0, 0), (MAX_OFFSET - 1, MAX_OFFSET - 1)])
    assert absent_ranges(absent_text(ranges)) == ranges


@pytest.mark.parametrize("text", ["?", "AAAA", absent_text(OffsetRanges([(5, 6)]))[:-4]])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not encoded ranges"):
        absent_ranges(text)


def test_segments_that_touch_or_overlap_cover_one_range() -> None:
    assert covered_ranges([segment(10, 20), segment(0, 10), segment(5, 12), segment(30, 40)]) == [(0, 20), (30, 40)]
