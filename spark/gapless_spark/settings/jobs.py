"""What every job builds from its settings: the engine, the output, and how it reaches Kafka and stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_archive.store.access import S3Access, access_from
from gapless_kafka.access.connection import KafkaConnection, unchecked_connection_from
from gapless_spark.settings.engine import EngineSettings
from gapless_spark.settings.tables import OutputSettings

if TYPE_CHECKING:
    from gapless_api.base.allowed_topics import AllowedTopics


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAccess:
    """How to reach a copy of a topic."""

    kafka: KafkaConnection
    """Without bootstrap servers, which the address of the copy contains. Not checked yet."""
    store: S3Access
    connect_timeout_seconds: float

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CopyAccess:
        """Build it from resolved settings."""
        return cls(
            kafka=unchecked_connection_from({**values, "bootstrapServers": ""}),
            store=access_from(values),
            connect_timeout_seconds=values["connectTimeout"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The settings of every job."""

    engine: EngineSettings
    output: OutputSettings
    kafka: KafkaConnection
    """Not checked yet: use `KafkaConnection.with_client_id`."""
    store: S3Access
    """How to reach object stores."""
    allowed_topics: AllowedTopics | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> JobSettings:
        """Build them from resolved settings."""
        return cls(
            engine=EngineSettings.of(values),
            output=OutputSettings.of(values),
            kafka=unchecked_connection_from(values),
            store=access_from(values),
            allowed_topics=values.get("allowedTopics"),
        )
