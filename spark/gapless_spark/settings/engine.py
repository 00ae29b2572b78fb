"""Owns the settings for where Spark runs and with how much; must not know what it is to do."""

from __future__ import annotations

from gapless_api.settings import Setting, integer
from gapless_spark.settings.values import master, memory

ENGINE = (
    Setting(
        "master",
        "Where Spark shall run; spark-submit's own choice goes first.",
        parse=master,
        default="local[*]",
        shown_default="local[*]",
        own=True,
        group="Engine",
    ),
    Setting(
        "driverMemory",
        "Memory of Spark's driver, which is all there is in local mode.",
        parse=memory,
        default="1g",
        shown_default="1g",
        metavar="SIZE",
        own=True,
        group="Engine",
    ),
    Setting(
        "parallelism",
        "How many tasks read at least, for topics with few partitions.",
        parse=integer(1, 10_000),
        shown_default="one for each core",
        metavar="NUMBER",
        own=True,
        group="Engine",
    ),
)
