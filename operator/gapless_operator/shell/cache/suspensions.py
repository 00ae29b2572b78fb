"""Which namespaces are suspended as a whole, by an annotation of the Namespace or for the whole installation.

Must not know what follows from it. Namespaces are read one by one and by name, because a namespaced role can permit no
more than that. What was read last stays in force while the API server does not answer: a stop is never lifted because
nobody could be asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import structlog

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.shell.api.errors import RefusedError
from gapless_operator.shell.api.kinds import NAMESPACE

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

_LOG = structlog.get_logger("gapless.suspensions")
SUSPEND_ANNOTATION = f"{GROUP}/suspend"
"""On a Namespace: ``true`` stops everything in it. Any other value but ``false`` does so, too."""
RUNNING = frozenset({"", "false"})
"""Values of the annotation that stop nothing."""
_EVERYTHING = (
    "The operator runs with --suspend-all (chart value operator.suspendAll), so nothing runs in any namespace."
)


class _Known(NamedTuple):
    reason: str = ""
    readable: bool = True


class Suspensions:
    """Which namespaces are suspended, and why. Safe to use from several threads."""

    def __init__(self, api: ClusterApi, *, everything: bool = False) -> None:
        """Prepare it.

        Args:
            api: to read Namespaces with.
            everything: whether all namespaces are suspended.
        """
        self._api, self._everything = api, everything
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def reason(self, namespace: str) -> str:
        """Return why nothing may run in a namespace, as a sentence; empty if it may. A new namespace is read first.

        Raises:
            ApiError: the API server does not answer, and the namespace was never read.
        """
        if self._everything:
            return _EVERYTHING
        if namespace not in self._known:
            self.read([namespace])
        return self._known[namespace].reason

    def read(self, namespaces: Iterable[str]) -> set[str]:
        """Read these Namespaces; return those whose suspension has changed. Blocks.

        Raises:
            ApiError: the API server does not answer; what was read before stays in force.
        """
        changed = set[str]()
        for name in sorted(set(namespaces)):
            try:
                body = self._api.get(NAMESPACE, None, name)
            except RefusedError as error:
                self._refused(name, error)
                continue
            reason = "" if body is None else _reason(name, body["metadata"].get("annotations") or {})
            with self._lock:
                before, self._known[name] = self._known.get(name, _Known()), _Known(reason)
            if reason != before.reason:
                changed.add(name)
                _LOG.warning("suspended" if reason else "no longer suspended", namespace=name, reason=reason)
        return changed

    def _refused(self, namespace: str, error: RefusedError) -> None:
        """Record that a namespace may not be read; it stays suspended if it was."""
        with self._lock:
            before = self._known.get(namespace, _Known())
            self._known[namespace] = before._replace(readable=False)
        if before.readable:
            _LOG.warning("cannot tell whether a namespace is suspended", namespace=namespace, error=str(error))


def _reason(namespace: str, annotations: Mapping[str, str]) -> str:
    value = str(annotations.get(SUSPEND_ANNOTATION, "")).strip()
    if value.lower() in RUNNING:
        return ""
    return f"The namespace {namespace} has the annotation {SUSPEND_ANNOTATION}={value[:40]}, so nothing runs in it."
