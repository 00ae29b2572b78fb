"""Owns whether work on Spark may begin: what it names, the platform team's lists, and the engine.

Must not know what the work is. The chart's admission policies refuse images and accounts in the same words.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound
from gapless_operator.engines.choice import engine_for
from gapless_operator.engines.lists import not_listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import SparkEngine

RECHECK_AFTER = timedelta(seconds=10)
"""How soon to look again for something of which no event tells."""


class Refusal(NamedTuple):
    """Why work may not begin."""

    reason: Reason
    message: str

    @classmethod
    def of_topics(cls, topics: Iterable[str], kafka: KafkaConnectionSpec) -> Self | None:
        """Why some of `topics` may not be used over a connection; ``None`` when all may."""
        try:
            kafka.topics.check(topics, what="spec")
        except ConfigurationError as error:
            return cls(Reason.BAD_CONFIGURATION, str(error))
        return None


def validated_engine(
    options: SparkOptions, access: object, program: Program, *, spark_operator: bool
) -> SparkEngine | Refusal:
    """The engine of work that may begin; a refusal says why it may not.

    Args:
        options: of the spec.
        access: what the spec names, or a `NotFound`.
        program: what the pods are made of, with the platform team's lists.
        spark_operator: whether SparkApplications may be used in the namespace.
    """
    if isinstance(access, NotFound):
        return Refusal(*access)
    refused = not_listed(options, program)
    if refused:
        return Refusal(Reason.BAD_CONFIGURATION, refused)
    engine = engine_for(options, spark_operator=spark_operator)
    if engine is None:
        return Refusal(
            Reason.ENGINE_UNAVAILABLE,
            "engine.type is SparkApplication, and SparkApplications cannot be used in this namespace; install the "
            "Spark operator, or set engine.type to Auto or Job.",
        )
    return engine
