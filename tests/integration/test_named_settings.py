"""A night in short: what is typed are names, and gapless.toml has the rest."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from pyroaring import BitMap

from kit.story.commands import GAPLESS
from kit.story.resending import ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener


def test_a_gap_is_found_and_resent_by_names(
    kafka: KafkaBroker, topic: TopicFactory, listener: Listener, tmp_path: Path
) -> None:
    gaps, events = topic(), topic()
    kafka.produce(gaps, [struct.pack(">Bqq", 1, 0, 5) + BitMap([2, 3]).serialize()], keys=[f"{events}:0:0".encode()])
    kafka.produce(events, [b"%d" % number for number in range(6)])
    bundle = tmp_path / "bundle.json"
    (tmp_path / "gapless.toml").write_text(
        f"""
        [connections.here]
        bootstrapServers = "{kafka.bootstrap}"
        [scan.north]
        connection = "here"
        topic = "{gaps}"
        resendFileName = "{bundle}"
        [resend.north]
        connection = "here"
        targetIP = "127.0.0.1"
        targetPort = {listener.port}
        eps = 1000
        """,
        encoding="utf-8",
    )
    known = {"GAPLESS_CONFIG": str(tmp_path / "gapless.toml"), "PATH": ""}
    scanned = GAPLESS.run("scan", "north", env=known)
    assert scanned.returncode == 0, scanned.stderr
    assert json.loads(bundle.read_text())["results"][0]["gaps"] == [[2, 3]]
    sent = GAPLESS.run("resend", "north", f"--bundle={bundle}", env=known)
    assert sent.returncode == 0, sent.stderr
    assert sent.stderr.splitlines()[-1] == "Sent 2 of 2 events."
    assert len(set(ids_of(listener.settled()))) == 2
