"""Owns whether an attempt of a GapScan may begin: its schedule, places, permissions and engine.

Must not know what runs. The chart's admission policy ``<fullname>-gapscans`` refuses images, accounts and keys in the
same words; this holds where the policy is off or a list was changed later.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.references import NotFound
from gapless_operator.common.result import Result
from gapless_operator.engines.choice import engine_for
from gapless_operator.engines.validate import allowlist_problem, engine_allowlist_problem
from gapless_operator.scanning import conditions as condition_sets

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.references import ScanAccess
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import SparkEngine
    from gapless_operator.scanning.context import Context

RECHECK_AFTER = timedelta(seconds=10)
"""How soon to look again for something of which no event tells."""


class Validated(NamedTuple):
    """What an attempt needs that may begin."""

    places: ScanAccess
    engine: SparkEngine


def validate(context: Context) -> Validated | Result:
    """Check whether an attempt may begin; a result says why not."""
    scan, places = context.scan, context.places
    if context.schedule_error:
        return _block(context, Reason.BAD_CONFIGURATION, context.schedule_error)
    if isinstance(places, NotFound):
        return _block(context, places.reason, places.message, again_after=RECHECK_AFTER)
    not_listed = refusal(scan, context.program)
    if not_listed:
        return _block(context, Reason.BAD_CONFIGURATION, not_listed)
    engine = engine_for(scan.spec.engine, spark_operator=context.observed.spark_operator)
    if engine is None:
        return _block(
            context,
            Reason.ENGINE_UNAVAILABLE,
            "engine.type is SparkApplication, and this cluster does not know that kind; install the Spark operator, or "
            "set engine.type to Auto or Job.",
        )
    return Validated(places, engine)


def refusal(scan: GapScan, program: Program) -> str:
    """Why the platform team's lists do not let the scan begin, in a sentence; empty when they do."""
    secret = scan.spec.signing_key_secret
    name = secret.name if secret is not None else None
    return engine_allowlist_problem(scan.spec.engine, program) or allowlist_problem(
        "signingKeySecret", "scan.signingKeySecrets", name, program.signing_key_secrets
    )


def _block(context: Context, reason: Reason, message: str, *, again_after: timedelta | None = None) -> Result:
    """Nothing can begin before a person has acted; a warning, if the condition does not say the same already."""
    known = condition(context.scan.status.conditions, ConditionType.STALLED)
    is_known = known is not None and known.status == "True" and known.reason == reason
    return Result(
        conditions=condition_sets.blocked(reason, message),
        events=() if is_known else (Event(EventType.WARNING, reason, message),),
        again_after=again_after,
    )
