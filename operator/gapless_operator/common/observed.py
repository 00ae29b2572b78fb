"""Owns the plain views of what is in the cluster, as the reconcilers see it: Jobs, pods, small children.

Must not know how anything is watched or listed; each view is made of one object's JSON by its `of`. Owners come as the
models of `gapless_api.v1alpha1.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.pod_output import PodOutput

if TYPE_CHECKING:
    from collections.abc import Mapping


KIND_LABEL = f"{GROUP}/kind"
"""Kind of the owner: Diode, GapScan or Resend."""
NAME_LABEL = f"{GROUP}/name"
UID_LABEL = f"{GROUP}/uid"
ATTEMPT_LABEL = f"{GROUP}/attempt"
DIODE_LABEL = f"{GROUP}/diode"
"""Name of the Diode whose link a sender pod uses, as `children.label_value` cuts it."""
ROLE_LABEL = f"{GROUP}/role"
"""What a child is for: send, plan, preflight, scan."""
LEDGER_ROLE = "ledger"
"""Role of the ConfigMaps that keep a Diode's ledger; they have no owner and bear the Diode's name as `NAME_LABEL`."""
DIGEST_ANNOTATION = f"{GROUP}/digest"
"""Digest of the manifest that was applied; tells whether a child is as it should be without comparing defaults."""


def moment(text: Any) -> datetime | None:
    """Read a time as Kubernetes writes it; ``None`` for nothing or nonsense."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What a child is called and which one it is."""

    name: str
    namespace: str
    uid: str
    created: datetime
    generation: int = 1
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = ""
    """Of the controller among the owner references; empty for none."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Meta:
        """Read the metadata of an object."""
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
        """Of the manifest that was applied; empty for an object that is not ours."""
        return self.annotations.get(DIGEST_ANNOTATION, "")

    @property
    def attempt(self) -> int:
        """Which attempt of its owner a child belongs to; 0 for none."""
        text = self.labels.get(ATTEMPT_LABEL, "")
        return int(text) if text.isdecimal() else 0

    @property
    def role(self) -> str:
        """What a child is for."""
        return self.labels.get(ROLE_LABEL, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """A batch/v1 Job of ours."""

    meta: Meta
    suspended: bool = False
    active: int = 0
    """Pods that are pending or running, including those that are being deleted."""
    started: datetime | None = None
    finished: datetime | None = None
    complete: bool = False
    """Every index has succeeded."""
    failed: bool = False
    """Kubernetes has given the Job up; `failure_reason` says why."""
    failure_reason: str = ""
    """BackoffLimitExceeded, DeadlineExceeded, FailedIndexes, PodFailurePolicy, …"""
    failure_message: str = ""

    @property
    def ended(self) -> bool:
        """Whether the Job will start no more pods."""
        return self.complete or self.failed

    @property
    def ended_at(self) -> datetime:
        """When a Job ended; for one that does not say when, the time at which it was made."""
        return self.finished or self.meta.created

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedJob:
        """Read a Job."""
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
    """What is known of the log of a pod."""

    output: PodOutput = field(default_factory=PodOutput)
    """What was read last; older than the pod itself while there is a `problem`."""
    heard_at: datetime | None = None
    """When that was news, by our clock: the clock of a node may be wrong. ``None`` before anything was read."""
    problem: str = ""
    """Why the log cannot be read now; empty when it can."""
    since: datetime | None = None
    """Since when there is the problem."""
    is_unread: bool = False
    """Whether the end of an ended pod, or what a running one says now, is still unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A node on which pods of ours are."""

    name: str
    ready: bool
    since: datetime | None = None
    """Since when, if that is known."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedNode:
        """Read a node."""
        conditions = (body.get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "Ready"), {})
        since = moment(ready.get("lastTransitionTime"))
        return cls(name=body["metadata"]["name"], ready=ready.get("status") == "True", since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """A pod of ours, with what its log says."""

    meta: Meta
    phase: str = "Pending"
    """Pending, Running, Succeeded, Failed or Unknown."""
    job: str = ""
    """Name of the Job that made it; empty for none."""
    index: int = 0
    """Completion index."""
    node: str = ""
    waiting_reason: str = ""
    """Why a container does not run: ImagePullBackOff, CreateContainerConfigError, Unschedulable, …"""
    waiting_message: str = ""
    exit_code: int | None = None
    """Of the first container that failed (init containers come first), else 0 when all have ended; ``None`` before."""
    ended_reason: str = ""
    """Why it ended: Error, OOMKilled, Evicted, …"""
    finished: datetime | None = None
    last_exit_code: int | None = None
    """With which a container ended before it was started again; ``None`` for none."""
    last_words: str = ""
    """The end of the log that it left."""
    has_begun: bool = False
    """Whether any of its containers, init containers included, runs or has run."""
    began: datetime | None = None
    """When the first of them began."""
    output: PodOutput = field(default_factory=PodOutput)
    heard_at: datetime | None = None
    """When `output` was news, by our clock."""
    log_problem: str = ""
    """Why `output` is old: its log cannot be read now; empty when it can."""
    log_problem_since: datetime | None = None
    is_unread: bool = False
    """Whether it may have written more than `output`, which is being read, or will be when that is possible again."""
    is_lost: bool = False
    """Whether its node is not ready, so that nobody knows what it does."""
    lost_since: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing runs in it any more."""
        return self.phase in {"Succeeded", "Failed"}

    @classmethod
    def of(cls, body: Mapping[str, Any], log: PodLog | None = None, node: ObservedNode | None = None) -> ObservedPod:
        """Read a pod, with what is known of its log and of its node."""
        log = log or PodLog()
        meta = Meta.of(body)
        status = body.get("status") or {}
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        states = [container.get("state") or {} for container in containers]
        ended = [state["terminated"] for state in states if state.get("terminated")]
        termination = next(
            (end for end in ended if end.get("exitCode")), ended[-1] if len(ended) == len(states) and ended else None
        )
        reason, message = _waiting(status, states)
        before = _last_end(containers)
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
            last_exit_code=before.get("exitCode"),
            last_words=str(before.get("message") or ""),
            has_begun=bool(before) or any(state.get("running") or state.get("terminated") for state in states),
            began=_began([*states, {"terminated": before}]),
            output=log.output,
            heard_at=log.heard_at,
            log_problem=log.problem,
            log_problem_since=log.since,
            is_unread=log.is_unread,
            is_lost=node is not None and not node.ready,
            lost_since=node.since if node is not None and not node.ready else None,
        )


def _began(states: list[Mapping[str, Any]]) -> datetime | None:
    starts = (moment((state.get("running") or state.get("terminated") or {}).get("startedAt")) for state in states)
    return min((at for at in starts if at is not None), default=None)


def _last_end(containers: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """How a container ended that was started again; empty for none."""
    ends = ((container.get("lastState") or {}).get("terminated") for container in containers)
    return next((end for end in ends if end), {})


def _waiting(status: Mapping[str, Any], states: list[Mapping[str, Any]]) -> tuple[str, str]:
    """Why a pod does not run, in words of Kubernetes; empty when it does or is only starting."""
    for state in states:
        waiting = state.get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in {"ContainerCreating", "PodInitializing"}:
            return str(waiting["reason"]), str(waiting.get("message", ""))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("reason", "Unschedulable")), str(condition.get("message", ""))
    return "", ""


@dataclass(frozen=True, slots=True)
class ObservedChild:
    """A child of which only the metadata matters: a ConfigMap, a PersistentVolumeClaim, a SparkApplication."""

    meta: Meta

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedChild:
        """Read its metadata."""
        return cls(Meta.of(body))


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A PersistentVolumeClaim."""

    meta: Meta
    spec: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedClaim:
        """Read it."""
        return cls(Meta.of(body), dict(body.get("spec") or {}))
