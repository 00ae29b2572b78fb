"""Owns which reconciler plans an object, and what goes before all of them: a suspended namespace and an invalid spec.

Must not know any rule of a reconciler, nor how a plan is applied.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

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
from gapless_operator.shell.observer import MODELS, Observer
from gapless_operator.shell.refusal import refusal_status, suspension_status

if TYPE_CHECKING:
    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.engines.observed import WorkObserved
    from gapless_operator.shell.cache.store import Body


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
    if isinstance(resource, (Archive, GapScan, KafkaConnection, Mirror, Restore)):
        return _plan_for_work(resource, observer.observe_work(resource, body), now, settings)
    if isinstance(resource, Resend):
        observed = observer.observe_resend(resource, body)
        return reconcile_resend(
            resource if observed.diode is None else observer.with_inline_bundle(resource),
            observed,
            now,
            settings.sender,
        )
    if isinstance(resource, Diode):
        return reconcile_diode(resource, observer.observe_diode(resource), now, settings.sender)
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
