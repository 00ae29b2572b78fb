"""Which resources are enqueued after a change: the object itself, its owner, and those that refer to it.

Must not know how a change is noticed, nor what a reconciler does with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    from gapless_operator.shell.queue import WorkQueue

_NAMED_KINDS = {kind.name for kind in NAMED}
_OWNER_KINDS = {kind.name: kind for kind in OWNERS}
_NAMING = (ARCHIVE, GAP_SCAN, MIRROR, RESEND, RESTORE)
"""Kinds that refer to objects of the platform team, or to an Archive."""
_NAMED_OWNERS = {ARCHIVE.name, KAFKA_CONNECTION.name}
"""Kinds that others refer to; a change of only their status does not matter to those."""


class Enqueuer:
    """Adds the resources that a change affects to the work queue."""

    def __init__(self, cache: Cache, queue: WorkQueue[Key]) -> None:
        """Prepare it.

        Args:
            cache: of the cluster.
            queue: of resources to reconcile.
        """
        self._cache, self._queue = cache, queue
        self._seen_diodes: dict[Key, object] = {}
        self._seen_specs: dict[Key, tuple[str, int]] = {}
        """Uid and generation of each resource when it was last enqueued."""

    def forget(self, key: Key) -> None:
        """Forget a deleted resource."""
        self._queue.forget(key)
        self._seen_specs.pop(key, None)
        self._seen_diodes.pop(key, None)

    def enqueue_for(self, body: Body) -> None:
        """Enqueue all resources that the change of an object may affect."""
        namespace = body["metadata"].get("namespace", "")
        if body["kind"] in _OWNER_KINDS:
            is_news = self._has_another_spec(body)
            self._queue.add(key_of(body), urgent=is_news)
            if body["kind"] in _NAMED_OWNERS and (is_news or self._is_deleted(body)):
                self._enqueue_referrers(body["kind"], namespace, body["metadata"]["name"])
            if body["kind"] == RESEND.name:
                diode = ((body.get("spec") or {}).get("diodeRef") or {}).get("name")
                self._enqueue_named(DIODE, namespace, diode)
            elif body["kind"] == DIODE.name and self._matters_to_resends(body):
                self._enqueue_resends(body)
            return
        if body["kind"] in _NAMED_KINDS:
            self._enqueue_referrers(body["kind"], namespace, body["metadata"]["name"])
            return
        self.enqueue_owner(body)
        if (diode := diode_of(body, self._cache)) is not None:
            self._queue.add(diode)

    def namespaces(self) -> set[str]:
        """Return the namespaces that contain resources."""
        return {body["metadata"]["namespace"] for kind in OWNERS for body in self._cache.all(kind)}

    def enqueue_namespace(self, namespace: str) -> None:
        """Enqueue every resource of a namespace, also those that wait after a failure."""
        for kind in OWNERS:
            for body in self._cache.all(kind, namespace):
                self._queue.add(key_of(body), urgent=True)

    def nodes(self) -> set[str]:
        """Return the nodes of our pods, and those of the last preflight checks."""
        diodes = {_preflight_node(body) for body in self._cache.all(DIODE)}
        return diodes | {_node(pod) for pod in self._cache.all(POD)}

    def enqueue_for_nodes(self, changed: Collection[str]) -> None:
        """Enqueue all resources that a change of one of these nodes may affect."""
        for pod in self._cache.all(POD):
            if _node(pod) in changed:
                self.enqueue_for(pod)
        for diode in self._cache.all(DIODE):
            if _preflight_node(diode) in changed:
                self._queue.add(key_of(diode))

    def enqueue_owner(self, child: Mapping[str, Any]) -> None:
        """Enqueue the owner of a child."""
        if (owner := owner_of(child, self._cache)) is not None:
            self._queue.add(owner)

    def _enqueue_resends(self, diode: Body) -> None:
        """Enqueue the Resends of a Diode; with encryption all in the namespace, which may share its receiver."""
        name, is_shared = diode["metadata"]["name"], "encryption" in (diode.get("spec") or {})
        for resend in self._cache.all(RESEND, diode["metadata"]["namespace"]):
            used = ((resend.get("spec") or {}).get("diodeRef") or {}).get("name")
            if (is_shared or used == name) and not (resend.get("status") or {}).get("finishedAt"):
                self._queue.add(key_of(resend))

    def _enqueue_referrers(self, kind: str, namespace: str, name: str) -> None:
        for body in (body for referrer in _NAMING for body in self._cache.all(referrer, namespace)):
            if (kind, name) in names_of(body.get("spec")) and not (body.get("status") or {}).get("finishedAt"):
                self._queue.add(key_of(body))

    def _is_deleted(self, body: Body) -> bool:
        key = key_of(body)
        return self._cache.get(_OWNER_KINDS[key.kind], key.namespace, key.name) is None

    def _has_another_spec(self, body: Body) -> bool:
        """Return whether the spec of a resource has changed since it was last enqueued."""
        spec = (body["metadata"]["uid"], body["metadata"].get("generation", 0))
        before = self._seen_specs.get(key_of(body))
        self._seen_specs[key_of(body)] = spec
        return spec != before

    def _matters_to_resends(self, diode: Body) -> bool:
        """Return whether a Diode has changed in what Resends depend on; most changes of a busy one have not."""
        metadata, status = diode["metadata"], diode.get("status") or {}
        ready = [(c["type"], c["status"]) for c in status.get("conditions") or ()]
        deleted = metadata.get("deletionTimestamp")
        view = (metadata.get("generation"), deleted, status.get("active"), ready)
        before = self._seen_diodes.get(key_of(diode))
        self._seen_diodes[key_of(diode)] = view
        return view != before

    def _enqueue_named(self, kind: Kind, namespace: str, name: str | None) -> None:
        if name and self._cache.get(kind, namespace, name) is not None:
            self._queue.add(Key(kind.name, namespace, name))

    def enqueue_all(self) -> None:
        """Enqueue every resource, after those that have changed."""
        for kind in OWNERS:
            for body in self._cache.all(kind):
                self._queue.add(key_of(body), has_changed=False)


def _node(pod: Body) -> str:
    return str((pod.get("spec") or {}).get("nodeName", ""))


def _preflight_node(diode: Body) -> str:
    return str(((diode.get("status") or {}).get("preflight") or {}).get("node", ""))
