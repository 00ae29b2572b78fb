"""Owns what is known of the logs of our pods: read beside the reconciles, kept when it cannot change any more.

Must not know what a log means to anybody. A log is read from its end, within bounds, and parsed at once; what is kept
is what our programs logged, and only as long as the pod exists. Nobody who asks ever waits: a node's kubelet is asked
by one thread at a time, so that one that does not answer delays only the logs of its own pods.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from gapless_operator.common.observed import PodLog
from gapless_operator.common.pod_output import PodOutput, read_output

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from gapless_operator.common.observed import ObservedNode

MOST_LOG_BYTES = 8 * 1024 * 1024
_LINES_OF_ENDED, _LINES_OF_RUNNING = 4000, 200
_REFRESH_SECONDS = 3.0
"""How old the log of a running pod may be; progress goes into the status every five seconds at most."""
_SETTLE_SECONDS = 30.0
"""For how long the log of a pod that has ended is read again when it does not tell the end."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
"""For how long a log that cannot be read is left alone."""
_LONGEST_PROBLEM = 300


class LogSource(Protocol):
    """Where logs come from; the part of `ClusterApi` that is needed here."""

    def log(self, namespace: str, pod: str, container: str, *, tail_lines: int, most_bytes: int) -> str | None:
        """Read the end of a container's log; ``None`` when there is none."""


@dataclass(slots=True)
class _Known:
    """What is known of one pod's log."""

    output: PodOutput = field(default_factory=PodOutput)
    output_changed_at: datetime | None = None
    """When it was another one than before, by our clock."""
    began: str = ""
    """When the container began whose log it is: one that is started again has another."""
    read_at: float | None = None
    ended_at: float | None = None
    """When it was read first after the pod had ended."""
    is_final: bool = False
    problem: str = ""
    since: datetime | None = None
    """Since when there is the problem."""
    again_at: float = 0.0
    pause: float = _FIRST_PAUSE


