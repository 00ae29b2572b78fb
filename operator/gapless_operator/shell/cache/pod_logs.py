"""The logs of our pods, which are read in the background and cached.

Must not know what a log means. Only the end of a log is read, within limits, and parsed at once; the messages of our
programs are kept while the pod exists. Callers never wait. One thread at a time reads from the kubelet of a node, so
that an unreachable kubelet delays only the logs of its own pods.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from gapless_operator.common.observed import ObservedNode, PodLog, sidecars_of
from gapless_operator.common.pod_output import PodOutput, read_output

MAX_LOG_BYTES = 8 * 1024 * 1024
_LINES_OF_ENDED, _LINES_OF_RUNNING = 4000, 200
_REFRESH_SECONDS = 3.0
"""How old the log of a running pod may be; progress is written to a status every five seconds at most."""
_SETTLE_SECONDS = 30.0
"""For how long the log of an ended pod is read again while its final message is missing."""
_FIRST_PAUSE, _MAX_PAUSE = 5.0, 60.0
"""Pauses between attempts to read an unreadable log."""
_MAX_PROBLEM_LENGTH = 300


class LogSource(Protocol):
    """Reads logs; the part of `ClusterApi` that is needed here."""

    def log(self, namespace: str, pod: str, container: str, *, tail_lines: int, max_bytes: int) -> str | None:
        """Read the end of a container's log; ``None`` when there is none."""


@dataclass(slots=True)
class _LogState:
    """The state of one pod's log."""

    output: PodOutput = field(default_factory=PodOutput)
    changed_at: datetime | None = None
    """When the output last changed, by our clock."""
    began: str = ""
    """When the container of the log has started: a restarted one has another log."""
    read_at: float | None = None
    ended_at: float | None = None
    """When it was first read after the pod had ended."""
    is_final: bool = False
    problem: str = ""
    since: datetime | None = None
    """Since when the problem exists."""
    again_at: float = 0.0
    pause: float = _FIRST_PAUSE


