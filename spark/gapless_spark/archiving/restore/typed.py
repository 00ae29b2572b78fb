"""The frozen dataclass of a restore's settings; must not know what uses them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gapless_api.base.typed_settings import TypedSettings, setting

if TYPE_CHECKING:
    from gapless_api.base.allowed_groups import AllowedGroups
    from gapless_api.base.allowed_topics import AllowedTopics
    from gapless_api.offsets.ranges import OffsetRange
    from gapless_archive.store.places import PlaceAddress
    from gapless_spark.archiving.restore.values import Remapping, SourceTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings(TypedSettings):
    """What is restored, where, and how."""

    archive: PlaceAddress
    topics: tuple[str, ...]
    source: tuple[SourceTopic, ...]
    region: str | None
    generation: str | None
    partitions: frozenset[int] | None
    offsets: OffsetRange | None
    since: int | None
    until: int | None
    to_topic: str | None
    remap_partitions: Remapping | None
    create_topics: bool
    replication_factor: int
    adjust_retention: Literal["false", "true", "keep"]
    timestamps: Literal["keep", "replace"]
    group_offsets: Path | None
    group_name: str | None
    plan: bool
    delivery: Literal["exactly-once", "at-least-once"]
    batch_size: int
    compression: str
    control_topic: str
    report: Path | None
    follow: bool
    follow_interval_seconds: float = setting("followInterval")
    on_lost: Literal["fail", "skip"]
    on_bad_record: Literal["fail", "skip-and-record"]
    lost_segment_timeout_seconds: float = setting("lostSegmentTimeout")
    late_segment_retries: int
    first_segment_delay_seconds: float | None = setting("firstSegmentDelay")
    allowed_topics: AllowedTopics | None
    allowed_groups: AllowedGroups | None
    log_level: str
    log_file_name: Path | None
    spark_above: int
