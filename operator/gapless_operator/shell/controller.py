"""One reconcile: pass an object and what was observed for it to its reconciler, and apply the resulting plan.

Must not know any rule of a reconciler, nor when a reconcile happens. Everything here blocks and runs in a thread, one
per object at a time.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.observed import DIGEST_ANNOTATION
from gapless_operator.common.plan import Event, Manifest, Plan, Ref
from gapless_operator.shell.api.client import ClusterApi, event_manifest
from gapless_operator.shell.api.errors import ApiError, ConflictError, NotFoundError, RefusedError
from gapless_operator.shell.api.kinds import DIODE, OWNERS, WATCHED, Kind, kind_of
from gapless_operator.shell.api.ownership import check_ours
from gapless_operator.shell.planning import plan_for
from gapless_operator.shell.refusal import refusal_status

if TYPE_CHECKING:
    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.shell.cache.store import Body, Cache, Key
    from gapless_operator.shell.metrics import Metrics
    from gapless_operator.shell.observer import Observer

_LOG = structlog.get_logger("gapless.controller")
_KINDS = {kind.name: kind for kind in OWNERS}
_CONFLICT_RETRY_SECONDS = 0.2


class Controller:
    """Reconciles objects of all kinds that have a reconciler."""

    def __init__(  # noqa: PLR0913, PLR0917 -- the parts of a reconcile
        self,
        settings: OperatorSettings,
        api: ClusterApi,
        cache: Cache,
        observer: Observer,
        metrics: Metrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        on_change: Callable[[Body], None] = lambda _: None,
    ) -> None:
        """Prepare it.

        Args:
            settings: of the installation.
            api: to write with.
            cache: of the cluster.
            observer: collects what a reconciler sees of it.
            metrics: of the operator.
            clock: the time.
            on_change: called, in the thread of the reconcile, with every object that it wrote, or found changed or
                deleted.
        """
        self._settings, self._api, self._cache, self._observer = settings, api, cache, observer
        self._metrics, self._clock, self._on_change = metrics, clock, on_change
        self._lanes = threading.Lock()

    def reconcile(self, key: Key) -> float | None:
        """Reconcile an object once; return after how many seconds to reconcile it again.

        Raises:
            ApiError: a request to the API server failed; try again later.
        """
        body = self._cache.get(_KINDS[key.kind], key.namespace, key.name)
        if body is None:
            return None
        began = time.monotonic()
        outcome = "error"
        try:
            again_after = self._reconcile(body)
        except ConflictError:
            # The object was changed meanwhile, and the watch has not delivered the change yet.
            outcome = "conflict"
            self._refresh(_KINDS[key.kind], body)
            return _CONFLICT_RETRY_SECONDS
        except NotFoundError:
            outcome = "conflict"
            self._refresh(_KINDS[key.kind], body)
            return self._settings.resync_seconds
        else:
            outcome = "ok"
            return again_after
        finally:
            self._metrics.reconciles.labels(key.kind, outcome).inc()
            self._metrics.reconcile_seconds.labels(key.kind).observe(time.monotonic() - began)

    def _reconcile(self, body: Body) -> float | None:
        encrypts = body["kind"] == DIODE.name and (body.get("spec") or {}).get("encryption") is not None
        # Two Diodes that are reconciled at the same time would both find their receiver free. So only one Diode that
        # encrypts is reconciled at a time, until its turns are written.
        with self._lanes if encrypts else nullcontext():
            return self._plan_and_apply(body)

    def _plan_and_apply(self, body: Body) -> float | None:
        now = self._clock()
        plan = plan_for(body, self._observer, now, self._settings)
        try:
            self._apply_plan(body, plan, now)
        except RefusedError as error:
            status, events = refusal_status(body, Reason.WRITE_REFUSED, str(error), now=now, final=False)
            self._apply_plan(body, Plan(status=status, events=events), now)
            raise
        return plan.requeue_after_seconds

    def _apply_plan(self, body: Body, plan: Plan, now: datetime) -> None:
        self._delete(body, plan.stop)
        for manifest in plan.create:
            self._create(manifest)
        for manifest in plan.apply:
            self._write(self._observer.with_bundle(body, manifest))
        self._delete(body, plan.delete)
        if plan.status is not None:
            written = self._api.apply_status(body, plan.status)
            self._metrics.writes.labels(body["kind"], "status").inc()
            self._store(written)
            self._log_transitions(body, plan.status)
        for number, event in enumerate(plan.events):
            self._post(body, event, now, number)

    def _delete(self, body: Body, refs: Iterable[Ref]) -> None:
        """Delete objects.

        Raises:
            ApiError: the first failure; the other objects were deleted.
        """
        problem: ApiError | None = None
        for ref in refs:
            try:
                is_deleted = self._api.delete(body["metadata"]["namespace"], ref)
            except ApiError as error:
                problem = problem or error
                continue
            if is_deleted:
                self._metrics.writes.labels(ref.kind, "delete").inc()
                self._log(body, "deleted", kind=ref.kind, child=ref.name)
        if problem is not None:
            raise problem

    def _create(self, manifest: Manifest) -> None:
        """Create an object.

        Raises:
            RefusedError: another owner's object has the name.
            ConflictError: it already exists; reconcile again.
        """
        try:
            self._record_write(manifest, "create", self._api.create(manifest))
        except ConflictError:
            if kind_of(manifest["apiVersion"], manifest["kind"]) in WATCHED:
                self._read_existing(manifest)
            raise

    def _write(self, manifest: Manifest) -> None:
        """Apply a child, unless it is up to date, for example because it was written before a crash.

        Writing it again would be harmless, but an operator that is killed after each write would make no progress.

        Raises:
            RefusedError: another owner's object has the name.
            ConflictError: the child is not the one that the plan was made for; reconcile again.
        """
        metadata = manifest["metadata"]
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        cached = self._known(kind, metadata["namespace"], metadata["name"])
        if cached is None:
            # An object of another owner is not in the cache, and server-side apply would overwrite it.
            if kind in WATCHED and self._read_existing(manifest):
                raise ConflictError(f"The {kind.name} {metadata['namespace']}/{metadata['name']} was not in the cache.")
            self._record_write(manifest, "apply", self._api.apply(manifest))
            return
        check_ours(cached, manifest)
        if _is_up_to_date(cached, manifest):
            return
        pinned = {**manifest, "metadata": {**metadata, "uid": cached["metadata"]["uid"]}}
        try:
            self._record_write(manifest, "apply", self._api.apply(pinned))
        except ConflictError:
            if kind in WATCHED:
                self._refresh(kind, cached)
            raise

    def _known(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """Return an object from the cache, which is complete for watched kinds, or else from the API server."""
        return self._cache.get(kind, namespace, name) if kind in WATCHED else self._api.get(kind, namespace, name)

    def _read_existing(self, manifest: Manifest) -> bool:
        """Read the object with the name of a manifest into the cache; return whether it exists.

        Raises:
            RefusedError: it belongs to another owner.
        """
        metadata, kind = manifest["metadata"], kind_of(manifest["apiVersion"], manifest["kind"])
        existing = self._api.get(kind, metadata["namespace"], metadata["name"])
        if existing is None:
            return False
        check_ours(existing, manifest)
        self._store(existing)
        return True

    def _record_write(self, manifest: Manifest, verb: str, written: Body) -> None:
        self._metrics.writes.labels(manifest["kind"], verb).inc()
        if kind_of(manifest["apiVersion"], manifest["kind"]) in WATCHED:
            self._store(written)

    def _store(self, body: Body) -> None:
        """Cache an object that was written or read, and report the change: the watch will bring nothing new."""
        if self._cache.store(body):
            self._on_change(body)

    def _refresh(self, kind: Kind, cached: Body) -> None:
        """Read an object again that another client has changed, and report the change."""
        metadata = cached["metadata"]
        fresh = self._api.get(kind, metadata["namespace"], metadata["name"])
        if fresh is not None:
            self._store(fresh)
        elif self._cache.remove(cached):
            self._on_change(cached)

    def _post(self, body: Body, event: Event, now: datetime, number: int) -> None:
        """Post an event; a failure is only logged, because it is not worth a retry of the whole reconcile."""
        at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mark = hashlib.sha256(f"{body['metadata']['uid']}{at}{number}{event.reason}".encode()).hexdigest()[:16]
        manifest = event_manifest(
            body,
            name=f"{body['metadata']['name'][:200].rstrip('-.')}.{mark}",
            at=at,
            kind=event.type,
            reason=event.reason,
            note=event.message,
            action="Reconcile",
        )
        try:
            self._api.post_event(manifest)
        except ApiError as error:
            self._log(body, "event not posted", reason=event.reason, error=str(error))
        else:
            self._metrics.writes.labels("Event", "create").inc()

    def _log_transitions(self, body: Body, status: Any) -> None:
        """Log each condition that has changed."""
        before = {c["type"]: c for c in (body.get("status") or {}).get("conditions") or ()}
        for condition in status.get("conditions") or ():
            old = before.get(condition["type"], {})
            if (old.get("status"), old.get("reason")) != (condition["status"], condition["reason"]):
                self._log(
                    body,
                    "transition",
                    condition=condition["type"],
                    status=condition["status"],
                    reason=condition["reason"],
                    message=condition.get("message", ""),
                )

    def _log(self, body: Body, event: str, **more: Any) -> None:
        metadata = body["metadata"]
        _LOG.info(
            event,
            resource=body["kind"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata.get("generation"),
            **more,
        )


def _is_up_to_date(cached: Body, manifest: Manifest) -> bool:
    """Return whether an object was made from a manifest, by its digest."""
    digest = (manifest["metadata"].get("annotations") or {}).get(DIGEST_ANNOTATION)
    metadata = cached["metadata"]
    if metadata.get("deletionTimestamp") or digest is None:
        return False
    return bool(digest == (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION))
