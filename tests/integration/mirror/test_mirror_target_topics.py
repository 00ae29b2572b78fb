"""The proof that topics of the target follow those of the source, and that no record goes in a circle."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

    from mirror.conftest import Scene

    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration
HEADER = "gapless-mirror"


@pytest.fixture(scope="module")
def target_kafka(own_target: KafkaBroker) -> KafkaBroker:
    return own_target


def command(name: str, scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    clusters = [
        f"--source-bootstrap-servers={scene.source.bootstrap}",
        f"--target-bootstrap-servers={scene.target.bootstrap}",
    ]
    return GAPLESS.run("mirror", name, *clusters, *arguments)


def partitions(kafka: KafkaBroker, topic: str) -> int:
    return len(kafka.admin().list_topics(topic, timeout=10).topics[topic].partitions)


def test_a_topic_is_created_like_its_source_grows_with_it_and_drift_is_shown(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2, retention_ms="86400000", min_insync_replicas="1", message_timestamp_type="LogAppendTime")
    scene.source.produce(name, [b"1", b"2"], partition=1)
    rule = ["--rename={source}.{topic}", "--source-name=east"]
    chosen = [f"--topics={name}", *rule]
    missing = command("diff", scene, *chosen, "--json")
    assert missing.returncode == 4, missing.stderr
    assert command("diff", scene, *chosen, "--exit-code").returncode == 10
    differences: list[dict[str, Any]] = json.loads(missing.stdout)["topics"][0]["differences"]
    assert differences == [{"what": "topic", "source": "present", "target": "missing"}]

    first = scene.run(*chosen, "--once")
    assert (first.wait(), first.report["records"]) == (0, 2), first.log
    assert scene.copied(name, f"east.{name}")
    same = command("diff", scene, *chosen)
    assert (same.returncode, same.stdout) == (0, "No drift in 1 topic.\n"), same.stderr
    assert command("diff", scene, *chosen, "--exit-code").returncode == 0

    scene.source.add_partitions(name, 3)
    scene.source.produce(name, [b"3"], partition=2)
    grown = command("diff", scene, *chosen)
    assert (grown.returncode, grown.stdout.splitlines()[1].split()[2:]) == (4, ["partitions", "3", "2"])
    refused = scene.run(*chosen, "--once", "--create-topics=false")
    assert refused.wait() == 4, refused.log
    assert "createTopics is false; add partitions" in refused.report["message"]
    second = scene.run(*chosen, "--once")
    assert (second.wait(), second.report["records"]) == (0, 1), second.log
    assert partitions(scene.target, f"east.{name}") == 3
    assert scene.copied(name, f"east.{name}")


def test_two_mirrors_in_opposite_directions_copy_each_record_once(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.produce(name, [b"a"])
    first = scene.run(f"--topics={name}", "--once")
    assert first.wait() == 0, first.log
    back = [
        f"--source-bootstrap-servers={scene.target.bootstrap}",
        f"--target-bootstrap-servers={scene.source.bootstrap}",
        f"--name={scene.name}-b",
        f"--topics={name}",
        "--once",
    ]
    refused = scene.run(*back)
    assert refused.wait() == 2, refused.log
    assert f"Restart {scene.name} with provenance=always" in refused.report["message"]

    # What was copied without the header cannot be told from what was written there.
    scene.target.delete_topic(name)
    scene.target.delete_topic(f"_gapless_mirror_{scene.name}")
    again = scene.run(f"--topics={name}", "--once", "--provenance=always")
    assert (again.wait(), again.report["records"]) == (0, 1), again.log
    scene.target.produce(name, [b"b"])
    there = scene.run(*back)
    assert (there.wait(), there.report["records"], there.report["returned"]) == (0, 1, 1), there.log
    last = scene.run(f"--topics={name}", "--once", "--provenance=always")
    assert (last.wait(), last.report["records"], last.report["returned"]) == (0, 0, 1), last.log
    assert [message.value() for message in scene.source.read(name)] == [b"a", b"b"]
    assert [message.value() for message in scene.target.read(name)] == [b"a", b"b"]
    found = [[header for header, _ in message.headers() or ()] for message in scene.target.read(name)]
    assert found == [[HEADER], []]
    # Later tests have no mirror the other way.
    scene.source.delete_topic(f"_gapless_mirror_{scene.name}-b")


def test_two_mirrors_that_begin_at_the_same_moment_do_not_copy_in_a_circle_for_long(
    scene: Scene, topic: TopicFactory
) -> None:
    name, back = topic(1), f"{scene.name}-b"
    scene.target.create_topic(name, 1)
    clusters = [
        f"--source-bootstrap-servers={scene.target.bootstrap}",
        f"--target-bootstrap-servers={scene.source.bootstrap}",
    ]
    quick = (f"--topics={name}", "--topic-refresh=1s", "--heartbeat=false")
    mirrors = scene.start(*quick), scene.start(*quick, *clusters, f"--name={back}")

    def are_refused() -> bool:
        """Whether one saw the other when it began, or both did later."""
        logs = [mirror.log for mirror in mirrors]
        later = all("records would loop" in text or "would be copied back" in text for text in logs)
        return later or any(mirror.process.poll() == 2 for mirror in mirrors)

    try:
        scene.source.produce(name, [b"a"])
        scene.target.produce(name, [b"b"])
        wait_until(are_refused, what="the refusal")
        time.sleep(2)  # for transactions that were open
        ends = [kafka.watermarks(name) for kafka in (scene.source, scene.target)]
        time.sleep(2)
        assert sorted(mirror.stop() for mirror in mirrors) in ([3, 3], [2, 3], [2, 143]), mirrors[0].log
        assert [kafka.watermarks(name) for kafka in (scene.source, scene.target)] == ends
    finally:  # later tests have no mirror the other way
        for mirror in mirrors:
            mirror.kill()
        control = f"_gapless_mirror_{back}"
        if control in scene.source.admin().list_topics(timeout=10).topics:
            scene.source.delete_topic(control)


def test_files_of_kafkas_first_mirror_start_a_mirror(scene: Scene, topic: TopicFactory, tmp_path: Path) -> None:
    name = topic(1)
    scene.source.produce(name, [b"a"])
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={scene.source.bootstrap}\ngroup.id={scene.name}\ndual.commit.enabled=false\nnum.streams=1\n"
    )
    producer.write_text(f"metadata.broker.list={scene.target.bootstrap}\ncompression.codec=gzip\nacks=-1\n")
    report = tmp_path / "report.json"
    files = [f"--consumer.config={consumer}", f"--producer.config={producer}", f"--report={report}"]
    done = GAPLESS.run("mirror", *files, f"--whitelist={name},{name}x", "--once")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("dual.commit.enabled") == 1
    assert json.loads(report.read_text())["name"] == scene.name
    assert scene.copied(name)


def test_a_topic_is_not_copied_to_itself(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    refused = scene.run(f"--target-bootstrap-servers={scene.source.bootstrap}", f"--topics={name}", "--once")
    assert refused.wait() == 2
    assert "would be copied to itself" in refused.report["message"]
