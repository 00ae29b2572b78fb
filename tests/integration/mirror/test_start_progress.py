"""The proof that a mirror whose start takes long says what it waits for."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("interval", "says"), [("0.2", True), ("0", False)])
def test_a_start_that_waits_for_a_cluster_says_so(kafka: KafkaBroker, interval: str, *, says: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and never answers
        ended = GAPLESS.run(
            *("mirror", "--name=waits", "--topics=any", "--connect-timeout=2", f"--progress-interval={interval}"),
            f"--source-bootstrap-servers=127.0.0.1:{silent.getsockname()[1]}",
            f"--target-bootstrap-servers={kafka.bootstrap}",
        )
    assert ended.returncode == 3, ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    said = {line["waits_for"] for line in lines if line["event"] == "mirror starts"}
    assert said == ({"the IDs of both clusters, and the mirrors that write to the source"} if says else set())