@dataclass(slots=True)
class _Kubelet:
    """The pending reads of one node."""

    pending: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Pods by uid, in the order in which they were requested."""
    is_busy: bool = False
    """Whether a thread reads its logs."""


class PodLogs:
    """The logs of pods by their uid, safe to use from several threads."""

    def __init__(  # noqa: PLR0913 -- its dependencies
        self,
        source: LogSource,
        *,
        start: Callable[[Callable[[], None]], object],
        on_change: Callable[[Mapping[str, Any]], None] = lambda _: None,
        node: Callable[[str], ObservedNode | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare it.

        Args:
            source: reads logs; any exception means that a log is unreadable at the moment.
            start: runs a function in another thread.
            on_change: called in that thread with each pod whose log has changed.
            node: returns the state of a node, if it is known.
            clock: monotonic, in seconds.
            now: the time, for messages.
        """
        self._source, self._start, self._on_change, self._node = source, start, on_change, node
        self._clock, self._now = clock, now
        self._states: dict[str, _LogState] = {}
        self._kubelets: dict[str, _Kubelet] = {}
        self._lock = threading.Lock()

    def log(self, pod: Mapping[str, Any]) -> PodLog:
        """Return what is known of a pod's log; if that is outdated, the log is read again in another thread."""
        container, ended = _container(pod)
        if not container:
            return PodLog()
        uid, name = pod["metadata"]["uid"], str((pod.get("spec") or {}).get("nodeName", ""))
        node = self._node(name)
        with self._lock:
            state = self._states.setdefault(uid, _LogState())
            if state.ended_at is not None and (not ended or _container_start(pod) != state.began):
                # The kubelet has started the container again, as that of a mirror worker.
                state.ended_at, state.is_final, state.read_at = None, False, None
            if state.is_final:
                return PodLog(state.output, state.changed_at)
            if node is not None and not node.ready:
                problem = f"node {name} is not ready"
                return PodLog(state.output, state.changed_at, problem=problem, since=node.since, is_unread=True)
            must_start = self._is_old(state, ended=ended) and self._add_pending(name, uid, pod)
        if must_start:
            self._start(lambda: self._read_pending(name))
        with self._lock:
            return PodLog(
                state.output,
                state.changed_at,
                problem=state.problem,
                since=state.since,
                is_unread=bool(state.problem) or (state.ended_at if ended else state.read_at) is None,
            )

    def retain(self, uids: Collection[str]) -> None:
        """Forget the logs of all other pods."""
        with self._lock:
            self._states = {uid: state for uid, state in self._states.items() if uid in uids}
            self._kubelets = {
                name: kubelet for name, kubelet in self._kubelets.items() if kubelet.is_busy or kubelet.pending
            }

    def _is_old(self, state: _LogState, *, ended: bool) -> bool:
        now = self._clock()
        if state.problem:
            return now >= state.again_at
        if state.read_at is None or (ended and state.ended_at is None):
            return True
        return now - state.read_at >= _REFRESH_SECONDS

    def _add_pending(self, name: str, uid: str, pod: Mapping[str, Any]) -> bool:
        """Add a pod to the pending reads of its node; return whether a thread must be started for them."""
        kubelet = self._kubelets.setdefault(name, _Kubelet())
        kubelet.pending[uid] = pod
        must_start = not kubelet.is_busy
        kubelet.is_busy = True
        return must_start

    def _read_pending(self, name: str) -> None:
        """Read all pending logs of a node."""
        while True:
            with self._lock:
                kubelet = self._kubelets[name]
                uid = next(iter(kubelet.pending), None)
                if uid is None:
                    kubelet.is_busy = False
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
                    max_bytes=MAX_LOG_BYTES,
                )
            except Exception as error:  # noqa: BLE001 -- the log is unreadable, and the next ones must be read
                self._record_problem(uid, pod, str(error))
            else:
                self._read(uid, pod, text, ended=ended)

    def _read(self, uid: str, pod: Mapping[str, Any], text: str | None, *, ended: bool) -> None:
        output = None if text is None else read_output(text)
        now = self._clock()
        with self._lock:
            state = self._states.setdefault(uid, _LogState())
            is_news = bool(state.problem) or (ended and state.ended_at is None)
            began = _container_start(pod)
            if output is not None and began == state.began:
                # Only the end of a log is read, which may not contain the latest message of each kind.
                output = output.after(state.output)
            if output is not None and output != state.output:
                state.output, state.changed_at, is_news = output, self._now(), True
            state.began = began
            state.read_at, state.problem, state.since, state.pause = now, "", None, _FIRST_PAUSE
            if ended:
                state.ended_at = now if state.ended_at is None else state.ended_at
                state.is_final = state.output.is_complete or now - state.ended_at >= _SETTLE_SECONDS
        if is_news:
            self._on_change(pod)

    def _record_problem(self, uid: str, pod: Mapping[str, Any], problem: str) -> None:
        with self._lock:
            state = self._states.setdefault(uid, _LogState())
            is_news = not state.problem
            if is_news:
                state.problem, state.since = problem[:_MAX_PROBLEM_LENGTH], self._now().replace(microsecond=0)
            state.again_at = self._clock() + state.pause
            state.pause = min(2 * state.pause, _MAX_PAUSE)
        if is_news:
            self._on_change(pod)


def _container_start(pod: Mapping[str, Any]) -> str:
    """Return when the container whose log is read has started; empty if that is unknown."""
    status, (name, _) = pod.get("status") or {}, _container(pod)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if container.get("name") == name:
            state = container.get("state") or {}
            return f"{name} {(state.get('running') or state.get('terminated') or {}).get('startedAt', '')}"
    return ""


def _container(pod: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the container whose log is read, and whether it has ended; an empty name for none.

    That is an init container that has failed, else the first container.
    """
    status, sidecars = pod.get("status") or {}, sidecars_of(pod)
    for container in status.get("initContainerStatuses") or ():
        has_failed = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        if has_failed and container.get("name") not in sidecars:
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
