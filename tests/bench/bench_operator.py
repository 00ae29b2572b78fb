"""Measures the operator with 1,000 Resends of 100 KB, 200 of them queued, on 100 Diodes: memory, writes, reaction time.

`make bench-operator` writes build/bench/operator.json; with `--beside=200` it has 200 running Archives, Mirrors and
GapScans each, too. The API server, etcd and the Job controller are real; the node
is simulated (`kit.cluster.kubelet`), so no image is needed. The operator is a process of its own, started after all
objects exist, as after an upgrade: its peak includes the first lists and several full relists. All its requests except
watches are counted, including Leases and the canary. The reaction time is measured from the API server's response to a
change until the resulting status is written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_api.wire.totals import Totals
from gapless_operator.common.freshness import FRESH_FOR
from gapless_operator.common.observed import ROLE_LABEL
from kit.cluster.api_server import ApiServer
from kit.cluster.kubelet import Behaviour, Kubelet, Runs, as_lines
from kit.cluster.operator_process import PROGRAM
from kit.machine.processes import end, free_ports, start_bound
from kit.story import messages

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).parents[2]
NAMESPACE = "senders"
BUNDLE_BYTES = 100_000
GOALS = {"rest_mib": 150.0, "peak_mib": 200.0, "writes_per_minute_at_rest": 10.0, "reaction_seconds_p99": 2.0}
API = f"/apis/gapless.dev/v1alpha1/namespaces/{NAMESPACE}"
_TIMEOUT_SECONDS = 60.0
_WRITES = re.compile(r'^gapless_api_writes_total\{kind="(\w+)",verb="(\w+)"\} (\S+)$', re.MULTILINE)
_REQUESTS = re.compile(r'^gapless_api_requests_total\{method="(\w+)"\} (\S+)$', re.MULTILINE)


def bundle(seed: int) -> str:
    """Return a bundle of about 100 KB; with different seeds, no two Resends are the same work."""
    chance = random.Random(seed)
    ranges, offset = [], 1_000_000_000
    for _ in range(4000):
        offset += chance.randint(1000, 9000)
        ranges.append(OffsetRange(offset, offset + chance.randint(0, 900)))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        gaps = PartitionGaps("transfer", seed % 6, 0, offset + 1000, OffsetRanges(ranges))
        write_bundle(Path(file.name), BundleKind.ALL, [gaps], created=datetime.now(UTC), source={"command": "bench"})
        text = Path(file.name).read_text(encoding="utf-8")
    return text + " " * max(BUNDLE_BYTES - len(text), 0)


def behave(pod: dict[str, Any]) -> Behaviour:
    """Let preflight checks succeed, and all other pods run forever; only senders report something."""
    role = pod["metadata"]["labels"].get(ROLE_LABEL)
    if role == "preflight":
        return Runs(as_lines(messages.preflight()))
    if role != "send":
        return Runs(seconds=-1)
    return Runs(as_lines(messages.progress(Totals(planned=1000, sent=10, remaining=990))), seconds=-1)


class Bench:
    """A cluster with all objects, and the operator in it."""

    def __init__(
        self, api: ApiServer, folder: Path, *, resends: int, diodes: int, queued: int, beside: int = 0
    ) -> None:
        self.api, self.folder, self.beside = api, folder, beside
        self.resends, self.diodes, self.queued = resends, diodes, queued
        self.finished = resends - diodes - queued

    def fill(self) -> None:
        """Create all objects: finished Resends, and for every Diode one Resend that runs and some that wait."""
        self.api.request("POST", "/api/v1/namespaces", _object("v1", "Namespace", NAMESPACE, namespace=None))
        self._create(
            "kafkaconnections", "KafkaConnection", "up", {"bootstrapServers": "up:9092", "allowedTopics": ["*"]}
        )
        for number in range(self.diodes):
            self._create("diodes", "Diode", f"d{number}", _diode(number))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._resend, range(self.resends)))
            list(pool.map(self._create_beside, range(self.beside)))

    def _create_beside(self, number: int) -> None:
        """Create an Archive, a Mirror and a GapScan, whose pods run for ever."""
        if number == 0:
            access = {"allowedTopics": ["*"], "access": ["Read", "Write"]}
            self._create("kafkaconnections", "KafkaConnection", "other", {"bootstrapServers": "other:9092", **access})
            store = {"persistentVolumeClaim": {"claimName": "archive"}}
            self._create("storagelocations", "StorageLocation", "store", store)
        name, topics, kafka = f"b{number:04}", [f"topic-{number}"], {"name": "up"}
        archive = {"kafkaRef": kafka, "storageRef": {"name": "store"}, "region": name, "topics": topics}
        self._create("archives", "Archive", name, archive)
        self._create("mirrors", "Mirror", name, {"sourceRef": kafka, "targetRef": {"name": "other"}, "topics": topics})
        scan = {"kafkaRef": kafka, "source": {"gapTopic": {"topic": "gaps"}}, "engine": {"type": "Job"}}
        self._create("gapscans", "GapScan", name, scan)

    def _create(self, plural: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = _object("gapless.dev/v1alpha1", kind, name) | {"spec": spec}
        created: dict[str, Any] = self.api.request("POST", f"{API}/{plural}", body)
        return created

    def _resend(self, number: int) -> None:
        created = self._create("resends", "Resend", f"r{number:04}", self.resend_spec(number))
        if number < self.finished:
            status = _finished_status(number, created["metadata"]["generation"])
            path = f"{API}/resends/r{number:04}/status"
            self.api.request("PATCH", path, {"status": status}, content="application/merge-patch+json")

    def resend_spec(self, number: int) -> dict[str, Any]:
        """Return the spec that a user would apply."""
        return {
            "diodeRef": {"name": f"d{number % self.diodes}"},
            "kafkaRef": {"name": "up"},
            "bundle": {"inline": bundle(number)},
        }

    def start(self) -> Operator:
        """Start the operator."""
        return Operator(self.api, self.folder)

    def settled(self) -> bool:
        """Whether the expected numbers of Resends are active and queued."""
        statuses = [item.get("status") or {} for item in self.api.request("GET", f"{API}/diodes")["items"]]
        active = sum(len(status.get("active") or ()) for status in statuses)
        queued = sum(status.get("queued", 0) for status in statuses)
        return active == self.diodes and queued == self.queued and self._beside_run()

    def rates_are_gone(self) -> bool:
        """Whether no status of a Resend has a rate: each is written once more when its rate is too old to show."""
        statuses = [item.get("status") or {} for item in self.api.request("GET", f"{API}/resends")["items"]]
        return not any((status.get("progress") or {}).get("eventsPerSecond") for status in statuses)

    def _beside_run(self) -> bool:
        """Whether each object of another kind has a pod that runs."""
        pods = self.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"] if self.beside else ()
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return len([pod for pod in running if pod["metadata"]["labels"][ROLE_LABEL] != "send"]) >= 3 * self.beside

    def reactions(self, count: int) -> list[float]:
        """Create, suspend and resume Resends, and return the seconds until the status follows each change."""
        chance, reactions = random.Random(1), []
        waiting = list(range(self.finished + self.diodes, self.resends))
        for turn in range(count):
            time.sleep(chance.uniform(0.0, 0.8))
            if turn % 4 == 0:
                name = f"x{turn:04}"
                spec = self.resend_spec(self.resends + turn)
                self._create("resends", "Resend", name, spec)
            else:
                name = f"r{waiting[turn % len(waiting)]:04}"
                suspend = not self.api.request("GET", f"{API}/resends/{name}")["spec"].get("suspend", False)
                patch = {"spec": {"suspend": suspend}}
                self.api.request("PATCH", f"{API}/resends/{name}", patch, content="application/merge-patch+json")
            reactions.append(self._seconds_until_observed(name))
        return reactions

    def _seconds_until_observed(self, name: str) -> float:
        began = time.monotonic()
        while time.monotonic() - began < _TIMEOUT_SECONDS:
            body = self.api.request("GET", f"{API}/resends/{name}")
            if (body.get("status") or {}).get("observedGeneration") == body["metadata"]["generation"]:
                return time.monotonic() - began
            time.sleep(0.02)
        return _TIMEOUT_SECONDS


class Operator:
    """The operator as a process."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        [self._port] = free_ports(1)
        environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig), "POD_NAME": "bench"}
        options = [f"--namespace={NAMESPACE}", f"--metrics-port={self._port}", "--metrics-authentication=none"]
        with (folder / "operator.log").open("ab") as log:
            self.process: subprocess.Popen[bytes] = start_bound(
                [sys.executable, str(PROGRAM), *options, "--health-port=0"],
                stdout=log,
                stderr=log,
                environment=environment,
            )

    def memory(self, field: str) -> float:
        """Return its memory in MiB: VmRSS for the current, VmHWM for the peak value."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.findall(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)[0]) / 1024

    def processor_seconds(self) -> float:
        """Return its user and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def requests(self) -> dict[str, float]:
        """Return the requests to the API server so far, by method."""
        return {method: float(count) for method, count in _REQUESTS.findall(self._metrics())}

    def writes(self) -> Counter[str]:
        """Return the writes of reconciles so far, by kind and verb."""
        return Counter({f"{kind} {verb}": int(float(count)) for kind, verb, count in _WRITES.findall(self._metrics())})

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as response:
            return str(response.read().decode())


