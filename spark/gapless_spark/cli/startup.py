"""Owns the class archive that halves the start of Spark's Java; must not know where it is used: see `session`.

``python -m gapless_spark.cli.startup`` makes it, once for an installation: ``make spark-jars`` and the image call it.
It runs the plan of a scan over a few records without Kafka, so that Java sees the classes it will need. Those that read
Kafka it does not meet on the way, as there is none: they are loaded by name.
"""

from __future__ import annotations

import contextlib
import os
import sys
import zipfile
from datetime import UTC, datetime

from gapless_api.base.errors import GaplessError
from gapless_api.base.files import put_in_place
from gapless_spark.model.bitmaps import PARTIAL, partial_bitmaps
from gapless_spark.runtime.jars import connector_jars, startup_archive
from gapless_spark.runtime.session import Engine, session
from gapless_spark.scan.latest_records import find_windows

_KAFKA_NOBODY_LISTENS_AT = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "1000",
    "kafka.request.timeout.ms": "900",
    "assign": '{"t": [0]}',
}
_READ_KAFKA = (
    "org/apache/spark/sql/kafka010/",
    "org/apache/kafka/clients/consumer/",
    "org/apache/kafka/common/record/",
)
"""Where the connector's jars have the classes that do."""
_NAMES_ALL_MESSAGES = "org.apache.kafka.common.protocol.ApiKeys"
"""Java loads all classes of Kafka's messages as soon as it uses this one."""


def make_archive() -> None:
    """Make the archive; an older one is replaced in one step.

    Raises:
        ConfigurationError: Java or the jars are not as Spark needs them.
        OSError: the folder of the jars is not writable.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- so that a missing Java is said in our words
    from pyspark.errors import PySparkException  # noqa: PLC0415

    archive = startup_archive()
    unfinished = archive.with_suffix(f".{os.getpid()}.tmp")
    try:
        with session(Engine("gapless startup", archive_to=unfinished)) as spark:
            record = (
                0,
                0,
                datetime.now(UTC),
                b"warm:0:0",
                bytes.fromhex("01" + 8 * "00" + 8 * "00" + "3a30" + 6 * "00"),
            )
            schema = "partition int, offset long, timestamp timestamp, key binary, value binary"
            records = spark.createDataFrame([record], schema)
            find_windows(records)
            records.select("key").mapInArrow(partial_bitmaps, PARTIAL).repartition("topic").toArrow()
            with contextlib.suppress(PySparkException, Py4JError):  # the point is how far it gets
                spark.read.format("kafka").options(**_KAFKA_NOBODY_LISTENS_AT).load().count()
            java = spark.sparkContext._jvm.java.lang  # noqa: SLF001
            loader = java.ClassLoader.getSystemClassLoader()
            for name in _classes_that_read_kafka():
                with contextlib.suppress(Py4JError):  # some want libraries that are not there, and nobody uses them
                    loader.loadClass(name)
            with contextlib.suppress(Py4JError):
                java.Class.forName(_NAMES_ALL_MESSAGES, True, loader)
        put_in_place(unfinished, archive)
    finally:
        unfinished.unlink(missing_ok=True)


def _classes_that_read_kafka() -> list[str]:
    listed = [name for jar in connector_jars() for name in zipfile.ZipFile(jar).namelist()]
    return [
        name.removesuffix(".class").replace("/", ".")
        for name in listed
        if name.startswith(_READ_KAFKA) and name.endswith(".class")
    ]


if __name__ == "__main__":
    try:
        make_archive()
    except (GaplessError, OSError) as error:
        sys.exit(f"No archive for quick starts was made, and everything works without it: {error}")
