"""An in-memory cluster for one resource that works in attempts: it applies plans and simulates the kubelet.

Must not know any kind: the test passes the reconciler.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from gapless_operator.common.observed import UID_LABEL, ObservedNode
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.planning import MODELS
from kit.story.plans import is_empty

if TYPE_CHECKING:
    from gapless_operator.common.plan import Event, Plan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved
    from gapless_operator.shell.api.kinds import Kind

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
Reconcile = Callable[..., "Plan"]


def stamp(at: datetime) -> str:
    """Return a time in the API server's format."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def new_resource(
    kind: str, name: str, namespace: str, spec: dict[str, Any], *, uid: str = "owner-uid"
) -> dict[str, Any]:
    """Return a resource as the API server returns it after its creation."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": stamp(START),
    }
    return {"apiVersion": "gapless.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


@dataclass
class MemoryCluster:
    """One resource, and the objects that belong to it."""

    body: dict[str, Any]
    reconcile: Reconcile
    programs: dict[str, Program]
    """Keyword arguments of the reconciler: the programs in the pods."""
    now: datetime = START
    spark_operator: bool = False
    jobs_only: tuple[str, ...] = ()
    kafkas: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Specs of the KafkaConnections, by name."""
    locations: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Specs of the StorageLocations, by name."""
    archives: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Specs of other Archives, by name."""
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Pods whose logs cannot be read, and why."""
    nodes: dict[str, ObservedNode] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    """Names of all attempts so far, in the order of their creation."""
    plans: list[Plan] = field(default_factory=list)
    _count: int = 0
    _slow: list[Any] | None = None

    def __post_init__(self) -> None:
        # Logs of running pods are read every three seconds; each read must see a later time.
        ticks = itertools.count(step=3)
        self._logs = PodLogs(
            self,
            start=lambda read: read(),
            node=self.nodes.get,
            clock=lambda: float(next(ticks)),
            now=lambda: self.now,
        )

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.body.get("status", {})
        return status

    def condition(self, kind: str) -> tuple[str, str]:
        condition = {c["type"]: c for c in self.status["conditions"]}[kind]
        return condition["status"], condition["reason"]

    def message(self, kind: str) -> str:
        return str({c["type"]: c for c in self.status["conditions"]}[kind]["message"])

    @property
    def owner(self) -> Any:
        """The resource, parsed into its model."""
        return MODELS[self.body["kind"]].from_resource(self.body)

    def observed(self) -> WorkObserved:
        """Return the operator's observation of the cluster."""
        cache = Cache()
        referenced = [("KafkaConnection", self.kafkas), ("StorageLocation", self.locations), ("Archive", self.archives)]
        for kind, specs in referenced:
            for name, spec in specs.items():
                cache.store(self._with_metadata(kind, name, {"spec": spec}))
        for (kind, name), body in self.objects.items():
            cache.store(self._with_metadata(kind, name, body))
        for name, pod in self.pods.items():
            cache.store(self._with_metadata("Pod", name, pod))
        observer = Observer(cache, self, self._logs, self.nodes.get)
        observer.spark_operator, observer.jobs_only = self.spark_operator, self.jobs_only
        return observer.observe_work(self.owner, self.body)

    def _with_metadata(self, kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return an object with the metadata that the API server adds."""
        identity = {"name": name, "namespace": self.body["metadata"]["namespace"], "resourceVersion": "1"}
        return {**body, "kind": kind, "metadata": {"uid": f"{kind}-{name}", **body.get("metadata", {}), **identity}}

    def plan(self) -> Plan:
        """Run the reconciler and return its plan."""
        return self.reconcile(self.owner, self.observed(), self.now, **self.programs)

    def get(self, kind: Kind, _namespace: str, name: str) -> dict[str, Any] | None:
        """Fail the test: the operator must not read single objects."""
        raise AssertionError(f"{kind.name} {name} was read")

    def log(self, _namespace: str, pod: str, _container: str, *, tail_lines: int, max_bytes: int) -> str | None:
        """Return a pod's log, as the kubelet would; raises the error in `unreadable`."""
        assert tail_lines > 0
        assert max_bytes > 0
        if pod in self.unreadable:
            raise TimeoutError(self.unreadable[pod])
        return self.logs.get(pod)

    def step(self, *, writes: int | None = None) -> Plan:
        """Reconcile once and execute the plan, or only its first `writes` writes, as if the operator crashed then."""
        plan = self.plan()
        self.plans.append(plan)
        todo: list[Callable[[], None]] = [
            *(partial(self._delete, ref) for ref in plan.stop),
            *(partial(self._apply, manifest) for manifest in plan.apply),
            *(partial(self._delete, ref) for ref in plan.delete),
        ]
        if plan.status is not None:
            todo.append(lambda: self.body.update(status=json.loads(json.dumps(plan.status))))
        todo += [partial(self.events.append, event) for event in plan.events]
        for write in todo[:writes]:
            write()
        return plan

    def settle(self, max_steps: int = 10) -> None:
        """Reconcile until the plan is empty."""
        for _ in range(max_steps):
            if is_empty(self.step()):
                return
        raise AssertionError(f"the plan is not empty after {max_steps} steps: {self.plans[-1]}")

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)

    def change(self, **spec: Any) -> None:
        """Change the spec as a user would."""
        self.body = copy.deepcopy(self.body)
        self.body["spec"].update(spec)
        self.body["metadata"]["generation"] += 1

    def _apply(self, manifest: Any) -> None:
        key = (manifest["kind"], manifest["metadata"]["name"])
        existing = self.objects.get(key)
        body = json.loads(json.dumps(manifest))
        if existing is None:
            self._count += 1
            body["metadata"] |= {"uid": f"uid-{self._count}", "creationTimestamp": stamp(self.now)}
            if manifest["kind"] in {"Job", "SparkApplication"}:
                self.begun.append(manifest["metadata"]["name"])
        else:
            body["metadata"] |= {name: existing["metadata"][name] for name in ("uid", "creationTimestamp")}
            body["status"] = existing.get("status", {})
        self.objects[key] = body

    @contextmanager
    def slow_to_delete(self) -> Iterator[None]:
        """Let what is deleted stay until the end, with its pods, as while its pods have their time to end."""
        self._slow = []
        try:
            yield
        finally:
            waiting, self._slow = self._slow, None
            for ref in waiting:
                self._delete(ref)

    def _delete(self, ref: Any) -> None:
        body = self.objects.get((ref.kind, ref.name))
        if body is not None and self._slow is not None and ref.kind in {"Job", "SparkApplication"}:
            body["metadata"]["deletionTimestamp"] = stamp(self.now)
            self._slow.append(ref)
            return
        if body is not None and ref.uid in {"", body["metadata"]["uid"]}:
            del self.objects[ref.kind, ref.name]
            for name in [name for name, pod in self.pods.items() if pod["of"] == ref.name]:
                del self.pods[name]
                self.logs.pop(name, None)

    # --------------------------------------------------------------------------------------------- the kubelet

    def names(self, kind: str) -> list[str]:
        return sorted(name for of, name in self.objects if of == kind)

    def attempt(self, name: str = "") -> dict[str, Any]:
        """Return the named attempt, or the latest one."""
        return next(body for (_, key), body in self.objects.items() if key == (name or self.begun[-1]))

    def settings(self, name: str = "") -> dict[str, str]:
        """Return the settings of an attempt."""
        data = self.objects["ConfigMap", f"{name or self.begun[-1]}-settings"]["data"]
        text = next(text for file, text in data.items() if file.endswith(".properties"))
        return dict(line.split("=", 1) for line in text.splitlines())

    def pod(self, name: str = "", **status: Any) -> dict[str, Any]:
        """Create the driver pod of an attempt, or change its status."""
        body = self.attempt(name)
        name = body["metadata"]["name"]
        labels = (
            {"batch.kubernetes.io/job-name": name}
            if body["kind"] == "Job"
            else {"spark-role": "driver", "sparkoperator.k8s.io/app-name": name}
        )
        self.pods[f"{name}-pod"] = {
            "of": name,
            "metadata": {
                "name": f"{name}-pod",
                "namespace": self.body["metadata"]["namespace"],
                "uid": f"{name}-pod",
                "creationTimestamp": body["metadata"]["creationTimestamp"],
                "labels": {UID_LABEL: self.body["metadata"]["uid"], **labels},
            },
            "spec": {"nodeName": "node"},
            "status": status,
        }
        return self.pods[f"{name}-pod"]

    def wait_for(self, reason: str, message: str = "") -> None:
        """Let the driver's container wait for `reason`."""
        state = {"waiting": {"reason": reason, "message": message}}
        self.pod(phase="Pending", containerStatuses=[{"name": "main", "state": state}])

    def run(self, log: str = "", name: str = "") -> None:
        """Let the driver run, with `log` as its log so far."""
        began = stamp(self.now)
        state = {"running": {"startedAt": began}}
        pod = self.pod(name, phase="Running", containerStatuses=[{"name": "main", "state": state}])
        self.logs[pod["metadata"]["name"]] = log
        body = self.attempt(name)
        if body["kind"] == "Job":
            body["status"] = {"startTime": began, "active": 1}
        else:
            body["status"] = {"applicationState": {"state": "RUNNING"}, "lastSubmissionAttemptTime": began}

    def log_more(self, log: str, name: str = "") -> None:
        """Replace the log of the running driver by `log`."""
        self.logs[f"{name or self.begun[-1]}-pod"] = log

    def end(self, log: str = "", exit_code: int = 0, reason: str = "", name: str = "") -> None:
        """Let the driver and the attempt end."""
        at = stamp(self.now)
        terminated = {"exitCode": exit_code, "finishedAt": at, "startedAt": at, "reason": reason or "Completed"}
        phase = "Failed" if exit_code else "Succeeded"
        pod = self.pod(name, phase=phase, containerStatuses=[{"name": "main", "state": {"terminated": terminated}}])
        self.logs[pod["metadata"]["name"]] = log
        body = self.attempt(name)
        if body["kind"] == "Job":
            kind = "Failed" if exit_code else "Complete"
            condition = {"type": kind, "status": "True", "lastTransitionTime": at, "reason": "BackoffLimitExceeded"}
            body["status"] = {"startTime": at, "conditions": [condition]}
        else:
            state = "FAILED" if exit_code else "COMPLETED"
            body["status"] = {"applicationState": {"state": state}, "terminationTime": at}
