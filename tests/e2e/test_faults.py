"""What goes wrong in the field, on a real cluster: the operator is killed, pods go, Kafka and interfaces are away.

The operator runs as a process with the rights of the chart's account and nothing more; what it starts are real pods.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gapless_operator.sending.progress import WRITE_EVERY
from kit.cluster.operator_process import OperatorProcess, Right, rights_of
from kit.cluster.places import ClusterError
from kit.cluster.product import API_VERSION, CHART, NODE_LABEL, Installation, apply_without_programs
from kit.kafka.broker import KafkaBroker
from kit.machine.processes import end, start_bound
from kit.network.listener import Listener
from kit.story.resending import ids_of

if TYPE_CHECKING:
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.timeout(400)

NAME = f"faults-{os.getpid()}"
SYSTEM, SENDERS, SCANS = f"{NAME}-system", f"{NAME}-senders", f"{NAME}-scans"
IMAGE_VERSION = "dev"
"""As in conftest.py."""
VALUES = {
    "fullnameOverride": NAME,
    "roles": {"downstream": {"enabled": True}, "upstream": {"enabled": True}},
    "image": {"pullPolicy": "Never"},
    "images": {image: {"tag": IMAGE_VERSION} for image in ("operator", "spark", "sender")},
    "sender": {"namespace": {"name": SENDERS}},
    "scan": {"namespaces": [SCANS], "createNamespaces": True},
    "crds": {"enabled": False},
}
EVENTS = 20_000
"""In the topic; each as large as one datagram holds at most."""
A_BATCH = 500
"""Of datagrams, at two seconds of the pace: what may be sent again after a stop, for it was not yet noted."""


class Plant:
    """A broker, a listener behind the link, and the operator for one test."""

    def __init__(self, cluster: Cluster, broker: KafkaBroker, listener: Listener, operator: OperatorProcess) -> None:
        self.cluster, self.broker, self.listener, self.operator = cluster, broker, listener, operator

    def diode(self, name: str, **spec: Any) -> None:
        """Apply a Diode."""
        wanted = {
            "nodeSelector": NODE_LABEL,
            "nic": self.cluster.diode.nic,
            "target": {"host": self.cluster.diode.target, "port": self.listener.port},
            "requireStaticNeighbour": self.cluster.diode.one_way,
            "unlimited": "budget" not in spec,
        }
        self.cluster.apply(body("Diode", name, SENDERS, {**wanted, **spec}))

    def resend(self, name: str, diode: str, first: int, count: int, **spec: Any) -> dict[str, Any]:
        """A Resend of `count` events from the offset `first` on."""
        offsets = {"topic": "far", "partition": 0, "from": first, "to": first + count - 1}
        wanted = {"diodeRef": {"name": diode}, "kafkaRef": {"name": "kafka"}, "offsets": offsets}
        return body("Resend", name, SENDERS, {**wanted, **spec})

    def status(self, kind: str, name: str, namespace: str = SENDERS) -> dict[str, Any]:
        found = self.cluster.get(kind, name, namespace) or {}
        status: dict[str, Any] = found.get("status", {})
        return status

    def until(self, kind: str, name: str, met: Callable[[dict[str, Any]], object], **options: Any) -> dict[str, Any]:
        """Keep the operator running until the status of an object is as wanted; return it."""
        namespace = options.pop("namespace", SENDERS)
        last: dict[str, Any] = {}

        def looked() -> object:
            last.clear()
            last.update(self.status(kind, name, namespace))
            return met(last)

        try:
            self.operator.until(looked, **options)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.cluster.describe({'status': last}, namespace)}") from None
        return last

    def jobs(self, resend: str) -> list[dict[str, Any]]:
        return self.cluster.list("job", SENDERS, f"gapless.dev/name={resend},gapless.dev/kind=Resend")

    def ledger(self, diode: str) -> list[dict[str, Any]]:
        """What is recorded of a Diode."""
        parts = self.cluster.list("configmap", SENDERS, f"gapless.dev/role=ledger,gapless.dev/name={diode}")
        return [entry for part in parts for entry in json.loads(part["data"]["ledger.json"])["entries"]]

    def ids(self) -> Counter[str]:
        """How often each event was sent, once the link is silent."""
        return Counter(ids_of(self.listener.settled()))


def body(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def ids(first: int, count: int) -> set[str]:
    return {f"far_0_{offset}" for offset in range(first, first + count)}


def reason(status: dict[str, Any], kind: str = "Ready") -> str | None:
    return next((str(each["reason"]) for each in status.get("conditions", ()) if each["type"] == kind), None)


def message(status: dict[str, Any], kind: str = "Ready") -> str:
    return next((str(each["message"]) for each in status.get("conditions", ()) if each["type"] == kind), "")


def is_true(status: dict[str, Any], kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions", ()))


def succeeded(status: dict[str, Any]) -> bool:
    return is_true(status, "Succeeded")


@pytest.fixture(scope="module")
def release(installed: Installation) -> Iterator[list[dict[str, Any]]]:
    """All that the chart renders but its programs, in namespaces of this run."""
    cluster = installed.cluster  # with the definitions
    version = json.loads(cluster.kubectl("version", "-o=json"))["serverVersion"]["gitVersion"]
    settings = [f"--set-json={name}={json.dumps(value)}" for name, value in VALUES.items()]
    rendered = cluster.helm("template", NAME, str(CHART), "--namespace", SYSTEM, "--kube-version", version, *settings)
    manifests = [each for each in yaml.safe_load_all(rendered) if each]
    apply_without_programs(cluster, manifests, SYSTEM)
    labels = [f"{key}={value}" for key, value in NODE_LABEL.items()]
    cluster.kubectl("label", "nodes", "--all", "--overwrite", *labels)
    yield manifests
    if os.environ.get("GAPLESS_KEEP"):
        return
    for each in manifests:
        if each["kind"].startswith(("ValidatingAdmission", "ClusterRole", "PriorityClass")):
            cluster.delete(each["kind"], each["metadata"]["name"], wait=False)
    cluster.kubectl("delete", "namespace", SYSTEM, SENDERS, SCANS, "--wait=false")


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, release: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator, not running yet."""
    [deployment] = [each for each in release if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    account = f"{SYSTEM}/{pod['serviceAccountName']}"
    folder = tmp_path_factory.mktemp("operator")
    with OperatorProcess(cluster, folder, account, tuple(container["args"])) as process:
        yield process
        print(f"operator logs: {folder}")


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> Iterator[KafkaBroker]:
    """A broker that a test may kill."""
    with KafkaBroker(address=cluster.near_address) as own:
        own.create_topic("far")
        own.produce("far", (b"%d " % offset + bytes(900) for offset in range(EVENTS)))
        own.create_topic("received")
        yield own


@pytest.fixture
def plant(cluster: Cluster, broker: KafkaBroker, operator: OperatorProcess) -> Iterator[Plant]:
    """Everything a test needs; the operator is stopped after it."""
    with cluster.far_side():
        listener = Listener(cluster.diode.target)
    open_to = {"bootstrapServers": broker.bootstrap, "allowedTopics": ["far", "received"]}
    cluster.apply(*(body("KafkaConnection", "kafka", namespace, open_to) for namespace in (SENDERS, SCANS)))
    with listener:
        yield Plant(cluster, broker, listener, operator)
        operator.stop()
        for kind in ("resend", "diode"):
            cluster.kubectl("delete", kind, "--all", f"--namespace={SENDERS}", "--wait=false")
        cluster.kubectl("delete", "gapscan", "--all", f"--namespace={SCANS}", "--wait=false")


# ------------------------------------------------------------------------------------------- the operator is killed


def test_an_operator_that_is_killed_after_every_write_does_all_the_same(plant: Plant) -> None:
    """The first round kills it after each single write of all; later ones let it get further each time."""
    rounds, kills = {}, {}
    step, following = 1, 2
    while True:
        began, first = time.monotonic(), step * 100
        name = f"killed-{step}"
        plant.listener.forget()
        plant.diode(name)
        plant.cluster.apply(plant.resend(name, name, first, 50))
        plant.operator.start(after_write=step)
        status = plant.until("resend", name, succeeded, timeout_seconds=150, what="sent")
        diode = plant.until("diode", name, lambda it: not it.get("active"), what="settled")
        plant.operator.stop()
        check_final_state(plant, name, status, diode, first)
        kills[step] = plant.operator.kills
        rounds[step] = round(time.monotonic() - began, 1)
        plant.cluster.delete("resend", name, SENDERS, wait=False)
        plant.cluster.delete("diode", name, SENDERS, wait=False)
        if not plant.operator.kills:
            break
        step, following = following, step + following
    print(f"kills {kills}, seconds {rounds}")
    assert kills[1] >= 10


def check_final_state(plant: Plant, name: str, status: dict[str, Any], diode: dict[str, Any], first: int) -> None:
    """The same, whatever has happened on the way."""
    count = 50
    assert reason(status) == "Sent"
    assert status["attempt"] == 1
    progress = status["progress"]
    assert (progress["planned"], progress["sent"], progress["unavailable"]) == (count, count, 0)
    assert progress["percent"] == 100
    [entry] = plant.ledger(name)
    assert (entry["resend"], entry["sent"]) == (name, count)
    assert diode["queued"] == 0
    assert is_true(diode, "Ready")
    jobs = plant.jobs(name)
    assert [job["metadata"]["name"] for job in jobs] == [status["job"]]
    assert status["job"].startswith(f"{name}-")
    assert status["job"].endswith("-send-1")
    assert jobs[0]["status"]["succeeded"] == 1
    assert not jobs[0]["status"].get("failed")
    report = plant.cluster.get("configmap", status["report"], SENDERS)
    assert report is not None
    assert plant.ids() == Counter(ids(first, count))


def test_a_scan_whose_operator_is_killed_after_every_write_is_done_once(plant: Plant) -> None:
    name = "killed-scan"
    source = {"events": {"topics": ["received"], "expect": ["received:0:0-49"]}}
    resend = {"namespace": SENDERS, "diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka"}}
    spec = {
        "kafkaRef": {"name": "kafka"},
        "engine": {"type": "Job"},
        "source": source,
        "resend": resend,
    }
    plant.cluster.apply(body("GapScan", name, SCANS, spec))
    plant.operator.start(after_write=1)
    status = plant.until(
        "gapscan", name, lambda it: is_true(it, "Ready"), namespace=SCANS, timeout_seconds=180, what="answered"
    )
    plant.operator.stop()
    print(f"kills {plant.operator.kills}")
    assert plant.operator.kills >= 4
    assert status["missingEvents"] == 50
    assert status["lastAttempt"]["outcome"]
    assert len(plant.cluster.list("job", SCANS, f"gapless.dev/name={name}")) == 1
    found = plant.cluster.get("configmap", status["bundle"]["location"].rpartition("/")[2], SCANS)
    assert found is not None
    assert yaml.safe_load(status["resendManifest"])["kind"] == "Resend"


