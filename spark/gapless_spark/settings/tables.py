"""Owns the settings of ``gapless scan``, ``create`` and ``audit`` as tables, a module for each idea.

`create` accepts what the peer's program of that name accepts, and `engine`; `scan` the same and more, under the same
environment variables, so that one properties file serves both. Must not know Spark, or how Kafka is read; nothing slow
may be imported here, because ``--help`` needs this package.
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
_create = (*(setting for setting in _scan if not setting.own), READER)
_audit = (*RECEIVED, *_common)

_GONE = {"history": "earlier versions kept the last runs in this file; metrics and reports tell how runs ended"}
"""Settings that files of earlier versions may hold."""

SCAN = SettingsTable("AIRGAP_CREATE_", _scan, {**foreign_settings(_scan), **_GONE})
"""``gapless scan``: the peer's settings and our own."""
CREATE = SettingsTable("AIRGAP_CREATE_", _create, foreign_settings(_create))
"""``gapless create``: the peer's settings, and what reads; no more."""
AUDIT = SettingsTable("GAPLESS_AUDIT_", _audit, {**foreign_settings(_audit), **_GONE})
"""``gapless audit``, which the peer does not have."""
