"""The proof that a log which was truncated and has grown again is noticed, in the source and in the target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.mirror.conftest import Scene
from integration.mirror.test_doctor_of_mirror import doctor
from integration.mirror.test_mirror_claims import QUICK, diff, status, values
from integration.mirror.test_mirror_group_positions import commit, translate
from kit.kafka.broker import KafkaBroker
from kit.kafka.renumbering import renumber
from kit.kafka.truncation import truncate
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("how", ["workers", "running", "spark"])
def test_a_target_log_that_was_truncated_and_has_grown_again_needs_a_decision(
    kafka: KafkaBroker, tmp_path: Path, how: str
) -> None:
    name = f"regrown-target-{how}"
    kafka.create_topic(name)
    engine = f"--engine={'spark' if how == 'spark' else 'workers'}"
    repeats = 1 if how == "spark" else 2  # Spark starts slowly; the positions that both engines read are the same
    with KafkaBroker() as target:
        (tmp_path / name).mkdir()
        scene = Scene(kafka, target, tmp_path / name)
        try:
            kafka.produce(name, values(0, 100))
            if how == "running":
                mirror = scene.start(f"--topics={name}", *QUICK)
                scene.wait_for(name, 100)
            else:
                assert scene.run(f"--topics={name}", "--once").wait() == 0
            truncate(target, name)
            target.produce(name, [b"other %d" % number for number in range(150)])
            if how == "running":
                wait_until(lambda: '"TargetDiverged"' in mirror.log, what="the name")
                assert mirror.stop() == 3
            commit(kafka, f"group-of-{name}", name, 60)
            kafka.produce(name, values(100, 110))
            for _ in range(repeats):
                again = scene.run(f"--topics={name}", "--once", engine)
                assert (again.wait(), again.report["records"]) == (4, 0), again.log
                assert "--on-target-loss=copy-again" in again.report["message"], again.log
            code, partition = status(scene)
            assert (code, partition["state"], partition["lag"]) == (4, "TargetDiverged", None)
            code, report, _ = translate(scene, f"--groups=group-of-{name}")
            assert (code, [each["reason"] for each in report["findings"]]) == (4, ["TargetDiverged"])
            assert "TargetDiverged" in {finding["id"] for finding in doctor(scene, name, scene.name)}
            code, found = diff(scene, name)
            assert (code, [each["state"] for each in found["positions"]]) == (4, ["TargetDiverged"])

            decided = scene.run(f"--topics={name}", "--once", "--on-target-loss=copy-again")
            assert decided.wait() == 0, decided.log
            assert [row.value for row in scene.arrived(name)[0]][150:] == values(0, 110)
            code, partition = status(scene)
            assert (code, partition["state"]) == (0, "Holds")
            assert [loss["reason"] for loss in partition["copied_again"]] == ["TargetDiverged"]
        finally:
            scene.close()


@pytest.mark.parametrize("is_running", [False, True])
def test_a_new_leader_of_the_target_alone_is_no_loss(kafka: KafkaBroker, tmp_path: Path, *, is_running: bool) -> None:
    name = f"new-leader-{is_running}"
    kafka.create_topic(name)
    with KafkaBroker() as target:
        (tmp_path / name).mkdir()
        scene = Scene(kafka, target, tmp_path / name)
        try:
            kafka.produce(name, values(0, 50))
            if is_running:
                mirror = scene.start(f"--topics={name}", *QUICK)
                scene.wait_for(name, 50)
            else:
                assert scene.run(f"--topics={name}", "--once").wait() == 0
            for first in (50, 60):
                target.stop()
                target.start()
                kafka.produce(name, values(first, first + 10))
                if is_running:
                    scene.wait_for(name, first + 10)
                else:
                    assert scene.run(f"--topics={name}", "--once").wait() == 0
            if is_running:
                assert mirror.stop() in {130, 143}
            assert [row.value for row in scene.arrived(name)[0]] == values(0, 70)
            assert status(scene)[0] == 0
        finally:
            scene.close()


@pytest.mark.parametrize("grown", [0, 300])
def test_records_that_a_source_lost_before_they_were_copied_are_named(
    target_kafka: KafkaBroker, tmp_path: Path, grown: int
) -> None:
    """The log is cut between the position and the end that the running mirror has seen."""
    name = f"cut-ahead-{grown}"
    target_kafka.create_topic(name)
    slow = ("--max-records-per-second=20", "--commit-interval=0.2s", *QUICK)
    with KafkaBroker() as source:
        source.create_topic(name)
        (tmp_path / name).mkdir()
        scene = Scene(source, target_kafka, tmp_path / name)
        try:
            for first in range(0, 1000, 500):
                source.produce(name, values(first, first + 500))
            mirror = scene.start(f"--topics={name}", *slow)
            scene.wait_for(name, 20)
            truncate(source, name, end=500)
            source.produce(name, [b"new %d" % number for number in range(grown * 3)])
            wait_until(lambda: '"SourceTruncated"' in mirror.log, what="the name")
            assert mirror.stop() == 3
            code, partition = status(scene)
            assert (code, partition["state"], partition["lag"]) == (4, "SourceTruncated", None)
            assert partition["position"] < 500
            assert scene.run(f"--topics={name}", "--once").wait() == 4
            decided = scene.run(f"--topics={name}", "--once", "--on-data-loss=skip-and-record")
            assert (decided.wait(), decided.report["lost"]) == (4, 500), decided.log
            copied = [row.value for row in scene.arrived(name)[0]]
            assert copied == values(0, 500) + [b"new %d" % number for number in range(grown * 3)]
            code, partition = status(scene)
            assert (code, partition["lag"]) == (0, 0)
            assert [(each["first"], each["last"]) for each in partition["lost_ranges"]] == [(500, 999)]
            assert scene.run(f"--topics={name}", "--once").wait() == 0
        finally:
            scene.close()


def test_a_partition_without_a_leader_hides_no_other_position(target_kafka: KafkaBroker, tmp_path: Path) -> None:
    with KafkaBroker() as source:
        (tmp_path / "leaderless").mkdir()
        scene = Scene(source, target_kafka, tmp_path / "leaderless")
        try:
            source.create_topic("leaderless")
            source.produce("leaderless", values(0, 10))
            assert scene.run("--topics=leaderless", "--once", "--lanes=1").wait() == 0
            renumber(source, 1010)
            source.create_topic("led")
            source.produce("led", values(0, 10))
            once = scene.run("--topics=leaderless,led", "--once")
            assert (once.wait(), once.report["records"]) == (4, 10), once.log
            clusters = [
                f"--source-bootstrap-servers={source.bootstrap}",
                f"--target-bootstrap-servers={target_kafka.bootstrap}",
            ]
            done = GAPLESS.run("mirror", "status", *clusters, f"--name={scene.name}", "--json")
            assert done.returncode == 4, done.stderr
            found = {each["topic"]: each for each in json.loads(done.stdout)["partitions"]}
            assert (found["led"]["state"], found["led"]["lag"]) == ("Holds", 0)
            assert (found["leaderless"]["state"], found["leaderless"]["lag"]) == ("Unknown", None)
            assert "no leader for leaderless/0" in found["leaderless"]["note"]
        finally:
            scene.close()
