"""The proof that every example in ``--help`` works as it is printed, with real brokers, a store and a socket.

Only what names a reader's own network, folders and offsets is replaced. Files that an example reads are made by the
product's commands before.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyroaring import BitMap

from integration.test_doctor import commit
from integration.test_printed_commands import write_link_profile
from kit.kafka.broker import KafkaBroker
from kit.machine.processes import wait_until
from kit.network.listener import Listener
from kit.object_store import ObjectStore
from kit.signing import key_pair
from kit.story.commands import GAPLESS
from unit.docs.command_tree import help_examples

pytestmark = pytest.mark.integration

PROGRAM = Path(sys.executable).with_name("gapless")
IN_A_CLUSTER = ("gapless cluster ", "gapless ledger ")
"""Commands whose examples need an API server: `test_the_examples_of_help_work_as_they_are_printed` and
`test_the_example_of_help_exports_a_ledger` execute them.
"""
EXAMPLES = [example for example in help_examples() if not example.startswith(IN_A_CLUSTER)]
LOST = {0: (3, 4, 7), 1: (5,)}
"""Offsets by partition of the topic transfer."""
SHORT_KEY = "MCowBQYDK2VwAyEA…"
REST = {
    "audit": "--bootstrap-servers=kafka:9092 --topics=transfer --resend-file-name=bundle.json",
    "mirror": "--source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092",
    "restore": "--archive=/srv/archive --bootstrap-servers=kafka:9092",
}
"""What "…" stands for, by command."""
UNTIL = {
    "gapless archive --bootstrap-servers=kafka:9092 --topic-prefix=log-": '"lagRecords":20',
    "gapless compact --archive=s3://archive/site-a --schedule": "next compaction",
    "gapless link receive": '"listening"',
    "gapless link test --nic=diode0 --target-ip=10.0.0.2 --from": "   1  ",
    "gapless link test --nic=diode0 --target-ip=10.0.0.2 --rates": '"test"',
    "gapless mirror --source-bootstrap-servers=a:9092": '"state":"idle"',
    "gapless mirror … --topic-prefix=log-": '"state":"idle"',
    "gapless mirror … --topics=orders --rename": '"state":"idle"',
    "gapless mirror mm2.properties": '"state":"idle"',
    "gapless mirror evaluate": "evaluator listens",
    "gapless restore … --source": '"remaining":0',
}
"""The beginnings of examples that run until they are stopped, or for minutes, and what they have said by then."""
INCOMPLETE = "gapless verify old.json"
"""The beginning of the examples that find gaps which are still open, and end with 4."""
TYPED = {
    "gapless bundle text --read -": "transfer 0 3-4 7 r1eq\n=1 5 64fd\nend dt9s\n",
    "gapless link test --nic=diode0 --target-ip=10.0.0.2 --from=1Mbit": "y\n",
    "gapless segments delete --archive=/archive --topics=old --all": "y\n",
}
"""The beginnings of examples that read from a terminal, and what is typed there."""


CONNECTOR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "topics": "orders",
}
STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: copy
spec:
  connectCluster: b
  clusters:
  - alias: a
    bootstrapServers: a:9092
  - alias: b
    bootstrapServers: b:9092
  mirrors:
  - sourceCluster: a
    targetCluster: b
    topicsPattern: orders
    sourceConnector: {}
"""


