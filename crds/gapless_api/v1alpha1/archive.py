"""Owns the kind Archive: which topics are kept in a store, in which segments, and for how long.

Must not know how segments are written.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.archive_status import ArchiveStatus
from gapless_api.v1alpha1.common import FolderPath, Reference, int32, stays_inside
from gapless_api.v1alpha1.model import ApiModel, Rule, TransitionRule
from gapless_api.v1alpha1.resource import Column, Resource
from gapless_api.v1alpha1.schedule import PreciseSchedule, Schedule
from gapless_api.v1alpha1.spark_options import SparkOptions
from gapless_api.v1alpha1.topic_choice import Pattern, TopicMasks, TopicNames, TopicPrefixes, chooses_topics

Region = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*$")]
"""The first part of the names of an archive's objects: where the topics come from."""
ByteCount = Annotated[int, Field(ge=1, le=2**53, json_schema_extra={"format": "int64"})]


ARCHIVE_BY_REFERENCE: tuple[Rule, ...] = (
    Rule(
        "has(self.archiveRef) != has(self.storageRef)",
        "say which archive, exactly once: archiveRef, or storageRef and region",
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
        "folder is a folder of a StorageLocation: name it in storageRef, or delete folder",
        lambda spec: spec.storage_ref is not None or not spec.folder,
        "folder",
    ),
    stays_inside("folder"),
)
"""For a spec that reads an archive."""


class SegmentLimits(ApiModel):
    """When what is pending of a partition becomes a segment: at the first limit that is reached."""

    max_records: Annotated[int, int32(1, 2**31 - 1)] = 1_000_000
    """Records of a segment."""
    max_bytes: ByteCount = 100 * 1024 * 1024
    """Bytes of keys, values and headers of a segment."""
    max_age_seconds: Annotated[int, int32(1, 86400)] = 300
    """Seconds that a record waits at most."""


class TopicSegmentLimits(ApiModel):
    """Limits of some topics, in place of those of all."""

    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9]+[*]?$")]
    """Name of the topic, or a prefix that ends with *; the longest one that fits counts."""
    max_records: Annotated[int, int32(1, 2**31 - 1)] | None = None
    """Records of a segment."""
    max_bytes: ByteCount | None = None
    """Bytes of keys, values and headers of a segment."""
    max_age_seconds: Annotated[int, int32(1, 86400)] | None = None
    """Seconds that a record waits at most."""


class Segments(SegmentLimits):
    """How large segments become before they are compacted."""

    per_topic: Annotated[tuple[TopicSegmentLimits, ...], Field(max_length=100)] = ()
    """Other limits for some topics."""


class LevelStorageClass(ApiModel):
    """The storage class of segments of one level."""

    level: Annotated[int, int32(1, 99)]
    """Level of the new segments; compaction writes 1 and higher."""
    storage_class: Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[A-Z][A-Z0-9_]+$")]
    """Storage class of the store, such as STANDARD_IA."""


