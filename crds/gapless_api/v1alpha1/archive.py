"""The kind Archive: which topics are archived in a store, in which segments, and for how long.

Must not know how segments are written.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.archive_status import ArchiveStatus
from gapless_api.v1alpha1.common import FolderPath, Reference, TemplateName, int32, no_dot_segments
from gapless_api.v1alpha1.model import ApiModel, Rule, TransitionRule
from gapless_api.v1alpha1.resource import MESSAGE_COLUMN, OBSERVED_COLUMN, REASON_COLUMN, Column, Resource
from gapless_api.v1alpha1.schedule import PreciseSchedule, Schedule
from gapless_api.v1alpha1.spark_options import SparkOptions
from gapless_api.v1alpha1.topic_selection import Pattern, TopicMasks, TopicNames, TopicPrefixes, topic_selection_rule

Region = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*$")]
"""The first part of the object keys of an archive. It names the origin of the topics."""
ByteCount = Annotated[int, Field(ge=1, le=2**53, json_schema_extra={"format": "int64"})]


ARCHIVE_REFERENCE_RULES: tuple[Rule, ...] = (
    Rule(
        "has(self.archiveRef) != has(self.storageRef)",
        "give exactly one archive: archiveRef, or storageRef and region",
        lambda spec: (spec.archive_ref is None) != (spec.storage_ref is None),
    ),
    Rule(
        "has(self.storageRef) == has(self.region)",
        "storageRef and region belong together: give both or neither",
        lambda spec: (spec.storage_ref is None) == (spec.region is None),
        "region",
    ),
    Rule(
        "has(self.storageRef) || !has(self.folder) || self.folder == ''",
        "folder requires a StorageLocation: set storageRef, or delete folder",
        lambda spec: spec.storage_ref is not None or not spec.folder,
        "folder",
    ),
    no_dot_segments("folder"),
)
"""For the spec of a kind that reads an archive."""


class SegmentLimits(ApiModel):
    """Limits of segments. The pending records of a partition become a segment when the first limit is reached."""

    max_records: Annotated[int, int32(1, 2**31 - 1)] = 1_000_000
    """Maximum number of records in a segment."""
    max_bytes: ByteCount = 100 * 1024 * 1024
    """Maximum bytes of keys, values and headers in a segment."""
    max_age_seconds: Annotated[int, int32(1, 86400)] = 300
    """Maximum seconds before a record is archived."""


class TopicSegmentLimits(ApiModel):
    """Limits that override the general ones for some topics."""

    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9]+[*]?$")]
    """Name of a topic, or a prefix that ends with *. The longest match applies."""
    max_records: Annotated[int, int32(1, 2**31 - 1)] | None = None
    """Maximum number of records in a segment."""
    max_bytes: ByteCount | None = None
    """Maximum bytes of keys, values and headers in a segment."""
    max_age_seconds: Annotated[int, int32(1, 86400)] | None = None
    """Maximum seconds before a record is archived."""


class Segments(SegmentLimits):
    """Size of new segments, before compaction."""

    per_topic: Annotated[tuple[TopicSegmentLimits, ...], Field(max_length=100)] = ()
    """Limits for individual topics."""


class LevelStorageClass(ApiModel):
    """Storage class of segments of one level."""

    level: Annotated[int, int32(1, 99)]
    """Level of the segments. Compaction writes level 1 and higher."""
    storage_class: Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[A-Z][A-Z0-9_]+$")]
    """Storage class of the store, such as STANDARD_IA."""


class Compaction(ApiModel):
    """Merges small segments into larger ones, and deletes segments that the retention no longer keeps."""

    RULES: ClassVar = (
        Rule(
            "self.minLevel <= self.maxLevel",
            "maxLevel is less than minLevel: write the lower level as minLevel; both are inclusive",
            lambda compaction: compaction.min_level <= compaction.max_level,
            "maxLevel",
        ),
        Rule(
            "self.minSegmentBytes <= self.maxSegmentBytes",
            "maxSegmentBytes is less than minSegmentBytes: raise it",
            lambda compaction: compaction.min_segment_bytes <= compaction.max_segment_bytes,
            "maxSegmentBytes",
        ),
        Rule(
            "self.minSegmentCount <= self.maxSegmentCount",
            "maxSegmentCount is less than minSegmentCount: raise it",
            lambda compaction: compaction.min_segment_count <= compaction.max_segment_count,
            "maxSegmentCount",
        ),
    )

    schedule: PreciseSchedule
    """Schedule of compactions."""
    min_level: Annotated[int, int32(0, 99)] = 0
    """Lowest level of the segments to merge. Archiving writes level 0."""
    max_level: Annotated[int, int32(0, 99)] = 0
    """Highest level of the segments to merge. The level of a new segment is one higher than that of its inputs."""
    min_segment_age_seconds: Annotated[int, int32(0, 31_536_000)] = 3600
    """Minimum age in seconds of the segments to merge."""
    min_segment_count: Annotated[int, int32(1, 1_000_000)] = 10
    """Minimum number of consecutive segments to merge."""
    min_segment_bytes: ByteCount = 1024**3
    """Minimum total size in stored bytes of consecutive segments to merge."""
    max_segment_count: Annotated[int, int32(1, 1_000_000)] = 1000
    """Maximum number of inputs of a new segment."""
    max_segment_bytes: ByteCount = 4 * 1024**3
    """Size of the inputs in stored bytes at which no more inputs are added to a new segment."""
    level_storage_class: Annotated[
        tuple[LevelStorageClass, ...],
        Field(
            max_length=100, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["level"]}
        ),
    ] = ()
    """Storage classes of new segments by level. Other levels use the storage class of the StorageLocation."""
    delete: bool = True
    """Whether to delete replaced segments after the grace period."""
    grace_period_seconds: Annotated[int, int32(0, 31_536_000)] = 86400
    """Seconds for which replaced segments are kept for running readers."""
    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 21600
    """Maximum duration of a compaction in seconds."""


class ArchiveRetention(ApiModel):
    """Limits of the archived data of each topic. Nothing is deleted while spec.hold is true."""

    RULES: ClassVar = (
        Rule(
            "has(self.maxAgeSeconds) || has(self.maxBytes)",
            "a retention without maxAgeSeconds and maxBytes has no effect: give at least one, or delete retention",
            lambda retention: retention.max_age_seconds is not None or retention.max_bytes is not None,
        ),
    )

    max_age_seconds: Annotated[int, Field(ge=60, le=2**53, json_schema_extra={"format": "int64"})] | None = None
    """Maximum age in seconds. Segments whose newest record is older are deleted."""
    max_bytes: ByteCount | None = None
    """Maximum bytes of each topic. The oldest segments are deleted first."""


class ArchiveSpec(ApiModel):
    """Topics to archive, the location of the archive, and settings of its segments."""

    RULES: ClassVar = (
        topic_selection_rule("archive"),
        Rule(
            "!has(self.retention) || has(self.compaction)",
            "retention is applied by compactions: also give compaction with a schedule",
            lambda archive: archive.retention is None or archive.compaction is not None,
            "retention",
        ),
        no_dot_segments("folder"),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "self.storageRef == oldSelf.storageRef && (has(self.folder) ? self.folder : '') == (has(oldSelf.folder) ? "
            "oldSelf.folder : '') && self.region == oldSelf.region",
            "storageRef, folder and region identify the archive and cannot be changed: create another Archive, which "
            "begins with the oldest records in Kafka",
        ),
        TransitionRule(
            "(has(self.layout) ? self.layout : 'Gapless') == (has(oldSelf.layout) ? oldSelf.layout : 'Gapless')",
            "layout cannot be changed, because each topic of an archive has one layout: create another Archive with "
            "another folder or region",
        ),
    )

    kafka_ref: Reference
    """The KafkaConnection to read, in the same namespace."""
    storage_ref: Reference
    """The StorageLocation of the archive, in the same namespace."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""
    region: Region
    """Origin of the topics, and the first part of the object keys. Several clusters can share an archive if each has a
    unique region."""
    layout: Literal["Gapless", "KafkaReplicator"] = "Gapless"
    """Layout of object keys and contents. KafkaReplicator continues an archive of kafka-replicator, which can read the
    new objects. That layout stores null as empty, has no timestamp types, and contains only one generation of a
    topic."""
    topics: TopicNames = ()
    """Names of topics to archive. Each topic must exist."""
    topic_prefixes: TopicPrefixes = ()
    """Name prefixes of topics to archive. New topics are found within a minute."""
    topic_pattern: Pattern | None = None
    """Regular expression for topics to archive. It must match the full name."""
    exclude: TopicMasks = ()
    """Topics to exclude. * matches any characters."""
    segments: Segments = Segments()
    """Size of new segments, before compaction."""
    schedule: Schedule | None = None
    """Schedule of runs. Each run archives all records that exist and ends. If absent, topics are archived
    continuously."""
    suspend: bool = False
    """Whether to pause archiving and compaction. Running pods are stopped. Nothing is lost as long as Kafka keeps the
    records."""
    engine: SparkOptions = SparkOptions()
    """How and where the work runs."""
    pod_template: TemplateName | None = None
    """Name of what is added to the pods, such as labels and tolerations. It must be listed in the chart's podTemplates.
    Defaults to the chart's podTemplate."""
    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 21600
    """Maximum duration of a scheduled run in seconds."""
    compaction: Compaction | None = None
    """Merges small segments of the topics into larger ones. If absent, only gapless compact merges them."""
    retention: ArchiveRetention | None = None
    """Limits of the archived data of each topic. If absent, everything is kept. Other topics in the same region are not
    affected."""
    hold: bool | None = None
    """Legal hold. If true, nothing of the topics is deleted. If false, the topics are released, including holds set by
    gapless segments hold. If absent, holds are not changed. Releasing a hold requires the verb release on archives."""


