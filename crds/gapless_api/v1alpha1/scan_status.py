"""The status of a GapScan: the last scan, its findings, and the comparison with the previous bundle.

Must not know the spec.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count, Name, Offset, Partition, Sha256
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Moment, StatusModel

MAX_STATUS_PARTITIONS = 100
MAX_STATUS_LOST_HOURS = 24
"""Partitions listed in the status."""
MAX_MANIFEST_LENGTH = 262144
"""Characters of the rendered Resend manifest."""


class ReadingProgress(StatusModel):
    """Progress of the running scan."""

    attempt: Name
    """Name of the Job or SparkApplication."""
    offsets: Count
    """Number of offsets to read, an upper bound of the number of records."""
    read: Count
    """Number of offsets read."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})]
    """Percentage of the offsets read."""
    offsets_per_second: Annotated[float, Field(ge=0)] | None = None
    """Mean rate since the start of reading."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated remaining time at this rate."""
    updated_at: Moment | None = None
    """Time of this update; at most one every 5 seconds."""


class PartitionFindings(StatusModel):
    """Missing events of one partition."""

    topic: Annotated[str, Field(max_length=249)]
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    missing: Count
    """Number of missing events."""
    inferred: Count | None = None
    """Number of missing events that no gap record reported (source.gapTopic.infer)."""
    unknown: Count | None = None
    """Number of events whose records Kafka may have deleted before an audit read them (source.events)."""
    ranges: Count
    """Number of missing ranges."""
    first_missing: Offset | None = None
    """Lowest missing offset."""
    last_missing: Offset | None = None
    """Highest missing offset."""


class LostHour(StatusModel):
    """Losses of one hour."""

    hour: Moment
    """Start of the hour."""
    missing: Count
    """Number of missing events."""
    expected: Count
    """Number of expected events in partitions with losses."""


class Losses(StatusModel):
    """Times of the losses, on the clock of the receiving side."""

    after: Moment | None = None
    """Arrival of the last event before the first loss. Absent if it is unknown for a partition, or nothing is
    missing."""
    before: Moment | None = None
    """Arrival of the first event after the last loss. Absent if it is unknown for a partition, or nothing is
    missing."""
    hours: Annotated[tuple[LostHour, ...], Field(max_length=MAX_STATUS_LOST_HOURS)] = ()
    """The newest hours with losses; at most 24."""


class Change(StatusModel):
    """Difference from the previous scan. Negative numbers mean that less is missing."""

    events: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing events now, minus those of the previous scan."""
    ranges: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing ranges now, minus those of the previous scan."""


class Comparison(StatusModel):
    """Comparison with the previous bundle. listed is the sum of closed, unavailable, open and unknown."""

    bundle_id: Annotated[str, Field(max_length=128)]
    """ID of the previous bundle."""
    listed: Count
    """Events in the previous bundle."""
    closed: Count
    """Listed events that are no longer missing, according to a gap record or an audit."""
    unavailable: Count
    """Listed events that can never arrive, according to an inventory of the sending side."""
    open: Count
    """Listed events that are still missing."""
    unknown: Count
    """Listed events that the last scan could not check."""
    new: Count
    """Missing events that are not in the previous bundle."""


class BundleReference(StatusModel):
    """The bundle of the last successful scan."""

    id: Annotated[str, Field(max_length=128)]
    """ID of the bundle."""
    sha256: Sha256
    """Digest of the content, as shown by gapless bundle show."""
    missing: Count
    """Number of missing events in the bundle."""
    type: Literal["ConfigMap", "PersistentVolumeClaim", "S3"]
    """Kind of storage."""
    location: Annotated[str, Field(max_length=1024)]
    """Name of the ConfigMap, path in the volume, or s3://bucket/key."""
    key: Annotated[str, Field(max_length=253)] | None = None
    """Entry of the ConfigMap."""
    claim_name: Annotated[str, Field(max_length=253)] | None = None
    """Name of the PersistentVolumeClaim."""
    endpoint: Annotated[str, Field(max_length=512)] | None = None
    """Address of the store."""
    question: Annotated[str, Field(max_length=64)] | None = None
    """Digest of the scan's source (brokers, topics, infer). Only bundles of the same source are compared."""


class GapScanStatus(StatusModel):
    """Observed state of the scans."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Conditions Ready, Reconciling, Stalled, GapsClosed and GapTopicCompacted."""
    last_schedule_time: Moment | None = None
    """Latest scheduled time that was processed."""
    next_schedule_time: Moment | None = None
    """Time of the next scheduled scan."""
    last_scan_time: Moment | None = None
    """End of the last successful scan."""
    last_attempt: LastAttempt | None = None
    """The latest scan."""
    progress: ReadingProgress | None = None
    """Progress of the running scan. Absent if no scan is running, and for very short scans."""
    read_by: Literal["spark", "local"] | None = None
    """Reader of the last successful scan: spark, or local for one process without Spark. Absent if there was nothing to
    read."""
    missing_events: Count | None = None
    """Number of missing events in all partitions, according to the last successful scan."""
    missing_ranges: Count | None = None
    """Number of missing ranges in all partitions."""
    inferred_events: Count | None = None
    """Number of missing events in all partitions that no gap record reported (source.gapTopic.infer)."""
    stale_events: Count | None = None
    """Number of events in records of windows that the gap detector no longer tracks: missing when it last wrote the
    records, and unknown since. They are in the bundle, and in missingEvents, only with source.gapTopic.includeStale or
    infer. Absent for an audit."""
    gap_topic_cleanup_policy: Annotated[str, Field(max_length=64)] | None = None
    """The cleanup.policy of the gaps topic at the last successful scan, or unknown. Unless it is compact, gap records
    may have expired, and the state of offsets without a record is unknown. Absent for an audit."""
    unknown_events: Count | None = None
    """Number of events whose records Kafka may have deleted before an audit read them (source.events). They count as
    neither missing nor received, and are not in the bundle unless source.events.includeUnknown is true."""
    partitions: Annotated[tuple[PartitionFindings, ...], Field(max_length=MAX_STATUS_PARTITIONS)] = ()
    """Partitions with the most missing events, followed by partitions with unknown events; at most 100. The bundle
    lists all partitions."""
    lost: Losses | None = None
    """Times of the losses, according to the last audit (source.events). Absent for a scan of the gaps topic."""
    change: Change | None = None
    """Difference from the previous scan."""
    comparison: Comparison | None = None
    """Comparison with the previous bundle. Absent if there is none."""
    closed_events_total: Count | None = None
    """Number of events of earlier bundles that are no longer missing, since the GapScan was created. It never
    decreases."""
    unverified_events: Count | None = None
    """Number of events of earlier bundles that no gap record reports any more, while the gaps topic was not compacted.
    It is unknown whether they arrived. An audit (source.events) resets the count."""
    oldest_gap_since: Moment | None = None
    """Lower bound of the time at which a scan first reported the oldest open gap. Absent if nothing is missing or
    unverified."""
    bundle: BundleReference | None = None
    """The bundle of the last successful scan."""
    resend_manifest: Annotated[str, Field(max_length=MAX_MANIFEST_LENGTH)] | None = None
    """The Resend to apply on the sending side. A small bundle is included inline. To write it to a file: kubectl get
    gapscan NAME -o jsonpath={.status.resendManifest}"""
