"""The proof of what ``gapless segments`` prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gapless_api.base.errors import ConfigurationError, UndeliveredError
from gapless_archive.catalog.chain import Changes
from gapless_archive.catalog.entry import LostRange
from gapless_archive.cli.segments import segments
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from unit.archive.archives import ID, archived, chain, read


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = open_place(parse_place(str(tmp_path)), S3Access())
    archived(made, {0: (0, 100), 1: (5, 10)})
    ours = chain(made)
    ours.commit(ours.load(), Changes(action="archive", epoch=1, lost=(LostRange(0, 100, 120),)))
    archived(made, {0: (120, 130)}, lacking=[125])
    return made


def run(place: Place, *arguments: str) -> str:
    given = [*arguments, f"--archive={place.name}"]
    return CliRunner().invoke(segments, given, catch_exceptions=False, standalone_mode=False).output


def test_the_list_says_what_is_covered_and_what_was_lost(place: Place) -> None:
    lines = run(place, "list").splitlines()
    assert lines[0].split()[3:] == ["partition", "segments", "levels", "records", "stored", "lost", "covered"]
    assert lines[1].split()[:6] == ["t", ID, "0", "2", "0", "109"]
    assert lines[1].endswith("20  0-99; 120-129")
    assert lines[2].endswith("0  5-9")
    assert lines[3].startswith("114 records of 1 topic in 2 partitions, ")


def test_the_list_as_json(place: Place) -> None:
    found = json.loads(run(place, "list", "--json", "--partitions=0"))
    (partition,) = found["partitions"]
    assert partition["covered"] == [[0, 99], [120, 129]]
    assert (partition["lost"], partition["nextOffset"], partition["held"]) == ([[100, 119]], 130, False)
    assert (partition["records"], partition["segments"], partition["levels"]) == (109, 2, [0])


def test_a_segment_is_shown_by_an_offset_and_by_its_object(place: Place) -> None:
    by_offset = run(place, "show", "t/0/125")
    (segment,) = (one for one in chain(place).load().segments(0) if one.first == 120)
    assert segment.object in by_offset
    assert "absent offsets:  1: 125" in by_offset
    assert run(place, "show", segment.object) == by_offset
    (as_json,) = json.loads(run(place, "show", "t/0/125", "--json"))
    assert (as_json["segment"]["first"], as_json["segment"]["absent"]) == (120, [[125, 125]])
    with pytest.raises(ConfigurationError, match="has no segment t/0/110"):
        run(place, "show", "t/0/110")


def test_a_sound_archive_is_verified(place: Place) -> None:
    assert "114 records with " in run(place, "verify")


def test_damage_is_named_with_the_offsets_that_it_affects(place: Place, tmp_path: Path) -> None:
    first, second = chain(place).load().segments(0)
    (tmp_path / second.object).unlink()
    content = bytearray((tmp_path / first.object).read_bytes())
    content[40] ^= 1
    (tmp_path / first.object).write_bytes(content)
    with pytest.raises(UndeliveredError, match="2 of 3 segments or objects are damaged or missing"):
        run(place, "verify")
    shown = CliRunner().invoke(segments, ["verify", f"--archive={place.name}"]).output
    assert f"{second.object} is missing; restore it from a backup. Affected: 0/120-129." in shown
    assert f"{first.object} is damaged" in shown
    assert "Affected: 0/0-99, 1/5-9." in shown
    found = json.loads(CliRunner().invoke(segments, ["verify", "--json", f"--archive={place.name}"]).output)
    assert {one["object"] for one in found["damaged"]} == {first.object, second.object}


def test_nothing_is_deleted_without_a_clear_order(place: Place) -> None:
    before = read(place, 0)
    with pytest.raises(ConfigurationError, match="Nothing is selected"):
        run(place, "delete")
    with pytest.raises(ConfigurationError, match="--all needs the names of the topics"):
        run(place, "delete", "--all", "--yes")
    with pytest.raises(ConfigurationError, match="there is no terminal for a confirmation; give --yes"):
        run(place, "delete", "--all", "--topics=t")
    plan = run(place, "delete", "--all", "--topics=t", "--plan")
    assert f"t ({ID}), partition 0: 2 segments up to offset 129 with 109 records" in plan
    assert read(place, 0).equals(before)


def test_records_that_are_newer_than_the_least_age_are_not_deleted_however_large_they_are(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="all would remove records that minRetention keeps"):
        run(place, "delete", "--all", "--topics=t", "--yes", "--min-retention=60s")
    with pytest.raises(ConfigurationError, match="olderThan is 59 seconds, and records are kept for at least 60 sec"):
        run(place, "delete", "--older-than=59s", "--yes", "--min-retention=60s")
    assert "Removed 0 segments" in run(place, "delete", "--keep-bytes=0", "--yes", "--min-retention=99999d")
    assert "Removed 3 segments" in run(place, "delete", "--keep-bytes=0", "--yes", "--min-retention=0s")


def test_segments_leave_from_the_beginning(place: Place) -> None:
    stored = chain(place).load().segments(0)[1].stored_bytes
    shown = run(place, "delete", f"--keep-bytes={stored}", "--partitions=0", "--yes", "--grace-period=0")
    assert "Removed 1 segment and deleted 0 objects." in shown  # partition 1 is in the same object
    assert [one.first for one in chain(place).load().segments(0)] == [120]
    assert "Removed 2 segments and deleted 2 objects." in run(
        place, "delete", "--older-than=0s", "--yes", "--grace-period=0"
    )
    assert chain(place).load().head(0) == 130


def test_topics_that_are_held_lose_nothing(place: Place) -> None:
    assert run(place, "hold", "--topics=t") == f"t ({ID}): on hold.\n"
    assert run(place, "hold", "--topics=t") == f"t ({ID}): already on hold.\n"
    assert "on hold; no segments are removed" in run(
        place, "delete", "--all", "--topics=t", "--yes", "--grace-period=0"
    )
    assert "On hold, nothing is deleted: t." in run(place, "list")
    assert read(place, 0).num_rows == 109
    run(place, "release", "--topics=t")
    assert "Removed 3 segments and deleted 2 objects." in run(
        place, "delete", "--all", "--topics=t", "--yes", "--grace-period=0"
    )


def test_wrong_names_are_one_sentence(place: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"has no topic other in the region r; correct the name"):
        run(place, "list", "--topics=other")
    with pytest.raises(ConfigurationError, match="has no topic with the ID X"):
        run(place, "list", "--generation=X")
    assert run(place, "list", "--topics=t*") == run(place, "list")


@pytest.mark.parametrize("named", ["t", "t*", "*", "s*", "other"])
def test_a_refusal_names_no_topic_that_was_not_named(place: Place, named: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        run(place, "list", f"--topics={named}", "--archive-allowed-topics=o*")
    sentence = refused.value.args[0]
    assert named in sentence
    assert "gapless segments list shows" in sentence or "and only o* may be used" in sentence
    assert not {"t", f"{ID}"} & {*sentence.replace(";", " ").split()} - {named}


def test_a_region_without_topics_has_nothing_to_list(tmp_path: Path) -> None:
    shown = CliRunner().invoke(segments, ["list", f"--archive={tmp_path}", "--region=new"], catch_exceptions=False)
    assert shown.output.splitlines()[-1] == "0 records of 0 topics in 0 partitions, 0 B stored."
