"""The proof that readers see what kafka-replicator has written and joined beside the commits of Gapless."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.cli.segments import segments
from gapless_archive.compaction.compactor import CompactionOptions, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules
from gapless_archive.inspection.verification import Verification, verify_topic
from gapless_archive.reading import open_archive
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.peer_adoption import find_foreign_changes, read_state
from gapless_archive.segments.peer_level_zero import PeerLevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import PartitionRows
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.story.peer_segments import peer_key, write_peer_segment
from unit.archive.archives import ID, rows


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def chain(place: Place) -> Chain:
    return Chain(place, "r", "t", ID, layout="kafka-replicator")


def archived(place: Place, first: int, end: int, *, lacking: Sequence[int] = (), key_first: int | None = None) -> None:
    """Archive offsets of partition 0 in the layout of kafka-replicator, as one commit after a claim."""
    ours = chain(place)
    state = ours.load()
    if not state.sequence:
        state = ours.commit(state, Changes(action="claim", epoch=1))
    coverage = Coverage(
        topic="t",
        partition=0,
        first=first,
        end=end,
        prefix="r/t",
        limits=Limits(10**6, 10**9),
        origin=Origin(log_start=0, high_watermark=2**40, epoch=1, codec="snappy", layout="kafka-replicator"),
        key_first=key_first,
    )
    with place.scratch() as scratch, PeerLevelZeroWriter(place, scratch, [coverage]) as writer:
        writer.add(PartitionRows("t", 0, rows(0, [offset for offset in range(first, end) if offset not in lacking])))
        found = tuple(segment for _, segment in writer.close())
    ours.commit(state, Changes(action="archive", epoch=1, added=found))


def adopt(place: Place) -> None:
    """Commit what an archiving program adopts."""
    ours = chain(place)
    state = ours.load()
    added, removed = find_foreign_changes(ours, state)
    ours.commit(state, Changes(action="archive", epoch=1, added=tuple(added), removed=tuple(removed)))


def read(place: Place) -> list[int]:
    archive = open_archive(place, "t")
    pieces = archive.pieces(0, archive.covered(0))
    return [offset for piece in pieces for batch in archive.read(piece) for offset in batch["offset"].to_pylist()]


def verified(place: Place) -> Verification:
    found = open_archive(place, "t").chain
    result = Verification()
    verify_topic(found, read_state(found), result)
    return result


def peer_joins(place: Place, level: int, first: int, last: int, keys: Sequence[str]) -> None:
    """Do what the compaction of kafka-replicator does: join the records of some objects, and delete these."""
    offsets = [offset for offset in read(place) if first <= offset <= last]
    write_peer_segment(place.name, offsets, first=first, last=last, level=level)
    for key in keys:
        place.delete(key)


def run(place: Place, *arguments: str) -> str:
    given = [*arguments, f"--archive={place.name}"]
    return CliRunner().invoke(segments, given, catch_exceptions=False, standalone_mode=False).output


def test_what_the_peer_writes_after_the_last_commit_is_read(place: Place) -> None:
    archived(place, 0, 20)
    archive = open_archive(place, "t")
    write_peer_segment(place.name, range(20, 30))
    write_peer_segment(place.name, range(25, 33))
    write_peer_segment(place.name, range(4), partition=3)
    assert read(place) == list(range(33))
    assert archive.refresh(0, since=float("inf")), "a reader that works for long finds them, too"
    assert archive.covered(0).last_offset == 32
    assert (read_state(chain(place)).head(0), read_state(chain(place)).partitions) == (33, [0, 3])
    assert chain(place).load().head(0) == 20, "nothing is adopted by reading"


def test_what_is_not_in_the_chain_is_named(place: Place) -> None:
    archived(place, 0, 20)
    write_peer_segment(place.name, range(20, 30))
    text = run(place, "list")
    assert "0-29" in text
    assert (
        "t: kafka-replicator has written 1 segment that no commit names (0/20-29); it is read like the "
        "others, and gapless archive --layout=kafka-replicator adopts it." in text
    )
    (partition,) = json.loads(run(place, "list", "--json"))["partitions"]
    assert (partition["covered"], partition["uncommitted"]) == ([[0, 29]], [[20, 29]])
    assert partition["nextOffset"] == 30
    assert "layout kafka-replicator" in run(place, "show", "t/0/25")


def test_after_the_compaction_of_the_peer_nothing_is_missing(place: Place) -> None:
    """A segment of Gapless covers the markers around its records; the key of a joined one does not."""
    for first in range(0, 80, 10):
        archived(place, first, first + 10, lacking=[first, first + 9], key_first=first - 1 if first else 0)
    keys = place.keys("r")
    assert len(keys) == 8
    expected = read(place)
    peer_joins(place, 1, 0, 78, keys)
    assert place.keys("r") == [peer_key(0, 1, 0, 78)]
    result = verified(place)
    assert (result.damaged, result.records) == ([], len(expected))
    assert read(place) == expected
    assert list(open_archive(place, "t").covered(0)) == [(0, 79)], "that a marker has no record is still known"
    adopt(place)
    assert [segment.object for segment in chain(place).load().segments(0)] == [peer_key(0, 1, 0, 78), ""]
    assert verified(place).damaged == []
    assert find_foreign_changes(chain(place), chain(place).load()) == ([], [])
    archived(place, 80, 90)
    assert read(place) == [*expected, *range(80, 90)]


def test_compaction_leaves_what_the_peer_has_changed_until_it_is_adopted(place: Place) -> None:
    options = CompactionOptions(
        rules=CompactionRules(min_segment_age=timedelta(0), min_segment_count=2, min_segment_bytes=0),
        grace_period=timedelta(0),
    )
    runner = LocalRunner(lambda _: place, max_row_group_records=7)
    for first in (0, 10, 20, 30):
        archived(place, first, first + 10)
    peer_joins(place, 1, 0, 19, place.keys("r")[:2])
    result = compact([chain(place)], options, lambda _: runner)
    assert (result.inputs, result.damaged) == (2, []), "the other two are joined"
    assert read(place) == list(range(40))
    adopt(place)
    key = write_peer_segment(place.name, range(40, 60), last=57)
    ours = chain(place)
    short = [each for each in find_foreign_changes(ours, ours.load()).added if each.object == key]
    old = [replace(each, end=58, records=18) for each in short]
    ours.commit(ours.load(), Changes(action="archive", epoch=1, added=tuple(old)))
    write_peer_segment(place.name, range(60, 70))
    compact([chain(place)], options, lambda _: runner)
    assert read(place) == list(range(70)), "what is beyond a key is not cut"


def test_what_nobody_has_any_more_stays_missing(place: Place) -> None:
    archived(place, 0, 10, lacking=[9])
    archived(place, 10, 20)
    write_peer_segment(place.name, range(8), level=1)
    for key in place.keys("r"):
        if "/0/0/" in key:
            place.delete(key)
    assert sorted(damage.object for damage in verified(place).damaged) == [peer_key(0, 0, 0, 8), peer_key(0, 0, 10, 19)]
    adopt(place)
    assert len(verified(place).damaged) == 2


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("committed", [False, True])
def test_an_object_that_holds_offsets_beyond_its_key_is_read_completely(
    place: Place, level: int, *, committed: bool
) -> None:
    """The compaction of kafka-replicator takes the end of a segment that another one contains."""
    if committed:
        archived(place, 0, 1)
    write_peer_segment(place.name, range(20), last=17, level=level)
    assert read(place) == list(range(20))
    if committed:
        adopt(place)
        assert read(place) == list(range(20))
        assert chain(place).load().head(0) == 20
        assert find_foreign_changes(chain(place), chain(place).load()) == ([], [])
    write_peer_segment(place.name, range(25, 30))
    assert read(place) == [*range(20), *range(25, 30)]


def test_a_segment_that_was_adopted_up_to_its_key_is_read_and_adopted_completely(place: Place) -> None:
    """As by earlier releases."""
    archived(place, 0, 1)
    key = write_peer_segment(place.name, range(20), last=17)
    ours = chain(place)
    (listed,), _ = find_foreign_changes(ours, ours.load())
    old = replace(listed, end=18, records=18)
    ours.commit(ours.load(), Changes(action="archive", epoch=1, added=(old,)))
    assert ours.load().head(0) == 18
    assert read(place) == list(range(20))
    adopt(place)
    state = ours.load()
    assert (state.head(0), state.garbage) == (20, {})
    assert [segment.object for segment in state.segments(0)][-1] == key