def _writes(requests: dict[str, float]) -> float:
    return sum(count for method, count in requests.items() if method != "GET")


def _object(api_version: str, kind: str, name: str, *, namespace: str | None = NAMESPACE) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _diode(number: int) -> dict[str, Any]:
    target = {"host": f"192.0.2.{number % 250 + 1}", "port": 1234}
    return {"nodeSelector": {"diode": "north"}, "nic": "diode0", "target": target, "unlimited": True}


def _finished_status(number: int, generation: int) -> dict[str, Any]:
    at = moment_text(datetime.now(UTC) - timedelta(hours=5))

    def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
        fields = {"type": kind, "status": status, "reason": reason, "message": "Sent 1,000 of 1,000 events."}
        return {**fields, "observedGeneration": generation, "lastTransitionTime": at}

    return {
        "observedGeneration": generation,
        "phase": "Sent",
        "conditions": [
            condition("Accepted", "True", "Accepted"),
            condition("Ready", "True", "Sent"),
            condition("Reconciling", "False", "Settled"),
            condition("Stalled", "False", "NotStalled"),
            condition("Succeeded", "True", "Sent"),
        ],
        "progress": {"planned": 1000, "sent": 1000, "percent": 100, "updatedAt": at},
        "identity": f"{number:064x}",
        "bundleSha256": f"{number:064x}",
        "attempt": 1,
        "startedAt": at,
        "finishedAt": at,
    }


