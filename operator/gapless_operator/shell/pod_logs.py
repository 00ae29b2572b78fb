"""Owns what is known of the logs of our pods: read when it matters, kept when it cannot change any more.

Must not know what a log means to anybody. A log is read from its end, within bounds, and parsed at once; what is kept
is what our programs said, and only as long as the pod is there.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gapless_operator.pod_output import PodOutput, read_output

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

MOST_LOG_BYTES = 8 * 1024 * 1024
_LINES_OF_ENDED, _LINES_OF_RUNNING = 4000, 200
_REFRESH_SECONDS = 3.0
"""How old what a running pod said may be; progress goes into the status every five seconds at most."""


class LogSource(Protocol):
    """Where logs come from; the part of `ClusterApi` that is needed here."""

    def log(self, namespace: str, pod: str, container: str, *, tail_lines: int, most_bytes: int) -> str | None:
        """Read the end of a container's log; ``None`` when there is none."""


@dataclass(frozen=True, slots=True)
class _Known:
    output: PodOutput
    read_at: float
    is_final: bool


class PodLogs:
    """The outputs of pods by their uid."""

    def __init__(self, source: LogSource, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def output(self, pod: Mapping[str, Any]) -> PodOutput | None:
        """What the programs in a pod have said so far; ``None`` when nothing has begun or the log is gone.

        Raises:
            UnavailableError: the log is there and cannot be read now.
        """
        container, ended = _container(pod)
        if not container:
            return None
        metadata = pod["metadata"]
        with self._lock:
            known = self._known.get(metadata["uid"])
        now = self._clock()
        if known is not None and (known.is_final or (not ended and now - known.read_at < _REFRESH_SECONDS)):
            return known.output
        text = self._source.log(
            metadata["namespace"],
            metadata["name"],
            container,
            tail_lines=_LINES_OF_ENDED if ended else _LINES_OF_RUNNING,
            most_bytes=MOST_LOG_BYTES,
        )
        if text is None:
            return known.output if known is not None else None
        output = read_output(text)
        with self._lock:
            self._known[metadata["uid"]] = _Known(output, now, ended)
        return output

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods but those with these uids."""
        with self._lock:
            self._known = {uid: known for uid, known in self._known.items() if uid in uids}


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
