"""The operator as a process beside the cluster, with exactly the permissions of the chart, that tests can kill.

Must not import the product. The operator connects through `kubectl proxy`, which uses a token of the chart's service
account and logs every request: an audit log of the permissions that are needed.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import yaml

from kit.machine.processes import end, free_ports, start_bound, wait_until

if TYPE_CHECKING:
    import subprocess

    from kit.cluster.access import Cluster

PROGRAM = Path(__file__).with_name("operator_program.py")
"""The operator, which can kill itself after a write."""
KILL_AFTER_WRITE = "KILL_AFTER_WRITE"
"""Environment variable: the number of the write after which it kills itself."""
KILLED = -signal.SIGKILL
"""The exit code after that."""
_CALL = re.compile(r'verb="?(?P<verb>[A-Z]+)"? url="(?P<url>[^"]+)" status="(?P<status>\d*)')


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a resource, as in a Role."""

    group: str
    resource: str
    verb: str


@dataclass
class OperatorProcess:
    """The operator, run with the arguments of the chart's Deployment."""

    cluster: Cluster
    folder: Path
    """For kubeconfigs and logs."""
    account: str
    """NAMESPACE/NAME of its service account."""
    arguments: Sequence[str]
    kills: int = 0
    """Number of kills, each followed by a restart, since `start`."""
    _process: subprocess.Popen[bytes] | None = None
    _proxy: subprocess.Popen[bytes] | None = None
    _after_write: int | None = None

    def __enter__(self) -> Self:
        namespace, _, name = self.account.partition("/")
        token = self.cluster.kubectl("create", "token", name, f"--namespace={namespace}", "--duration=2h").strip()
        access: dict[str, Any] = yaml.safe_load(self.cluster.kubeconfig.read_text())
        access["users"] = [{"name": user["name"], "user": {"token": token}} for user in access["users"]]
        limited = self.folder / "account.kubeconfig"
        limited.touch(mode=0o600)
        limited.write_text(yaml.safe_dump(access))
        [port] = free_ports(1)
        with self.calls_file.open("ab") as calls:
            self._proxy = start_bound(
                [self.cluster.kubectl_program(), "proxy", f"--kubeconfig={limited}", f"--port={port}", "-v=6"],
                stdout=calls,
                stderr=calls,
            )
        wait_until(lambda: b"Starting to serve" in self.calls_file.read_bytes(), what="the proxy")
        cluster = {"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}
        user = {"name": "proxy", "user": {}}
        document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "proxy"}
        document |= {"clusters": [cluster], "contexts": [context], "users": [user]}
        self.kubeconfig.write_text(yaml.safe_dump(document))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._proxy is not None:
            end(self._proxy)

    @property
    def kubeconfig(self) -> Path:
        """The operator's kubeconfig."""
        return self.folder / "operator.kubeconfig"

    @property
    def calls_file(self) -> Path:
        """The log of all requests, across restarts."""
        return self.folder / "calls.log"

    @property
    def log_file(self) -> Path:
        """The operator's log, across restarts."""
        return self.folder / "operator.log"

    def start(self, after_write: int | None = None) -> None:
        """Start it; with `after_write` it kills itself after its n-th write, and `until` restarts it each time."""
        self.stop()
        self.kills, self._after_write = 0, after_write
        self._launch()

    def stop(self) -> None:
        """Stop it gracefully."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def until(self, met: Callable[[], object], *, timeout_seconds: float = 120.0, what: str = "done") -> None:
        """Keep it running until `met` returns a true value.

        Raises:
            TimeoutError: it did not; contains the end of the operator's log.
        """
        deadline = time.monotonic() + timeout_seconds
        while not met():
            self.keep()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not {what} after {timeout_seconds:.0f} s and {self.kills} kills\n{self.log_tail()}"
                )
            time.sleep(0.2)

    def keep(self) -> None:
        """Restart it if it was killed.

        Raises:
            RuntimeError: it exited without a kill.
        """
        code = self._process.poll() if self._process is not None else None
        if code is None:
            return
        if code != KILLED:
            raise RuntimeError(f"the operator exited with {code}\n{self.log_tail()}")
        self.kills += 1
        self._launch()

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log_file.read_text().splitlines()[-25:])

    def rights_used(self) -> set[Right]:
        """Return the permissions that its requests needed, including 404 and 409, which come after authorization."""
        rights = set()
        for match in _CALL.finditer(self.calls_file.read_text(errors="replace")):
            if match["status"].startswith("2") or match["status"] in {"404", "409"}:
                right = _right(match["verb"], match["url"])
                if right is None:
                    continue
                rights.add(right)
                if match["verb"] == "PATCH" and match["status"] == "201":  # an apply that created the object
                    rights.add(Right(right.group, right.resource, "create"))
        return rights

    def refusals(self) -> list[str]:
        """Return the requests that were forbidden."""
        calls = _CALL.finditer(self.calls_file.read_text(errors="replace"))
        return [f"{call['verb']} {call['url']}" for call in calls if call["status"] == "403"]

    def _launch(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
        environment |= {"KUBECONFIG": str(self.kubeconfig), "POD_NAME": "operator-under-test"}
        if self._after_write is not None:
            environment[KILL_AFTER_WRITE] = str(self._after_write)
        command = [sys.executable, str(PROGRAM), *self.arguments, "--metrics-port=0", "--health-port=0"]
        with self.log_file.open("ab") as log:
            self._process = start_bound(command, stdout=log, stderr=log, environment=environment)


def _right(verb: str, url: str) -> Right | None:
    split = urlsplit(url)
    parts = split.path.strip("/").split("/")
    if len(parts) < (3 if parts[0] == "api" else 4):
        return None  # discovery, which every user may do
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join((rest[0], *rest[2:3]))
    named = len(rest) > 1
    verbs = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}
    if verb != "GET":
        return Right(group, resource, verbs[verb])
    if "watch=true" in split.query or "watch=1" in split.query:
        return Right(group, resource, "watch")
    return Right(group, resource, "get" if named else "list")


def rights_of(roles: Sequence[dict[str, Any]]) -> set[Right]:
    """Return the permissions of Roles."""
    return {
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