def measure(bench: Bench, *, rest_seconds: float, changes: int) -> dict[str, Any]:
    """Run the operator twice: first until the expected Resends are active, then to measure."""
    first = bench.start()
    try:
        bench.api.eventually(bench.settled, timeout_seconds=900, what="one running Resend for each Diode")
        time.sleep(10)
    finally:
        end(first.process)
    operator = bench.start()
    try:
        bench.api.eventually(lambda: _answers(operator), timeout_seconds=120, what="the second start")
        # Until the first lists, all reconciles and one full relist are done; and each status has lost the rate of its
        # sender, which reports the same progress for ever.
        time.sleep(FRESH_FOR.total_seconds() + 60)
        bench.api.eventually(bench.rates_are_gone, timeout_seconds=900, what="statuses without a rate")
        before, burned, rest = operator.requests(), operator.processor_seconds(), []
        written = operator.writes()
        began = time.monotonic()
        while time.monotonic() - began < rest_seconds:
            time.sleep(1)
            rest.append(operator.memory("VmRSS"))
        minutes = (time.monotonic() - began) / 60
        after, burned = operator.requests(), operator.processor_seconds() - burned
        written = operator.writes() - written
        reactions = sorted(bench.reactions(changes))
        return {
            "rest_mib": round(max(rest), 1),
            "peak_mib": round(operator.memory("VmHWM"), 1),
            "writes_per_minute_at_rest": round((_writes(after) - _writes(before)) / minutes, 2),
            "reconcile_writes_at_rest": dict(written),
            "reads_per_minute_at_rest": round((after.get("GET", 0) - before.get("GET", 0)) / minutes, 1),
            "processor_seconds_per_minute_at_rest": round(burned / minutes, 2),
            "reaction_seconds_p99": round(reactions[min(int(len(reactions) * 0.99), len(reactions) - 1)], 3),
            "reaction_seconds_median": round(statistics.median(reactions), 3),
            "reactions": len(reactions),
        }
    finally:
        end(operator.process)


def _answers(operator: Operator) -> bool:
    try:
        return bool(operator.requests())
    except OSError:
        return False


def main() -> None:
    """Run the benchmark and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resends", type=int, default=1000)
    parser.add_argument("--diodes", type=int, default=100)
    parser.add_argument("--queued", type=int, default=200)
    parser.add_argument("--beside", type=int, default=0, help="this many Archives, Mirrors and GapScans each, too")
    parser.add_argument("--rest-seconds", type=float, default=180)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench" / "operator.json")
    options = parser.parse_args()
    args = {"resends": options.resends, "diodes": options.diodes, "queued": options.queued}
    args["beside"] = options.beside
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, ApiServer() as api:
        manifests = ROOT / "crds" / "manifests"
        api.apply(*sorted(manifests.glob("*.yaml")), server_side=True)
        for file in manifests.glob("*.yaml"):
            api.wait_for("crd", f"{file.stem}.gapless.dev", "Established")
        with Kubelet(api) as kubelet:
            kubelet.behave = behave
            bench = Bench(api, Path(folder), **args)
            bench.fill()
            found = measure(bench, rest_seconds=options.rest_seconds, changes=options.changes)
            if kubelet.errors:
                raise kubelet.errors[0]
    result = {**args, "bundle_bytes": BUNDLE_BYTES, **found, "goals": GOALS}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    missed = [name for name, goal in GOALS.items() if found[name] > goal]
    if missed:
        sys.exit(f"Goals missed: {', '.join(missed)}.")


if __name__ == "__main__":
    main()
