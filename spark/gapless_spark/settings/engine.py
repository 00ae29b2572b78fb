"""Owns the settings for where Spark runs and with how much; must not know what it is to do."""

from __future__ import annotations

from dataclasses import replace

from gapless_api.base.settings import Setting, choice, integer
from gapless_spark.settings.values import master, memory

READER = Setting(
    "engine",
    "What reads Kafka: spark; local: this process, without Spark, which holds at most 256 MiB of what it reads; auto: "
    "local for few records, because that is done before Spark would have started, otherwise Spark. Under spark-submit, "
    "and with a master on other machines, Spark always reads. The report says which one did (read_by).",
    parse=choice("auto", "spark", "local"),
    default="auto",
    shown_default="auto",
    metavar="auto|spark|local",
    own=True,
    group="Engine",
)
MASTER = Setting(
    "master",
    "Where Spark shall run; spark-submit's own choice goes first.",
    parse=master,
    default="local[*]",
    shown_default="local[*]",
    own=True,
    group="Engine",
)
DRIVER_MEMORY = Setting(
    "driverMemory",
    "Memory of Spark's driver, which is all there is in local mode.",
    parse=memory,
    default="1g",
    shown_default="1g",
    metavar="SIZE",
    own=True,
    group="Engine",
)
PARALLELISM = Setting(
    "parallelism",
    "How many tasks read at least; each reads offsets of one partition or of many.",
    parse=integer(1, 10_000),
    shown_default="three for each core, fewer for small topics",
    metavar="NUMBER",
    own=True,
    group="Engine",
)
ENGINE = (READER, MASTER, DRIVER_MEMORY, PARALLELISM)


def engine_settings(
    reader: str, *, tasks: str = PARALLELISM.help, tasks_by_default: str = PARALLELISM.shown_default
) -> tuple[Setting, ...]:
    """The same settings with the texts of a command for which they mean something else."""
    parallelism = replace(PARALLELISM, help=tasks, shown_default=tasks_by_default)
    return (replace(READER, help=reader), MASTER, DRIVER_MEMORY, parallelism)