class World(NamedTuple):
    """Kafka on the receiving and on the sending side, which also are the source and the target of mirrors; a store."""

    down: KafkaBroker
    up: KafkaBroker
    store: ObjectStore
    files: Path
    """What the examples read."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with KafkaBroker() as down, KafkaBroker() as up, ObjectStore() as store:
        for bucket in ("bucket", "archive"):
            store.make_bucket(bucket)
        fill(down, up)
        made = World(down, up, store, tmp_path_factory.mktemp("files"))
        with Listener() as receiver:
            write_files(Desk(made, made.files, receiver.port))
        yield made


def fill(down: KafkaBroker, up: KafkaBroker) -> None:
    """Create the topics and groups of both sides."""
    down.create_topic("orders", 8)
    for partition in (0, 5):
        down.produce("orders", [b"order"] * 20, partition=partition)
    for kafka in (down, up):
        kafka.create_topic("transfer", 2)
    down.create_topic("log-a")
    down.produce("log-a", [b"line"] * 20)
    down.create_topic("old")
    down.produce("old", [b"line"] * 20)
    down.create_topic("gaps")
    for partition, lost in LOST.items():
        up.produce("transfer", [b"event"] * 10, partition=partition)
        ids = [f"transfer_{partition}_{offset}".encode() for offset in range(10) if offset not in lost]
        down.produce("transfer", [b"event"] * len(ids), keys=ids, partition=partition)
        gaps = struct.pack(">Bqq", 1, 0, 9) + BitMap(lost).serialize()
        down.produce("gaps", [gaps], keys=[f"transfer:{partition}:0".encode()])
    for group in ("billing", "app-x"):
        commit(down, group, "orders", 5)


class Desk:
    """A folder of a reader, who types the examples there."""

    def __init__(self, world: World, folder: Path, port: int) -> None:
        self.folder, self._world, self._port = folder, world, port
        (folder / "access").write_text(ObjectStore.ACCESS_KEY)
        (folder / "secret").write_text(ObjectStore.SECRET_KEY)
        (folder / "secret").chmod(0o600)

    def empty_the_target(self) -> None:
        """Delete the topics that examples have written."""
        kafka = self._world.up
        for name in kafka.admin().list_topics(timeout=30).topics:
            if name != "transfer" and name[:2] != "__":
                kafka.delete_topic(name)

    def words(self, example: str) -> list[str]:
        """The words of an example, with "…" and the reader's own names replaced."""
        words = shlex.split(example)[1:]
        if "…" in words:
            words[words.index("…") : words.index("…") + 1] = REST[words[0]].split()
        upstream = words[0] in {"resend", "inventory", "restore"}
        if words[:2] == ["mirror", "import"]:
            return words  # these connect to nothing
        own = {
            "kafka:9092": (self._world.up if upstream else self._world.down).bootstrap,
            "a:9092": self._world.down.bootstrap,
            "b:9092": self._world.up.bootstrap,
            "10.0.0.2": "127.0.0.1",
            "=1234": f"={self._port}",
            "diode0": "lo",
            "eth1": "lo",
            "/var/lib/gapless": str(self.folder),
            "/run/gapless": str(self.folder),
            "=/archive": f"={self.folder}/archive",
            "=/srv/archive": f"={self.folder}/archive",
            "transfer/3/1045002": "transfer/0/3",
        }
        for old, new in own.items():
            words = [word.replace(old, new) for word in words]
        words = [f"{self.folder}{word}" if word.startswith("/archive#") else word for word in words]
        if any(SHORT_KEY in word for word in words):
            pem = (self.folder / "public.pem").read_text().splitlines()
            words = [word.replace(SHORT_KEY, pem[1]) for word in words]
        return words

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the reader: where the store is."""
        found = dict(os.environ)
        found |= {f"GAPLESS_{command}_PROGRESS_INTERVAL": "1" for command in ("ARCHIVE", "MIRROR", "RESTORE")}
        for command in ("ARCHIVE", "COMPACT", "SEGMENTS", "VERIFYCOPY"):
            found |= {
                f"GAPLESS_{command}_S3_ENDPOINT": self._world.store.endpoint,
                f"GAPLESS_{command}_S3_ACCESS_KEY_ID_FILE": str(self.folder / "access"),
                f"GAPLESS_{command}_S3_SECRET_ACCESS_KEY_FILE": str(self.folder / "secret"),
            }
        return found

    def execute(self, example: str, *, until: str = "", typed: str = "", code: int = 0) -> None:
        """Execute an example, on a terminal if something is typed.

        Args:
            example: as printed.
            until: what it has said when it is stopped; empty for an example that ends.
            typed: what is typed on the terminal.
            code: the expected exit code of an example that ends.
        """
        line, _, output = example.partition(" > ")
        printed, said = ((self.folder / name).open("wb") for name in (output or "printed", "said"))
        command = [PROGRAM, *self.words(line)]
        with printed, said:
            if typed:
                terminal, keyboard = pty.openpty()
                ends: dict[str, Any] = {"stdin": keyboard, "stdout": keyboard}
                os.write(terminal, typed.encode() + b"\x04")
                threading.Thread(target=copy, args=(terminal, self.folder / "printed"), daemon=True).start()
            else:
                ends = {"stdin": subprocess.DEVNULL, "stdout": printed}
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=said, **ends)
        try:
            if until:
                wait_until(lambda: until in self.said(), what=f"{until} of {example}")
                process.send_signal(signal.SIGTERM)
            ended = process.wait(90)
        finally:
            process.kill()
        assert ended == (143 if until else code), f"{example}\n{self.said()}"

    def said(self) -> str:
        """What the example has said so far, on both streams."""
        return "".join((self.folder / name).read_text() for name in ("said", "printed"))

    def run(self, line: str) -> None:
        """Run a command that an example needs."""
        ended = GAPLESS.run(*self.words(line), env=self.environment, cwd=self.folder)
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"


def copy(terminal: int, file: Path) -> None:
    """Copy what is written to a terminal into a file, until the terminal is closed."""
    with file.open("ab", buffering=0) as printed, contextlib.suppress(OSError):
        while text := os.read(terminal, 4096):
            printed.write(text)


def write_files(desk: Desk) -> None:
    """Make every file that an example reads."""
    folder = desk.folder
    key_pair(folder)
    shutil.copy(folder / "signing.pem", folder / "key.pem")
    for name in ("link.json", "link-profile.json"):
        write_link_profile(folder / name)
    desk.run("gapless scan --bootstrap-servers=kafka:9092 --topic=gaps --resend-file-name=bundle.json")
    desk.run("gapless bundle split bundle.json --into pieces --by partition")
    first, second = sorted((folder / "pieces").glob("*.json"))
    for name in ("all", "monday", "old"):
        shutil.copy(folder / "bundle.json", folder / f"{name}.json")
    for name in ("done", "north", "tuesday", "new"):
        shutil.copy(first, folder / f"{name}.json")
    shutil.copy(second, folder / "south.json")
    shutil.rmtree(folder / "pieces")
    desk.run(
        "gapless resend --bootstrap-servers=kafka:9092 --target-ip=10.0.0.2 --target-port=1234 --unlimited "
        "--resend-file-name=bundle.json --report=resend.json"
    )
    desk.run(
        "gapless inventory --bootstrap-servers=kafka:9092 --topics=transfer --inventory=transfer.inventory.json "
        "--signing-key=signing.pem"
    )
    for place in ("/archive", "s3://bucket/archive", "s3://archive/site-a"):
        topics = "--topics=orders,transfer,old --region=site-a"
        desk.run(f"gapless archive --bootstrap-servers=kafka:9092 {topics} --archive={place} --once")
    desk.run("gapless restore --archive=/archive --bootstrap-servers=a:9092 --topics=orders --to-topic=restored")
    desk.run(
        "gapless verify-copy /archive#orders kafka://kafka:9092/orders --signing-key=key.pem --report=evidence.json"
    )
    down, up = desk.words("gapless a:9092 b:9092")
    (folder / "create.properties").write_text(f"bootstrapServers={down}\ntopic=gaps\n")
    (folder / "mirror.properties").write_text(
        f"sourceBootstrapServers={down}\ntargetBootstrapServers={up}\ntopics=orders\n"
    )
    (folder / "mm2.properties").write_text(
        f"clusters=A,B\nA.bootstrap.servers={down}\nB.bootstrap.servers={up}\nA->B.enabled=true\nA->B.topics=orders\n"
    )
    (folder / "topics.txt").write_text("orders\nlog-a\n")
    (folder / "connectors.json").write_text(json.dumps({"name": "copy", "config": CONNECTOR}))
    (folder / "kafka-mirror-maker-2.yaml").write_text(STRIMZI)


@pytest.fixture
def desk(world: World, listener: Listener, tmp_path: Path) -> Desk:
    shutil.copytree(world.files, tmp_path, dirs_exist_ok=True)
    link = f"targetIP=127.0.0.1\ntargetPort={listener.port}\neps=500\n"
    for name in ("up.properties", "upstream.properties"):
        (tmp_path / name).write_text(f"bootstrapServers={world.up.bootstrap}\ntopic=transfer\n{link}")
    return Desk(world, tmp_path, listener.port)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_help_works_as_it_is_printed(example: str, desk: Desk) -> None:
    if example.startswith(("gapless mirror", "gapless restore")):
        desk.empty_the_target()
    if example.startswith(("gapless mirror diff", "gapless mirror groups", "gapless mirror status")):
        desk.run(f"gapless mirror {REST['mirror']} --topics=orders --once")
    if "site-b" in example:
        desk.run("gapless archive --bootstrap-servers=a:9092 --topics=orders --archive=/archive --region=site-b --once")
    until, typed = (
        next((text for begin, text in texts.items() if example.startswith(begin)), "") for texts in (UNTIL, TYPED)
    )
    desk.execute(example, until=until, typed=typed, code=4 if example.startswith(INCOMPLETE) else 0)
