"""The proof that ``gapless compact`` loses and repeats nothing on folders and S3, killed, doubled and damaged."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_archive.reading import Piece, TopicArchive, open_archive
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from integration.archive import killed_compaction
from integration.archive.conftest import Archive, in_kafka
from kit.kafka.transactions import end_transaction, in_transaction
from kit.object_store import ObjectStore
from kit.story.commands import GAPLESS
from kit.story.peer_segments import write_peer_segment
from unit.archive.archives import archived, chain, read

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).parent / "gapless"
RULES = ("--min-segment-age=0", "--min-segment-size=0", "--min-segment-count=2", "--grace-period=0")


class Where:
    """An archive, and the arguments by which programs reach it."""

    def __init__(self, text: str, access: tuple[str, ...] = ()) -> None:
        self.text, self.access = text, access
        opened = killed_compaction.access_of(*access) if access else S3Access()
        self.place: Place = open_place(parse_place(text), opened)

    @property
    def arguments(self) -> list[str]:
        names = ("--s3-endpoint", "--s3-access-key-id-file", "--s3-secret-access-key-file")
        return [f"--archive={self.text}", *(f"{name}={each}" for name, each in zip(names, self.access, strict=False))]

    def objects(self) -> set[str]:
        return {key for key in self.place.keys("") if "/chain/" not in key}


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket("archive")
        yield running


@pytest.fixture(params=["folder", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    if request.param == "folder":
        return Where(str(tmp_path / "archive"))
    store: ObjectStore = request.getfixturevalue("store")
    (tmp_path / "access").write_text(store.ACCESS_KEY)
    (tmp_path / "secret").write_text(store.SECRET_KEY)
    access = (store.endpoint, str(tmp_path / "access"), str(tmp_path / "secret"))
    return Where(f"s3://archive/{tmp_path.name}", access)


@pytest.fixture
def full(where: Where) -> Where:
    """Ten commits of two partitions, with markers, in objects that the partitions share."""
    for first in range(0, 200, 20):
        archived(where.place, {0: (first, first + 20), 2: (first, first + 20)}, lacking=range(15, 25))
    return where


def gapless(*arguments: str) -> subprocess.CompletedProcess[str]:
    return GAPLESS.run(*arguments)


def contents(where: Where) -> list[Any]:
    return [read(where.place, partition) for partition in (0, 2)]


def check(where: Where, before: list[Any]) -> None:
    """Everything is compacted, verified, and nothing else is there."""
    assert [table.equals(old) for table, old in zip(contents(where), before, strict=True)] == [True, True]
    state = chain(where.place).load()
    assert [(one.first, one.end, one.level) for one in state.all_segments()] == 2 * [(0, 200, 1)]
    verified = gapless("segments", "verify", *where.arguments)
    assert verified.returncode == 0, verified.stderr
    assert "380 records with" in verified.stdout


def test_the_command_joins_and_deletes(full: Where, tmp_path: Path) -> None:
    before = contents(full)
    report = tmp_path / "report.json"
    ended = gapless("compact", *full.arguments, *RULES, "--engine=local", f"--report={report}", "--batch-size=64")
    assert ended.returncode == 0, ended.stderr
    assert "Joined 20 segments into 2 (380 records, " in ended.stdout
    told = json.loads(report.read_text())
    assert (told["outcome"], told["run_by"], told["deleted"], told["waiting"]) == ("compacted", "local", 10, 0)
    line = json.loads(ended.stderr.splitlines()[-1])
    assert (line["event"], line["segmentsBefore"], line["segmentsAfter"], line["records"]) == ("compaction", 20, 2, 380)
    check(full, before)
    assert full.objects() == chain(full.place).load().objects

    again = gapless("compact", *full.arguments, *RULES, "--engine=local", f"--report={report}")
    assert (again.returncode, again.stdout) == (0, "No segments to join.\n")
    assert json.loads(report.read_text())["outcome"] == "nothing-to-do"


@pytest.mark.parametrize("step", killed_compaction.STEPS)
def test_a_kill_at_any_step_loses_nothing(full: Where, step: str) -> None:
    before = contents(full)
    killed = subprocess.run(
        [sys.executable, "-m", "integration.archive.killed_compaction", full.text, step, *full.access],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == (0 if step == "never" else -signal.SIGKILL), killed.stderr
    assert [table.equals(old) for table, old in zip(contents(full), before, strict=True)] == [True, True]

    assert gapless("compact", *full.arguments, *RULES, "--engine=local").returncode == 0
    check(full, before)
    orphans = full.objects() - chain(full.place).load().objects
    # Both new objects are there before the first of two commits. They are deleted when they are a day old.
    assert len(orphans) == {"before-commit": 2, "after-commit": 1}.get(step, 0)


@pytest.mark.parametrize("where", ["folder"], indirect=True)
def test_two_programs_at_once_beside_an_archiving_one(full: Where) -> None:
    before = contents(full)
    command = [PROGRAM, "compact", *full.arguments, *RULES, "--engine=local", "--batch-size=1"]
    programs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    archived(full.place, {0: (200, 210)})
    for program in programs:
        _, errors = program.communicate(timeout=120)
        assert program.returncode == 0, errors
    assert read(full.place, 0)["offset"].to_pylist()[-10:] == list(range(200, 210))
    assert [table.slice(0, 190).equals(old) for table, old in zip(contents(full), before, strict=True)] == [True, True]
    assert full.objects() == chain(full.place).load().objects
    verified = gapless("segments", "verify", *full.arguments)
    assert (verified.returncode, "390 records with" in verified.stdout) == (0, True), verified.stdout


@pytest.mark.parametrize("where", ["folder"], indirect=True)
def test_a_damaged_input_is_named_and_the_rest_is_joined(full: Where) -> None:
    broken = chain(full.place).load().segments(0)[4]
    file = Path(full.text) / broken.object
    content = bytearray(file.read_bytes())
    group = broken.row_groups[0]
    content[len(content) // 3] ^= 0x10
    file.write_bytes(content)
    archived(full.place, {3: (0, 10)})
    archived(full.place, {3: (10, 20)})
    ended = gapless("compact", *full.arguments, *RULES, "--engine=local")
    assert ended.returncode == 4, (ended.stderr, group)
    assert broken.object in ended.stderr.splitlines()[-1]
    state = chain(full.place).load()
    assert [one.level for one in state.segments(3)] == [1]
    assert [(one.first, one.end) for one in state.segments(0)] == [(0, 80), (80, 100), (100, 200)]
    assert gapless("segments", "verify", *full.arguments).returncode == 4


@pytest.mark.parametrize("where", ["folder", "s3"], indirect=True)
def test_tasks_of_spark_do_the_same(full: Where, tmp_path: Path) -> None:
    before = contents(full)
    report = tmp_path / "report.json"
    ended = gapless("compact", *full.arguments, *RULES, "--engine=spark", "--master=local[2]", f"--report={report}")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(report.read_text())["run_by"] == "spark"
    check(full, before)


@pytest.mark.parametrize("where", ["folder"], indirect=True)
def test_a_task_of_spark_names_a_damaged_input(full: Where) -> None:
    broken = chain(full.place).load().segments(0)[4]
    (Path(full.text) / broken.object).unlink()
    ended = gapless("compact", *full.arguments, *RULES, "--engine=spark", "--partitions=0")
    assert ended.returncode == 4, ended.stderr
    assert f"{broken.object} is missing; restore it from a backup." in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("where", ["s3"], indirect=True)
def test_levels_have_storage_classes_and_large_objects_go_in_parts(where: Where) -> None:
    for first in (0, 30_000):
        archived(where.place, {0: (first, first + 30_000)})
    ended = gapless("compact", *where.arguments, *RULES, "--engine=local", "--level-storage-class=1=STANDARD_IA")
    assert ended.returncode == 0, ended.stderr
    (segment,) = chain(where.place).load().segments(0)
    assert segment.stored_bytes > 5 * 1024 * 1024, "one part would do"
    assert gapless("segments", "verify", *where.arguments).returncode == 0


@pytest.mark.parametrize("where", ["folder"], indirect=True)
def test_a_schedule_runs_until_a_signal_ends_it(full: Where) -> None:
    before = contents(full)
    command = [PROGRAM, "compact", *full.arguments, *RULES, "--engine=local", "--schedule=* * * * * *"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("Joined 20 segments into 2 ")
        assert program.stdout.readline() == "No segments to join.\n"
        program.send_signal(signal.SIGTERM)  # in a run or between two
        _, errors = program.communicate(timeout=60)
    assert program.returncode == 143
    assert errors.splitlines()[-1].startswith("gapless: Stopped by SIGTERM after writing 2 segments; ")
    check(full, before)


def test_wrong_settings_are_one_sentence(tmp_path: Path) -> None:
    for arguments, words in (
        (("--schedule=soon",), "is not a cron expression; write second (optional), minute"),
        (("--schedule=0 3 * * *", "--time-zone=Mars"), "The time zone 'Mars' of the schedule is unknown"),
        (("--min-level=2",), "minLevel is above maxLevel"),
        (("--min-segment-size=5GiB",), "min-segment-size is above max-segment-size"),
        (("--MinSegmentAge=soon",), "it must be a duration of 0 seconds or more"),
        ((), "holds no archived topic"),
    ):
        ended = gapless("compact", f"--archive={tmp_path / 'none'}", *arguments)
        assert ended.returncode == 2, ended.stderr
        assert words in ended.stderr.splitlines()[-1]


def test_what_kafka_held_is_the_same_after_compaction(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    mixed = topic(2)
    chance = random.Random(11)
    for commit in (True, False, True, False, True):
        records = [(b"in", chance.randbytes(40)) for _ in range(chance.randrange(1, 6))]
        end_transaction(in_transaction(kafka, mixed, records), commit=commit)
        kafka.produce(mixed, [None, b"", b"\xff" * 1000], partition=0, keys=[b"\x00\xff", None, b""])
        kafka.produce(mixed, [chance.randbytes(100_000)], partition=1)
        assert archive(f"--topics={mixed}", "--engine=local").code == 0
    where = Where(str(place))
    ended = gapless("compact", *where.arguments, *RULES, "--engine=local")
    assert ended.returncode == 0, ended.stderr
    opened = open_archive(where.place, mixed)
    for partition in range(2):
        (segment,) = opened.state.segments(partition)
        assert (segment.level, segment.end) == (1, kafka.watermarks(mixed)[partition][1])
        found = [row for piece in opened.pieces(partition, opened.covered(partition)) for row in rows(opened, piece)]
        assert found == in_kafka(kafka, mixed, partition)


def rows(opened: TopicArchive, piece: Piece) -> list[dict[str, Any]]:
    found = [row for batch in opened.read(piece) for row in batch.to_pylist()]
    for row in found:
        del row["partition"]
    return found


def test_segments_of_kafka_replicator_are_refused_until_they_are_taken_over(tmp_path: Path) -> None:
    for first in range(0, 30, 10):
        write_peer_segment(tmp_path, range(first, first + 10))
    before = sorted(tmp_path.rglob("*"))
    ended = gapless("compact", f"--archive={tmp_path}", *RULES, "--engine=local")
    assert ended.returncode == 2, ended.stderr
    assert "was written by kafka-replicator and is read-only; choose other topics" in ended.stderr.splitlines()[-1]
    assert sorted(tmp_path.rglob("*")) == before
