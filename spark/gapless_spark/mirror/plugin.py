"""The entry point of Spark for ``gapless mirror``: the engine with its settings, and the evaluation of SQL."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.extras import not_installed
from gapless_api.base.typed_settings import TypedSettings, include
from gapless_spark.settings.engine import DRIVER_MEMORY, MASTER, PARALLELISM

if TYPE_CHECKING:
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.workers.source_watch import SourceWatch
    from gapless_mirror.workers.worker import WorkerObservation, WorkerTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings(TypedSettings):
    """The settings of the Spark engine."""

    master: str = include(MASTER)
    driver_memory: str = include(DRIVER_MEMORY)
    parallelism: int | None = include(
        replace(
            PARALLELISM,
            help="How many tasks copy the lanes with engine=spark; at most one for each lane.",
            shown_default="as many as run concurrently",
        )
    )


class SparkEngine:
    """The engine ``spark`` of the entry points "gapless.mirror_engines"."""

    settings = SparkSettings.declared()

    @staticmethod
    @contextmanager
    def evaluator(values: Mapping[str, Any]) -> Iterator[Path]:
        """Evaluate the SQL of a mirror during the ``with`` block, which gets the socket. Raises GaplessError."""
        from gapless_spark.mirror.evaluator import evaluator  # noqa: PLC0415 -- Spark loads only when it is needed
        from gapless_spark.runtime.session import Engine  # noqa: PLC0415

        settings = SparkSettings.of(values)
        with tempfile.TemporaryDirectory(prefix="gapless-sql-") as folder:
            socket = Path(folder) / "sql.sock"
            engine = Engine("gapless mirror", settings.master, settings.driver_memory, computes=True)
            with evaluator(engine, socket):
                yield socket

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
        from gapless_spark.mirror.turns import LaneTurns  # noqa: PLC0415
        from gapless_spark.runtime.session import Engine, is_installed  # noqa: PLC0415

        if not is_installed():
            raise not_installed("pyspark")
        settings = SparkSettings.of(values)
        engine = Engine("gapless mirror", settings.master, settings.driver_memory)
        mirror = SparkMirror(engine, setup, sources, LaneTurns(settings.parallelism), on_tick=on_tick)
        sources.start(periodically=not setup.once)
        try:
            mirror.run(is_stopping)
        finally:
            sources.stop()
        return mirror.totals()


ENGINE = SparkEngine()
