"""The proof that mirrors in opposite directions do not make topics without end, nor change each other's copies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.mirror.conftest import Scene, rows
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration
_ENGINES = pytest.mark.parametrize(
    "engine", [("--engine=workers",), ("--engine=spark", "--master=local[2]")], ids=["workers", "spark"]
)


@pytest.fixture(scope="module")
def target_kafka(own_target: KafkaBroker) -> KafkaBroker:
    return own_target


@pytest.fixture
def back(scene: Scene, tmp_path: Path) -> Iterator[Scene]:
    """The mirrors in the opposite direction."""
    folder = tmp_path / "back"
    folder.mkdir()
    opposite = Scene(scene.target, scene.source, folder)  # type: ignore[arg-type]
    opposite.name = f"{scene.name[:40]}-back"
    yield opposite
    opposite.close()


def topics_of(scene: Scene, name: str) -> tuple[set[str], set[str]]:
    """Return the topics of both clusters whose names contain `name`."""
    listed = (kafka.admin().list_topics(timeout=10).topics for kafka in (scene.source, scene.target))
    source, target = ({topic for topic in topics if name in topic and "_gapless" not in topic} for topics in listed)
    return source, target


@_ENGINES
def test_topics_do_not_grow_with_the_default_policy_of_mirrormaker_2(
    scene: Scene, back: Scene, topic: TopicFactory, tmp_path: Path, engine: tuple[str, ...]
) -> None:
    name = topic(1)
    scene.source.produce(name, [b"1", b"2"])
    scene.source.create_topic(f"B.{name}", 1)  # left by an earlier program
    scene.source.produce(f"B.{name}", [b"old"])
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters=A,B\nA->B.enabled=true\nB->A.enabled=true\nemit.heartbeats.enabled=false\n"
        f"topics=(.*\\\\.)?{name}\ntopics.exclude=nothing\n"
    )
    seen = []
    for turn in range(2):
        # One turn is enough of Spark, which starts slowly: the choice of topics is that of the workers.
        there = scene.run(str(file), "--flow=A->B", "--once", *(engine if turn else ()))
        assert there.wait() == 0, there.log
        again = back.run(str(file), "--flow=B->A", "--once", *(("--provenance=always",) if turn else ()))
        assert again.wait() == 0, again.log
        seen.append(topics_of(scene, name))
    assert seen == [({name, f"B.{name}"}, {f"A.{name}"})] * 2
    assert [row.value for row in scene.arrived(f"A.{name}")[0]] == [b"1", b"2"]
    assert "topic left out" in there.log


def test_a_copy_of_the_target_that_is_named_is_refused_with_the_reason(
    scene: Scene, back: Scene, topic: TopicFactory
) -> None:
    name = topic(1)
    back.source.create_topic(name, 1)
    back.source.produce(name, [b"1"])
    rule = "--rename={source}.{topic}"
    assert back.run(f"--topics={name}", rule, "--source-name=B", "--once").wait() == 0
    there = scene.run(f"--topics={name},B.{name}", rule, "--source-name=A", "--once")
    assert there.wait() == 2, there.log
    assert there.report["message"].startswith(f"The name of B.{name} says that it was copied from the target B")
    left = scene.run(f"--topic-pattern=(B[.])?{name}", rule, "--source-name=A", "--once")
    assert left.wait() == 0, left.log
    assert topics_of(scene, name) == ({name, f"B.{name}"}, {name, f"A.{name}"})
    differing = GAPLESS.run(
        *("mirror", "diff", f"--source-bootstrap-servers={scene.source.bootstrap}"),
        *(f"--target-bootstrap-servers={scene.target.bootstrap}", rule, "--source-name=A"),
        f"--topic-pattern=(B[.])?{name}",
    )
    assert (differing.returncode, f"B.{name}" in differing.stdout) == (0, False), differing.stdout + differing.stderr


@_ENGINES
def test_a_mirror_of_another_topic_in_the_opposite_direction_does_not_change_the_copies(
    scene: Scene, back: Scene, topic: TopicFactory, engine: tuple[str, ...]
) -> None:
    other, name = topic(1), topic(1)
    back.source.create_topic(other, 1)
    back.source.produce(other, [b"1"])
    assert back.run(f"--topics={other}", "--once").wait() == 0
    scene.source.produce(name, [b"1", b"2"], headers=[("a", b"1")])
    there = scene.run(f"--topics={name}", "--once", *engine)
    assert there.wait() == 0, there.log
    assert scene.copied(name)
    refused = scene.run(f"--topics={other}", "--once")
    assert refused.wait() == 2, refused.log
    assert "copies in the opposite direction, and records would loop" in refused.report["message"]


def test_a_topic_that_is_copied_back_gets_the_header(scene: Scene, back: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    back.source.create_topic(name, 1)
    back.source.produce(name, [b"there"])
    assert back.run(f"--topics={name}", "--once", "--provenance=always").wait() == 0
    scene.source.produce(name, [b"here"])
    there = scene.run(f"--topics={name}", "--once")
    assert there.wait() == 0, there.log
    copied = [(row.value, [key for key, _ in row.headers]) for row in rows(scene.target, name)[0]]
    assert copied == [(b"there", []), (b"here", ["gapless-mirror"])]
    restarted = back.run(f"--topics={name}", "--once")
    assert restarted.wait() == 0, restarted.log  # the header of the other one is enough
    assert len(rows(scene.source, name)[0]) == 2


def test_the_doctor_leaves_out_what_the_mirror_leaves_out_for_the_same_reason(
    scene: Scene, back: Scene, topic: TopicFactory
) -> None:
    name = topic(1)
    scene.target.create_topic(name, 1)
    rule = "--rename={source}.{topic}"
    excluded, more = f"{name}.internal", f"{name}.more"
    for each in (name, excluded, more, f"B.{name}"):
        if each != name:
            scene.source.create_topic(each, 1)
    assert back.run(f"--topics={name}", rule, "--source-name=B", "--once").wait() == 0
    select = f"--topic-pattern=(B[.])?{name}([.]internal)?"
    there = scene.run(select, rule, "--source-name=A", f"--exclude={excluded}", "--once")
    assert there.wait() == 0, there.log
    (reason,) = re.findall(r"The name of B[^;]*", there.log)

    def checked(*arguments: str) -> tuple[dict[str, str], set[str]]:
        ended = GAPLESS.run(
            *("doctor", f"--bootstrap-servers={scene.source.bootstrap}", "--json", "--timeout=5"),
            *(f"--target-bootstrap-servers={scene.target.bootstrap}", "--rename=A.{topic}", *arguments),
        )
        assert ended.returncode in {0, 4}, ended.stderr
        findings = json.loads(ended.stdout)["findings"]
        notes = {one["where"]: one["message"] for one in findings if one["id"] == "TopicLeftOut"}
        return notes, {one["where"] for one in findings if one["side"] == "target"}

    topics = f"--topics={name},{excluded},{more},B.{name},__consumer_offsets"
    notes, target = checked(topics, f"--mirror={scene.name}")
    assert notes == {
        f"B.{name}": f"{reason}; the mirror does not copy it.",
        excluded: f"The topic {excluded} is excluded; the mirror does not copy it.",
        "__consumer_offsets": "The topic __consumer_offsets is internal, and the mirror does not select it by name; "
        "the mirror does not copy it.",
    }
    assert not any(f"A.B.{name}" in where for where in target)
    assert checked(topics)[0] == {}
    assert checked(topics, "--mirror=nosuchmirror")[0] == {}
