"""The proof that the commands which the README and the report page print work as they are printed.

Only what names a reader's own network and topics is replaced.
"""

from __future__ import annotations

import json
import re
import shlex
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyroaring import BitMap

from kit.story.commands import GAPLESS
from kit.story.resending import ids_of

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

README = Path(__file__).parents[2] / "README.md"
LOST = (3, 4, 7)


class Site(NamedTuple):
    """Two topics of one broker: what was sent, and what was received of it; and the gaps of that."""

    sent: str
    received: str
    gaps: str

    @property
    def missing(self) -> list[str]:
        """The IDs of the events that were lost."""
        return [f"{self.sent}_0_{offset}" for offset in LOST]


@pytest.fixture
def site(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> Site:
    site = Site(topic(prefix="sent"), topic(prefix="received"), topic(prefix="gaps"))
    kafka.produce(site.sent, [b"event"] * 10)
    received = [f"{site.sent}_0_{offset}".encode() for offset in range(10) if offset not in LOST]
    kafka.produce(site.received, [b"event"] * len(received), keys=received)
    window = struct.pack(">Bqq", 1, 0, 9) + BitMap(LOST).serialize()
    kafka.produce(site.gaps, [window], keys=[f"{site.sent}:0:0".encode()])
    write_link_profile(tmp_path / "link-profile.json")
    return site


def write_link_profile(path: Path) -> None:
    measured = {
        "run": "0000000000000007", "step": 3, "probes": 500, "missing": 1, "datagramsPerSecond": 2500.0,
        "bitsPerSecond": 20_000_000.0, "margin": 0.2, "acceptedLoss": 0.01, "isLimitKnown": True,
    }  # fmt: skip
    profile = {
        "gaplessLinkProfile": 1, "measuredAt": datetime.now(UTC).isoformat(), "measuredBy": "gapless link receive",
        "target": "127.0.0.1", "receiverNic": "", "port": 24117, "payloadSize": 1000, "headerBytes": 28, "copies": 1,
        "datagramsPerSecond": 2000.0, "bitsPerSecond": 16_000_000.0, "measurement": measured,
    }  # fmt: skip
    path.write_text(json.dumps(profile))


def execute(printed: str, replaced: Mapping[str, str], folder: Path) -> CompletedProcess[str]:
    """Run a printed command line; each key of `replaced` must be a complete value in one of the command lines."""
    program, *words = shlex.split(printed)
    assert program == "gapless"
    arguments = []
    for word in words:
        name, equals, value = word.partition("=")
        arguments.append(f"{name}={replaced.get(value, value)}" if equals else replaced.get(word, word))
    ended = GAPLESS.run(*arguments, cwd=folder, timeout_seconds=90)
    assert ended.returncode == 0, f"{printed}\n{ended.stderr}"
    return ended


def test_the_three_command_lines_of_the_readme_close_the_gaps(
    kafka: KafkaBroker, site: Site, listener: Listener, tmp_path: Path
) -> None:
    block = README.read_text().partition("\n## Use it\n")[2].partition("```console\n")[2].partition("\n```")[0]
    commands = re.sub(r"\\\n\s*", "", block).removeprefix("$ ").split("\n$ ")
    assert [command.split()[1] for command in commands] == ["scan", "audit", "resend"]
    replaced = {
        "kafka-down:9092": kafka.bootstrap,
        "kafka-up:9092": kafka.bootstrap,
        "gaps": site.gaps,
        "transfer": site.received,
        "10.0.0.2": "127.0.0.1",
        "1234": str(listener.port),
    }
    for command in commands[:2]:
        execute(command, replaced, tmp_path)
        results = json.loads((tmp_path / "gaps.bundle.json").read_text())["results"]
        assert [(each["topic"], each["gaps"]) for each in results] == [(site.sent, [[3, 4], [7]])], command
        if command is not commands[1]:
            (tmp_path / "gaps.bundle.json").unlink()
    ended = execute(commands[2], replaced, tmp_path)
    assert ended.stderr.splitlines()[-1] == "Sent 3 of 3 events."
    assert sorted(ids_of(listener.settled())) == site.missing
    assert json.loads((tmp_path / "gaps.report.json").read_text())["outcome"] == "Done"
    assert (tmp_path / "gaps.checkpoint").exists()


@pytest.mark.parametrize("command", ["scan", "audit"])
def test_the_command_lines_of_a_report_page_work_in_their_order(
    command: str, kafka: KafkaBroker, site: Site, listener: Listener, tmp_path: Path
) -> None:
    chosen = f"--topic={site.gaps}" if command == "scan" else f"--topics={site.received}"
    first = f"gapless {command} --bootstrap-servers={kafka.bootstrap} {chosen}"
    execute(f"{first} --resend-file-name=bundle.json --html=page.html", {}, tmp_path)
    page = (tmp_path / "page.html").read_text()
    commands = [unescape(re.sub(r"<[^>]*>", "", each)) for each in re.findall(r"<pre><code>(.*?)</code></pre>", page)]
    names = [" ".join(each.split()[1:3]) if "bundle text" in each else each.split()[1] for each in commands]
    assert names == ["resend", "bundle text", "verify", "audit" if command == "scan" else "inventory"]
    replaced = {
        "UPSTREAM": kafka.bootstrap,
        "RECEIVER": "127.0.0.1",
        "PORT": str(listener.port),
        "RECEIVED": site.received,
        "TOPICS": site.sent,
    }
    resent = execute(commands[0], replaced, tmp_path)
    assert resent.stderr.splitlines()[-1] == "Sent 3 of 3 events."
    ids = sorted(ids_of(listener.settled()))
    assert ids == site.missing
    kafka.produce(site.received, [b"event"] * len(ids), keys=[each.encode() for each in ids])  # as a receiver does
    _, verified, _ = [execute(each, replaced, tmp_path) for each in commands[1:]]
    assert "All 3 offsets of the older bundle have closed: 3 arrived." in verified.stdout
    assert (tmp_path / ("audit.html" if command == "scan" else "inventory.json")).exists()
