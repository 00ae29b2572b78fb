"""Owns what the status of a GapScan says: how the last scan went, what it found, and what became of the one before.

Must not know what was asked.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count, Name, Offset, Partition, Sha256
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Moment, StatusModel

LONGEST_PARTITIONS = 100
"""Partitions in the status: those with the most missing events."""
LONGEST_MANIFEST = 262144
"""Characters of the rendered Resend manifest."""


class ReadingProgress(StatusModel):
    """Progress of the running scan."""

    attempt: Name
    """Name of its Job or SparkApplication."""
    offsets: Count
    """Offsets to read, an upper bound of the records."""
    read: Count
    """Offsets that were read."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})]
    """Percentage of the offsets that were read."""
    offsets_per_second: Annotated[float, Field(ge=0)] | None = None
    """Mean rate since reading began."""
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
    """Missing events."""
    inferred: Count | None = None
    """Missing events that no record reported (source.gapTopic.infer)."""
    unknown: Count | None = None
    """Events that may have been received in records that Kafka deleted before an audit read them (source.events)."""
    ranges: Count
    """Missing ranges."""
    first_missing: Offset | None = None
    """Lowest missing offset."""
    last_missing: Offset | None = None
    """Highest missing offset."""


class Change(StatusModel):
    """Difference from the previous scan. Negative numbers mean that less is missing."""

    events: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing events now, minus those of the previous scan."""
    ranges: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing ranges now, minus those of the previous scan."""


class Comparison(StatusModel):
    """Comparison with the previous bundle. listed is the sum of closed, unavailable, open and unknown."""

    bundle_id: Annotated[str, Field(max_length=128)]
    """The id of that bundle."""
    listed: Count
    """Events that it lists."""
    closed: Count
    """Those that are no longer missing, according to a record or an audit."""
    unavailable: Count
    """Those that can never arrive, according to an inventory of the sending side."""
    open: Count
    """Those that are still missing."""
    unknown: Count
    """Those that the last scan could not check."""
    new: Count
    """Missing events that it does not list."""


class BundleReference(StatusModel):
    """The bundle of the last successful scan."""

    id: Annotated[str, Field(max_length=128)]
    """Its id."""
    sha256: Sha256
    """Digest of its content, as gapless bundle show says it."""
    missing: Count
    """Missing events that it lists."""
    type: Literal["ConfigMap", "PersistentVolumeClaim", "S3"]
    """Kind of the place where it is stored."""
    location: Annotated[str, Field(max_length=1024)]
    """Name of the ConfigMap, path in the volume, or s3://bucket/object."""
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
    """Ready, Reconciling, Stalled, GapsClosed and GapTopicCompacted, each with its reason."""
    last_schedule_time: Moment | None = None
    """Latest scheduled time that was handled."""
    next_schedule_time: Moment | None = None
    """When the next scan is due."""
    last_scan_time: Moment | None = None
    """End of the last successful scan."""
    last_attempt: LastAttempt | None = None
    """The latest scan."""
    progress: ReadingProgress | None = None
    """Progress of the running scan. Absent if none runs, and for very short scans."""
    read_by: Literal["spark", "local"] | None = None
    """What read Kafka in the last successful scan: spark, or local, which is one process without Spark. Absent if there
    was nothing to read."""
    missing_events: Count | None = None
    """Missing events in all partitions, according to the last successful scan."""
    missing_ranges: Count | None = None
    """Missing ranges in all partitions."""
    inferred_events: Count | None = None
    """Missing events in all partitions that no record reported (source.gapTopic.infer)."""
    gap_topic_cleanup_policy: Annotated[str, Field(max_length=64)] | None = None
    """The cleanup.policy of the gaps topic at the last successful scan, or unknown; unless it is compact, records of
    gaps may have expired, and what no record tells of is unknown. Absent for an audit."""
    unknown_events: Count | None = None
    """Events that may have been received in records that Kafka deleted before an audit read them. They count neither
    as missing nor as received, and are not in the bundle (source.events)."""
    partitions: Annotated[tuple[PartitionFindings, ...], Field(max_length=LONGEST_PARTITIONS)] = ()
    """The partitions with the most missing events, worst first, all of which are in the bundle; then those with unknown
    events."""
    change: Change | None = None
    """Difference from the previous scan."""
    comparison: Comparison | None = None
    """Comparison with the previous bundle. Absent if there was none."""
    closed_events_total: Count | None = None
    """Events of earlier bundles that have closed since the GapScan was created. It never decreases."""
    unverified_events: Count | None = None
    """Events that earlier bundles listed and that no record reports any more, while the gaps topic was not compacted.
    Whether they arrived is unknown. An audit (source.events) ends the count."""
    oldest_gap_since: Moment | None = None
    """When a scan first reported gaps of which some may still be open: never later than it was for the oldest one, and
    perhaps earlier. Absent when nothing is missing or unverified."""
    bundle: BundleReference | None = None
    """The bundle of the last successful scan."""
    resend_manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)] | None = None
    """The Resend to apply on the sending side, with the bundle inside while it is small. To write it to a file:
    kubectl get gapscan NAME -o jsonpath={.status.resendManifest}"""
