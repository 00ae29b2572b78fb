"""The fixtures of the shell's tests: a real API server, a simulated node, and the operator as a process.

The tests define the behaviour of containers (`kit.cluster.kubelet`); objects, validation, Jobs, watches, server-side
apply and garbage collection are real.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_api.wire.result_lines import result_lines
from gapless_api.wire.totals import Totals
from gapless_spark.output.result_log import short_report
from kit.cluster.api_server import ApiServer
from kit.cluster.kubelet import Behaviour, Kubelet, Runs, as_lines
from kit.cluster.operator_process import KILL_AFTER_WRITE, PROGRAM
from kit.cluster.operator_program import run
from kit.machine.forked_program import ForkedProgram, load_before_forks
from kit.machine.processes import end, free_ports, start_bound
from kit.machine.shared_resources import shared_resource
from kit.story import messages

MANIFESTS = Path(__file__).parents[3] / "crds" / "manifests"
load_before_forks("gapless_operator.main", "gapless_operator.shell.service")
_numbers = itertools.count(1)
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
GAPS: Gaps = {("transfer", 0): [(5, 5), (10, 13)], ("transfer", 1): [(0, 1)], ("transfer", 2): []}


def scan_log(gaps: Gaps = GAPS, **more: Any) -> str:
    """Return the log of a scan's pod that found `gaps`; `more` are fields of its report."""
    results = [
        PartitionGaps(topic, partition, 0, 9999, OffsetRanges([OffsetRange(*pair) for pair in pairs]))
        for (topic, partition), pairs in gaps.items()
    ]
    output = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(output, write_through=True)) as stream:
        at = datetime(2026, 11, 20, 10, tzinfo=UTC)
        mark = write_bundle(None, BundleKind.ALL, results, created=at, source={"command": "gapless scan"})
        content = output.getvalue()
        stream.detach()
    report = messages.scan_report(gaps, {"file": None, "id": mark.id, "sha256": mark.sha256}, **more)
    return "\n".join([*result_lines(short_report(report, omits_bundle=False), gzip.compress(content, mtime=0)), ""])


PREFLIGHT_LOG = as_lines(messages.preflight())


def sender_log(planned: int = 7) -> str:
    """Return the log of a sender that has sent everything."""
    ledger = Totals(planned=planned, sent=planned)
    return as_lines(messages.progress(ledger), messages.report(ledger))


def as_usual(pod: dict[str, Any]) -> Behaviour:
    """Let every pod succeed, with the log of its role."""
    role = pod["metadata"]["labels"].get("gapless.dev/role")
    return Runs({"scan": scan_log(), "preflight": PREFLIGHT_LOG, "send": sender_log()}.get(str(role), ""))


@contextmanager
def server_with_definitions() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.apply(*sorted(MANIFESTS.glob("*.yaml")), server_side=True)
        for file in MANIFESTS.glob("*.yaml"):
            server.wait_for("crd", f"{file.stem}.gapless.dev", "Established")
        yield server


@pytest.fixture(scope="module")
def api() -> ApiServer:
    """A real API server with our CRDs, shared by consecutive files of this folder."""
    if os.environ.get("GAPLESS_NO_CLUSTER"):
        pytest.skip("GAPLESS_NO_CLUSTER is set: there is no API server to test with")
    return shared_resource(Path(__file__).parent, "API server", server_with_definitions)


@pytest.fixture(scope="module")
def kubelet(api: ApiServer) -> Iterator[Kubelet]:
    """A simulated node whose pods behave as tests define."""
    with Kubelet(api) as node:
        yield node
        assert not node.errors