# --------------------------------------------------------------------------------- pods, Kafka and interfaces are away


def test_a_sender_pod_that_is_deleted_is_replaced_by_one_that_goes_on(plant: Plant) -> None:
    plant.operator.start()
    plant.diode("deleted")
    wanted = 2000
    plant.cluster.apply(plant.resend("deleted", "deleted", 0, wanted, eps=A_BATCH // 2))
    plant.operator.until(lambda: len(plant.listener.arrivals) > 600, what="in the middle")
    pods = plant.cluster.list("pod", SENDERS, "gapless.dev/name=deleted,gapless.dev/kind=Resend")
    [victim] = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]
    plant.cluster.kubectl("delete", "pod", victim, f"--namespace={SENDERS}", "--grace-period=1", "--wait=false")
    status = plant.until("resend", "deleted", succeeded, what="sent")
    sent = plant.ids()
    assert set(sent) == ids(0, wanted)
    print(f"sent twice: {sent.total() - wanted}")
    assert sent.total() <= wanted + A_BATCH
    assert status["progress"]["sent"] == wanted
    assert status["attempt"] == 1
    later = plant.cluster.list("pod", SENDERS, "gapless.dev/name=deleted,gapless.dev/kind=Resend")
    assert {pod["metadata"]["name"] for pod in later} - {victim}


def test_a_broker_that_is_away_is_named_and_waited_for(plant: Plant) -> None:
    plant.operator.start()
    plant.diode("away")
    plant.until("diode", "away", lambda it: is_true(it, "Ready"), what="ready")
    plant.broker.kill()
    try:
        plant.cluster.apply(plant.resend("away", "away", 0, 50))
        status = plant.until(
            "resend", "away", lambda it: reason(it) == "SourceUnreachable", timeout_seconds=150, what="told"
        )
        print(message(status))
        assert plant.broker.bootstrap in message(status)
        assert not plant.ids()
    finally:
        plant.broker.start()
    status = plant.until("resend", "away", succeeded, timeout_seconds=150, what="sent")
    assert status["attempt"] >= 2
    assert plant.ids() == Counter(ids(0, 50))


def test_a_missing_interface_is_named_and_whoever_waits_for_it_goes_on_once_it_is_right(plant: Plant) -> None:
    plant.operator.start()
    plant.diode("blind", nic="absent0")
    plant.cluster.apply(plant.resend("blind", "blind", 0, 50))
    diode = plant.until("diode", "blind", lambda it: reason(it) == "NicMissing", what="looked at")
    assert "There is no network interface absent0 on node" in message(diode)
    assert diode["preflight"]["exists"] is False
    status = plant.until("resend", "blind", lambda it: "absent0" in message(it), what="told")
    assert reason(status) == "DiodeNotReady"
    assert not plant.jobs("blind")
    plant.diode("blind")
    plant.until("resend", "blind", succeeded, what="sent")
    assert is_true(plant.status("diode", "blind"), "Ready")
    assert plant.ids() == Counter(ids(0, 50))


# ------------------------------------------------------------------------------------------------------ a long queue

QUEUED, ENDED_AT_LEAST = 200, 14
RATE = 100
"""Events a second of the whole Diode."""
EACH = 120
"""Events of each Resend."""
AT_ONCE = 2


class Watch:
    """What the API server tells about a kind while the test goes on, event by event."""

    def __init__(self, cluster: Cluster, kind: str, file: Path) -> None:
        self._file = file
        command = [str(cluster.kubectl_program()), "get", kind, f"--namespace={SENDERS}", "--watch", "-o=json"]
        with file.open("wb") as output:
            self._process = start_bound(
                [*command, "--output-watch-events"], stdout=output, environment=cluster.environment()
            )

    def close(self) -> list[tuple[str, dict[str, Any]]]:
        """End it and return type and object of all events."""
        end(self._process)
        text, decoder, position = self._file.read_text(), json.JSONDecoder(), 0
        told = []
        while "{" in text[position:]:
            try:
                event, position = decoder.raw_decode(text, text.index("{", position))
            except ValueError:
                break  # cut off where it ended
            told.append((event["type"], event["object"]))
        return told


def test_200_resends_wait_in_order_share_one_budget_and_are_not_written_about_while_they_wait(
    plant: Plant, tmp_path: Path
) -> None:
    """All 200 are there; what is observed is the way of the first ones, for a pod of each takes seconds to start."""
    priorities = {
        f"queue-{number:03}": 9 if number % 50 == 3 else 5 if number % 20 == 7 else 0 for number in range(200)
    }
    resends = [
        plant.resend(name, "queue", number * 50, EACH, priority=priority)
        for number, (name, priority) in enumerate(priorities.items())
    ]
    assert len(resends) == QUEUED
    plant.diode("queue", budget={"eventsPerSecond": RATE}, maxConcurrentResends=AT_ONCE)
    everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": resends})
    plant.cluster.kubectl("create", f"--namespace={SENDERS}", "-f=-", stdin=everything)
    jobs, told = (Watch(plant.cluster, kind, tmp_path / kind) for kind in ("jobs", "resends"))
    plant.operator.start()
    plant.operator.until(
        lambda: len(plant.ledger("queue")) >= ENDED_AT_LEAST, timeout_seconds=170, what="through with the first"
    )
    for name in (entry["resend"] for entry in plant.ledger("queue")):
        # The ledger is written first, and only what stands there is said to have succeeded.
        plant.until("resend", name, succeeded, timeout_seconds=60, what="said to have succeeded")
    diode = plant.status("diode", "queue")
    plant.operator.stop()
    of_jobs, of_resends = jobs.close(), told.close()

    created = {it["metadata"]["name"]: it["metadata"]["creationTimestamp"] for _, it in of_resends}
    wanted = sorted(priorities, key=lambda name: (-priorities[name], created[name], name))
    started = check_jobs(of_jobs)
    assert len(started) >= ENDED_AT_LEAST
    for count in range(1, len(started) + 1):
        # Two that begin together may do so in either order.
        assert set(started[:count]) <= set(wanted[: count + AT_ONCE - 1]), (started, wanted[: len(started)])
    assert QUEUED - len(started) - 1 <= diode["queued"] <= QUEUED - len(started) + AT_ONCE

    writes = Counter(it["metadata"]["name"] for kind, it in of_resends if kind == "MODIFIED")
    waiting = {name: writes[name] for name in wanted[len(started) + AT_ONCE :]}
    print(
        f"started {len(started)}, writes of those who wait {Counter(waiting.values())}, of others {writes[started[0]]}"
    )
    assert len(waiting) > QUEUED - 40
    assert max(waiting.values()) <= 3
    busiest = writes.most_common(1)[0][0]
    check_writes([it for kind, it in of_resends if kind == "MODIFIED" and it["metadata"]["name"] == busiest])

    check_budget([at for at, _ in plant.listener.arrivals])


def check_jobs(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Never more at once than allowed; return the Resends in the order in which they began."""
    running: set[str] = set()
    started: list[str] = []
    most = 0
    for kind, job in events:
        labels = job["metadata"]["labels"]
        if labels["gapless.dev/kind"] != "Resend" or job["spec"]["template"]["metadata"]["labels"] is None:
            continue
        name = labels["gapless.dev/name"]
        if not name.startswith("queue-"):
            continue
        if name not in started:
            started.append(name)
        over = any(each["type"] in {"Complete", "Failed"} for each in job.get("status", {}).get("conditions", ()))
        running = running - {name} if over or kind == "DELETED" else running | {name}
        most = max(most, len(running))
        assert len(running) <= AT_ONCE, running
    assert most == AT_ONCE
    return started


def check_writes(resends: list[dict[str, Any]]) -> None:
    """Beside a few writes of each attempt, none but progress is written, which has its interval."""
    attempts = max(it["status"]["attempt"] for it in resends)
    started = next(written_at(it) for it in resends if it["status"]["attempt"])
    intervals = (written_at(resends[-1]) - started) / WRITE_EVERY
    told = [
        f"{written_at(it)} {it['status'].get('progress', {}).get('sent')} {ready['reason']}: {ready['message']}"
        for it in resends
        for ready in it["status"]["conditions"]
        if ready["type"] == "Ready"
    ]
    assert len(resends) <= 3 + 5 * attempts + intervals, "\n".join(told)


def written_at(resend: dict[str, Any]) -> datetime:
    """When the last change of an object was written."""
    return max(datetime.fromisoformat(each["time"]) for each in resend["metadata"]["managedFields"])


def check_budget(arrivals: list[float]) -> None:
    """Neither on the whole nor in any two seconds did more events come than the budget allows."""
    assert len(arrivals) >= ENDED_AT_LEAST * EACH
    window, burst = 2.0, RATE // 5
    densest, first = 0, 0
    for last, at in enumerate(arrivals):
        while at - arrivals[first] > window:
            first += 1
        densest = max(densest, last - first + 1)
    lasting = arrivals[-1] - arrivals[0]
    print(f"{len(arrivals)} datagrams in {lasting:.1f} s, at most {densest} in {window} s")
    assert len(arrivals) <= RATE * lasting + burst
    assert densest <= RATE * window * 1.1 + burst


# ------------------------------------------------------------------------------------------------------------ rights

USED_ELSEWHERE = {
    # A cluster with the admission plugin OwnerReferencesPermissionEnforcement asks for these; this one has none.
    Right("gapless.dev", "diodes/finalizers", "update"),
    Right("gapless.dev", "gapscans/finalizers", "update"),
    Right("gapless.dev", "kafkaconnections/finalizers", "update"),
    Right("gapless.dev", "resends/finalizers", "update"),
    # The SparkApplication engine: test_spark_operator.
    *(
        Right("sparkoperator.k8s.io", "sparkapplications", verb)
        for verb in ("create", "get", "patch", "delete", "list", "watch")
    ),
    # The key of an encrypted Resend: test_resends.
    Right("", "secrets", "create"),
    # A check of a KafkaConnection: test_mirrors.
    Right("gapless.dev", "kafkaconnections/status", "patch"),
}
AFTER_A_CONFLICT = {
    Right("gapless.dev", kind, "get")
    for kind in ("archives", "diodes", "gapscans", "kafkaconnections", "mirrors", "resends", "restores")
}


def test_the_charts_roles_give_what_was_needed_and_nothing_more(
    plant: Plant, release: list[dict[str, Any]], operator: OperatorProcess
) -> None:
    """Every call is in the log of the proxy; these few steps are enough to need every right."""
    operator.start()
    plant.diode("rights")
    lost = plant.resend("lost", "rights", 0, 1, bundle={"configMap": {"name": "nowhere", "key": "bundle"}})
    del lost["spec"]["offsets"]
    plant.cluster.apply(lost, plant.resend("rights", "rights", 0, 200, eps=20, ttlSecondsAfterFinished=1))
    plant.until("resend", "lost", lambda it: reason(it) == "BundleNotFound", what="judged")
    operator.until(lambda: len(plant.listener.arrivals) > 10, what="sending")
    change(plant.cluster, "rights", suspend=True)
    operator.until(lambda: not plant.jobs("rights"), what="suspended")
    change(plant.cluster, "rights", suspend=False, eps=0)
    operator.until(lambda: plant.cluster.get("resend", "rights", SENDERS) is None, what="deleted")
    operator.stop()
    own = [
        each
        for each in release
        if (each["kind"] == "Role" and not each["metadata"]["name"].endswith("-spark-driver"))
        or (each["metadata"]["name"] == f"{NAME}-nodes" and each["kind"] == "ClusterRole")
    ]
    assert len(own) == 3
    given, used = rights_of(own), operator.rights_used()
    assert not [each for each in operator.refusals() if "sparkoperator" not in each]
    assert used <= given
    unused = given - used - USED_ELSEWHERE - AFTER_A_CONFLICT
    print(f"given {len(given)}, used {len(used)}, unused {sorted(unused)}")
    assert not unused
    for namespace in (SYSTEM, SENDERS, SCANS, "default"):
        for verb in ("get", "list", "watch"):
            assert not may(plant.cluster, operator.account, verb, "secrets", namespace)


def change(cluster: Cluster, resend: str, **spec: Any) -> None:
    patch = json.dumps({"spec": spec})
    cluster.kubectl("patch", "resend", resend, f"--namespace={SENDERS}", "--type=merge", "-p", patch)


def may(cluster: Cluster, account: str, verb: str, resource: str, namespace: str) -> bool:
    who = f"--as=system:serviceaccount:{account.replace('/', ':')}"
    try:
        said = cluster.kubectl("auth", "can-i", verb, resource, who, f"--namespace={namespace}")
    except ClusterError:  # kubectl ends with 1 for no
        return False
    return said.strip().startswith("yes")


# -------------------------------------------------------------------------------------------------- a restore


def restorable(found: dict[str, Any]) -> dict[str, Any]:
    """An object as a backup without status brings it back."""
    metadata = {
        name: found["metadata"][name]
        for name in ("name", "namespace", "labels", "annotations")
        if name in found["metadata"]
    }
    rest = {name: value for name, value in found.items() if name not in {"metadata", "status"}}
    return {**rest, "metadata": metadata}


@pytest.mark.parametrize("source", ["git", "backup"])
def test_what_is_restored_is_not_sent_a_second_time_and_what_was_half_sent_goes_on(plant: Plant, source: str) -> None:
    first, count, many = 4000 if source == "git" else 8000, 50, 3000
    diode, whole, half = (f"{name}-{source}" for name in ("restored", "whole", "half"))
    plant.listener.forget()
    plant.diode(diode)
    in_git = [
        plant.resend(whole, diode, first, count),
        plant.resend(half, diode, first + count, many, eps=200),
    ]
    plant.operator.start()
    plant.cluster.apply(in_git[0])
    plant.until("resend", whole, succeeded, what="sent")
    plant.cluster.apply(in_git[1])
    plant.until("resend", half, lambda it: it.get("progress", {}).get("sent", 0) > 600, what="half sent")
    kinds = ("resend", "diode", *(["configmap"] if source == "backup" else []))
    backup = [
        restorable(each)
        for kind in kinds
        for each in plant.cluster.list(kind, SENDERS)
        if kind != "configmap" or each["metadata"].get("labels", {}).get("gapless.dev/role") == "ledger"
    ]
    backup = [
        each for each in backup if each["metadata"]["name"] in {whole, half, diode} or each["kind"] == "ConfigMap"
    ]
    for name in (whole, half):
        plant.cluster.delete("resend", name, SENDERS)
    plant.cluster.delete("diode", diode, SENDERS)
    if source == "backup":
        plant.cluster.kubectl("delete", "configmap", f"--namespace={SENDERS}", "--selector=gapless.dev/role=ledger")
    over = f"gapless.dev/kind=Resend,gapless.dev/name in ({whole},{half})"
    plant.operator.until(lambda: not plant.cluster.list("pod", SENDERS, over), what="without pods")
    if source == "backup":
        # The ledger before the Resends, which would begin without it.
        for each in sorted(backup, key=lambda each: ["ConfigMap", "Diode", "Resend"].index(each["kind"])):
            each.get("spec", {}).pop("eps", None)
            plant.cluster.apply(each)
    else:
        plant.diode(diode)
        in_git[1]["spec"].pop("eps")
        plant.cluster.apply(*in_git)
    status = plant.until("resend", whole, succeeded, what="restored")
    assert reason(status, "Succeeded") == "AlreadySent"
    status = plant.until("resend", half, succeeded, timeout_seconds=150, what="sent to its end")
    assert reason(status, "Succeeded") == "Sent"
    assert status["progress"]["sent"] == many
    found = plant.ids()
    assert set(found) == ids(first, count + many)
    assert all(found[each] == 1 for each in ids(first, count)), "what was recorded is not sent again"
    assert sum(found.values()) - len(found) <= A_BATCH, "what was half sent goes on where it was"
    assert {entry["resend"] for entry in plant.ledger(diode)} == {whole, half}