@dataclass(slots=True)
class _Kubelet:
    """What is asked of one node."""

    pending: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Pods by uid, in the order in which they were requested."""
    is_asked: bool = False


class PodLogs:
    """The logs of pods by their uid, safe to use from several threads."""

    def __init__(  # noqa: PLR0913 -- what it needs of the observer around it
        self,
        source: LogSource,
        *,
        start: Callable[[Callable[[], None]], object],
        changed: Callable[[Mapping[str, Any]], None] = lambda _: None,
        node: Callable[[str], ObservedNode | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare it.

        Args:
            source: where logs come from; every exception of its `log` means that the log cannot be read now.
            start: runs what it is given, in another thread.
            changed: called there with every pod of which something new is known.
            node: what is known of a node.
            clock: the age of what is known, in seconds.
            now: the time, for what people read.
        """
        self._source, self._start, self._changed, self._node = source, start, changed, node
        self._clock, self._now = clock, now
        self._known: dict[str, _Known] = {}
        self._kubelets: dict[str, _Kubelet] = {}
        self._lock = threading.Lock()

    def log(self, pod: Mapping[str, Any]) -> PodLog:
        """What is known of a pod's log; it is read again, in another thread, when that is old."""
        container, ended = _container(pod)
        if not container:
            return PodLog()
        uid, name = pod["metadata"]["uid"], str((pod.get("spec") or {}).get("nodeName", ""))
        node = self._node(name)
        with self._lock:
            known = self._known.setdefault(uid, _Known())
            if known.is_final:
                return PodLog(known.output, known.output_changed_at)
            if node is not None and not node.ready:
                return PodLog(
                    known.output,
                    known.output_changed_at,
                    problem=f"node {name} is not ready",
                    since=node.since,
                    is_unread=True,
                )
            must_start = self._is_old(known, ended=ended) and self._add_pending(name, uid, pod)
        if must_start:
            self._start(lambda: self._ask(name))
        with self._lock:
            return PodLog(
                known.output,
                known.output_changed_at,
                problem=known.problem,
                since=known.since,
                is_unread=bool(known.problem) or (known.ended_at if ended else known.read_at) is None,
            )

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods but those with these uids."""
        with self._lock:
            self._known = {uid: known for uid, known in self._known.items() if uid in uids}
            self._kubelets = {name: one for name, one in self._kubelets.items() if one.is_asked or one.pending}

    def _is_old(self, known: _Known, *, ended: bool) -> bool:
        now = self._clock()
        if known.problem:
            return now >= known.again_at
        if known.read_at is None or (ended and known.ended_at is None):
            return True
        return now - known.read_at >= _REFRESH_SECONDS

    def _add_pending(self, name: str, uid: str, pod: Mapping[str, Any]) -> bool:
        """Put a pod on the list of its kubelet; return whether somebody must begin to ask it."""
        kubelet = self._kubelets.setdefault(name, _Kubelet())
        kubelet.pending[uid] = pod
        begins = not kubelet.is_asked
        kubelet.is_asked = True
        return begins

    def _ask(self, name: str) -> None:
        """Read all logs that are pending at a kubelet."""
        while True:
            with self._lock:
                kubelet = self._kubelets[name]
                uid = next(iter(kubelet.pending), None)
                if uid is None:
                    kubelet.is_asked = False
                    return
                pod = kubelet.pending.pop(uid)
            container, ended = _container(pod)
            metadata = pod["metadata"]
            try:
                text = self._source.log(
                    metadata["namespace"],
                    metadata["name"],
                    container,
                    tail_lines=_LINES_OF_ENDED if ended else _LINES_OF_RUNNING,
                    most_bytes=MOST_LOG_BYTES,
                )
            except Exception as error:  # noqa: BLE001 -- whatever it is, the log is not known, and the others are
                self._unreadable(uid, pod, str(error))
            else:
                self._read(uid, pod, text, ended=ended)

    def _read(self, uid: str, pod: Mapping[str, Any], text: str | None, *, ended: bool) -> None:
        output = None if text is None else read_output(text)
        now = self._clock()
        with self._lock:
            known = self._known.setdefault(uid, _Known())
            is_news = bool(known.problem) or (ended and known.ended_at is None)
            began = _began(pod)
            if output is not None and began == known.began:
                # Only the end of a log is read, and a program can write much between two messages of a kind.
                output = output.after(known.output)
            if output is not None and output != known.output:
                known.output, known.output_changed_at, is_news = output, self._now(), True
            known.began = began
            known.read_at, known.problem, known.since, known.pause = now, "", None, _FIRST_PAUSE
            if ended:
                known.ended_at = now if known.ended_at is None else known.ended_at
                known.is_final = known.output.is_complete or now - known.ended_at >= _SETTLE_SECONDS
        if is_news:
            self._changed(pod)

    def _unreadable(self, uid: str, pod: Mapping[str, Any], problem: str) -> None:
        with self._lock:
            known = self._known.setdefault(uid, _Known())
            is_news = not known.problem
            if is_news:
                known.problem, known.since = problem[:_LONGEST_PROBLEM], self._now().replace(microsecond=0)
            known.again_at = self._clock() + known.pause
            known.pause = min(2 * known.pause, _LONGEST_PAUSE)
        if is_news:
            self._changed(pod)


def _began(pod: Mapping[str, Any]) -> str:
    """When the container began whose log matters; empty where that is unknown."""
    status, (name, _) = pod.get("status") or {}, _container(pod)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if container.get("name") == name:
            state = container.get("state") or {}
            return f"{name} {(state.get('running') or state.get('terminated') or {}).get('startedAt', '')}"
    return ""


def _container(pod: Mapping[str, Any]) -> tuple[str, bool]:
    """Which container's log matters, and whether nothing is written to it any more; empty for none.

    An init container that failed is all there is to say; otherwise it is the first of the others.
    """
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses") or ():
        if ((container.get("state") or {}).get("terminated") or {}).get("exitCode"):
            return str(container["name"]), True
    containers = status.get("containerStatuses") or ()
    declared = (pod.get("spec") or {}).get("containers") or ()
    first = declared[0]["name"] if declared else None
    for container in containers:
        if first is None or container.get("name") == first:
            state = container.get("state") or {}
            if state.get("terminated") is not None:
                return str(container["name"]), True
            return (str(container["name"]), False) if state.get("running") is not None else ("", False)
    return "", False
