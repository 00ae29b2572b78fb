"""The observed state of child objects as the reconcilers see it: Jobs, pods, ConfigMaps, claims.

Must not know how objects are watched or listed; `of` parses the JSON of one object. Owners are models of
`gapless_api.v1alpha1.kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.pod_output import PodOutput

KIND_LABEL = f"{GROUP}/kind"
"""Kind of the owner."""
NAME_LABEL = f"{GROUP}/name"
UID_LABEL = f"{GROUP}/uid"
ATTEMPT_LABEL = f"{GROUP}/attempt"
DIODE_LABEL = f"{GROUP}/diode"
"""Name of the Diode whose link a sender pod uses, as a `children.label_value`."""
ROLE_LABEL = f"{GROUP}/role"
"""Purpose of a child, such as send, plan, preflight or scan."""
LEDGER_ROLE = "ledger"
"""Role of the ConfigMaps with a Diode's ledger. They have no owner; `NAME_LABEL` is the name of the Diode."""
DIGEST_ANNOTATION = f"{GROUP}/digest"
"""Digest of the applied manifest, to detect changes without comparing defaulted fields."""


def moment(text: Any) -> datetime | None:
    """Parse a Kubernetes timestamp; ``None`` if it is missing or invalid."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The metadata of a child."""

    name: str
    namespace: str
    uid: str
    created: datetime
    generation: int = 1
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = ""
    """UID of the controlling owner; empty if there is none."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Meta:
        """Parse the metadata of an object."""
        metadata = body.get("metadata") or {}
        owners = metadata.get("ownerReferences") or ()
        return cls(
            name=metadata["name"],
            namespace=metadata.get("namespace", ""),
            uid=metadata.get("uid", ""),
            created=moment(metadata.get("creationTimestamp")) or datetime(1970, 1, 1, tzinfo=UTC),
            generation=metadata.get("generation", 1),
            deleting=bool(metadata.get("deletionTimestamp")),
            labels=dict(metadata.get("labels") or {}),
            annotations=dict(metadata.get("annotations") or {}),
            owner_uid=next((owner["uid"] for owner in owners if owner.get("controller")), ""),
        )

    @property
    def digest(self) -> str:
        """Digest of the applied manifest; empty for an object of another program."""
        return self.annotations.get(DIGEST_ANNOTATION, "")

    @property
    def attempt(self) -> int:
        """Number of the owner's attempt that the child belongs to; 0 if none."""
        text = self.labels.get(ATTEMPT_LABEL, "")
        return int(text) if text.isdecimal() else 0

    @property
    def role(self) -> str:
        """Purpose of the child."""
        return self.labels.get(ROLE_LABEL, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """A Job that the operator created."""

    meta: Meta
    suspended: bool = False
    active: int = 0
    """Pods that are pending or running, including those that are being deleted."""
    started: datetime | None = None
    finished: datetime | None = None
    complete: bool = False
    """Whether all indexes have succeeded."""
    failed: bool = False
    """Whether the Job has failed; `failure_reason` says why."""
    failure_reason: str = ""
    """BackoffLimitExceeded, DeadlineExceeded, FailedIndexes, PodFailurePolicy, …"""
    failure_message: str = ""

    @property
    def ended(self) -> bool:
        """Whether the Job will start no more pods."""
        return self.complete or self.failed

    @property
    def ended_at(self) -> datetime:
        """When the Job ended; its creation time if that is unknown."""
        return self.finished or self.meta.created

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedJob:
        """Parse a Job."""
        spec, status = body.get("spec") or {}, body.get("status") or {}
        conditions = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
        failure, complete = conditions.get("Failed"), conditions.get("Complete")
        last = failure or complete
        return cls(
            meta=Meta.of(body),
            suspended=bool(spec.get("suspend")),
            active=int(status.get("active") or 0) + int(status.get("terminating") or 0),
            started=moment(status.get("startTime")),
            finished=moment(last.get("lastTransitionTime")) if last else None,
            complete=complete is not None,
            failed=failure is not None,
            failure_reason=str(failure.get("reason", "")) if failure else "",
            failure_message=str(failure.get("message", "")) if failure else "",
        )


@dataclass(frozen=True, slots=True)
class PodLog:
    """The observed log of a pod."""

    output: PodOutput = field(default_factory=PodOutput)
    """The latest output; it may be out of date while there is a `problem`."""
    output_changed_at: datetime | None = None
    """When `output` last changed, by the operator's clock, because the clock of a node may be wrong. ``None`` before
    the first read."""
    problem: str = ""
    """Why the log cannot be read; empty if it can."""
    since: datetime | None = None
    """When the problem began."""
    is_unread: bool = False
    """Whether the log may contain more than `output`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A node that runs our pods."""

    name: str
    ready: bool
    since: datetime | None = None
    """When `ready` last changed, if known."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedNode:
        """Parse a node."""
        conditions = (body.get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
        since = moment(ready.get("lastTransitionTime"))
        return cls(name=body["metadata"]["name"], ready=ready.get("status") == "True", since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """A pod that the operator created, with the output in its log."""

    meta: Meta
    phase: str = "Pending"
    """Pending, Running, Succeeded, Failed or Unknown."""
    job: str = ""
    """Name of the Job that created the pod; empty if there is none."""
    index: int = 0
    """Completion index."""
    node: str = ""
    waiting_reason: str = ""
    """Why the pod does not run: ImagePullBackOff, CreateContainerConfigError, Unschedulable, …"""
    waiting_message: str = ""
    exit_code: int | None = None
    """Exit code of the first failed container, init containers first; 0 if all succeeded; ``None`` before they end."""
    ended_reason: str = ""
    """Why the pod ended: Error, OOMKilled, Evicted, …"""
    finished: datetime | None = None
    last_exit_code: int | None = None
    """Exit code of a container before its last restart; ``None`` if it was not restarted."""
    termination_message: str = ""
    """Termination message of that container: the end of its log."""
    has_begun: bool = False
    """Whether any container or init container is running or has run."""
    began: datetime | None = None
    """When the first container started."""
    output: PodOutput = field(default_factory=PodOutput)
    output_changed_at: datetime | None = None
    """When `output` last changed, by the operator's clock."""
    log_problem: str = ""
    """Why the log cannot be read; empty if it can."""
    log_problem_since: datetime | None = None
    is_unread: bool = False
    """Whether the log may contain more than `output`."""
    is_lost: bool = False
    """Whether the node is not ready, so that the state of the pod is unknown."""
    lost_since: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether all containers have ended."""
        return self.phase in {"Succeeded", "Failed"}

    @classmethod
    def of(cls, body: Mapping[str, Any], log: PodLog | None = None, node: ObservedNode | None = None) -> ObservedPod:
        """Parse a pod, with its log and node if they are known."""
        log = log or PodLog()
        meta = Meta.of(body)
        status = body.get("status") or {}
        sidecars = sidecars_of(body)
        every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        containers = [container for container in every if container.get("name") not in sidecars]
        states = [container.get("state") or {} for container in containers]
        ended = [state["terminated"] for state in states if state.get("terminated")]
        termination = next(
            (end for end in ended if end.get("exitCode")), ended[-1] if len(ended) == len(states) and ended else None
        )
        reason, message = _waiting(status, [container.get("state") or {} for container in every])
        before = _last_end(containers)
        crashed = before or _last_end(every)
        index = meta.annotations.get("batch.kubernetes.io/job-completion-index", "0")
        return cls(
            meta=meta,
            phase=status.get("phase", "Pending"),
            job=meta.labels.get("batch.kubernetes.io/job-name", meta.labels.get("job-name", "")),
            index=int(index) if index.isdecimal() else 0,
            node=(body.get("spec") or {}).get("nodeName", ""),
            waiting_reason=reason,
            waiting_message=message,
            exit_code=int(termination["exitCode"]) if termination else None,
            ended_reason=str(status.get("reason") or (termination or {}).get("reason") or ""),
            finished=moment((termination or {}).get("finishedAt")),
            last_exit_code=crashed.get("exitCode"),
            termination_message=str(crashed.get("message") or ""),
            has_begun=bool(before) or any(state.get("running") or state.get("terminated") for state in states),
            began=_began([*states, {"terminated": before}]),
            output=log.output,
            output_changed_at=log.output_changed_at,
            log_problem=log.problem,
            log_problem_since=log.since,
            is_unread=log.is_unread,
            is_lost=node is not None and not node.ready,
            lost_since=node.since if node is not None and not node.ready else None,
        )


def sidecars_of(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the init containers that run beside the others; how they end says nothing about the work."""
    declared = (pod.get("spec") or {}).get("initContainers") or ()
    return frozenset(str(each["name"]) for each in declared if each.get("restartPolicy") == "Always")


def is_unscheduled(condition: Mapping[str, Any]) -> bool:
    """Return whether a condition of a pod says that no node was found for it."""
    return condition.get("type") == "PodScheduled" and condition.get("status") == "False"


def _began(states: list[Mapping[str, Any]]) -> datetime | None:
    starts = (moment((state.get("running") or state.get("terminated") or {}).get("startedAt")) for state in states)
    return min((at for at in starts if at is not None), default=None)


def _last_end(containers: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the last termination of a restarted container; empty if there is none."""
    ends = ((container.get("lastState") or {}).get("terminated") for container in containers)
    return next((end for end in ends if end), {})


def _waiting(status: Mapping[str, Any], states: list[Mapping[str, Any]]) -> tuple[str, str]:
    """Return reason and message why a pod does not run; empty if it runs or is starting."""
    for state in states:
        waiting = state.get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in {"ContainerCreating", "PodInitializing"}:
            return str(waiting["reason"]), str(waiting.get("message", ""))
    for condition in status.get("conditions") or ():
        if is_unscheduled(condition):
            return str(condition.get("reason", "Unschedulable")), str(condition.get("message", ""))
    return "", ""


@dataclass(frozen=True, slots=True)
class ObservedChild:
    """A child of which only the metadata is needed, such as a ConfigMap."""

    meta: Meta

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedChild:
        """Parse the metadata."""
        return cls(Meta.of(body))


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A PersistentVolumeClaim."""

    meta: Meta
    spec: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedClaim:
        """Parse a PersistentVolumeClaim."""
        return cls(Meta.of(body), dict(body.get("spec") or {}))
