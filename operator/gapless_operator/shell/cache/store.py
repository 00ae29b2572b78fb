"""The cache of the cluster: the latest version of every relevant object, trimmed.

Must not know where objects come from or what follows from them. They come from watches, lists and our own writes, in
any order and more than once; the newest version of each stays. The response to a write is stored at once, so that the
next reconcile sees it even if the watch is late.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_operator.common.observed import LEDGER_ROLE, NAME_LABEL, ROLE_LABEL, UID_LABEL
from gapless_operator.shell.cache.trimming import trim

if TYPE_CHECKING:
    from gapless_operator.shell.api.kinds import Kind

Body = dict[str, Any]
_REMEMBERED_DELETIONS = 10_000


class Key(NamedTuple):
    """Identifies an object."""

    kind: str
    namespace: str
    name: str


def key_of(body: Mapping[str, Any]) -> Key:
    """Return the key of an object."""
    metadata = body["metadata"]
    return Key(body["kind"], metadata.get("namespace", ""), metadata["name"])


class Cache:
    """All relevant objects, thread-safe. Callers must not change the bodies."""

    def __init__(self) -> None:
        self._bodies: dict[str, dict[Key, Body]] = {}
        """By kind."""
        self._by_owner: dict[str, set[Key]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def store(self, body: Body) -> bool:
        """Store an object unless a newer version is cached; return whether anything is new.

        A late body of a deleted object is ignored.
        """
        key, uid = key_of(body), body["metadata"].get("uid", "")
        with self._lock:
            if uid in self._deleted:
                return False
            of_kind = self._bodies.setdefault(key.kind, {})
            cached = of_kind.get(key)
            if cached is not None and not _is_newer(body, cached):
                return False
            if cached is not None:
                self._forget(key, cached)
            of_kind[key] = kept = trim(body)
            for owner in _owners(kept):
                self._by_owner.setdefault(owner, set()).add(key)
            return True

    def remove(self, body: Mapping[str, Any]) -> bool:
        """Remove a deleted object; return whether it was cached."""
        key, uid = key_of(body), body["metadata"].get("uid", "")
        with self._lock:
            self._deleted[uid] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
            cached = self._bodies.get(key.kind, {}).get(key)
            if cached is None or cached["metadata"].get("uid", "") != uid:
                return False
            self._forget(key, cached)
            del self._bodies[key.kind][key]
            return True

    def knows(self, head: Mapping[str, Any]) -> bool:
        """Return by the metadata of an object whether the cache has its version or a newer one."""
        with self._lock:
            cached = self._bodies.get(head["kind"], {}).get(key_of(head))
            is_deleted = head["metadata"].get("uid", "") in self._deleted
            return is_deleted or (cached is not None and not _is_newer(head, cached))

    def prune(self, kind: Kind, namespace: str | None, present: Collection[str], version: str) -> list[Body]:
        """Remove and return the objects that are missing from a complete list of a kind.

        An interrupted watch misses deletions, which a list reveals.

        Args:
            kind: of the list.
            namespace: of the list; ``None`` for all.
            present: uids of the objects in the list.
            version: of the list; newer objects stay.
        """
        with self._lock:
            missing = [
                body
                for key, body in self._bodies.get(kind.name, {}).items()
                if namespace in {None, key.namespace}
                and body["metadata"].get("uid", "") not in present
                and _version(body) <= version_number(version)
            ]
        return [body for body in missing if self.remove(body)]

    def newest(self, kind: Kind, namespace: str | None) -> int:
        """Return the highest resource version of a kind, in one namespace or in all; 0 without an object."""
        with self._lock:
            of_kind = self._bodies.get(kind.name, {}).items()
            return max((_version(body) for key, body in of_kind if namespace in {None, key.namespace}), default=0)

    def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """Return the object of that name, if it is cached."""
        return self._bodies.get(kind.name, {}).get(Key(kind.name, namespace, name))

    def all(self, kind: Kind, namespace: str | None = None) -> list[Body]:
        """Return all objects of a kind, in one namespace or in all, sorted by key."""
        with self._lock:
            of_kind = self._bodies.get(kind.name, {})
            matching = [(key, body) for key, body in of_kind.items() if namespace in {None, key.namespace}]
        return [body for _, body in sorted(matching, key=lambda pair: pair[0])]

    def owned(self, kind: Kind, owner_uid: str) -> list[Body]:
        """Return all objects of a kind with that owner, sorted by key."""
        with self._lock:
            keys = sorted(key for key in self._by_owner.get(owner_uid, ()) if key.kind == kind.name)
            return [self._bodies[key.kind][key] for key in keys]

    def _forget(self, key: Key, body: Mapping[str, Any]) -> None:
        for owner in _owners(body):
            keys = self._by_owner.get(owner)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._by_owner[owner]


def ledger_owner(namespace: str, label: str) -> str:
    """Return what replaces the uid of the owner of a ledger, which belongs to every Diode of a name.

    Args:
        namespace: of the Diode.
        label: the Diode's name, shortened by `children.label_value`.
    """
    return f"ledger/{namespace}/{label}"


def _owners(body: Mapping[str, Any]) -> Iterable[str]:
    metadata = body["metadata"]
    owners = {owner.get("uid", "") for owner in metadata.get("ownerReferences") or ()}
    # Pods are owned by Jobs and drivers by SparkApplications; the label has the uid of the resource of ours.
    labels = metadata.get("labels") or {}
    owners.add(labels.get(UID_LABEL, ""))
    owners.discard("")
    if labels.get(ROLE_LABEL) == LEDGER_ROLE:
        owners.add(ledger_owner(metadata.get("namespace", ""), labels.get(NAME_LABEL, "")))
    return owners


def _is_newer(body: Mapping[str, Any], cached: Mapping[str, Any]) -> bool:
    """Return whether `body` is newer than `cached`. Resource versions increase (KEP-5504)."""
    if body["metadata"].get("uid") != cached["metadata"].get("uid"):
        return _version(body) >= _version(cached)
    return _version(body) > _version(cached)


def _version(body: Mapping[str, Any]) -> int:
    return version_number(str(body["metadata"].get("resourceVersion", "")))


def version_number(version: str) -> int:
    """Return a resource version as a number, which increases with every change of the cluster; 0 if it is none."""
    return int(version) if version.isdecimal() else 0
