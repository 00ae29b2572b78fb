"""The settings of the SQL that a mirror applies to its records. Must not know what evaluates it."""

from __future__ import annotations

from pathlib import Path

from gapless_api.base.quantities import names
from gapless_api.base.settings import Setting

_GROUP = "Transform"
TRANSFORM_SOCKET = Setting(
    "transformSocket",
    "Socket of a gapless mirror evaluate, which evaluates the transform without access to Kafka and its passwords.",
    parse=Path,
    shown_default="this program evaluates it",
    metavar="FILE",
    group=_GROUP,
)
TRANSFORM_SETTINGS = (
    Setting(
        "transform",
        "SQL that is applied to each record: SELECT … FROM records [WHERE …], or WHERE … alone, over key, value, "
        "headers, topic, partition, offset and timestamp. It can leave records out, change key, value and headers "
        "(… AS value), and send records to another topic (… AS topic); columns that are not selected are not "
        "changed. Needs PySpark and Java, or transformSocket.",
        metavar="SQL",
        group=_GROUP,
    ),
    Setting(
        "transformTopics",
        "Topics on the target to which the transform may send records. They must exist, with as many partitions as "
        "the source topics.",
        parse=names("topic names separated by commas"),
        metavar="TOPICS",
        repeatable=True,
        group=_GROUP,
    ),
    TRANSFORM_SOCKET,
)
