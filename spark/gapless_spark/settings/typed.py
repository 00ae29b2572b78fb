"""The frozen dataclasses of the settings of jobs, one per topic; must not know what uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gapless_api.base.typed_settings import TypedSettings, setting
from gapless_archive.store.access import S3Access, access_from
from gapless_kafka.access.connection import KafkaConnection, unchecked_connection_from

if TYPE_CHECKING:
    from gapless_api.base.allowed_topics import AllowedTopics
    from gapless_api.wire.copy_report import Ignored
    from gapless_archive.catalog.entry import Layout
    from gapless_archive.store.object_store import ObjectAddress
    from gapless_archive.store.places import PlaceAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings(TypedSettings):
    """What reads Kafka, and with which resources."""

    engine: Literal["auto", "spark", "local"]
    master: str
    driver_memory: str
    parallelism: int | None
    progress_interval: float
    connect_timeout_seconds: float = field(default=0.0, metadata={"setting": "connectTimeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings(TypedSettings):
    """What is written, and where."""

    log_level: str
    log_file_name: Path | None
    report: Path | None
    html: Path | None
    bundle: Path | ObjectAddress | None = field(default=None, metadata={"setting": "resendFileName"})
    limit: Literal["all", "first"] = "all"
    compare_with: Path | ObjectAddress | None = None
    source_name: str = ""
    signing_key: Path | None = None
    result_lines: bool = False
    result_bundle_limit: int = 0
    exit_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings(TypedSettings):
    """Which gaps topic is read, and what is inferred."""

    topic: str
    infer: bool
    infer_tails: Literal["beside-losses", "all"]
    include_stale: bool | None
    """``None`` if it is not set."""
    skip_stale: bool | None
    """The opposite; at most one of the two is set, or they agree."""
    detector_windows: int
    spark_above: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings(TypedSettings):
    """The received events, and the expected ones."""

    topics: tuple[str, ...]
    expect: tuple[str, ...]
    expect_file: Path | None
    expect_inventory: tuple[Path, ...]
    expect_inventory_topic: str | None
    expect_topics: tuple[str, ...]
    new_generation: tuple[tuple[str, str], ...]
    include_unknown: bool
    verify_key: Path | None
    state: Path | ObjectAddress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings(TypedSettings):
    """What an older bundle is compared with."""

    against: str | Path | ObjectAddress
    resend_report: tuple[Path, ...]
    bootstrap_servers: str | None
    topics: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings(TypedSettings):
    """Where topics are archived, when, and how that is reported."""

    archive: PlaceAddress
    region: str
    layout: Layout
    once: bool
    max_segment_records: int
    max_segment_bytes: int
    max_segment_age_seconds: float = setting("maxSegmentAge")
    topic_thresholds: Path | None
    trigger_interval_seconds: float = setting("triggerInterval")
    cycle_bytes: int
    hold: bool | None
    group_id: str | None = setting("groupID")
    metrics_port: int | None
    progress_interval_seconds: float = setting("progressInterval")
    allowed_topics: AllowedTopics | None
    report: Path | None
    log_level: str
    log_file_name: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCopySettings(TypedSettings):
    """How two copies of a topic are compared, and what is written."""

    align: Literal["auto", "offsets", "order"]
    ignore: tuple[Ignored, ...]
    timestamp_type: bool
    common_only: bool
    region: str | None
    b_settings: Path | None
    report: Path | None
    signing_key: Path | None
    check_report: Path | None
    trusted_keys: Mapping[str, str] | None
    allowed_topics: AllowedTopics | None
    log_level: str
    log_file_name: Path | None


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
