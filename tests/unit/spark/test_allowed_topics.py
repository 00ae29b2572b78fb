"""Scans and audits read only topics that their arguments allow, whatever a file says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

NOWHERE = "bootstrapServers=127.0.0.1:1\nconnectTimeout=0.1\nengine=local\n"
"""No Kafka: a topic must be refused before it is asked."""


def run(folder: Path, command: str, lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    file = folder / "scan.properties"
    file.write_text(NOWHERE + lines)
    return GAPLESS.run(
        command, str(file), "--allowed-topics=gaps,received-*", env={"PATH": os.environ["PATH"], **environment}
    )


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("scan", "topic=secrets\n"),
        ("scan", "topic=secrets\nallowedTopics=*\n"),
        ("audit", "topics=received-1,secrets\n"),
        ("audit", "topics=received-1\nexpectInventoryTopic=secrets\n"),
    ],
)
def test_another_topic_is_refused_before_kafka_is_asked(tmp_path: Path, command: str, lines: str) -> None:
    opened = {"AIRGAP_CREATE_ALLOWED_TOPICS": "*", "GAPLESS_AUDIT_ALLOWED_TOPICS": "*"}
    done = run(tmp_path, command, f"{lines}resultLines=true\n", **opened)
    assert done.returncode == 2
    assert f"The {command} requests the topic secrets, and only gaps, received-* may be used" in done.stderr
    assert '"outcome":"bad-configuration"' in done.stdout.replace(" ", ""), "the operator reads why"


@pytest.mark.parametrize(
    ("against", "lines"), [("scan", "topic=secrets\n"), ("audit", "topics=received-1\nexpectInventoryTopic=secrets\n")]
)
def test_verify_looks_at_no_other_topic_either(tmp_path: Path, against: str, lines: str) -> None:
    old, file = tmp_path / "old.json", tmp_path / "verify.properties"
    old.write_text('{"type":"all","results":[]}')
    file.write_text(NOWHERE + lines)
    done = GAPLESS.run("verify", str(old), str(file), f"--against={against}", "--allowed-topics=gaps,received-*")
    assert done.returncode == 2
    assert f"The {against} requests the topic secrets, and only gaps, received-* may be used" in done.stderr


@pytest.mark.parametrize(("command", "lines"), [("scan", "topic=gaps\n"), ("audit", "topics=received-1\n")])
def test_what_is_allowed_goes_on_to_kafka(tmp_path: Path, command: str, lines: str) -> None:
    assert run(tmp_path, command, lines).returncode == 3
