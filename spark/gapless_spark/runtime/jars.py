"""Owns where the jars are that PySpark lacks to read Kafka; must not know Spark's settings or who put them there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gapless_api.base.errors import ConfigurationError

_NEEDED = ("spark-sql-kafka-0-10_", "spark-token-provider-kafka-0-10_", "kafka-clients-", "commons-pool2-")


def jars_folder() -> Path:
    """The folder of the connector's jars: ``GAPLESS_SPARK_JARS``, else beside the installed program."""
    named = os.environ.get("GAPLESS_SPARK_JARS")
    return Path(named) if named else Path(sys.prefix) / "share" / "gapless" / "spark-jars"


def connector_jars() -> list[Path]:
    """The four jars, in a fixed order.

    Raises:
        ConfigurationError: one is missing, or there are two versions of it.
    """
    folder = jars_folder()
    found: list[Path] = []
    for beginning in _NEEDED:
        matching = sorted(folder.glob(f"{beginning}*.jar"))
        if len(matching) != 1:
            problem = f"{beginning}*.jar is missing" if not matching else f"there are {len(matching)} {beginning}*.jar"
            raise ConfigurationError(
                f"Spark's Kafka connector is not complete in {folder} ({problem}); run make spark-jars in the "
                f"checkout, or name a folder with the jars of spark/connector/pom.xml in GAPLESS_SPARK_JARS."
            )
        found.append(matching[0])
    return found


def startup_archive() -> Path:
    """Where a class archive for quick starts belongs; it need not exist."""
    return jars_folder() / "startup.jsa"
