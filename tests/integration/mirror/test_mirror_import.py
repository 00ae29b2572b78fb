"""What ``gapless mirror import`` prints for another program's file copies what that program would copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration


def test_the_printed_settings_copy_the_topics_of_a_connector(scene: Scene, topic: TopicFactory, tmp_path: Path) -> None:
    name, other = topic(1), topic(1)
    scene.source.produce(name, [b"1", b"2"])
    scene.source.produce(other, [b"3"])
    connector = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "north",
        "target.cluster.alias": "hall",
        "source.cluster.bootstrap.servers": scene.source.bootstrap,
        "target.cluster.bootstrap.servers": scene.target.bootstrap,
        "topics": f"{name}, none-of-{name}",
        "tasks.max": "2",
        "offset-syncs.topic.replication.factor": "1",
    }
    file, printed = tmp_path / "connector.json", tmp_path / "mirror.properties"
    file.write_text(json.dumps({"name": "copy", "config": connector}), encoding="utf-8")
    done = GAPLESS.run("mirror", "import", str(file), "--print=properties")
    assert done.returncode == 0, done.stderr
    printed.write_text(done.stdout, encoding="utf-8")
    copied = GAPLESS.run("mirror", str(printed), f"--name={scene.name}", "--once", "--heartbeat=false")
    assert copied.returncode == 0, copied.stderr
    assert [message.value() for message in scene.target.read(f"north.{name}")] == [b"1", b"2"]
    assert f"north.{other}" not in scene.target.admin().list_topics(timeout=20).topics
