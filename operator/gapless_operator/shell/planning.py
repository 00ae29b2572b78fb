"""Which reconciler plans an object, and what goes before all of them: a suspended namespace and an invalid spec.

Must not know any rule of a reconciler, nor how a plan is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
from gapless_operator.common.plan import Plan
from gapless_operator.common.pod_trouble import unfinished_stop
from gapless_operator.connections.reconcile import reconcile_connection
from gapless_operator.mirroring.reconcile import reconcile_mirror
from gapless_operator.scanning.reconcile import reconcile_gapscan
from gapless_operator.sending.diode.reconcile import reconcile_diode
from gapless_operator.sending.resend.reconcile import reconcile_resend
from gapless_operator.shell.refusal import refusal_status, suspension_status

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.shell.cache.store import Body
    from gapless_operator.shell.observer import Observer


def plan_for(body: Body, observer: Observer, now: datetime, settings: OperatorSettings) -> Plan:
    """Return what an object needs next, by the reconciler of its kind.

    Args:
        body: the object.
        observer: of the cluster.
        now: the time.
        settings: of the installation, with the images of the pods.
    """
    suspension = observer.suspension(body["metadata"]["namespace"])
    if suspension:
        # Before anything else: whatever is invalid, missing or away, one switch stops it.
        unfinished = unfinished_stop(observer.pods_for(body)) or "Progress is kept."
        status, events = suspension_status(body, f"{suspension} {unfinished}", now=now)
        return Plan(stop=observer.running_objects(body), status=status, events=events)
    try:
        resource = observer.resource(MODELS[body["kind"]], body)
    except ConfigurationError as error:
        # An invalid object must not run either.
        message = f"{error} {unfinished_stop(observer.pods_for(body))}".rstrip()
        status, events = refusal_status(body, Reason.BAD_CONFIGURATION, message, now=now, final=True)
        return Plan(stop=observer.running_objects(body), status=status, events=events)
    return _PLANS[type(resource)](resource, body, observer, now, settings)


def _plan_for_resend(resend: Resend, body: Body, observer: Observer, now: datetime, settings: OperatorSettings) -> Plan:
    observed = observer.observe_resend(resend, body)
    complete = resend if observed.diode is None else observer.with_inline_bundle(resend)
    return reconcile_resend(complete, observed, now, settings.sender)


_PLANS: Mapping[type[Resource], Callable[[Any, Body, Observer, datetime, OperatorSettings], Plan]] = {
    Archive: lambda archive, body, observer, now, settings: reconcile_archive(
        archive, observer.observe_work(archive, body), now, program=settings.spark
    ),
    Diode: lambda diode, _body, observer, now, settings: reconcile_diode(
        diode, observer.observe_diode(diode), now, settings.sender
    ),
    GapScan: lambda scan, body, observer, now, settings: reconcile_gapscan(
        scan, observer.observe_work(scan, body), now, program=settings.spark
    ),
    KafkaConnection: lambda connection, body, observer, now, settings: reconcile_connection(
        connection, observer.observe_work(connection, body), now, program=settings.workers
    ),
    Mirror: lambda mirror, body, observer, now, settings: reconcile_mirror(
        mirror, observer.observe_work(mirror, body), now, spark=settings.spark, workers=settings.workers
    ),
    Resend: _plan_for_resend,
    Restore: lambda restore, body, observer, now, settings: reconcile_restore(
        restore, observer.observe_work(restore, body), now, program=settings.spark
    ),
}
"""The reconciler of each kind: it gets an object, the body that this was parsed from, and what `plan_for` gets."""
MODELS: Mapping[str, type[Resource]] = {model.KIND: model for model in _PLANS}
"""By kind."""
