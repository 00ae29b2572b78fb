"""Keys are replaced as the page says it: its commands are run in their order, before and after each step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.certificates import make_receiver_keys
from kit.peer.receiver import Receiver

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.story.resending import Resend

    Shell = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "procedures" / "replace-a-key.md"


def commands_of(heading: str) -> list[str]:
    """The commands under a heading, each in one line."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return re.findall(r"\$ (.*)", re.sub(r"\\\n\s*", "", "".join(blocks)))


@pytest.fixture
def received(topic: TopicFactory) -> str:
    """The topic whose events are sent, and received under another name."""
    return topic(prefix="received")


@pytest.fixture
def receiver(kafka: KafkaBroker, received: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Receiver]:
    """A receiver with all keys of a folder, of which one is there already."""
    make_receiver_keys(tmp_path, "receiver-old")
    sent = received.replace("received", "sent")
    kafka.create_topic(sent, 1)
    kafka.produce(sent, [b"event %d" % number for number in range(10)])
    with Receiver(
        kafka.bootstrap,
        private_keys=str(tmp_path / "receiver-*.key"),
        topic_translations={sent: received},
        internal_topic=topic(prefix="internal"),
    ) as listening:
        yield listening


@pytest.fixture
def shell(kafka: KafkaBroker, receiver: Receiver, tmp_path: Path) -> Shell:
    """Run a command of the page with the addresses of this test."""
    own = {
        "kafka-up:9092": kafka.bootstrap,
        "10.0.0.2": "127.0.0.1",
        "--target-port=1234": f"--target-port={receiver.port}",
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(command: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
        for word, value in own.items():
            command = command.replace(word, value)
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, f"{command}\n{ended.stderr}"
        return ended

    return run


@pytest.fixture
def bundle(resend: Resend, received: str, tmp_path: Path) -> Path:
    sent = received.replace("received", "sent")
    return resend.bundle({(sent, 0): [[2, 4]]}).rename(tmp_path / "gaps.bundle.json")


def test_a_bundle_of_the_old_key_is_refused_until_it_is_signed_again(shell: Shell, bundle: Path) -> None:
    make, show, send, sign, verify = commands_of("The key that signs bundles")
    shell("openssl genpkey -algorithm ed25519 -out old-signing.pem")
    shell(f"gapless bundle sign {bundle.name} --key=old-signing.pem")
    shell(make)
    shell(show)
    assert (bundle.parent / "new-signing.pem").stat().st_mode & 0o077 == 0
    assert "north" in shell(send, code=2).stderr
    shell(sign)
    shell(verify)
    assert "Sent 3 of 3 events." in shell(send).stderr


@pytest.mark.usefixtures("bundle")
def test_the_receiver_reads_both_keys_until_the_old_one_is_deleted(
    shell: Shell, receiver: Receiver, kafka: KafkaBroker, received: str, tmp_path: Path
) -> None:
    make, send = commands_of("The private key of the receiver")
    assert "-newkey rsa" in make
    counts = []

    def sends(certificate: str) -> None:
        assert "Sent 3 of 3 events." in shell(send.replace("receiver-new.crt", certificate)).stderr
        receiver.wait_idle()
        counts.append(len(kafka.read(received)))

    sends("receiver-old.crt")
    shell(make)
    assert (tmp_path / "receiver-new.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    sends("receiver-old.crt")
    sends("receiver-new.crt")
    (tmp_path / "receiver-old.key").unlink()
    sends("receiver-new.crt")
    sends("receiver-old.crt")
    assert counts == [3, 6, 9, 12, 12], "the forgotten sender is not read any more"
