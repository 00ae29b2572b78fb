"""Owns whether work on Spark may start: its references, the allowlists of the platform team, and the engine.

Must not know what the work is. The chart's admission policies reject images and accounts with the same messages.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.engines.choice import engine_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import SparkEngine

RECHECK_AFTER = timedelta(seconds=10)
"""When to check again for a change without an event."""


def check_engine(options: SparkOptions, program: Program) -> None:
    """Check the image and the account of an engine against the lists of the platform team.

    Raises:
        ConfigurationError: one of them is not listed.
    """
    images = {program.image, *program.allowed_images}
    accounts = {program.service_account, *program.allowed_service_accounts}
    check_listed("engine.image", "scan.allowedImages", options.image, images)
    check_listed("engine.serviceAccountName", "scan.allowedServiceAccounts", options.service_account_name, accounts)


def check_listed(field: str, chart_value: str, name: str | None, allowed: Collection[str]) -> None:
    """Check that a value is listed, or absent.

    Args:
        field: the field of the spec.
        chart_value: the value of the chart that contains the list.
        name: the value of the field.
        allowed: the list.

    Raises:
        ConfigurationError: it is not listed.
    """
    if name is not None and name not in allowed:
        raise ConfigurationError(
            f"spec.{field} names {name}, which the platform team has not listed; delete it, or ask them to add it to "
            f"the chart's value {chart_value}."
        )


def validated_engine(
    options: SparkOptions, access: object, program: Program, *, spark_operator: bool
) -> SparkEngine | Refusal:
    """Return the engine, or why the work may not start.

    Args:
        options: the options of the spec.
        access: the resolved references of the spec, or a `NotFound`.
        program: the settings of the pods, with the allowlists of the platform team.
        spark_operator: whether SparkApplications are available in the namespace.
    """
    if isinstance(access, NotFound):
        return Refusal(*access)
    refusal = refusal_of(lambda: check_engine(options, program))
    if refusal is not None:
        return refusal
    engine = engine_for(options, spark_operator=spark_operator)
    if engine is None:
        return Refusal(
            Reason.ENGINE_UNAVAILABLE,
            "engine.type is SparkApplication, but SparkApplications are not available in this namespace; install the "
            "Spark operator, or set engine.type to Auto or Job.",
        )
    return engine
