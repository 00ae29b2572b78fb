"""Whether an attempt of a GapScan may start: its schedule, references, permissions and engine.

Must not know what runs. The chart's admission policy ``<fullname>-gapscans`` checks images, accounts and keys with the
same messages at kubectl apply; these checks apply where the policy is off or a list was changed later.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.references import NotFound, ScanAccess
from gapless_operator.common.refusal import Refusal, check_listed, refusal_of
from gapless_operator.common.result import Result
from gapless_operator.engines.choice import engine_for
from gapless_operator.engines.validate import check_engine
from gapless_operator.scanning import conditions as condition_sets

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import SparkEngine
    from gapless_operator.scanning.context import Context

RECHECK_AFTER = timedelta(seconds=10)
"""How soon to check again for a missing object; not every kind of object is watched."""


class Validated(NamedTuple):
    """What an attempt needs that may start."""

    places: ScanAccess
    engine: SparkEngine


def validate(context: Context) -> Validated | Result:
    """Check whether an attempt may start; a `Result` says why not."""
    scan, places = context.resource, context.access
    if context.schedule_error:
        return _block(context, Reason.BAD_CONFIGURATION, context.schedule_error)
    if isinstance(places, NotFound):
        return _block(context, places.reason, places.message, again_after=RECHECK_AFTER)
    refusal = refusal_now(scan, context.program)
    if refusal is not None:
        return _block(context, *refusal)
    engine = engine_for(scan.spec.engine, spark_operator=context.observed.spark_operator)
    if engine is None:
        return _block(
            context,
            Reason.ENGINE_UNAVAILABLE,
            "engine.type is SparkApplication, but SparkApplications are not available in this namespace; install the "
            "Spark operator, or set engine.type to Auto or Job.",
        )
    return Validated(places, engine)


def refusal_now(scan: GapScan, program: Program) -> Refusal | None:
    """Return why the platform team does not allow the scan, or no longer; ``None`` if it may run."""
    secret = scan.spec.signing_key_secret
    name = secret.name if secret is not None else None
    return refusal_of(
        lambda: check_engine(scan.spec.engine, program),
        lambda: program.pod_templates.check(scan.spec.pod_template, scan.metadata.namespace),
        lambda: check_listed("signingKeySecret", "scan.signingKeySecrets", name, program.signing_key_secrets),
    )


def _block(context: Context, reason: Reason, message: str, *, again_after: timedelta | None = None) -> Result:
    """Show why no attempt can start, and warn unless the condition has the same reason already."""
    stalled = condition(context.resource.status.conditions, ConditionType.STALLED)
    is_known = stalled is not None and stalled.status == "True" and stalled.reason == reason
    return Result(
        conditions=condition_sets.blocked(reason, message),
        events=() if is_known else (Event(EventType.WARNING, reason, message),),
        again_after=again_after,
    )
