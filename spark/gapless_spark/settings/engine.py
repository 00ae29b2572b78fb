"""The settings for where Spark runs and with which resources; must not know what it computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gapless_api.base.quantities import choice, integer
from gapless_api.base.settings import Setting
from gapless_api.base.typed_settings import TypedSettings, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_kafka.access.settings import CONNECT_TIMEOUT
from gapless_spark.settings.values import master, memory

READER = Setting(
    "engine",
    "What reads Kafka: spark; local: this process, without Spark, with at most 256 MiB of memory for the results; "
    "auto: local for few records, which is faster than starting Spark, otherwise Spark; local without PySpark. Under "
    "spark-submit, and with a master on other machines, Spark always reads. The report names the reader (read_by).",
    parse=choice("auto", "spark", "local"),
    default="auto",
    group="Engine",
)
MASTER = Setting(
    "master",
    "Where Spark runs; spark-submit overrides it.",
    parse=master,
    default="local[*]",
    group="Engine",
)
DRIVER_MEMORY = Setting(
    "driverMemory",
    "Memory of Spark's driver, the only process in local mode.",
    parse=memory,
    default="1g",
    metavar="SIZE",
    group="Engine",
)
PARALLELISM = Setting(
    "parallelism",
    "Minimum number of tasks that read; a task reads offsets of one or several partitions.",
    parse=integer(1, 10_000),
    shown_default="three for each core, fewer for small topics",
    metavar="NUMBER",
    group="Engine",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings(TypedSettings):
    """What reads Kafka, and with which resources."""

    engine: Literal["auto", "spark", "local"] = include(READER)
    master: str = include(MASTER)
    driver_memory: str = include(DRIVER_MEMORY)
    parallelism: int | None = include(PARALLELISM)
    progress_interval: float = value_of(PROGRESS_INTERVAL)
    connect_timeout_seconds: float = value_of(CONNECT_TIMEOUT)


ENGINE = EngineSettings.declared()


def engine_settings(
    reader: str, *, tasks: str = PARALLELISM.help, tasks_by_default: str = PARALLELISM.default_text
) -> tuple[Setting, ...]:
    """Return `ENGINE` with the help texts of a command for which they differ."""
    parallelism = replace(PARALLELISM, help=tasks, shown_default=tasks_by_default)
    return (replace(READER, help=reader), MASTER, DRIVER_MEMORY, parallelism)
