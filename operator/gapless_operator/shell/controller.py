"""Owns one reconcile: take the object and what is around it, ask its reconciler, carry the plan out.

Must not know any rule of a reconciler, nor when a reconcile happens. Everything here blocks and runs in a thread, one
thread for each object at a time.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.restore import Restore
from gapless_operator.archiving.archive.reconcile import reconcile_archive
from gapless_operator.archiving.restore.reconcile import reconcile_restore
from gapless_operator.common.observed import DIGEST_ANNOTATION
from gapless_operator.common.plan import Plan
from gapless_operator.connections.reconcile import reconcile_connection
from gapless_operator.mirroring.reconcile import reconcile_mirror
from gapless_operator.scanning.reconcile import reconcile_gapscan
from gapless_operator.sending.diode.reconcile import reconcile_diode
from gapless_operator.sending.resend.reconcile import reconcile_resend
from gapless_operator.shell.api.client import event_manifest
from gapless_operator.shell.api.errors import ApiError, ConflictError, NotFoundError, RefusedError
from gapless_operator.shell.api.kinds import DIODE, OWNERS, SECRET, kind_of
from gapless_operator.shell.api.ownership import check_ours
from gapless_operator.shell.observer import MODELS
from gapless_operator.shell.refusal import refusal_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gapless_operator.common.plan import Event, Manifest, Ref
    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.engines.observed import WorkObserved
    from gapless_operator.shell.api.client import ClusterApi
    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.store import Body, Cache, Key
    from gapless_operator.shell.metrics import Metrics
    from gapless_operator.shell.observer import Observer

_LOG = structlog.get_logger("gapless.controller")
_KINDS = {kind.name: kind for kind in OWNERS}
_AT_ONCE = 0.2


def plan_for(body: Body, observer: Observer, now: datetime, settings: OperatorSettings) -> Plan:
    """What an object needs next, by the reconciler of its kind.

    Args:
        body: the object.
        observer: what is around it.
        now: the time.
        settings: of the installation, with the images of the pods.
    """
    try:
        resource = observer.resource(MODELS[body["kind"]], body)
    except ConfigurationError as error:
        # What is not valid does not run either.
        status, events = refusal_status(body, Reason.BAD_CONFIGURATION, str(error), now=now, final=True)
        return Plan(stop=observer.running_of(body), status=status, events=events)
    if isinstance(resource, (Archive, GapScan, KafkaConnection, Mirror, Restore)):
        return _plan_for_work(resource, observer.around_work(resource, body), now, settings)
    if isinstance(resource, Resend):
        observed = observer.around_resend(resource, body)
        return reconcile_resend(
            resource if observed.diode is None else observer.with_inline_bundle(resource),
            observed,
            now,
            settings.sender,
        )
    if isinstance(resource, Diode):
        return reconcile_diode(resource, observer.around_diode(resource), now, settings.sender)
    raise TypeError(body["kind"])


def _plan_for_work(
    resource: Archive | GapScan | KafkaConnection | Mirror | Restore,
    observed: WorkObserved,
    now: datetime,
    settings: OperatorSettings,
) -> Plan:
    spark = settings.spark
    if isinstance(resource, GapScan):
        return reconcile_gapscan(resource, observed, now, program=spark)
    if isinstance(resource, Archive):
        return reconcile_archive(resource, observed, now, program=spark)
    if isinstance(resource, Restore):
        return reconcile_restore(resource, observed, now, program=spark)
    if isinstance(resource, KafkaConnection):
        return reconcile_connection(resource, observed, now, program=settings.workers)
    return reconcile_mirror(resource, observed, now, spark=spark, workers=settings.workers)


class Controller:
    """Reconciles all kinds that need work."""

    def __init__(  # noqa: PLR0913, PLR0917 -- everything that it brings together
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
            cache: what is known.
            observer: what reconcilers are shown of it.
            metrics: to count in.
            clock: the time.
            on_change: called, in the thread of the reconcile, with every object that a reconcile found changed or gone,
                or changed itself.
        """
        self._settings, self._api, self._cache, self._observer = settings, api, cache, observer
        self._metrics, self._clock, self._on_change = metrics, clock, on_change
        self._lanes = threading.Lock()

    def reconcile(self, key: Key) -> float | None:
        """Bring an object one step further; return after how many seconds to look again.

        Raises:
            ApiError: the API server did not do what was asked; try again later.
        """
        body = self._cache.get(_KINDS[key.kind], key.namespace, key.name)
        if body is None:
            return None
        began = time.monotonic()
        outcome = "error"
        try:
            again_after = self._reconcile(body)
        except ConflictError:
            # Somebody changed the object meanwhile, and we have not heard of it yet.
            outcome = "conflict"
            self._refresh(_KINDS[key.kind], body)
            return _AT_ONCE
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
        # Two Diodes that check at the same time would both find their receiver free: between a check and the write of
        # the turn that follows from it, no other Diode that encrypts may check.
        with self._lanes if encrypts else nullcontext():
            return self._plan_and_carry_out(body)

    def _plan_and_carry_out(self, body: Body) -> float | None:
        now = self._clock()
        plan = plan_for(body, self._observer, now, self._settings)
        try:
            self._carry_out(body, plan, now)
        except RefusedError as error:
            status, events = refusal_status(body, Reason.WRITE_REFUSED, str(error), now=now, final=False)
            self._carry_out(body, Plan(status=status, events=events), now)
            raise
        return plan.requeue_after_seconds

    def _carry_out(self, body: Body, plan: Plan, now: datetime) -> None:
        self._delete(body, plan.stop)
        for manifest in plan.create:
            self._create(manifest)
        for manifest in plan.apply:
            self._write(self._observer.with_bundle(body, manifest))
        self._delete(body, plan.delete)
        if plan.status is not None:
            written = self._api.apply_status(body, plan.status)
            self._metrics.writes.labels(body["kind"], "status").inc()
            self._keep(written)
            self._tell_transitions(body, plan.status)
        for number, event in enumerate(plan.events):
            self._post(body, event, now, number)

    def _delete(self, body: Body, refs: Iterable[Ref]) -> None:
        """Delete all of them that can be deleted.

        Raises:
            ApiError: one could not be; the others are gone.
        """
        problem: ApiError | None = None
        for ref in refs:
            try:
                is_gone = self._api.delete(body["metadata"]["namespace"], ref)
            except ApiError as error:
                problem = problem or error
                continue
            if is_gone:
                self._metrics.writes.labels(ref.kind, "delete").inc()
                self._log(body, "deleted", kind=ref.kind, child=ref.name)
        if problem is not None:
            raise problem

    def _create(self, manifest: Manifest) -> None:
        """Create an object.

        Raises:
            RefusedError: an object of somebody else bears the name.
            ConflictError: it is there; look again.
        """
        try:
            self._wrote(manifest, "create", self._api.create(manifest))
        except ConflictError:
            if kind_of(manifest["apiVersion"], manifest["kind"]) is not SECRET:
                self._take_in(manifest)
            raise

    def _write(self, manifest: Manifest) -> None:
        """Write a child, unless it is as the manifest says: written before a crash, for example.

        To write it again would be harmless, but who is killed after each write would never get beyond it.

        Raises:
            RefusedError: an object of somebody else bears the name.
            ConflictError: the child is another one than the plan was made for; look again.
        """
        metadata = manifest["metadata"]
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        known = self._cache.get(kind, metadata["namespace"], metadata["name"])
        if known is None:
            # What is not ours is not in the cache, and server-side apply would take it over.
            if self._take_in(manifest):
                raise ConflictError(f"The {kind.name} {metadata['namespace']}/{metadata['name']} was not known yet.")
            self._wrote(manifest, "apply", self._api.apply(manifest))
            return
        check_ours(known, manifest)
        if _is_as(known, manifest):
            return
        pinned = {**manifest, "metadata": {**metadata, "uid": known["metadata"]["uid"]}}
        try:
            self._wrote(manifest, "apply", self._api.apply(pinned))
        except ConflictError:
            self._refresh(kind, known)
            raise

    def _take_in(self, manifest: Manifest) -> bool:
        """Read the object that has the name of a manifest; return whether there is one.

        Raises:
            RefusedError: it belongs to somebody else.
        """
        metadata, kind = manifest["metadata"], kind_of(manifest["apiVersion"], manifest["kind"])
        there = self._api.get(kind, metadata["namespace"], metadata["name"])
        if there is None:
            return False
        check_ours(there, manifest)
        self._keep(there)
        return True

    def _wrote(self, manifest: Manifest, verb: str, written: Body) -> None:
        self._metrics.writes.labels(manifest["kind"], verb).inc()
        if kind_of(manifest["apiVersion"], manifest["kind"]) is not SECRET:
            self._keep(written)

    def _keep(self, body: Body) -> None:
        """Know at once what we have written or read, and tell of it: when the watch brings it, it will be no news."""
        if self._cache.store(body):
            self._on_change(body)

    def _refresh(self, kind: Kind, known: Body) -> None:
        """Take an object that somebody else has changed as it is now, and tell of it."""
        metadata = known["metadata"]
        fresh = self._api.get(kind, metadata["namespace"], metadata["name"])
        if fresh is not None:
            self._keep(fresh)
        elif self._cache.remove(known):
            self._on_change(known)

    def _post(self, body: Body, event: Event, now: datetime, number: int) -> None:
        """Post an event. One that cannot be posted is not worth doing the rest again for."""
        at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mark = hashlib.sha256(f"{body['metadata']['uid']}{at}{number}{event.reason}".encode()).hexdigest()[:16]
        manifest = event_manifest(
            body,
            name=f"{body['metadata']['name'][:200]}.{mark}",
            at=at,
            kind=event.type,
            reason=event.reason,
            note=event.message,
            action="Reconcile",
        )
        try:
            self._api.post_event(manifest)
        except ApiError as error:
            self._log(body, "event lost", reason=event.reason, error=str(error))
        else:
            self._metrics.writes.labels("Event", "create").inc()

    def _tell_transitions(self, body: Body, status: Any) -> None:
        """One line for each condition that became another one."""
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


def _is_as(known: Body, manifest: Manifest) -> bool:
    digest = (manifest["metadata"].get("annotations") or {}).get(DIGEST_ANNOTATION)
    there = known["metadata"]
    if there.get("deletionTimestamp") or digest is None:
        return False
    return bool(digest == (there.get("annotations") or {}).get(DIGEST_ANNOTATION))