class Compaction(ApiModel):
    """Joins small segments to larger ones, and deletes what the retention no longer keeps."""

    RULES: ClassVar = (
        Rule(
            "self.minLevel <= self.maxLevel",
            "maxLevel is lower than minLevel: write the lower level as minLevel; both are inclusive",
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
    """When segments are compacted."""
    min_level: Annotated[int, int32(0, 99)] = 0
    """Lowest level whose segments are joined. Level 0 is what archiving writes."""
    max_level: Annotated[int, int32(0, 99)] = 0
    """Highest level whose segments are joined; a new segment has one level more than its inputs."""
    min_segment_age_seconds: Annotated[int, int32(0, 31_536_000)] = 3600
    """Segments younger than this are left alone."""
    min_segment_count: Annotated[int, int32(1, 1_000_000)] = 10
    """Fewer segments in a row are left alone."""
    min_segment_bytes: ByteCount = 1024**3
    """Segments in a row with fewer stored bytes together are left alone."""
    max_segment_count: Annotated[int, int32(1, 1_000_000)] = 1000
    """Most inputs of a new segment."""
    max_segment_bytes: ByteCount = 4 * 1024**3
    """A new segment takes no more inputs when they have so many stored bytes."""
    level_storage_class: Annotated[
        tuple[LevelStorageClass, ...],
        Field(
            max_length=100, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["level"]}
        ),
    ] = ()
    """Storage classes of new segments, by their level; the others have that of the StorageLocation."""
    delete: bool = True
    """Whether replaced segments are deleted after the grace period."""
    grace_period_seconds: Annotated[int, int32(0, 31_536_000)] = 86400
    """How long replaced segments are kept for those who read them."""
    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 21600
    """Maximum duration of a compaction in seconds."""


class ArchiveRetention(ApiModel):
    """How much of each topic is kept; deleted by compactions. Nothing is deleted while spec.hold is true."""

    RULES: ClassVar = (
        Rule(
            "has(self.maxAgeSeconds) || has(self.maxBytes)",
            "a retention without maxAgeSeconds and maxBytes deletes nothing: give at least one, or delete retention",
            lambda retention: retention.max_age_seconds is not None or retention.max_bytes is not None,
        ),
    )

    max_age_seconds: Annotated[int, Field(ge=60, le=2**53, json_schema_extra={"format": "int64"})] | None = None
    """Segments whose newest record is older are deleted."""
    max_bytes: ByteCount | None = None
    """Bytes of each topic; the oldest segments are deleted first."""


class ArchiveSpec(ApiModel):
    """Which topics are archived, where, and in which segments."""

    RULES: ClassVar = (
        chooses_topics("archived"),
        Rule(
            "!has(self.retention) || has(self.compaction)",
            "the retention is kept by compactions: give compaction with a schedule, too",
            lambda archive: archive.retention is None or archive.compaction is not None,
            "retention",
        ),
        stays_inside("folder"),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "self.storageRef == oldSelf.storageRef && (has(self.folder) ? self.folder : '') == (has(oldSelf.folder) ? "
            "oldSelf.folder : '') && self.region == oldSelf.region",
            "storageRef, folder and region say which archive it is and cannot be changed: create another "
            "Archive, which begins with what Kafka still has",
        ),
        TransitionRule(
            "(has(self.layout) ? self.layout : 'Gapless') == (has(oldSelf.layout) ? oldSelf.layout : 'Gapless')",
            "layout cannot be changed, because an archive has one layout for each topic: create another Archive with "
            "another folder or region",
        ),
    )

    kafka_ref: Reference
    """The KafkaConnection to read, in the same namespace."""
    storage_ref: Reference
    """The StorageLocation that keeps the archive, in the same namespace."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""
    region: Region
    """Where the topics come from; it is the first part of the names of the objects. Several clusters may share an
    archive, each with a region of its own."""
    layout: Literal["Gapless", "KafkaReplicator"] = "Gapless"
    """How names and objects look. KafkaReplicator continues behind what that program has archived and is read by it; it
    stores null as empty and no timestamp types, and holds one generation of a topic."""
    topics: TopicNames = ()
    """Topics to archive, by name; each must exist."""
    topic_prefixes: TopicPrefixes = ()
    """Also topics whose names begin with one of these; later ones are found within a minute."""
    topic_pattern: Pattern | None = None
    """Also topics whose complete names match this regular expression."""
    exclude: TopicMasks = ()
    """Topics that are left out; * stands for any characters."""
    segments: Segments = Segments()
    """How large segments become."""
    schedule: Schedule | None = None
    """When runs begin, each of which archives what there is and ends. If absent, topics are archived continuously."""
    suspend: bool = False
    """Whether archiving and compacting pause. What runs is stopped; nothing is lost as long as Kafka keeps the
    records."""
    engine: SparkOptions = SparkOptions()
    """Where the work runs, and what reads Kafka."""
    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 21600
    """Maximum duration of a scheduled run in seconds."""
    compaction: Compaction | None = None
    """Joins small segments of the topics to larger ones. If absent, only gapless compact does so."""
    retention: ArchiveRetention | None = None
    """How much of the topics is kept. If absent, everything. Other topics in the same region are left alone."""
    hold: bool | None = None
    """Legal hold: true, so that nothing of the topics is deleted by anyone; false to release them, also what gapless
    segments hold has held. If absent, both stay as they are."""


class Archive(Resource):
    """Keeps topics of Kafka in a store, so that events can be resent and topics restored after Kafka deleted them."""

    KIND: ClassVar = "Archive"
    PLURAL: ClassVar = "archives"
    SHORT_NAMES: ClassVar = ("arch",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether topics are archived."),
        Column("Segments", "integer", ".status.segments", "Segments."),
        Column("Lag", "integer", ".status.lagRecords", "Offsets that are not archived yet."),
        Column("Last Commit", "date", ".status.lastCommitTime", "When something was archived last."),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word.", wide=True),
        Column("Bytes", "integer", ".status.bytes", "Bytes of the objects.", wide=True),
        Column("Lag seconds", "number", ".status.lagSeconds", "Age of the oldest of these.", wide=True),
        Column("Lost", "integer", ".status.lostRecords", "Offsets that Kafka deleted too early.", wide=True),
        Column("Region", "string", ".spec.region", "Where the topics come from.", wide=True),
        Column("Read by", "string", ".status.readBy", "What read Kafka, spark or local.", wide=True),
        Column("Schedule", "string", ".spec.schedule.cron", "When runs are due.", wide=True),
        Column("Next compaction", "string", ".status.nextCompactionTime", "When it is due.", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether nothing is archived.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: ArchiveSpec
    """Which topics are archived, and where."""
    status: ArchiveStatus = ArchiveStatus()
    """Observed state of the archive."""