class Place:
    """A namespace and its objects."""

    as_usual = staticmethod(as_usual)
    scan_log = staticmethod(scan_log)

    def __init__(self, api: ApiServer, name: str) -> None:
        self.api, self.name = api, name
        self.behave: Callable[[dict[str, Any]], Behaviour | None] = as_usual

    def apply(self, kind: str, name: str, /, **spec: Any) -> None:
        """Apply a custom resource, as a user would."""
        body = {
            "apiVersion": "gapless.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.name},
            "spec": spec,
        }
        self.api.request(
            "PATCH",
            f"{self.path(kind, name)}?fieldManager=user&force=true",
            body,
            content="application/apply-patch+yaml",
        )

    def kafka(self, name: str, **spec: Any) -> None:
        """Apply a KafkaConnection."""
        defaults = {"bootstrapServers": f"{name}:9092", "allowedTopics": ["*"]}
        self.apply("KafkaConnection", name, **{**defaults, **spec})

    def gap_scan(self, name: str = "night", **spec: Any) -> None:
        """Apply a GapScan."""
        defaults = {
            "kafkaRef": {"name": "kafka"},
            "source": {"gapTopic": {"topic": "gaps"}},
            "engine": {"type": "Job"},
            "resend": {"diodeRef": {"name": "north"}, "kafkaRef": {"name": "up"}},
        }
        self.apply("GapScan", name, **{**defaults, **spec})

    def diode(self, name: str = "north", **spec: Any) -> None:
        """Apply a Diode."""
        defaults = {"nodeSelector": {"diode": "north"}, "nic": "diode0", "target": {"host": "192.0.2.2", "port": 1234}}
        self.apply("Diode", name, **{**defaults, "unlimited": True, **spec})

    def resend(self, name: str = "again", **spec: Any) -> None:
        """Apply a Resend."""
        defaults = {
            "diodeRef": {"name": "north"},
            "kafkaRef": {"name": "up"},
            "offsets": {"topic": "transfer", "partition": 0, "from": 0, "to": 6},
        }
        self.apply("Resend", name, **{**defaults, **spec})

    def path(self, kind: str, name: str = "") -> str:
        """Return the API path of a custom resource."""
        plural = f"{kind.lower()}s"
        return f"/apis/gapless.dev/v1alpha1/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def read(self, kind: str, name: str) -> dict[str, Any]:
        """Read a custom resource."""
        body: dict[str, Any] = self.api.request("GET", self.path(kind, name))
        return body

    def condition(self, kind: str, name: str, condition_type: str) -> tuple[str, str]:
        """Return status and reason of a condition."""
        for condition in self.read(kind, name).get("status", {}).get("conditions", ()):
            if condition["type"] == condition_type:
                return condition["status"], condition["reason"]
        return "", ""

    def until(
        self, kind: str, name: str, condition_type: str, status: str, reason: str, *, seconds: float = 30
    ) -> None:
        """Wait for a condition."""
        try:
            self.api.eventually(
                lambda: self.condition(kind, name, condition_type) == (status, reason),
                timeout_seconds=seconds,
                what=f"{condition_type}={status}/{reason} of {kind} {name}",
            )
        except TimeoutError as error:
            current = json.dumps(self.read(kind, name).get("status"), indent=1)
            raise TimeoutError(f"{error}; its status is {current}") from None

    def objects(self, path: str) -> list[dict[str, Any]]:
        """List objects such as ``/apis/batch/v1 jobs``."""
        prefix, plural = path.split()
        items: list[dict[str, Any]] = self.api.request("GET", f"{prefix}/namespaces/{self.name}/{plural}")["items"]
        return items

    def names(self, path: str) -> list[str]:
        """Return the names of objects such as ``/apis/batch/v1 jobs``, without the canary."""
        return sorted(item["metadata"]["name"] for item in self.objects(path) if not _is_canary(item))

    def ledger(self, diode: str) -> list[dict[str, Any]]:
        """Return the entries of a Diode's ledger."""
        maps = [item for item in self.objects("/api/v1 configmaps") if f"ledger-{diode}-" in item["metadata"]["name"]]
        return [entry for item in maps for entry in json.loads(item["data"]["ledger.json"])["entries"]]

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of the events about an object, oldest first."""
        events = [e for e in self.objects("/apis/events.k8s.io/v1 events") if e["regarding"]["name"] == name]
        return [event["reason"] for event in sorted(events, key=lambda event: event["eventTime"] or "")]


def _is_canary(item: dict[str, Any]) -> bool:
    return bool(item["metadata"]["name"] == "gapless-operator-canary")


@contextmanager
def a_place(api: ApiServer, kubelet: Kubelet) -> Iterator[Place]:
    """Create a namespace, and delete it at the end."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.request("POST", "/api/v1/namespaces", body)
    made = Place(api, name)
    for kafka in ("kafka", "up"):
        made.kafka(kafka)
    before = kubelet.behave

    def behave(pod: dict[str, Any]) -> Behaviour | None:
        return made.behave(pod) if pod["metadata"]["namespace"] == name else before(pod)

    kubelet.behave = behave
    yield made
    kubelet.behave = before
    api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def place(api: ApiServer, kubelet: Kubelet) -> Iterator[Place]:
    """A namespace for one test."""
    with a_place(api, kubelet) as made:
        yield made


