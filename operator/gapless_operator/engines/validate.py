"""Owns whether work on Spark may start: its references, the allowlists of the platform team, and the engine.

Must not know what the work is. The chart's admission policies reject images and accounts with the same messages.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound
from gapless_operator.engines.choice import engine_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import SparkEngine

RECHECK_AFTER = timedelta(seconds=10)
"""When to check again for a change without an event."""


class Refusal(NamedTuple):
    """Why work may not start."""

    reason: Reason
    message: str

    @classmethod
    def of_topics(cls, topics: Iterable[str], kafka: KafkaConnectionSpec) -> Self | None:
        """Return why some of `topics` may not be used over a connection; ``None`` if all may."""
        try:
            kafka.topics.check(topics, what="spec")
        except ConfigurationError as error:
            return cls(Reason.BAD_CONFIGURATION, str(error))
        return None


def engine_allowlist_problem(options: SparkOptions, program: Program) -> str:
    """Return why the allowlists refuse the engine; empty if they allow it."""
    images = {program.image, *program.allowed_images}
    accounts = {program.service_account, *program.allowed_service_accounts}
    return allowlist_problem("engine.image", "scan.allowedImages", options.image, images) or allowlist_problem(
        "engine.serviceAccountName", "scan.allowedServiceAccounts", options.service_account_name, accounts
    )


def allowlist_problem(field: str, chart_value: str, name: str | None, allowed: Collection[str]) -> str:
    """Return why a field of the spec is refused; empty if it is allowed or absent.

    Args:
        field: the field of the spec.
        chart_value: the value of the chart that contains the list.
        name: the value of the field.
        allowed: the list.
    """
    if name is None or name in allowed:
        return ""
    return (
        f"spec.{field} names {name}, which the platform team has not listed; delete it, or ask them to add it to the "
        f"chart's value {chart_value}."
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
    problem = engine_allowlist_problem(options, program)
    if problem:
        return Refusal(Reason.BAD_CONFIGURATION, problem)
    engine = engine_for(options, spark_operator=spark_operator)
    if engine is None:
        return Refusal(
            Reason.ENGINE_UNAVAILABLE,
            "engine.type is SparkApplication, but SparkApplications are not available in this namespace; install the "
            "Spark operator, or set engine.type to Auto or Job.",
        )
    return engine
