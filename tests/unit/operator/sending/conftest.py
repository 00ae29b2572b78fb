"""A sender namespace in memory: it applies plans like the API server, and simulates the Job controller and kubelets.

The product's own Observer collects the input of the reconcilers.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition
from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.resend import Resend
from gapless_api.wire.totals import Totals
from gapless_operator.common.children import has_label_for
from gapless_operator.common.observed import (
    DIODE_LABEL,
    LEDGER_ROLE,
    NAME_LABEL,
    ROLE_LABEL,
    UID_LABEL,
    ObservedJob,
    ObservedNode,
)
from gapless_operator.common.settings import OperatorSettings, Program
from gapless_operator.sending.ledger import LedgerPart, entries_of
from gapless_operator.shell.api.errors import RefusedError
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.store import Cache, Key
from gapless_operator.shell.cache.trimming import trim
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.planning import plan_for
from kit.story import messages
from kit.story.plans import is_empty

if TYPE_CHECKING:
    from gapless_api.wire.ledger import LedgerEntry
    from gapless_operator.common.plan import Event, Plan, Ref
    from gapless_operator.shell.api.kinds import Kind

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
PROGRAM = Program(image="gapless/sender:1", service_account="gapless-sender")
NAMESPACE = "gapless-sender"
DIODE_SPEC: dict[str, Any] = {
    "nodeSelector": {"gapless.dev/diode": "hall"},
    "nic": "diode0",
    "target": {"host": "10.0.0.2", "port": 1234},
}
RESEND_SPEC: dict[str, Any] = {
    "diodeRef": {"name": "hall"},
    "kafkaRef": {"name": "kafka-up"},
    "offsets": {"topic": "transfer", "partition": 0, "from": 0, "to": 999},
}


KAFKA_SPEC: dict[str, Any] = {"bootstrapServers": "kafka-up:9092", "allowedTopics": ["*"]}
STORAGE_SPEC: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "bundles"}}


class Crashed(RuntimeError):  # noqa: N818 -- a simulated event, not an error of the test
    """The operator died after a write."""


class SenderCluster:
    """The objects in the API server. Bodies are replaced, never changed."""

    def __init__(self) -> None:
        self.program = PROGRAM
        self.now = START
        self.bodies: dict[tuple[str, str], dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.events: list[tuple[str, Event]] = []
        self.writes = 0
        self.status_writes: dict[str, int] = {}
        self.created_jobs: list[str] = []
        self.runs_preflights = False
        """Whether `settle` lets preflights succeed."""
        self.crash_at: int | None = None
        """The number of the write after which the operator dies, once."""
        self.unreadable: dict[str, str] = {}
        """Pods whose logs cannot be read, and why."""
        self.refuses_to_read = ""
        """Why the operator may not read objects by name; empty when it may."""
        self.nodes: dict[str, ObservedNode] = {}
        """States of nodes."""
        self.node = "node-1"
        """Where the scheduler puts pods."""
        self._models: dict[int, tuple[Any, Any]] = {}
        keys = itertools.count(1)
        self._created: Counter[tuple[str, str]] = Counter()
        self._listed: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {}
        self._delivered: dict[tuple[str, str], dict[str, Any]] = {}
        """The bodies that the operator's watches have delivered."""
        self._versions = itertools.count(1)
        self._log_writes = 0
        self._cache = Cache()
        # A running pod's log is read every three seconds, so each write to a log advances the clock by that.
        logs = PodLogs(
            self,
            start=lambda read: read(),
            node=self.nodes.get,
            clock=lambda: self.now.timestamp() + 3.0 * self._log_writes,
            now=lambda: self.now,
        )
        # Keys differ between calls and are the same in each cluster.
        self._observer = Observer(
            self._cache, self, logs, self.nodes.get, lambda size: (next(keys) % 2 ** (8 * size)).to_bytes(size)
        )
        self._uids = (f"uid-{number}" for number in itertools.count(1))
        self.kafka()
        self.storage()

    # ------------------------------------------------------------------------------------------- users
    def diode(self, name: str = "hall", **spec: Any) -> None:
        """Apply a Diode, or another spec of it."""
        unlimited = not (spec.get("budget") or "profileRef" in spec)
        self._apply_spec("Diode", name, {**DIODE_SPEC, "unlimited": unlimited, **spec})

    def kafka(self, name: str = "kafka-up", **spec: Any) -> None:
        """Apply a KafkaConnection, or another spec of it."""
        self._apply_spec("KafkaConnection", name, {**KAFKA_SPEC, **spec})

    def storage(self, name: str = "bundles", **spec: Any) -> None:
        """Apply a StorageLocation, or another spec of it."""
        self._apply_spec("StorageLocation", name, spec or STORAGE_SPEC)

    def archive(self, name: str = "nightly", **spec: Any) -> None:
        """Apply an Archive, or another spec of it."""
        given = {"kafkaRef": {"name": "kafka-up"}, "region": "site-a", "topics": ["transfer"], **spec}
        self._apply_spec("Archive", name, given)

    def resend(self, name: str = "repeat", *, without: tuple[str, ...] = (), **spec: Any) -> None:
        """Apply a Resend, or another spec of it."""
        remaining = {key: value for key, value in {**RESEND_SPEC, **spec}.items() if key not in without}
        self._apply_spec("Resend", name, remaining)

    def begin(self, **spec: Any) -> str:
        """Apply a Resend and start its pods; return the name of its Job."""
        self.resend(**spec)
        self.settle()
        self.start_pods()
        return str(self.a_resend().status.job)

    def finished(self, name: str = "repeat", **spec: Any) -> None:
        """Apply a Resend, and let it send everything."""
        self.resend(name, **spec)
        self.settle()
        self.start_pods()
        self.end(f"{self.a_resend(name).status.job}-0-0", 0, self.report(1000))
        self.settle()

    def summary(self, name: str = "repeat") -> tuple[str, str, str, str, str]:
        """Return the reason of Ready, and the status of Ready, Reconciling, Stalled and Succeeded, of a Resend."""
        ready = self.condition(Type.READY, name)
        others = [self.condition(kind, name).status for kind in (Type.RECONCILING, Type.STALLED, Type.SUCCEEDED)]
        return (ready.reason, ready.status, *others)

    def property_of(self, settings: str, name: str) -> str:
        """Return a line of the settings of an attempt."""
        lines = self.bodies["ConfigMap", settings]["data"]["resend.properties"].splitlines()
        return str(next(line for line in lines if line.startswith(f"{name}=")))

    def config_map(self, name: str, **data: str) -> None:
        """Apply a ConfigMap, or another content of it."""
        self.bodies["ConfigMap", name] = {"metadata": {"uid": f"theirs-{name}"}, "data": data}

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and, like the garbage collector, all its dependents."""
        uid = self.bodies.pop((kind, name))["metadata"]["uid"]
        for (child_kind, child_name), body in list(self.bodies.items()):
            owners = body["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == uid for owner in owners) and (child_kind, child_name) in self.bodies:
                self.delete(child_kind, child_name)

    def begin_deletion(self, kind: str, name: str) -> None:
        """Delete an object that has a finalizer."""
        body = self.bodies[kind, name]
        metadata = {**body["metadata"], "deletionTimestamp": moment_text(self.now)}
        self.bodies[kind, name] = {**body, "metadata": metadata}

    def advance(self, **duration: float) -> None:
        """Let time pass."""
        self.now += timedelta(**duration)

    def _apply_spec(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        before = self.bodies.get((kind, name))
        body = (
            copy.deepcopy(before)
            if before
            else {
                "apiVersion": "gapless.dev/v1alpha1",
                "kind": kind,
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": self._uid_of(kind, name),
                    "generation": 0,
                    "creationTimestamp": moment_text(self.now),
                },
            }
        )
        if body.get("spec") != spec:
            body["metadata"]["generation"] += 1
        body["spec"] = spec
        self.bodies[kind, name] = body

    def _uid_of(self, kind: str, name: str) -> str:
        """Return a uid; the first object of a name gets 00000001-…, which is part of its children's names."""
        self._created[kind, name] += 1
        return f"{self._created[kind, name]:08}-{kind}-{name}"

    # ------------------------------------------------------------------------------------ the operator
    def reconcile(self, kind: str, name: str) -> Plan:
        """Reconcile one object, once."""
        plan = self.next_plan(kind, name)
        self._apply_plan(kind, name, plan)
        return plan

    def next_plan(self, kind: str, name: str) -> Plan:
        """Return the plan for an object without applying it."""
        self._update_cache()
        body = trim(self._shown(kind, name))
        return plan_for(body, self._observer, self.now, OperatorSettings(sender=self.program, spark=self.program))

    def cache_and_observer(self) -> tuple[Cache, Observer]:
        """Return the operator's cache and observer, both up to date."""
        self._update_cache()
        return self._cache, self._observer

    def owner_keys(self) -> list[Key]:
        """Return the keys of all Diodes and Resends."""
        return [Key(kind, NAMESPACE, name) for kind, name in self.owners()]

    def settle(self, rounds: int = 12) -> None:
        """Reconcile everything until all plans are empty; fail if that takes too many rounds."""
        for _ in range(rounds):
            busy = [self.reconcile(kind, name) for kind, name in self.owners() if (kind, name) in self.bodies]
            if self.runs_preflights and self._preflights():
                self.run_preflight(diode=self._preflights()[0].meta.labels[DIODE_LABEL])
            elif all(is_empty(plan) for plan in busy):
                return
        raise AssertionError(f"still not settled: {[plan for plan in busy if not is_empty(plan)]}")

    def settle_despite_crashes(self) -> None:
        """Do the same with an operator that is restarted when it dies."""
        try:
            self.settle()
        except Crashed:
            self.settle()

    def running_jobs(self) -> list[str]:
        """Return the names of the Jobs that have not ended."""
        return [job.meta.name for job in self._jobs() if not job.ended]

    def owners(self) -> list[tuple[str, str]]:
        """Return kind and name of all Diodes and Resends."""
        return sorted(key for key in self.bodies if key[0] in {"Diode", "Resend"})

    def ledger_parts(self, diode: str = "hall") -> tuple[LedgerPart, ...]:
        """Return the parts of a Diode's ledger."""
        labelled = [(b["metadata"]["name"], b["metadata"].get("labels", {})) for b in self._of_kind("ConfigMap")]
        names = [
            name
            for name, labels in labelled
            if labels.get(ROLE_LABEL) == LEDGER_ROLE and has_label_for(labels, NAME_LABEL, diode)
        ]
        return tuple(LedgerPart.of(self._shown("ConfigMap", name)) for name in names)

    def ledger(self, diode: str = "hall") -> tuple[LedgerEntry, ...]:
        """Return the entries of a Diode's ledger."""
        return entries_of(self.ledger_parts(diode))

    def get(self, kind: Kind, _namespace: str, name: str) -> dict[str, Any] | None:
        """Read an object like the API server."""
        if self.refuses_to_read:
            raise RefusedError(self.refuses_to_read)
        return self._shown(kind.name, name) if (kind.name, name) in self.bodies else None

    def log(self, _namespace: str, pod: str, _container: str, *, tail_lines: int, max_bytes: int) -> str | None:
        """Read a log like the kubelet; raises the error in `unreadable`."""
        assert tail_lines > 0
        assert max_bytes > 0
        if pod in self.unreadable:
            raise TimeoutError(self.unreadable[pod])
        return self.logs.get(pod)

    def _update_cache(self) -> None:
        """Deliver all changes to the operator's cache, like its watches."""
        for key, (body, shown) in list(self._listed.items()):
            if self.bodies.get(key) is not body:
                del self._listed[key]
                if key not in self.bodies or self._shown(*key)["metadata"]["uid"] != shown["metadata"]["uid"]:
                    self._cache.remove(shown)
        for key, body in self.bodies.items():
            if self._delivered.get(key) is not body:
                self._cache.store(self._shown(*key))
                self._delivered[key] = body

    def _shown(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object with the metadata that the API server adds."""
        body = self.bodies[kind, name]
        known, shown = self._listed.get((kind, name), (None, {}))
        if known is not body:
            head = {"namespace": NAMESPACE, "name": name, "uid": f"uid-of-{kind}-{name}", **body["metadata"]}
            shown = {**body, "kind": kind, "metadata": {**head, "resourceVersion": str(next(self._versions))}}
            self._listed[kind, name] = body, shown
        return shown

    def _apply_plan(self, kind: str, name: str, plan: Plan) -> None:
        for ref in plan.stop:
            self._remove(ref)
        for manifest in plan.create:
            assert (manifest["kind"], manifest["metadata"]["name"]) not in self.bodies, "it exists"
            self._store(manifest)
        for manifest in plan.apply:
            self._store(self._observer.with_bundle(trim(self._shown(kind, name)), manifest))
        for ref in plan.delete:
            self._remove(ref)
        if plan.status is not None and (kind, name) in self.bodies:
            body = {**self.bodies[kind, name], "status": json.loads(json.dumps(plan.status))}
            self.bodies[kind, name] = body
            self.status_writes[name] = self.status_writes.get(name, 0) + 1
            self._count_write()
        self.events += [(name, event) for event in plan.events]

    def store(self, manifest: Mapping[str, Any]) -> None:
        """Write an object as another client than the operator."""
        self._store(manifest)

    def _store(self, manifest: Mapping[str, Any]) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        before = self.bodies.get(key)
        body = json.loads(json.dumps(manifest))
        version = body["metadata"].pop("resourceVersion", None)
        assert version is None or self._shown(*key)["metadata"]["resourceVersion"] == version, "a conflict"
        if before is not None:
            before = {**before, "metadata": {k: v for k, v in before["metadata"].items() if k != "ownerReferences"}}
            assert before["kind"] != "Job" or before["spec"] == body["spec"], "a Job's template cannot be changed"
            body["metadata"] = {**before["metadata"], **body["metadata"]}
            body["status"] = before.get("status", {})
        else:
            body["metadata"] |= {"uid": next(self._uids), "creationTimestamp": moment_text(self.now)}
            if key[0] == "Job":
                self.created_jobs.append(key[1])
        self.bodies[key] = body
        self._count_write()

    def _remove(self, ref: Ref) -> None:
        body = self.bodies.get((ref.kind, ref.name))
        if body is not None and ref.uid in {"", body["metadata"]["uid"]}:
            self.delete(ref.kind, ref.name)
            self._count_write()

    def _count_write(self) -> None:
        self.writes += 1
        if self.crash_at is not None and self.writes == self.crash_at:
            self.crash_at = None
            raise Crashed("the operator crashed")

    # --------------------------------------------------------------------------- Job controller and kubelets
    def start_pods(self) -> None:
        """Create the pods of Jobs, like the Job controller and the scheduler."""
        for body in self._of_kind("Job"):
            job = ObservedJob.of(body)
            if job.ended:
                continue
            for index in range(body["spec"].get("completions", 1)):
                pods = self.pods_of(job.meta.name, index)
                if any(pod["status"]["phase"] in {"Pending", "Running", "Succeeded"} for pod in pods):
                    continue
                if any(self._is_index_over(body, pod) for pod in pods):
                    continue
                self._create_pod(body, index, len(pods))

    def pods_of(self, job: str, index: int | None = None) -> list[dict[str, Any]]:
        """Return the pods of a Job, or of one of its shards."""
        return [
            body
            for body in self._of_kind("Pod")
            if body["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job
            and index in {None, int(body["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])}
        ]

    def _create_pod(self, job: dict[str, Any], index: int, number: int) -> None:
        name, template = job["metadata"]["name"], job["spec"]["template"]
        self.bodies["Pod", f"{name}-{index}-{number}"] = {
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}-{number}",
                "namespace": NAMESPACE,
                "uid": next(self._uids),
                "creationTimestamp": moment_text(self.now),
                "labels": {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": name},
                "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
                "ownerReferences": [{"uid": job["metadata"]["uid"], "controller": True, "kind": "Job", "name": name}],
            },
            "spec": {**template["spec"], "nodeName": self.node},
            "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {}}}]},
        }

    def run(self, pod: str, *lines: Mapping[str, Any] | str) -> None:
        """Let a pod run and write lines to its log."""
        self._set_pod(pod, "Running", {"running": {"startedAt": moment_text(self.now)}})
        self._append(pod, lines)

    def wait_for(self, pod: str, reason: str, message: str = "") -> None:
        """Let the container of a pod wait for a reason."""
        self._set_pod(pod, "Pending", {"waiting": {"reason": reason, "message": message}})

    def end(self, pod: str, code: int, *lines: Mapping[str, Any] | str) -> None:
        """Let a pod write lines to its log and end."""
        self._append(pod, lines)
        ended = {"terminated": {"exitCode": code, "finishedAt": moment_text(self.now), "reason": "Error"}}
        self._set_pod(pod, "Failed" if code else "Succeeded", ended)
        self._update_job_status(self.bodies["Pod", pod]["metadata"]["labels"]["batch.kubernetes.io/job-name"])

    def append_log(self, pod: str, *lines: Mapping[str, Any] | str) -> None:
        """Add lines to the log of a pod, which may have ended."""
        self._append(pod, lines)

    def _append(self, pod: str, lines: tuple[Mapping[str, Any] | str, ...]) -> None:
        text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        self._log_writes += 1
        self.logs[pod] = "".join([self.logs.get(pod, ""), *(f"{line}\n" for line in text)])

    def _set_pod(self, pod: str, phase: str, state: dict[str, Any]) -> None:
        body = copy.deepcopy(self.bodies["Pod", pod])
        name = body["spec"]["containers"][0]["name"]
        body["status"] = {"phase": phase, "containerStatuses": [{"name": name, "state": state}]}
        self.bodies["Pod", pod] = body

    def _update_job_status(self, name: str) -> None:
        """Set the status of a Job by its ended pods and its podFailurePolicy, like the Job controller."""
        body = copy.deepcopy(self.bodies["Job", name])
        spec, result = body["spec"], None
        shards = range(spec.get("completions", 1))
        for pod in self.pods_of(name):
            if self._action(spec, pod) == "FailJob":
                result = ("Failed", "PodFailurePolicy")
        succeeded = [i for i in shards if any(p["status"]["phase"] == "Succeeded" for p in self.pods_of(name, i))]
        over = [i for i in shards if i in succeeded or any(self._is_index_over(body, p) for p in self.pods_of(name, i))]
        if result is None and len(over) == len(shards):
            is_complete = len(succeeded) == len(shards)
            result = ("Complete", "CompletionsReached") if is_complete else ("Failed", "FailedIndexes")
        if result is not None:
            kind, reason = result
            ended = {"type": kind, "status": "True", "reason": reason, "message": reason}
            body["status"] = {"conditions": [{**ended, "lastTransitionTime": moment_text(self.now)}]}
            self.bodies["Job", name] = body

    def _is_index_over(self, job: dict[str, Any], pod: dict[str, Any]) -> bool:
        spec = job["spec"]
        if self._action(spec, pod) in {"FailIndex", "FailJob"}:
            return True
        index = int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
        tries = [p for p in self.pods_of(job["metadata"]["name"], index) if p["status"]["phase"] == "Failed"]
        return len(tries) > spec.get("backoffLimitPerIndex", spec.get("backoffLimit", 6))

    @staticmethod
    def _action(spec: dict[str, Any], pod: dict[str, Any]) -> str:
        ended = pod["status"]["containerStatuses"][0]["state"].get("terminated")
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            if ended and ended["exitCode"] and ended["exitCode"] in rule.get("onExitCodes", {}).get("values", ()):
                return str(rule["action"])
        return "Count"

    def end_job(self, name: str, reason: str, message: str = "") -> None:
        """Fail a Job with a reason of Kubernetes, and delete its pods."""
        body = copy.deepcopy(self.bodies["Job", name])
        failed = {"type": "Failed", "status": "True", "reason": reason, "message": message}
        body["status"] = {"conditions": [{**failed, "lastTransitionTime": moment_text(self.now)}]}
        self.bodies["Job", name] = body
        for pod in self.pods_of(name):
            self.delete("Pod", pod["metadata"]["name"])

    def run_preflight(self, diode: str = "hall", **found: Any) -> None:
        """Let the Diode's preflight pod report its findings."""
        job = next(job for job in self._preflights() if job.meta.labels[DIODE_LABEL] == diode)
        self.start_pods()
        others = {name: found.pop(name) for name in list(found) if name == "gaplessPreflight"}
        self.end(f"{job.meta.name}-0-0", 0, {**messages.preflight(**found), **others})

    def _preflights(self) -> list[ObservedJob]:
        return [job for job in self._jobs() if job.meta.role == "preflight" and not job.ended]

    # -------------------------------------------------------------------------------------------- state
    def a_diode(self, name: str = "hall") -> Diode:
        """Return a Diode as the operator parses it."""
        return self._read(Diode, self.bodies["Diode", name])

    def a_resend(self, name: str = "repeat") -> Resend:
        """Return a Resend as the operator parses it."""
        return self._read(Resend, self.bodies["Resend", name])

    def _read(self, kind: Any, body: dict[str, Any]) -> Any:
        known, model = self._models.get(id(body), (None, None))
        if known is not body:
            model = kind.from_resource(body)
            self._models[id(body)] = body, model
        return model

    def condition(self, kind: ConditionType, name: str = "repeat", of: str = "Resend") -> Condition:
        """Return a condition of a Resend or Diode."""
        found = condition((self.a_resend(name) if of == "Resend" else self.a_diode(name)).status.conditions, kind)
        assert found is not None
        return found

    def names(self, kind: str) -> list[str]:
        """Return the names of all objects of a kind."""
        return sorted(name for found, name in self.bodies if found == kind)

    @staticmethod
    def progress(sent: int, planned: int = 1000, **more: Any) -> dict[str, Any]:
        """Return a progress message."""
        return messages.progress(Totals(planned=planned, sent=sent, remaining=planned - sent), **more)

    @staticmethod
    def report(sent: int, planned: int = 1000, *, unavailable: int = 0, **more: Any) -> dict[str, Any]:
        """Return a report message."""
        return messages.report(
            Totals(planned=planned, sent=sent, unavailable=unavailable, remaining=planned - sent - unavailable), **more
        )

    @staticmethod
    def plan(
        events: int, *, unavailable: int | Mapping[str, int] = 0, seconds: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return a plan message."""
        return messages.plan(events, unavailable=unavailable, seconds=seconds, **more)

    def _of_kind(self, kind: str, owner_uid: str = "") -> list[dict[str, Any]]:
        found = sorted(key for key in self.bodies if key[0] == kind)
        bodies = [self.bodies[key] for key in found]
        return [b for b in bodies if owner_uid in {"", (b["metadata"].get("labels") or {}).get(UID_LABEL)}]

    def _jobs(self) -> Iterator[ObservedJob]:
        for body in self._of_kind("Job"):
            yield ObservedJob.of(body)


@pytest.fixture(scope="session")
def new_cluster() -> type[SenderCluster]:
    """Return the class that creates empty namespaces."""
    return SenderCluster


@pytest.fixture
def cluster() -> SenderCluster:
    """An empty namespace."""
    return SenderCluster()


@pytest.fixture
def ready(cluster: SenderCluster) -> SenderCluster:
    """A namespace with a Diode whose link is up."""
    cluster.diode()
    cluster.settle()
    cluster.runs_preflights = True
    cluster.settle()
    return cluster