@pytest.fixture(scope="module")
def watched_place(api: ApiServer, kubelet: Kubelet) -> Callable[[Path], AbstractContextManager[Any]]:
    """Creates a namespace with operators for several tests; the operators' logs go to the given folder."""

    @contextmanager
    def make(folder: Path) -> Iterator[tuple[Place, Callable[..., Operator]]]:
        with a_place(api, kubelet) as made, operators_of(api, made, folder) as start:
            yield made, start

    return make


_MOUNTED = "/var/run/secrets/kubernetes.io/serviceaccount"
IN_A_POD = f"""
mount -t tmpfs tmpfs /run && mkdir -p {_MOUNTED} && mount --bind "$1" {_MOUNTED} && shift && exec "$@"
"""
"""Runs a command that sees a folder where the kubelet would mount the service account."""


class Operator:
    """The operator as a process."""

    def __init__(
        self, api: ApiServer, namespace: str | None, log: Path, *, kill_after_write: int | None = None, **options: Any
    ) -> None:
        self.metrics_port, self.health_port = free_ports(2)
        self.log = log
        environment = {
            **os.environ,
            "KUBECONFIG": str(options.pop("kubeconfig", api.kubeconfig)),
            "POD_NAMESPACE": namespace or "",
        }
        environment |= options.pop("environment", {})
        account: Path | None = options.pop("account", None)
        """The folder that the kubelet would mount for the pod's service account."""
        inside: list[str] = []
        if account is not None:
            del environment["KUBECONFIG"]
            environment |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)}
            inside = ["unshare", "--mount", "sh", "-c", IN_A_POD, "sh", str(account)]
        if kill_after_write is not None:
            environment[KILL_AFTER_WRITE] = str(kill_after_write)
        settings = {"resync-seconds": 1, "relist-seconds": 5, "metrics-port": self.metrics_port}
        settings |= {"health-port": self.health_port, "namespace": namespace, "metrics-authentication": "none"}
        settings |= {name.replace("_", "-"): value for name, value in options.items()}
        arguments = [f"--{name}={value}" for name, value in settings.items() if value is not None]
        log.touch()
        self.process: ForkedProgram | subprocess.Popen[bytes]
        if "LD_PRELOAD" in environment or inside:  # have no effect on a fork
            with log.open("ab") as stream:
                command = [*inside, sys.executable, str(PROGRAM), *arguments]
                self.process = start_bound(command, stdout=stream, stderr=stream, environment=environment)
        else:
            self.process = ForkedProgram(run, arguments, environment=environment, output=log)

    def lines(self) -> list[dict[str, Any]]:
        """Return the entries of its log."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]

    def probe(self, path: str) -> tuple[int, str]:
        """Return status and text of a probe, as the kubelet would get them; 0 without a response."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/{path}", timeout=5) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def probe_status(self) -> int:
        """Return the status of the liveness probe; 0 without a response."""
        return self.probe("healthz")[0]

    def ready(self) -> bool:
        """Whether the readiness probe succeeds."""
        return self.probe("readyz")[0] == 200

    def healthy(self) -> bool:
        """Whether the liveness probe succeeds."""
        return self.probe_status() == 200

    def metrics(self) -> str:
        """Return the metrics as Prometheus would scrape them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def stop(self) -> int:
        """Stop it gracefully; return the exit code."""
        return end(self.process)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self, seconds: float) -> int | None:
        """Wait for the exit code; return None if it is still running."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


@contextmanager
def operators_of(api: ApiServer, place: Place, folder: Path) -> Iterator[Callable[..., Operator]]:
    """Yield a function that starts operators; stop them at the end, and check that their logs have no errors."""
    started: list[Operator] = []

    def start(**options: Any) -> Operator:
        log = folder / f"operator-{len(started)}.log"
        operator = Operator(api, options.pop("namespace", place.name), log, **options)
        started.append(operator)
        return operator

    yield start
    for running in started:
        if running.process.poll() is None:
            assert running.stop() == 0, running.log.read_text()[-3000:]
        errors = [line for line in running.lines() if line["level"] in {"error", "critical"}]
        assert not errors, errors
        assert "Traceback" not in running.log.read_text(encoding="utf-8")


@pytest.fixture
def operator(api: ApiServer, place: Place, tmp_path: Path) -> Iterator[Callable[..., Operator]]:
    """Starts operators for the namespace of one test."""
    with operators_of(api, place, tmp_path) as start:
        yield start


def soon(condition: Callable[[], Any], *, seconds: float = 20) -> Any:
    """Wait until the condition returns a true value; return that."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition was not met within {seconds} s")
        time.sleep(0.1)
    return found
