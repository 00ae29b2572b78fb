"""Which namespaces this operator serves: one Lease in each, held by one operator at a time.

Must not know what serving is. Two operators would create every child twice and overwrite each other's status; so the
second one waits and reports the holder, or as a standby of the same release just waits. Times of other operators are
never compared with our clock: a Lease has expired when we have seen it unchanged for its duration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.shell.api.errors import ApiError, ConflictError, NotFoundError, RefusedError
from gapless_operator.shell.api.kinds import LEASE

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

LEASE_NAME = "gapless-operator"
RELEASE_ANNOTATION = f"{GROUP}/release"
"""Which release the holder belongs to."""
LEASE_SECONDS = 60
"""How long a Lease is valid without renewal: so long no operator serves after the holder's node was lost."""
TRY_SECONDS = 5.0
"""How often to check whether a Lease has to be renewed or can be acquired."""
_RENEW_AFTER = LEASE_SECONDS / 3
_VALID_FOR = LEASE_SECONDS * 2 / 3
"""How long we rely on a renewal; a third less than others wait, so that a running reconcile can end."""
_LOG = structlog.get_logger("gapless.leases")


@dataclass(slots=True)
class _LeaseState:
    """The state of the Lease of one namespace."""

    body: Mapping[str, Any] | None = None
    """As it was last read or written."""
    unchanged_since: float = 0.0
    renewed_at: float | None = None
    """When our last renewal was requested; ``None`` while another operator holds it."""
    is_peer: bool = False
    """Whether another operator of our release holds it."""
    problem: str = field(default="its Lease has not been requested yet")


class Leases:
    """The Leases of all namespaces that are served."""

    def __init__(
        self,
        api: ClusterApi,
        namespaces: Iterable[str],
        identity: str,
        *,
        release: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare it.

        Args:
            api: to read and write Leases with.
            namespaces: to serve.
            identity: of this operator; a restarted one with the same identity need not wait.
            release: of this operator, unique in the cluster; empty if it has no peers.
            clock: monotonic, in seconds.
        """
        self._api, self._identity, self._release, self._clock = api, identity, release, clock
        self._known = {namespace: _LeaseState() for namespace in namespaces}

    def held(self, namespace: str) -> bool:
        """Return whether we hold the Lease of a namespace; one Lease may stand for all namespaces."""
        lease = self._known.get(namespace) or next(iter(self._known.values()))
        return lease.renewed_at is not None and self._clock() - lease.renewed_at < _VALID_FOR

    def served(self) -> dict[str, bool]:
        """Return whether this operator serves each of its namespaces."""
        return {namespace: self.held(namespace) for namespace in sorted(self._known)}

    def waiting_reason(self) -> str:
        """Return why namespaces are served neither by this operator nor by a peer; empty when all are."""
        return self._reasons(is_peer=False)

    def standby_reason(self) -> str:
        """Return which peers serve namespaces, so that this operator waits as a standby; empty if there are none."""
        return self._reasons(is_peer=True)

    def _reasons(self, *, is_peer: bool) -> str:
        return " ".join(
            f"Namespace {namespace} is not served by this operator: {lease.problem}."
            for namespace, lease in sorted(self._known.items())
            if not self.held(namespace) and lease.is_peer is is_peer
        )

    def renew(self) -> bool:
        """Renew our Leases and acquire free ones; return whether any was acquired. Blocks."""
        before = {namespace for namespace in self._known if self.held(namespace)}
        for namespace, lease in self._known.items():
            if lease.renewed_at is not None and self._clock() - lease.renewed_at < _RENEW_AFTER:
                continue
            lease.is_peer = False
            try:
                self._renew(namespace, lease)
            except ApiError as error:
                lease.problem = str(error).rstrip(".")
                if isinstance(error, RefusedError | NotFoundError):
                    lease.renewed_at = None
        now = {namespace for namespace in self._known if self.held(namespace)}
        for namespace in sorted(now - before):
            _LOG.info("serving a namespace", namespace=namespace, identity=self._identity)
        for namespace in sorted(before - now):
            _LOG.warning("not serving a namespace", namespace=namespace, reason=self._known[namespace].problem)
        return bool(now - before)

    def release(self) -> None:
        """Release our Leases, so that the next operator need not wait. Blocks."""
        for lease in self._known.values():
            if lease.renewed_at is None or lease.body is None:
                continue
            lease.renewed_at = None
            try:
                self._api.replace(self._manifest(lease.body, holder=""))
            except ApiError as error:
                _LOG.info("a Lease was not released; it will expire", error=str(error))

    def _renew(self, namespace: str, lease: _LeaseState) -> None:
        now = self._clock()
        try:
            if lease.renewed_at is None or lease.body is None:
                self._read(namespace, lease, now)
            if lease.body is None:
                fresh = {"metadata": {"name": LEASE_NAME, "namespace": namespace}}
                written = self._api.create_if_absent(self._manifest(fresh, holder=self._identity))
            elif self._is_free(lease, now):
                written = self._api.replace(self._manifest(lease.body, holder=self._identity))
            else:
                holder = _spec(lease.body).get("holderIdentity")
                lease.problem = f"operator {holder} serves it"
                lease.is_peer = bool(self._release) and _release(lease.body) == self._release
                return
        except ConflictError:
            written = None
        if written is None:  # Another operator was faster; the next call reads which one.
            lease.body, lease.renewed_at = None, None
            lease.problem = "another operator has just acquired its Lease"
            return
        lease.body, lease.renewed_at, lease.unchanged_since = written, now, now

    def _read(self, namespace: str, lease: _LeaseState, now: float) -> None:
        body = self._api.get(LEASE, namespace, LEASE_NAME)
        if _version(body) != _version(lease.body):
            lease.unchanged_since = now
        lease.body, lease.renewed_at = body, None

    def _is_free(self, lease: _LeaseState, now: float) -> bool:
        spec = _spec(lease.body or {})
        if spec.get("holderIdentity") in {None, "", self._identity}:
            return True
        return now - lease.unchanged_since > float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)

    def _manifest(self, body: Mapping[str, Any], *, holder: str) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before, metadata = _spec(body), body["metadata"]
        same = before.get("holderIdentity") == holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": (before.get("acquireTime") if same else None) or now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (not same and bool(before)),
        }
        kept = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
        if self._release:
            kept["annotations"] = {RELEASE_ANNOTATION: self._release}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": kept, "spec": spec}


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body.get("spec") or {}


def _release(body: Mapping[str, Any]) -> str:
    return str((body["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, ""))


def _version(body: Mapping[str, Any] | None) -> str:
    return "" if body is None else str(body["metadata"].get("resourceVersion", ""))
