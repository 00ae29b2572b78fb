"""Owns the entry point of the Spark engine for ``gapless mirror``: its settings, and how it is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.extras import not_installed
from gapless_api.base.settings import Setting
from gapless_api.base.typed_settings import TypedSettings
from gapless_mirror.lanes.setup import LaneSetup, OnBadRecord
from gapless_spark.settings.engine import DRIVER_MEMORY, MASTER, PARALLELISM
from gapless_spark.settings.values import words

if TYPE_CHECKING:
    from gapless_mirror.workers.source_watch import SourceWatch
    from gapless_mirror.workers.worker import WorkerObservation, WorkerTotals
    from gapless_spark.mirror.engine import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings(TypedSettings):
    """The settings of the Spark engine."""

    transform: str | None
    transform_topics: tuple[str, ...] | None
    master: str
    driver_memory: str
    parallelism: int | None


class SparkEngine:
    """The engine ``spark`` of the entry points "gapless.mirror_engines"."""

    settings = (
        Setting(
            "transform",
            "SQL that is applied to each record: SELECT … FROM records [WHERE …], or WHERE … alone, over key, value, "
            "headers, topic, partition, offset and timestamp. It can leave records out, change key, value and headers "
            "(… AS value), and send records to another topic (… AS topic); columns that are not selected are not "
            "changed. Needs engine=spark.",
            metavar="SQL",
            group="Engine",
        ),
        Setting(
            "transformTopics",
            "Topics on the target to which the transform may send records. They must exist, with as many partitions as "
            "the source topics.",
            parse=words,
            metavar="TOPICS",
            repeatable=True,
            group="Engine",
        ),
        MASTER,
        DRIVER_MEMORY,
        replace(
            PARALLELISM,
            help="How many tasks copy the lanes; at most one for each lane.",
            shown_default="as many as run concurrently",
        ),
    )

    exclusive = ("transform", "transformTopics")

    @staticmethod
    def run(
        values: Mapping[str, Any],
        setup: LaneSetup,
        sources: SourceWatch,
        is_stopping: Callable[[], bool],
        on_tick: Callable[[WorkerObservation], None] = lambda _seen: None,
    ) -> WorkerTotals:
        """Copy until `is_stopping`, or with ``once`` until everything is copied. Raises GaplessError."""
        from gapless_spark.mirror.engine import SparkMirror  # noqa: PLC0415 -- Spark loads only when it is needed
        from gapless_spark.mirror.sql_turns import SqlTurns  # noqa: PLC0415
        from gapless_spark.mirror.turns import LaneTurns  # noqa: PLC0415
        from gapless_spark.runtime.session import Engine, is_installed  # noqa: PLC0415

        if not is_installed():
            raise not_installed("pyspark")
        settings = SparkSettings.of(values)
        turns: Turns = LaneTurns(settings.parallelism)
        if settings.transform is not None:
            targets = settings.transform_topics or ()
            if values["targetAllowedTopics"] is not None:
                values["targetAllowedTopics"].check(targets, what="The mirror's transform")
            if setup.on_bad_record is not OnBadRecord.FAIL:
                raise ConfigurationError(
                    f"onBadRecord={setup.on_bad_record} cannot be combined with transform, whose records are read only "
                    f"once; delete one of the two settings."
                )
            turns = SqlTurns(settings.transform, targets)
        engine = Engine("gapless mirror", settings.master, settings.driver_memory)
        mirror = SparkMirror(engine, setup, sources, turns, on_tick=on_tick)
        sources.start(periodically=not setup.once)
        try:
            mirror.run(is_stopping)
        finally:
            sources.stop()
        return mirror.totals()


ENGINE = SparkEngine()
