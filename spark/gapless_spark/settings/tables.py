"""Owns the tables of settings of ``gapless scan``, ``create`` and ``audit``.

`create` accepts what the peer's program of that name accepts, and `engine`; `scan` accepts the same and more, under the
same environment variables, so both can use one properties file. Must not know Spark, or how Kafka is read; ``--help``
imports this package, so it must not import anything slow.
"""

from __future__ import annotations

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import SettingsTable
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_spark.settings.engine import ENGINE, READER
from gapless_spark.settings.gap_topic import BEYOND_THE_RECORDS, SPARK_ABOVE, TOPIC
from gapless_spark.settings.output import BUNDLE, LIMIT, OWN_OUTPUT
from gapless_spark.settings.received import RECEIVED

_common = (
    LIMIT,
    BUNDLE,
    *OWN_OUTPUT,
    PROGRESS_INTERVAL,
    *KAFKA_SETTINGS,
    CONNECT_TIMEOUT,
    ALLOWED_TOPICS,
    *LOG_SETTINGS,
    *ENGINE,
)
_scan = (TOPIC, *BEYOND_THE_RECORDS, *_common, SPARK_ABOVE)
_create = (*(setting for setting in _scan if setting.peer), READER)
_audit = (*RECEIVED, *_common)

_REMOVED = {"history": "earlier versions stored the last runs in this file; metrics and reports contain their results"}
"""Settings in files of earlier versions."""

SCAN = SettingsTable(
    "AIRGAP_CREATE_",
    _scan,
    {**foreign_settings(_scan), **_REMOVED},
    other_prefixes=("GAPLESS_SCAN_",),
)
"""``gapless scan``: the peer's settings and our own."""
CREATE = SettingsTable("AIRGAP_CREATE_", _create, foreign_settings(_create), siblings=_scan)
"""``gapless create``: the peer's settings, and `engine`."""
AUDIT = SettingsTable("GAPLESS_AUDIT_", _audit, {**foreign_settings(_audit), **_REMOVED})
"""``gapless audit``, which the peer does not have."""
