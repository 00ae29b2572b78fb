"""``gapless doctor --mirror``: retention and recreated topics against what a mirror remembers at its target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration


def doctor(scene: Scene, topic: str, mirror: str) -> list[dict[str, Any]]:
    clusters = [f"--bootstrap-servers={scene.source.bootstrap}", f"--target-bootstrap-servers={scene.target.bootstrap}"]
    ended = GAPLESS.run("doctor", *clusters, f"--topics={topic}", f"--mirror={mirror}", "--json", "--timeout=5")
    assert ended.returncode in {0, 4}, ended.stderr
    findings: list[dict[str, Any]] = json.loads(ended.stdout)["findings"]
    return findings


def errors(findings: list[dict[str, Any]]) -> dict[str, str]:
    return {one["id"]: one["message"] for one in findings if one["severity"] == "error"}


def test_retention_and_topic_ids_are_held_against_what_the_mirror_remembers(scene: Scene, topic: TopicFactory) -> None:
    orders = topic(2)
    scene.source.produce(orders, [b"x"] * 10)
    assert scene.run(f"--topics={orders}", "--once", "--lanes=2").wait() == 0
    good = doctor(scene, orders, scene.name)
    assert errors(good) == {}
    assert not any("positions of the mirror" in one["message"] for one in good)

    scene.source.produce(orders, [b"x"] * 10)
    scene.source.delete_records(orders, 0, 15)
    assert f"The mirror {scene.name} has lost 5 offsets" in errors(doctor(scene, orders, scene.name))["GroupOvertaken"]

    scene.source.delete_topic(orders)
    scene.source.create_topic(orders, 2)
    found = errors(doctor(scene, orders, scene.name))
    assert f"the mirror {scene.name} has the old ID" in found["TopicRecreated"]
    assert "GroupOvertaken" not in found

    (unknown,) = [one for one in doctor(scene, orders, "nosuchmirror") if "nosuchmirror" in one["message"]]
    assert (unknown["id"], unknown["side"]) == ("NotChecked", "target")
