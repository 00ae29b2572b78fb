"""Owns which resources are reconciled after a change: the object itself, its owner, and those that refer to it.

Must not know how a change is noticed, nor what a reconciler does with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.references import names_of
from gapless_operator.shell.api.kinds import (
    ARCHIVE,
    DIODE,
    GAP_SCAN,
    KAFKA_CONNECTION,
    MIRROR,
    NAMED,
    OWNERS,
    POD,
    RESEND,
    RESTORE,
    Kind,
)
from gapless_operator.shell.cache.relations import diode_of, owner_of
from gapless_operator.shell.cache.store import Body, Cache, Key, key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gapless_operator.shell.queue import WorkQueue

_NAMED_KINDS = {kind.name for kind in NAMED}
_OWNER_KINDS = {kind.name: kind for kind in OWNERS}
_NAMING = (ARCHIVE, GAP_SCAN, MIRROR, RESEND, RESTORE)
"""What names objects of the platform team, or an Archive."""
_NAMED_OWNERS = {ARCHIVE.name, KAFKA_CONNECTION.name}
"""What is named by others, and has a status of its own, which is no news to them."""


class Waker:
    """Puts resources into the work queue."""

    def __init__(self, cache: Cache, queue: WorkQueue[Key]) -> None:
        """Prepare it.

        Args:
            cache: what is known of the cluster.
            queue: of resources to reconcile.
        """
        self._cache, self._queue = cache, queue
        self._seen_diodes: dict[Key, object] = {}
        self._seen_specs: dict[Key, tuple[str, int]] = {}
        """Uid and generation of each resource when it was woken last."""

    def forget(self, key: Key) -> None:
        """Drop what is kept about a resource that is gone."""
        self._queue.forget(key)
        self._seen_specs.pop(key, None)
        self._seen_diodes.pop(key, None)

    def wake_for(self, body: Body) -> None:
        """Wake everybody to whom the change of an object may matter."""
        namespace = body["metadata"].get("namespace", "")
        if body["kind"] in _OWNER_KINDS:
            is_news = self._has_another_spec(body)
            self._queue.wake(key_of(body), urgent=is_news)
            if body["kind"] in _NAMED_OWNERS and (is_news or self._is_gone(body)):
                self._wake_those_that_name(body["kind"], namespace, body["metadata"]["name"])
            if body["kind"] == RESEND.name:
                diode = ((body.get("spec") or {}).get("diodeRef") or {}).get("name")
                self._wake(DIODE, namespace, diode)
            elif body["kind"] == DIODE.name and self._matters_to_resends(body):
                self._wake_resends(body)
            return
        if body["kind"] in _NAMED_KINDS:
            self._wake_those_that_name(body["kind"], namespace, body["metadata"]["name"])
            return
        self.wake_owner(body)
        if (diode := diode_of(body, self._cache)) is not None:
            self._queue.wake(diode)

    def nodes(self) -> set[str]:
        """The nodes on which our pods are, or of which a Diode knows."""
        diodes = {_preflight_node(body) for body in self._cache.all(DIODE)}
        return diodes | {_node(pod) for pod in self._cache.all(POD)}

    def wake_for_nodes(self, changed: Collection[str]) -> None:
        """Wake everybody to whom a change of a node may matter."""
        for pod in self._cache.all(POD):
            if _node(pod) in changed:
                self.wake_for(pod)
        for diode in self._cache.all(DIODE):
            if _preflight_node(diode) in changed:
                self._queue.wake(key_of(diode))

    def wake_owner(self, child: Mapping[str, Any]) -> None:
        """Wake the resource to which a child belongs."""
        if (owner := owner_of(child, self._cache)) is not None:
            self._queue.wake(owner)

    def _wake_resends(self, diode: Body) -> None:
        """Wake the Resends that depend on a Diode: those over it, and others while it uses a receiver of theirs."""
        name, is_shared = diode["metadata"]["name"], "encryption" in (diode.get("spec") or {})
        for resend in self._cache.all(RESEND, diode["metadata"]["namespace"]):
            over = ((resend.get("spec") or {}).get("diodeRef") or {}).get("name")
            if (is_shared or over == name) and not (resend.get("status") or {}).get("finishedAt"):
                self._queue.wake(key_of(resend))

    def _wake_those_that_name(self, kind: str, namespace: str, name: str) -> None:
        for body in (body for each in _NAMING for body in self._cache.all(each, namespace)):
            if (kind, name) in names_of(body.get("spec")) and not (body.get("status") or {}).get("finishedAt"):
                self._queue.wake(key_of(body))

    def _is_gone(self, body: Body) -> bool:
        key = key_of(body)
        return self._cache.get(_OWNER_KINDS[key.kind], key.namespace, key.name) is None

    def _has_another_spec(self, body: Body) -> bool:
        """Whether the spec of a resource has changed; its status, which we write ourselves, is no news."""
        spec = (body["metadata"]["uid"], body["metadata"].get("generation", 0))
        known = self._seen_specs.get(key_of(body))
        self._seen_specs[key_of(body)] = spec
        return spec != known

    def _matters_to_resends(self, diode: Body) -> bool:
        """Whether a Diode has changed in what Resends depend on; with hundreds in its queue most changes are not."""
        metadata, status = diode["metadata"], diode.get("status") or {}
        ready = [(c["type"], c["status"]) for c in status.get("conditions") or ()]
        deleted = metadata.get("deletionTimestamp")
        view = (metadata.get("generation"), deleted, status.get("active"), ready)
        known = self._seen_diodes.get(key_of(diode))
        self._seen_diodes[key_of(diode)] = view
        return view != known

    def _wake(self, kind: Kind, namespace: str, name: str | None) -> None:
        if name and self._cache.get(kind, namespace, name) is not None:
            self._queue.wake(Key(kind.name, namespace, name))

    def wake_all(self) -> None:
        """Wake every resource."""
        for kind in OWNERS:
            for body in self._cache.all(kind):
                self._queue.wake(key_of(body))


def _node(pod: Body) -> str:
    return str((pod.get("spec") or {}).get("nodeName", ""))


def _preflight_node(diode: Body) -> str:
    return str(((diode.get("status") or {}).get("preflight") or {}).get("node", ""))
