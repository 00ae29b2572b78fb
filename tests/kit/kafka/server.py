"""One broker process and its folder: start, stop and kill. Must not know clusters, clients or topics."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kit.kafka.jars import JVM_OPTIONS, KAFKA_VERSION, class_archive, class_path, java
from kit.kafka.settings import Node, ServerSecurity, random_id, server_properties
from kit.machine.maven import cache_folder
from kit.machine.processes import end, start_bound, wait_until

_LOGGING = """<Configuration status="ERROR"><Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/>
</Console></Appenders><Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""

_CHECKPOINT = cache_folder() / f"kafka-{KAFKA_VERSION}" / "bootstrap.checkpoint"
"""The file that Kafka's storage tool writes into each new folder, the same for every cluster."""


class BrokerDiedError(RuntimeError):
    """The broker exited or never answered; the message contains the end of its log."""


class Server:
    """One broker process with its own folder; a restart reuses data and ports."""

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
        options: list[str | Path] = [java(), *JVM_OPTIONS, "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off"]
        if class_archive().exists():
            options.append(f"-XX:SharedArchiveFile={class_archive()}")
        options += [f"-Dlog4j2.configurationFile={logging}", "-cp", class_path()]
        if not (self.node.log_folder / "meta.properties").exists():
            if _CHECKPOINT.exists() and "log.dirs" not in config:
                self._format(cluster_id)
            else:
                self._format_with_tool(cluster_id, options, properties)
        # The last of several equal JVM options wins, so a test can set a larger heap.
        command: list[str | Path] = [*options, *jvm_options, "kafka.Kafka", properties]
        with self.log_file.open("ab") as log:
            self._process = start_bound(command, stdout=log, stderr=subprocess.STDOUT)

    def _format(self, cluster_id: str) -> None:
        """Format the folder as Kafka's storage tool did before on this machine; the tool needs a JVM of its own."""
        self.node.log_folder.mkdir(parents=True)
        shutil.copyfile(_CHECKPOINT, self.node.log_folder / _CHECKPOINT.name)
        (self.node.log_folder / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={self.node.node_id}\ndirectory.id={random_id()}\n"
        )

    def _format_with_tool(self, cluster_id: str, options: Sequence[str | Path], properties: Path) -> None:
        formatting = [*options, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", properties]
        result = subprocess.run(formatting, check=False, capture_output=True, text=True)
        if result.returncode != 0:
            raise BrokerDiedError(f"The broker's folder could not be formatted: {result.stdout}{result.stderr}")
        written = self.node.log_folder / _CHECKPOINT.name
        if written.exists():  # not if "log.dirs" names other folders
            temporary = _CHECKPOINT.with_name(f".{_CHECKPOINT.name}.{os.getpid()}")
            shutil.copyfile(written, temporary)
            temporary.rename(_CHECKPOINT)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def await_port(self, timeout_seconds: float) -> None:
        def answers() -> bool:
            if not self.running:
                raise BrokerDiedError(f"The broker exited during its start: {self.log_tail()}")
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

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
