"""Owns what the operator knows of the cluster: the latest version of every object that matters, trimmed.

Must not know where bodies come from or what follows from them. They come from watches, lists and our own writes, in any
order and more than once; the newest version of each object stays. A write's answer goes in at once, so that what we
have written is never overlooked because the watch is late.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_operator.common.observed import LEDGER_ROLE, NAME_LABEL, ROLE_LABEL, UID_LABEL
from gapless_operator.shell.cache.trimming import trim

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gapless_operator.shell.api.kinds import Kind

Body = dict[str, Any]
_REMEMBERED_DELETIONS = 10_000


class Key(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str


def key_of(body: Mapping[str, Any]) -> Key:
    """The key of an object."""
    metadata = body["metadata"]
    return Key(body["kind"], metadata.get("namespace", ""), metadata["name"])


class Cache:
    """All objects that matter, safe to use from several threads. Bodies in it must not be changed."""

    def __init__(self) -> None:
        self._bodies: dict[str, dict[Key, Body]] = {}
        """By kind."""
        self._by_owner: dict[str, set[Key]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def store(self, body: Body) -> bool:
        """Take in an object, unless we know a newer one; return whether anything is new.

        A body of an object that is known to be deleted comes too late and is passed over.
        """
        key, uid = key_of(body), body["metadata"].get("uid", "")
        with self._lock:
            if uid in self._deleted:
                return False
            of_kind = self._bodies.setdefault(key.kind, {})
            known = of_kind.get(key)
            if known is not None and not _newer(body, known):
                return False
            if known is not None:
                self._forget(key, known)
            of_kind[key] = kept = trim(body)
            for owner in _owners(kept):
                self._by_owner.setdefault(owner, set()).add(key)
            return True

    def remove(self, body: Mapping[str, Any]) -> bool:
        """Take note that an object is gone; return whether it was known."""
        key, uid = key_of(body), body["metadata"].get("uid", "")
        with self._lock:
            self._deleted[uid] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
            known = self._bodies.get(key.kind, {}).get(key)
            if known is None or known["metadata"].get("uid", "") != uid:
                return False
            self._forget(key, known)
            del self._bodies[key.kind][key]
            return True

    def knows(self, head: Mapping[str, Any]) -> bool:
        """Whether nothing would be new about an object of which only the metadata is at hand."""
        with self._lock:
            known = self._bodies.get(head["kind"], {}).get(key_of(head))
            return head["metadata"].get("uid", "") in self._deleted or (known is not None and not _newer(head, known))

    def prune(self, kind: Kind, namespace: str | None, present: Collection[str], version: str) -> list[Body]:
        """Remove what is not on a complete list of a kind; return it.

        A watch that was interrupted does not tell what was deleted meanwhile; a list does.

        Args:
            kind: of the list.
            namespace: of the list; ``None`` for all.
            present: uids of what is on the list.
            version: of the list; what we know to be newer than that stays.
        """
        with self._lock:
            gone = [
                body
                for key, body in self._bodies.get(kind.name, {}).items()
                if namespace in {None, key.namespace}
                and body["metadata"].get("uid", "") not in present
                and _version(body) <= _number(version)
            ]
        return [body for body in gone if self.remove(body)]

    def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """The object of that name, if it is known."""
        return self._bodies.get(kind.name, {}).get(Key(kind.name, namespace, name))

    def all(self, kind: Kind, namespace: str | None = None) -> list[Body]:
        """All objects of a kind, of one namespace or of all, by name."""
        with self._lock:
            of_kind = self._bodies.get(kind.name, {})
            found = [(key, body) for key, body in of_kind.items() if namespace in {None, key.namespace}]
        return [body for _, body in sorted(found, key=lambda pair: pair[0])]

    def owned(self, kind: Kind, owner_uid: str) -> list[Body]:
        """All objects of a kind with that owner, by name."""
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


def ledger_of(namespace: str, label: str) -> str:
    """What stands for the uid of an owner where a ledger belongs to every Diode of a name.

    Args:
        namespace: of the Diode.
        label: the Diode's name as `children.label_value` cuts it.
    """
    return f"ledger/{namespace}/{label}"


def _owners(body: Mapping[str, Any]) -> Iterable[str]:
    metadata = body["metadata"]
    owners = {owner.get("uid", "") for owner in metadata.get("ownerReferences") or ()}
    # Pods belong to Jobs and drivers to SparkApplications; the label says which resource is behind them.
    labels = metadata.get("labels") or {}
    owners.add(labels.get(UID_LABEL, ""))
    owners.discard("")
    if labels.get(ROLE_LABEL) == LEDGER_ROLE:
        owners.add(ledger_of(metadata.get("namespace", ""), labels.get(NAME_LABEL, "")))
    return owners


def _newer(body: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether `body` says more than `known`. Kubernetes counts versions upwards (KEP-5504)."""
    if body["metadata"].get("uid") != known["metadata"].get("uid"):
        return _version(body) >= _version(known)
    return _version(body) > _version(known)


def _version(body: Mapping[str, Any]) -> int:
    return _number(str(body["metadata"].get("resourceVersion", "")))


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
