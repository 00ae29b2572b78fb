"""The proof that an exception which no rule expects stops one partition or one lane of a mirror, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_mirror.lanes.identity import lane_of
from integration.mirror.conftest import FAULTY
from kit.kafka.stored_headers import stored_headers
from kit.kafka.strange_records import produce_strange
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from mirror.conftest import Mirror, Scene

    from conftest import TopicFactory

    Start = Callable[..., Mirror]

pytestmark = pytest.mark.integration
_BEFORE, _BAD, _AFTER = 4, 2, 3
_ENGINES = ("workers", "spark")
_HEADERS: list[tuple[str, bytes | None]] = [("plain", b"1")]


@pytest.fixture(name="start")
def _start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a mirror with a defect, which also the tasks of Spark have."""

    def start(scene: Scene, defect: str, *options: str) -> Mirror:
        with monkeypatch.context() as patch:
            if "--engine=spark" in options:
                folder = tmp_path / "modules"
                folder.mkdir()
                (folder / "sitecustomize.py").write_text(
                    f"import sys\nsys.path.append({str(FAULTY.parent)!r})\n"
                    f"from faulty_mirror import DEFECTS\nDEFECTS[{defect!r}]()\n"
                )
                patch.setenv("PYTHONPATH", str(folder))
                return scene.start(*options, own_java=True)
            return scene.start(*options, defect=defect)

    return start


def fill(scene: Scene, name: str) -> None:
    """Two partitions; in the first one, records whose headers are not UTF-8 stand among others."""
    scene.source.produce(name, [b"before %d" % number for number in range(_BEFORE)], headers=_HEADERS)
    for _ in range(_BAD):
        produce_strange(scene.source, name, [((b"\xff\xfe", b"x"),)])
    scene.source.produce(name, [b"after %d" % number for number in range(_AFTER)], headers=_HEADERS)
    scene.source.produce(name, [b"%d" % number for number in range(10, 13)], headers=_HEADERS, partition=1)


@pytest.mark.parametrize("engine", _ENGINES)
def test_a_record_that_fails_unexpectedly_stops_its_partition_only(
    scene: Scene, topic: TopicFactory, start: Start, engine: str
) -> None:
    """The headers of some records are left to Kafka's client, which fails for them, and drops them when asked again."""
    name, other = (topic(2, **{"compression.type": "uncompressed"}) for _ in range(2))
    fill(scene, name)
    scene.source.produce(other, [b"1", b"2"])
    options = (f"--topics={name},{other}", "--once", "--compression=none")
    mirror = start(scene, "headers", *options, f"--engine={engine}")
    assert mirror.wait() == 4, mirror.log
    assert f"{name}/0 is not copied from offset {_BEFORE} on: an unexpected error in Gapless" in mirror.log
    assert "Error in provenance.py, line " in mirror.log or "Error in unexpected.py, line " in mirror.log
    assert mirror.report["records"] == _BEFORE + 3 + 2
    assert [row.value for row in scene.arrived(name)[0]] == [b"before %d" % number for number in range(_BEFORE)]
    assert [row.value for row in scene.arrived(name)[1]] == [b"10", b"11", b"12"]
    assert scene.copied(other)
    again = scene.run(*options)  # by workers, which read the same positions
    assert (again.wait(), again.report["records"]) == (0, _BAD + _AFTER), again.log
    assert stored_headers(scene.target.folder, name) == stored_headers(scene.source.folder, name)


@pytest.mark.parametrize(("defect", "engine"), [("lane", "workers"), ("open", "workers"), ("lane", "spark")])
def test_a_lane_that_fails_unexpectedly_stops_alone(
    scene: Scene, topic: TopicFactory, start: Start, defect: str, engine: str
) -> None:
    names = [topic() for _ in range(8)]
    for name in names:
        scene.source.produce(name, [b"1", b"2"])
    options = (f"--topics={','.join(names)}", "--once", "--lanes=2")
    mirror = start(scene, defect, *options, f"--engine={engine}")
    assert mirror.wait() == 4, mirror.log
    assert (
        f"Lane 1 of the mirror {scene.name} is not copied: an unexpected error in Gapless (KeyError in " in mirror.log
    )
    assert "the content of a record" not in mirror.log
    failed = [name for name in names if lane_of(name, 0, 2) == 1]
    assert 0 < len(failed) < len(names)
    assert mirror.report["records"] == 2 * (len(names) - len(failed))
    assert all(scene.copied(name) for name in names if name not in failed)
    again = scene.run(*options)
    assert (again.wait(), again.report["records"]) == (0, 2 * len(failed)), again.log
    assert all(map(scene.copied, names))


def test_a_lane_that_fails_unexpectedly_is_tried_again_and_has_a_name(scene: Scene, topic: TopicFactory) -> None:
    names = [topic() for _ in range(8)]
    options = (f"--topics={','.join(names)}", "--lanes=2", "--look-interval=0.5", "--progress-interval=0.5")
    mirror = scene.start(*options, defect="lane")
    for name in names:
        scene.source.produce(name, [b"1", b"2"])
    for name in names:
        if lane_of(name, 0, 2) == 0:
            scene.wait_for(name, 2)
    wait_until(lambda: '"reason":"CopyFailed"' in mirror.log.replace(" ", ""), what="the stall")
    wait_until(lambda: mirror.log.count("is not copied: an unexpected error") >= 4, what="a retry")
    assert mirror.stop() == 3, mirror.log
    assert mirror.report["stalls"][0].startswith("CopyFailed: ")


@pytest.mark.parametrize(
    ("defect", "sentence"),
    [
        ("tick", "The state of the mirror was not updated"),
        ("group", "Worker 0 has left the group of the mirror"),
        ("worker", "Worker 0 of the mirror has ended"),
        ("refresh", "The topics of the source were not refreshed"),
    ],
)
def test_what_fails_beside_the_lanes_does_not_end_the_mirror(
    scene: Scene, topic: TopicFactory, defect: str, sentence: str
) -> None:
    name, later = topic(), f"{topic()}-later"
    scene.source.produce(name, [b"1", b"2"])
    mirror = scene.start(f"--topics={name}", f"--topic-prefix={later}", "--topic-refresh=1", defect=defect)
    scene.wait_for(name, 2)
    wait_until(lambda: sentence in mirror.log, what="the message")
    scene.source.create_topic(later, 1)
    scene.source.produce(later, [b"3"])
    scene.wait_for(later, 1)
    assert mirror.log.count(sentence) <= 4, "it is not logged at each tick"
    assert "an unexpected error in Gapless (KeyError in faulty_mirror.py, line " in mirror.log
    assert "the content of a record" not in mirror.log
    assert mirror.stop() == 143, mirror.log


def test_a_worker_that_fails_in_a_run_with_an_end_is_named(scene: Scene, topic: TopicFactory) -> None:
    name = topic()
    scene.source.produce(name, [b"1", b"2"])
    mirror = scene.start(f"--topics={name}", "--once", defect="once")
    assert mirror.wait() == 4, mirror.log
    assert "Worker 0 of the mirror has ended: an unexpected error in Gapless (KeyError in faulty" in mirror.log
    assert "the content of a record" not in mirror.log
    again = scene.run(f"--topics={name}", "--once")
    assert (again.wait(), again.report["records"]) == (0, 2), again.log