class Archive(Resource):
    """Archives Kafka topics in a store.

    Events can be resent and topics can be restored after Kafka has deleted the records.
    """

    KIND: ClassVar = "Archive"
    PLURAL: ClassVar = "archives"
    SHORT_NAMES: ClassVar = ("arch",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether topics are archived."),
        Column("Segments", "integer", ".status.segments", "Number of segments."),
        Column("Lag", "integer", ".status.lagRecords", "Number of offsets that are not archived yet."),
        Column("Last Commit", "date", ".status.lastCommitTime", "Time of the last commit."),
        REASON_COLUMN._replace(wide=True),
        Column("Bytes", "integer", ".status.bytes", "Size of the objects in bytes.", wide=True),
        Column(
            "Lag seconds",
            "number",
            ".status.lagSeconds",
            "Age of the oldest record that is not archived.",
            wide=True,
        ),
        Column("Lost", "integer", ".status.lostRecords", "Offsets deleted before they were archived.", wide=True),
        Column("Region", "string", ".spec.region", "Origin of the topics.", wide=True),
        Column("Read by", "string", ".status.readBy", "Reader of the last run: spark or local.", wide=True),
        Column("Schedule", "string", ".spec.schedule.cron", "Schedule in cron format.", wide=True),
        Column("Next compaction", "string", ".status.nextCompactionTime", "Time of the next compaction.", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether archiving is paused.", wide=True),
        OBSERVED_COLUMN,
        MESSAGE_COLUMN,
    )

    spec: ArchiveSpec
    """Topics to archive, the location of the archive, and settings of its segments."""
    status: ArchiveStatus = ArchiveStatus()
    """Observed state of the archive."""
