"""Owns one broker process on its own folder, through stops and kills. Must not know clusters, clients or topics."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

from kit.kafka.jars import KAFKA_VERSION, SMALL_AND_QUICK, class_archive, class_path, java
from kit.kafka.settings import Node, ServerSecurity, random_id, server_properties
from kit.machine.maven import cache_folder
from kit.machine.processes import end, start_bound, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LOGGING = """<Configuration status="ERROR"><Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/>
</Console></Appenders><Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""

_CHECKPOINT = cache_folder() / f"kafka-{KAFKA_VERSION}" / "bootstrap.checkpoint"
"""What Kafka's tool writes into each new folder, whatever the cluster."""


class BrokerDiedError(RuntimeError):
    """The broker ended or never answered; the message holds the end of its log."""


class Server:
    """One broker process on its own folder; a restart finds data and ports where they were."""

    def __init__(self, node: Node, listeners: Mapping[str, str], security: ServerSecurity | None) -> None:
        self.node = node
        self._listeners = listeners
        self._security = security
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        return self.node.folder / "broker.log"

    def launch(
        self, nodes: Sequence[Node], cluster_id: str, config: Mapping[str, str], jvm_options: Sequence[str]
    ) -> None:
        folder = self.node.folder
        folder.mkdir(parents=True, exist_ok=True)
        properties = folder / "server.properties"
        properties.write_text(server_properties(self.node, nodes, self._listeners, self._security, config))
        logging = folder / "log4j2.xml"
        logging.write_text(_LOGGING)
        options: list[str | Path] = [java(), *SMALL_AND_QUICK, "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off"]
        if class_archive().exists():
            options.append(f"-XX:SharedArchiveFile={class_archive()}")
        options += [f"-Dlog4j2.configurationFile={logging}", "-cp", class_path()]
        if not (self.node.log_folder / "meta.properties").exists():
            if _CHECKPOINT.exists() and "log.dirs" not in config:
                self._format(cluster_id)
            else:
                self._format_with_tool(cluster_id, options, properties)
        # The last option of a kind wins, so a test can ask for a larger heap.
        command: list[str | Path] = [*options, *jvm_options, "kafka.Kafka", properties]
        with self.log_file.open("ab") as log:
            self._process = start_bound(command, stdout=log, stderr=subprocess.STDOUT)

    def _format(self, cluster_id: str) -> None:
        """Do as Kafka's tool did on this machine before; the tool is a Java program of its own."""
        self.node.log_folder.mkdir(parents=True)
        shutil.copyfile(_CHECKPOINT, self.node.log_folder / _CHECKPOINT.name)
        (self.node.log_folder / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={self.node.node_id}\ndirectory.id={random_id()}\n"
        )

    def _format_with_tool(self, cluster_id: str, options: Sequence[str | Path], properties: Path) -> None:
        formatting = [*options, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", properties]
        done = subprocess.run(formatting, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise BrokerDiedError(f"The broker's folder cannot be formatted: {done.stdout}{done.stderr}")
        written = self.node.log_folder / _CHECKPOINT.name
        if written.exists():  # It is not, where "log.dirs" names other folders.
            temporary = _CHECKPOINT.with_name(f".{_CHECKPOINT.name}.{os.getpid()}")
            shutil.copyfile(written, temporary)
            temporary.rename(_CHECKPOINT)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def await_port(self, timeout_seconds: float) -> None:
        def answers() -> bool:
            if not self.running:
                raise BrokerDiedError(f"The broker ended while it started: {self.log_tail()}")
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.node.ports["PLAINTEXT"]), timeout=1),
            ):
                return True
            return False

        wait_until(answers, timeout_seconds=timeout_seconds, what="the broker's first answer")

    def log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        if self._process is not None:
            end(self._process, patience_seconds=20)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
