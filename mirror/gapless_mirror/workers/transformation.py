"""Where the SQL of a mirror is evaluated, and what is checked before it is applied to the first record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.extras import not_installed
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.settings.engines import SPARK, engines
from gapless_mirror.settings.typed import MirrorSettings
from gapless_mirror.sql.evaluation import START_SECONDS, Evaluation

if TYPE_CHECKING:
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView


@contextmanager
def evaluating(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the settings with the socket on which SQL is evaluated; this process does it if they name none.

    Raises:
        ConfigurationError: PySpark is not installed, or Java does not start.
    """
    settings = MirrorSettings.of(values)
    if settings.transform is None or settings.transform_socket is not None:
        yield values
        return
    engine = engines().get(SPARK)
    if engine is None:
        raise not_installed("pyspark")
    with engine.evaluator(values) as socket:
        yield {**values, "transformSocket": socket}


def check_statement(setup: LaneSetup, pulse: Callable[[], None]) -> None:
    """Have the statement checked, if there is one.

    Args:
        setup: what all lanes have in common.
        pulse: called while waiting; it may raise.

    Raises:
        ConfigurationError: the statement is not accepted.
        SourceStalledError: the evaluating process does not answer.
    """
    if setup.transform is not None:
        Evaluation(setup.transform, pulse=pulse, patience_seconds=START_SECONDS).close()


def check_targets(setup: LaneSetup, view: SourceView, *, timeout_seconds: float) -> None:
    """Check that each topic to which records may be sent has enough partitions.

    Raises:
        ConfigurationError: one does not exist, or has too few.
        SourceUnreachableError: Kafka does not answer, or denies a request.
    """
    topics = sorted(setup.transform.targets) if setup.transform is not None else []
    needed = max((topic.partitions for name, topic in view.topics.items() if name != HEARTBEAT_TOPIC), default=0)
    described = TargetTopics(setup.target, timeout_seconds=timeout_seconds).describe(topics) if topics else {}
    for topic in topics:
        target = described.get(topic)
        if target is None or target.partitions < needed:
            has = "does not exist" if target is None else f"has {target.partitions} partitions"
            raise ConfigurationError(
                f"The topic {topic} of transformTopics {has} on the target; records keep their partition, so create it "
                f"with {needed} partitions."
            )
