"""Owns what the status of a GapScan says: how the last scan went, what it found, and what became of the one before.

Must not know what was asked.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import Count, Name, Offset, Partition, Sha256
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

LONGEST_PARTITIONS = 100
"""Partitions in the status: those with the most missing events."""
LONGEST_MANIFEST = 262144
"""Characters of the rendered Resend manifest."""


class LastAttempt(StatusModel):
    """The scan that began last."""

    name: Name
    """Name of its Job or SparkApplication."""
    engine: Literal["Job", "SparkApplication"]
    """What it is."""
    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """The generation of the spec that it looks for."""
    started: Moment | None = None
    """When it was created."""
    finished: Moment | None = None
    """When it ended."""
    outcome: Annotated[str, Field(max_length=64)] | None = None
    """How it ended: a reason of docs/reference/conditions.md."""
    message: Message | None = None
    """The same in a sentence."""


class ReadingProgress(StatusModel):
    """How far the running scan has read Kafka."""

    attempt: Name
    """Name of its Job or SparkApplication."""
    offsets: Count
    """Offsets to read; there are not more records than that."""
    read: Count
    """How many of them are behind it."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})]
    """How much that is."""
    offsets_per_second: Annotated[float, Field(ge=0)] | None = None
    """Mean pace since reading began."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """How long reading will take at this pace."""
    updated_at: Moment | None = None
    """When this was written; at most every 5 seconds."""


class PartitionFindings(StatusModel):
    """What is missing in one partition."""

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
    """Difference to the scan before; negative numbers mean that less is missing."""

    events: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing events now, less those before."""
    ranges: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing ranges now, less those before."""


class Comparison(StatusModel):
    """What became of what the bundle before listed; listed is closed, unavailable, open and unknown together."""

    bundle_id: Annotated[str, Field(max_length=128)]
    """The id of that bundle."""
    listed: Count
    """Events that it lists."""
    closed: Count
    """Of them, those that are not missing any more, as a record or an audit says."""
    unavailable: Count
    """Of them, those that can never come: a manifest of the sending side says so."""
    open: Count
    """Of them, those that are still missing."""
    unknown: Count
    """Of them, those that the last scan could not look at."""
    new: Count
    """Events that are missing now and that it does not list."""


class BundleReference(StatusModel):
    """The bundle of the last scan that ended well."""

    id: Annotated[str, Field(max_length=128)]
    """Its id."""
    sha256: Sha256
    """Digest of its content, as gapless bundle show says it."""
    missing: Count
    """Missing events that it lists."""
    type: Literal["ConfigMap", "PersistentVolumeClaim", "S3"]
    """Where it is."""
    location: Annotated[str, Field(max_length=1024)]
    """Name of the ConfigMap, path in the volume, or s3://bucket/object."""
    key: Annotated[str, Field(max_length=253)] | None = None
    """Entry of the ConfigMap."""
    claim_name: Annotated[str, Field(max_length=253)] | None = None
    """Name of the PersistentVolumeClaim."""
    endpoint: Annotated[str, Field(max_length=512)] | None = None
    """Address of the store."""
    question: Annotated[str, Field(max_length=64)] | None = None
    """Digest of where its scan looked (brokers, topics, whether it inferred); only the bundle of a scan that looks at
    the same is compared with it."""


class GapScanStatus(StatusModel):
    """What was found."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """The generation of the spec that the status is about."""
    conditions: Conditions = ()
    """Ready, Reconciling, Stalled, GapsClosed and GapTopicCompacted, each with its reason."""
    last_schedule_time: Moment | None = None
    """The time of the schedule that was acted upon last."""
    next_schedule_time: Moment | None = None
    """When the next scan is due."""
    last_scan_time: Moment | None = None
    """When the last scan that ended well ended."""
    last_attempt: LastAttempt | None = None
    """The scan that began last."""
    progress: ReadingProgress | None = None
    """How far the scan that runs has read; absent when none runs, and for scans of less than some seconds."""
    read_by: Literal["spark", "local"] | None = None
    """What read Kafka in the last scan that ended well: spark, or local, which is one process without Spark. Absent
    when there was nothing to read."""
    missing_events: Count | None = None
    """Missing events in all partitions, by the last scan that ended well."""
    missing_ranges: Count | None = None
    """Missing ranges in all partitions."""
    inferred_events: Count | None = None
    """Missing events in all partitions that no record reported (source.gapTopic.infer)."""
    gap_topic_cleanup_policy: Annotated[str, Field(max_length=64)] | None = None
    """The cleanup.policy of the gaps topic at the last scan that ended well, or unknown; unless it is compact, records
    of gaps may have expired, and what no record tells of is unknown. Absent for an audit."""
    unknown_events: Count | None = None
    """Events that may have been received in records that Kafka deleted before an audit read them. They count neither
    as missing nor as received, and are not in the bundle (source.events)."""
    partitions: Annotated[tuple[PartitionFindings, ...], Field(max_length=LONGEST_PARTITIONS)] = ()
    """The partitions with the most missing events, worst first, all of which are in the bundle; then those with unknown
    events."""
    change: Change | None = None
    """Difference to the scan before."""
    comparison: Comparison | None = None
    """What became of what the bundle before listed; absent when the last scan was not compared with one."""
    closed_events_total: Count | None = None
    """Events that were seen to close, by all comparisons since the GapScan was created; it never falls."""
    unverified_events: Count | None = None
    """Events that earlier bundles listed and that no record reports any more, while the gaps topic was not compacted.
    Whether they arrived is unknown. An audit (source.events) ends the count."""
    oldest_gap_since: Moment | None = None
    """When a scan first reported gaps of which some may still be open: never later than it was for the oldest one, and
    perhaps earlier. Absent when nothing is missing or unverified."""
    bundle: BundleReference | None = None
    """The bundle of the last scan that ended well."""
    resend_manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)] | None = None
    """The Resend to apply on the sending side, with the bundle inside while it is small. To write it to a file:
    kubectl get gapscan NAME -o jsonpath={.status.resendManifest}"""
