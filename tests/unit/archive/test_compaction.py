"""The proof that compaction keeps every record byte for byte, whatever it meets and whenever it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gapless_api.base.errors import LocalStorageError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.entry import Segment, absent_ranges
from gapless_archive.compaction import join as joining
from gapless_archive.compaction.compactor import CompactionOptions, CompactionResult, compact
from gapless_archive.compaction.join import DamagedInput, write_joins
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.output import SegmentOutput
from gapless_archive.compaction.plan import CompactionRules, Join
from gapless_archive.compaction.removal import delete_garbage, delete_orphans, expire, hold
from gapless_archive.compaction.retention import Retention
from gapless_archive.inspection.verification import Verification, verify_topic
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from unit.archive.archives import ID, archived, chain, read

if TYPE_CHECKING:
    from gapless_archive.compaction.read_back import ExpectedRecords

NO_GRACE = timedelta(0)
LATER = timedelta(hours=2)
OPTIONS = CompactionOptions(
    rules=CompactionRules(min_segment_count=2, min_segment_bytes=0, min_segment_age=NO_GRACE), grace_period=NO_GRACE
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def run(place: Place, options: CompactionOptions = OPTIONS, **more: object) -> CompactionResult:
    return compact([chain(place)], options, lambda _: LocalRunner(lambda _: place, max_row_group_records=50), **more)  # type: ignore[arg-type]


def test_records_are_the_same_after_compaction_and_old_objects_are_gone(place: Place) -> None:
    for first in range(0, 400, 40):
        archived(place, {0: (first, first + 40), 1: (first, first + 40), 3: (first, first + 40)}, lacking=range(30, 50))
    before = {partition: read(place, partition) for partition in (0, 1, 3)}

    result = run(place)

    assert (result.inputs, result.outputs, result.damaged, result.skipped) == (30, 3, [], 0)
    assert (result.deleted, result.waiting) == (10, 0)
    state = chain(place).load()
    for partition, table in before.items():
        assert read(place, partition).equals(table)
        (segment,) = state.segments(partition)
        assert (segment.first, segment.end, segment.level) == (0, 400, 1)
        assert absent_ranges(segment.absent) == OffsetRanges([(30, 49)])
        assert segment.object.startswith(f"r/t/{ID}/{partition}/1/{0:020d}-{399:020d}-")
        assert all(group.rows <= 50 for group in segment.row_groups)
    assert {key for key in place.keys("") if "chain" not in key} == state.objects
    assert state.head(0) == 400
    assert verified(place).damaged == []


def verified(place: Place) -> Verification:
    found = Verification()
    verify_topic(chain(place), chain(place).load(), found)
    return found


def test_what_is_compacted_during_a_verification_is_verified_where_it_is_then(place: Place) -> None:
    for first in range(0, 40, 10):
        archived(place, dict.fromkeys(range(2), (first, first + 10)))
    before, found = chain(place).load(), Verification()
    run(place, replace(OPTIONS, partitions=frozenset({0})))
    run(place)
    assert not {segment.object for segment in before.all_segments()} & set(place.keys(""))
    verify_topic(chain(place), before, found)
    assert (found.damaged, found.segments, found.objects, found.records) == ([], 2, 2, 80)


def test_partitions_of_markers_alone_become_one_segment_without_an_object(place: Place) -> None:
    for first in range(0, 30, 10):
        archived(place, {0: (first, first + 10)}, lacking=range(30))
    assert run(place).outputs == 1
    (segment,) = chain(place).load().segments(0)
    assert (segment.object, segment.first, segment.end, segment.records, segment.level) == ("", 0, 30, 0, 1)


def test_the_end_of_a_segment_inside_another_does_not_become_that_of_the_new_one(place: Place) -> None:
    """The peer takes the end of the last input: here 14, and records up to 19 are hidden."""
    for first, end in ((0, 10), (10, 20), (12, 15)):
        archived(place, {0: (first, end)})
    before = read(place, 0)
    assert run(place).outputs == 1
    (segment,) = chain(place).load().segments(0)
    assert (segment.first, segment.end, segment.records) == (0, 20, 20)
    assert read(place, 0).equals(before)


def test_levels_go_up(place: Place) -> None:
    rules = replace(OPTIONS.rules, max_level=1)
    for first in range(0, 40, 10):
        archived(place, {0: (first, first + 10)})
        if first == 10:
            run(place)
    assert [one.level for one in chain(place).load().segments(0)] == [1, 0, 0]
    before = read(place, 0)
    run(place, replace(OPTIONS, rules=rules))
    (segment,) = chain(place).load().segments(0)
    assert segment.level == 2
    assert read(place, 0).equals(before)


def damage(tmp_path: Path, segment: Segment) -> None:
    file = tmp_path / segment.object
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x40
    file.write_bytes(content)


def test_a_damaged_input_is_named_and_those_beside_it_are_joined(place: Place, tmp_path: Path) -> None:
    for partition in (0, 1):
        for first in range(0, 1200, 200):
            (made,) = archived(place, {partition: (first, first + 200)})
            if (partition, first) == (0, 600):
                broken = made
    damage(tmp_path, broken)

    result = run(place)

    assert (result.outputs, len(result.damaged)) == (3, 1)
    assert broken.object in result.damaged[0]
    state = chain(place).load()
    assert [(one.first, one.end, one.level) for one in state.segments(0)] == [
        (0, 600, 1),
        (600, 800, 0),
        (800, 1200, 1),
    ]
    assert {key for key in place.keys("") if "chain" not in key} == state.objects
    found = verified(place)
    assert [(one.object, one.affected[0][:2]) for one in found.damaged] == [(broken.object, (0, 600))]
    assert found.records == 1000 + 1200
    assert (run(place).outputs, run(place).damaged) == (0, [])


def test_an_input_whose_manifest_lies_is_named(place: Place) -> None:
    made = [archived(place, {0: (first, first + 10)})[0] for first in (0, 10)]
    wrong = replace(made[1], digest="sha256:" + "0" * 64)
    (found,) = write_joins(place, f"r/t/{ID}", [Join((made[0], wrong))])
    assert isinstance(found, DamagedInput)
    assert found.index == 1
    assert f"{made[1].object} is damaged" in found.message
    assert "its digest is" in found.message
    (found,) = write_joins(place, f"r/t/{ID}", [Join((made[0], replace(made[1], row_groups=())))])
    assert isinstance(found, DamagedInput)
    assert found.index == 1


def test_an_output_that_cannot_be_read_back_is_not_committed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (0, 200):
        archived(place, {0: (first, first + 200)})
    read_back = joining.read_back

    def damaged_on_disk(where: Place, segment: Segment, expected: Sequence[ExpectedRecords]) -> Segment:
        damage(tmp_path, segment)
        return read_back(where, segment, expected)

    monkeypatch.setattr(joining, "read_back", damaged_on_disk)
    result = run(place)
    assert len(result.damaged) == 1
    assert len(chain(place).load().segments(0)) == 2
    assert {key for key in place.keys("") if "chain" not in key} == chain(place).load().objects


@pytest.mark.parametrize("column", ["timestamp", "value"])
@pytest.mark.parametrize("firsts", [(0, 200, 400), (0, 200, 300)])
def test_an_output_with_other_content_than_the_inputs_is_not_committed(
    place: Place, monkeypatch: pytest.MonkeyPatch, column: str, firsts: tuple[int, ...]
) -> None:
    """Its pages are intact, and count, bytes and offsets are right."""
    for first in firsts:
        archived(place, {0: (first, first + 200)})
    before = chain(place).load().segments(0)
    add = SegmentOutput.add

    def turned(output: SegmentOutput, rows: pa.RecordBatch) -> None:
        number = rows.schema.get_field_index(column)
        changed = rows.column(column).take(pa.array(range(rows.num_rows - 1, -1, -1)))
        add(output, rows.set_column(number, rows.schema.field(number), changed))

    monkeypatch.setattr(SegmentOutput, "add", turned)
    result = run(place)
    (sentence,) = result.damaged
    assert "was not what was written (" in sentence
    assert sentence.endswith("run this again.")
    assert chain(place).load().segments(0) == before
    assert {key for key in place.keys("") if "chain" not in key} == chain(place).load().objects

    monkeypatch.undo()
    assert run(place).outputs == 1
    assert verified(place).damaged == []


_COMPACT = """
import sys
from datetime import timedelta
from gapless_archive.catalog.chain import Chain
from gapless_archive.compaction.compactor import CompactionOptions, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
place = open_place(parse_place(sys.argv[1]), S3Access())
rules = CompactionRules(min_segment_count=2, min_segment_bytes=0, min_segment_age=timedelta(0))
chains = [Chain(place, "r", "t", sys.argv[2])]
result = compact(chains, CompactionOptions(rules=rules), lambda _: LocalRunner(lambda _: place))
print(result.outputs, result.records, "pandas" in sys.modules)
"""


def test_an_installed_pandas_is_not_imported_which_costs_time_and_memory(place: Place, tmp_path: Path) -> None:
    for first in range(0, 100, 10):
        archived(place, {0: (first, first + 10)}, lacking=range(33, 35))
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "pandas.py").touch()
    command = [sys.executable, "-c", _COMPACT, str(tmp_path), ID]
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ended = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    assert ended.stdout.split() == ["1", "98", "False"]


def test_a_full_disk_leaves_nothing_behind(place: Place) -> None:
    for first in (0, 10):
        archived(place, {0: (first, first + 10)})

    class Full:
        def __getattr__(self, name: str) -> object:
            return getattr(place, name)

        def put(self, key: str, file: Path) -> None:
            place.put(key, file)
            raise LocalStorageError("full")

    with pytest.raises(LocalStorageError):
        compact([chain(place)], OPTIONS, lambda _: LocalRunner(lambda _: Full()))  # type: ignore[arg-type, return-value]
    assert {key for key in place.keys("") if "chain" not in key} == chain(place).load().objects


def test_of_two_compactors_one_commits_and_the_other_leaves_nothing(place: Place) -> None:
    for first in range(0, 40, 10):
        archived(place, {0: (first, first + 10)})
    before = read(place, 0)

    class Meanwhile(LocalRunner):
        def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
            made = super().run(prefix, joins)
            assert run(place).outputs == 1
            return made

    result = compact([chain(place)], OPTIONS, lambda _: Meanwhile(lambda _: place))
    assert (result.outputs, result.skipped) == (0, 1)
    state = chain(place).load()
    assert len(state.segments(0)) == 1
    assert {key for key in place.keys("") if "chain" not in key} == state.objects
    assert read(place, 0).equals(before)


def test_what_another_compactor_has_joined_and_deleted_is_not_damaged(place: Place) -> None:
    for first in range(0, 40, 10):
        archived(place, {0: (first, first + 10)})

    class Late(LocalRunner):
        def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
            assert run(place).deleted == 4
            return super().run(prefix, joins)

    result = compact([chain(place)], OPTIONS, lambda _: Late(lambda _: place))
    assert (result.outputs, result.skipped, result.damaged) == (0, 1, [])


def test_archiving_goes_on_beside_compaction(place: Place) -> None:
    for first in range(0, 40, 10):
        archived(place, {0: (first, first + 10)})

    class Meanwhile(LocalRunner):
        def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
            made = super().run(prefix, joins)
            archived(place, {0: (40, 50)})
            return made

    assert compact([chain(place)], OPTIONS, lambda _: Meanwhile(lambda _: place)).outputs == 1
    assert [(one.first, one.end) for one in chain(place).load().segments(0)] == [(0, 40), (40, 50)]
    assert read(place, 0)["offset"].to_pylist() == list(range(50))


def test_objects_stay_for_the_grace_period_and_when_told_so(place: Place) -> None:
    for first in (0, 10):
        archived(place, {0: (first, first + 10)})
    options = replace(OPTIONS, grace_period=timedelta(hours=1))
    result = run(place, options)
    assert (result.deleted, result.waiting) == (0, 2)
    result = run(place, replace(options, delete=False), clock=lambda: datetime.now(UTC) + LATER)
    assert (result.deleted, result.waiting) == (0, 2)
    result = run(place, options, clock=lambda: datetime.now(UTC) + LATER)
    assert (result.deleted, result.waiting) == (2, 0)
    assert len([key for key in place.keys("") if "chain" not in key]) == 1


def test_an_object_that_other_segments_need_stays(place: Place) -> None:
    for first in (0, 10):
        archived(place, {0: (first, first + 10), 1: (first, first + 10)})
    result = run(place, replace(OPTIONS, partitions=frozenset([1])))
    assert (result.outputs, result.deleted) == (1, 0)
    assert read(place, 0).num_rows == 20


def test_objects_that_no_commit_names_are_deleted_when_they_are_old(place: Place, tmp_path: Path) -> None:
    (made,) = archived(place, {0: (0, 10)})
    orphan = f"r/t/{ID}/0/1/lost.parquet"
    with place.scratch() as folder:
        (folder / "f").write_bytes(b"x")
        place.put(orphan, folder / "f")
    assert delete_orphans(chain(place), datetime.now(UTC)) == 0
    old = datetime.now(UTC).timestamp() - 25 * 3600
    for key in (orphan, made.object):
        os.utime(tmp_path / key, (old, old))
    assert verified(place).orphans == [orphan]
    assert delete_orphans(chain(place), datetime.now(UTC)) == 1
    assert [key for key in place.keys("") if "chain" not in key] == [made.object]


def test_of_a_topic_that_is_held_nothing_is_deleted(place: Place) -> None:
    for first in (0, 10):
        archived(place, {0: (first, first + 10)})
    assert hold(chain(place), is_held=True)
    assert not hold(chain(place), is_held=True)
    everything = Retention(everything=True)
    assert expire(chain(place), everything, datetime.now(UTC)) == []
    result = run(place)
    assert (result.outputs, result.deleted, result.waiting, result.held) == (1, 0, 2, ["t"])
    assert len([key for key in place.keys("") if "chain" not in key]) == 3

    assert hold(chain(place), is_held=False)
    assert len(expire(chain(place), everything, datetime.now(UTC))) == 1
    assert delete_garbage(chain(place), NO_GRACE, datetime.now(UTC)) == 3
    assert [key for key in place.keys("") if "chain" not in key] == []
    assert chain(place).load().head(0) == 20


def test_row_groups_that_partitions_share_are_read_once(place: Place) -> None:
    partitions = range(20)
    for first in range(0, 30, 10):
        archived(place, dict.fromkeys(partitions, (first, first + 10)))
    before = [read(place, number) for number in partitions]

    class Counting:
        bytes_read = 0

        def __getattr__(self, name: str) -> object:
            return getattr(place, name)

        def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
            if "/level-0/" in key:
                self.bytes_read += sum(length for _, length in spans)
            return place.read_ranges(key, spans)

    counting: Any = Counting()
    inputs = sum(place.size(key) or 0 for key in place.keys("") if "/level-0/" in key)
    assert compact([chain(place)], OPTIONS, lambda _: LocalRunner(lambda _: counting)).outputs == 20
    assert counting.bytes_read < 3 * inputs
    assert all(read(place, number).equals(before[number]) for number in partitions)
