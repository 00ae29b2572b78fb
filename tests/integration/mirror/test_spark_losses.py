"""The proof that both modes of the Spark engine compare their positions with both clusters, as the workers do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.mirror.conftest import Scene
from integration.mirror.test_mirror_claims import QUICK, lose_by_recreation, status, values
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate
from kit.machine.processes import stopped, wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.integration
_ONCE = ("--once", "--lanes=2", "--heartbeat=false")
_SPARK = ("--engine=spark", "--master=local[2]", *_ONCE)
_MODES = {"lanes": (), "sql": ("--transform=SELECT upper(CAST(value AS STRING)) AS value FROM records",)}


@pytest.mark.parametrize("mode", _MODES)
def test_a_target_that_lost_copies_needs_a_decision(scene: Scene, topic: TopicFactory, mode: str) -> None:
    name = topic(1)
    arguments = (f"--topics={name}", *_SPARK, *_MODES[mode])
    scene.source.produce(name, values(0, 100))
    # The claims of a copy as it is are written by the code of the workers, which start quickly.
    assert scene.run(*(arguments if mode == "sql" else (f"--topics={name}", *_ONCE))).wait() == 0
    lose_by_recreation(scene.target, name)
    scene.source.produce(name, values(100, 110))
    lost = scene.run(*arguments)
    assert (lost.wait(), lost.report["records"]) == (4, 0), lost.log
    assert "--on-target-loss=copy-again" in lost.report["message"]
    assert scene.arrived(name) == {}
    assert status(scene)[1]["state"] == "TargetRecreated"
    decided = scene.run(*arguments, "--on-target-loss=copy-again")
    assert decided.wait() == 0, decided.log
    assert decided.report["records"] == 110
    assert [row.value for row in scene.arrived(name)[0]] == values(0, 110)
    assert status(scene)[0] == 0


@pytest.mark.parametrize("mode", _MODES)
def test_a_running_mirror_without_new_records_sees_that_its_target_was_recreated(
    scene: Scene, topic: TopicFactory, mode: str
) -> None:
    name = topic(1)
    scene.source.produce(name, values(0, 100))
    mirror = scene.start(f"--topics={name}", "--engine=spark", "--master=local[2]", *_MODES[mode], *QUICK)
    scene.wait_for(name, 100)
    lose_by_recreation(scene.target, name)
    wait_until(lambda: '"TargetRecreated"' in mirror.log, what="the name")
    assert mirror.stop() == 3, mirror.log
    assert scene.arrived(name) == {}


@pytest.mark.parametrize("when", ["idle", "during a turn"])
def test_a_running_mirror_without_new_records_sees_that_its_target_was_truncated_and_has_grown_again(
    kafka: KafkaBroker, tmp_path: Path, when: str
) -> None:
    """With SQL: only the leader epochs differ, which are compared when a lane opens."""
    name = f"regrown-sql-{when.replace(' ', '-')}"
    kafka.create_topic(name)
    with KafkaBroker() as target:
        (tmp_path / name).mkdir()
        scene = Scene(kafka, target, tmp_path / name)
        try:
            kafka.produce(name, values(0, 100))
            mirror = scene.start(
                f"--topics={name}", "--engine=spark", "--master=local[2]", "--heartbeat=false", *_MODES["sql"], *QUICK
            )
            scene.wait_for(name, 100)
            if when == "idle":
                before = mirror.log.count('"lagRecords":0')
                wait_until(lambda: mirror.log.count('"lagRecords":0') > before + 4, what="rest")
            with stopped(mirror.process):  # it never sees a log that is shorter
                truncate(target, name)
                target.produce(name, [b"other %d" % number for number in range(150)])
            wait_until(lambda: '"TargetDiverged"' in mirror.log, what="the name")
            assert mirror.stop() == 3, mirror.log
            assert [row.value for row in scene.arrived(name)[0]][-1] == b"other 149"
        finally:
            scene.close()


def test_a_source_log_that_was_truncated_needs_a_decision(target_kafka: KafkaCluster, tmp_path: Path) -> None:
    """With SQL; a copy as it is has `test_mirror_advice.py`, and both ask what `test_mirror_claims.py` tries."""
    name, grown = "cut-sql", 150
    arguments = (f"--topics={name}", *_SPARK, *_MODES["sql"])
    with KafkaBroker() as source:
        source.create_topic(name)
        (tmp_path / name).mkdir()  # the name of the mirror follows it
        scene = Scene(source, target_kafka, tmp_path / name)
        try:
            source.produce(name, values(0, 100))
            assert scene.run(*arguments).wait() == 0
            truncate(source, name)
            source.produce(name, values(1000, 1000 + grown))
            lost = scene.run(*arguments)
            assert (lost.wait(), lost.report["records"]) == (4, 0), lost.log
            assert "was truncated" in lost.report["message"]
            assert status(scene)[1]["state"] == "SourceTruncated"
            decided = scene.run(*arguments, "--on-data-loss=skip-and-record")
            assert decided.wait() == 4, decided.log
            assert (decided.report["records"], decided.report["lost"]) == (grown, 100)
            assert [row.value for row in scene.arrived(name)[0]] == values(0, 100) + values(1000, 1000 + grown)
            code, partition = status(scene)
            assert (code, partition["position"]) == (0, grown)
            assert [(each["first"], each["last"], each["reason"]) for each in partition["lost_ranges"]] == [
                (0, 99, "SourceTruncated")
            ]
            again = scene.run(f"--topics={name}", *_ONCE)  # by workers, which read the same positions
            assert (again.wait(), again.report["records"]) == (0, 0), again.log
        finally:
            scene.close()
