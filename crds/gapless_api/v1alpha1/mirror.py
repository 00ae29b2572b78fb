"""The kind Mirror: which topics are copied from one Kafka cluster to another, and how.

Must not know how a record is copied.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import Cpu, KafkaTopic, Memory, MirrorName, Reference, TemplateName, int32
from gapless_api.v1alpha1.mirror_status import MirrorStatus
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, Rule, TransitionRule, UniqueItems
from gapless_api.v1alpha1.resource import MESSAGE_COLUMN, OBSERVED_COLUMN, REASON_COLUMN, Column, Resource
from gapless_api.v1alpha1.spark_options import SparkOptions
from gapless_api.v1alpha1.topic_selection import Pattern, TopicMasks, TopicNames, TopicPrefixes, topic_selection_rule

PerSecond = Annotated[int, Field(ge=1, le=2**53, json_schema_extra={"format": "int64"})]
GroupName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f,]+$")]
Rename = Annotated[str, Field(min_length=7, max_length=249, pattern=r"^([-._a-zA-Z0-9]|[{]topic[}]|[{]source[}])+$")]


class MirrorLimits(ApiModel):
    """Limits of all workers together. Running workers apply a change within two minutes, without a restart."""

    max_bytes_per_second: PerSecond | None = None
    """Maximum bytes of keys and values per second. If absent, there is no limit."""
    max_records_per_second: PerSecond | None = None
    """Maximum records per second. If absent, there is no limit."""


class MirroredGroups(ApiModel):
    """Consumer groups whose offsets are translated to offsets of the target and committed there."""

    RULES: ClassVar = (
        Rule(
            "(has(self.names) && size(self.names) > 0) || (has(self.prefixes) && size(self.prefixes) > 0) || "
            "has(self.pattern)",
            "give the groups to translate: names, prefixes or pattern",
            lambda groups: bool(groups.names or groups.prefixes or groups.pattern),
            "names",
        ),
    )

    names: Annotated[tuple[GroupName, ...], Field(max_length=256, json_schema_extra=LIST_SET), UniqueItems] = ()
    """Names of groups."""
    prefixes: Annotated[tuple[GroupName, ...], Field(max_length=64, json_schema_extra=LIST_SET), UniqueItems] = ()
    """Name prefixes of groups."""
    pattern: Pattern | None = None
    """Regular expression for groups. It must match the full name."""
    interval_seconds: Annotated[int, int32(1, 86400)] = 60
    """Interval between translations in seconds."""


class MirrorWorkers(ApiModel):
    """Pods of engine Workers. They share the lanes; if a pod fails, others take over its lanes within 10 seconds."""

    count: Annotated[int, int32(1, 64)] = 1
    """Number of pods. More pods than spec.lanes have no effect."""
    cpu: Cpu = "500m"
    """CPU request of each pod. There is no CPU limit."""
    memory: Memory = "512Mi"
    """Memory request and limit of each pod."""
    start_deadline_seconds: Annotated[int, int32(30, 86400)] = 600
    """Maximum time in seconds until the first pod runs. After that the attempt fails, for example if its image cannot
    be pulled."""


class MirrorSpark(SparkOptions):
    """Settings of engine Spark."""

    RULES: ClassVar = (
        Rule(
            "self.reader == 'Spark'",
            "reader Local does not use Spark: delete reader, or set spec.engine to Workers",
            lambda spark: spark.reader == "Spark",
            "reader",
        ),
    )


class MirrorSpec(ApiModel):
    """Topics to copy, source and target, and settings for copying."""

    RULES: ClassVar = (
        topic_selection_rule("copy"),
        Rule(
            "self.sourceRef.name != self.targetRef.name || self.rename != '{topic}'",
            "sourceRef and targetRef name the same KafkaConnection and rename does not change topic names, so records "
            "would be copied in a loop: correct one of them",
            lambda mirror: mirror.source_ref.name != mirror.target_ref.name or mirror.rename != "{topic}",
            "targetRef",
        ),
        Rule(
            "(self.onBadRecord == 'Park') == has(self.parkingTopic)",
            "onBadRecord: Park and parkingTopic require each other: give both, or neither",
            lambda mirror: (mirror.on_bad_record == "Park") == (mirror.parking_topic is not None),
            "parkingTopic",
        ),
        Rule(
            "!has(self.transform) || (!self.transform.contains('--') && !self.transform.contains('/*'))",
            "transform becomes one line, where a comment would hide the rest: delete -- and /*",
            lambda mirror: mirror.transform is None or not ("--" in mirror.transform or "/*" in mirror.transform),
            "transform",
        ),
        Rule(
            "!has(self.transformTopics) || size(self.transformTopics) == 0 || has(self.transform)",
            "transformTopics requires transform: give transform, or delete transformTopics",
            lambda mirror: not mirror.transform_topics or mirror.transform is not None,
            "transformTopics",
        ),
        Rule(
            "self.rename.split('{topic}').size() == 2",
            "rename must contain {topic} exactly once, to keep topics separate: write for example {source}.{topic}",
            lambda mirror: mirror.rename.count("{topic}") == 1,
            "rename",
        ),
        Rule(
            "!self.rename.contains('{source}') || has(self.sourceName)",
            "rename contains {source}, which requires sourceName: give sourceName",
            lambda mirror: "{source}" not in mirror.rename or mirror.source_name is not None,
            "sourceName",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '') && self.lanes == "
            "oldSelf.lanes",
            "name and lanes determine where the mirror stores its positions and cannot be changed: create another "
            "Mirror, which begins with the oldest records",
        ),
    )

    source_ref: Reference
    """The KafkaConnection to read from, in the same namespace. Its access must contain Read."""
    target_ref: Reference
    """The KafkaConnection to write to, in the same namespace. Its access must contain Write."""
    name: MirrorName | None = None
    """Name of the mirror in the target cluster, where the topic _gapless_mirror_NAME stores its positions. It must be
    unique there, and begin with the namespace of the Mirror and a dot, unless allowedMirrorNames of the target's
    KafkaConnection has it. Defaults to NAMESPACE.NAME of the Mirror."""
    topics: TopicNames = ()
    """Names of topics to copy. Each topic must exist."""
    topic_prefixes: TopicPrefixes = ()
    """Name prefixes of topics to copy. New topics are found within a minute."""
    topic_pattern: Pattern | None = None
    """Regular expression for topics to copy. It must match the full name."""
    exclude: TopicMasks = ()
    """Topics to exclude. * matches any characters."""
    start_at_group: GroupName | None = None
    """Consumer group in the source at whose offsets copying starts, such as the group of a previous mirror, which must
    be stopped. It applies only to partitions that this Mirror has not copied yet."""
    start_at_target: bool = False
    """For partitions without a position whose target has records, as after the control topic was deleted, or with a
    position that is older than the copies: whether to find the position by comparing the last records of the target
    with the source. Set it for one run, and remove it after that."""
    copy_again: bool = False
    """For partitions without a position whose target has records: whether to copy from the start of the source log; for
    those whose position is older than the copies, from there. Records that were copied before are then in the target
    twice. Set it for one run, and remove it after that."""
    source_name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[-._a-zA-Z0-9]+$")] | None = None
    """Name of the source cluster, for use in rename."""
    target_name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[-._a-zA-Z0-9]+$")] | None = None
    """Name of the target cluster in the names of topics that were copied from it, by the same rename rule. Such topics
    are not copied back. Mirrors of Gapless in the opposite direction are found without it. It has no effect unless
    rename contains {source}."""
    rename: Rename = "{topic}"
    """Name of topics in the target. {topic} is replaced with the name in the source, {source} with sourceName."""
    create_topics: bool = True
    """Whether to create missing topics in the target, with the number of partitions and the configuration of the
    source."""
    engine: Literal["Auto", "Workers", "Spark"] = "Auto"
    """Engine that copies. Workers uses plain pods, with a failover within 10 seconds. Spark scales with executors.
    Auto is Workers, and so is Spark if transform is set: Spark then evaluates the SQL in a container of each worker
    pod. After a change, the new engine continues where the previous one stopped."""
    workers: MirrorWorkers = MirrorWorkers()
    """Settings of engine Workers."""
    spark: MirrorSpark = MirrorSpark()
    """Settings of engine Spark. With transform, image and driver are those of the container that evaluates the SQL."""
    pod_template: TemplateName | None = None
    """Name of what is added to the pods, such as labels and tolerations. It must be listed in the chart's podTemplates.
    Defaults to the chart's podTemplate."""
    lanes: Annotated[int, int32(1, 256)] = 8
    """Number of lanes into which the partitions are divided. Each lane is copied by one worker or task at a time."""
    transform: Annotated[str, Field(min_length=1, max_length=16384)] | None = None
    """SQL query that filters, masks or routes records. It reads the columns key, value, headers, topic, partition,
    offset and timestamp of the table records, and may call the functions that the documentation lists
    (transform-functions). Line breaks become spaces."""
    transform_topics: TopicNames = ()
    """Topics in the target to which the transform may route records. They must exist, and targetRef must allow them."""
    delivery: Literal["ExactlyOnce", "AtLeastOnce"] = "ExactlyOnce"
    """ExactlyOnce writes records and positions in one transaction. AtLeastOnce may write some records twice after a
    failure."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None
    """Compression of records in the target. Defaults to that of gapless mirror."""
    limits: MirrorLimits = MirrorLimits()
    """Limits of all workers together."""
    groups: MirroredGroups | None = None
    """Consumer groups whose offsets are translated. If absent, none are translated."""
    on_data_loss: Literal["Fail", "SkipAndRecord"] = "Fail"
    """What happens if the source has deleted records before they were copied, or a topic was recreated. Fail stops the
    partition and reports the range. SkipAndRecord records the lost range and continues after it."""
    on_bad_record: Literal["Fail", "SkipAndRecord", "Park"] = "Fail"
    """What happens if the target refuses a record: it is too large, or has a timestamp or no key where the topic does
    not allow that. Fail lets its partition wait and try again. SkipAndRecord records its offset and continues after
    it. Park does the same, and writes the record to parkingTopic."""
    parking_topic: KafkaTopic | None = None
    """Topic in the target for records that are parked, unchanged but for one header with their origin, and for what
    transform has changed. It is created with one partition and without retention; an existing one must have the same
    retention. targetRef must allow it."""
    on_target_loss: Literal["Fail", "CopyAgain"] = "Fail"
    """What happens if a target topic was deleted or recreated, or its log ends before the last copy. Fail stops the
    partition. CopyAgain records the loss, and copies again from the start of the source log; copies that the target
    still has are then in it twice. Set it for one run, and remove it after that."""
    provenance: Literal["Auto", "Always", "Never"] = "Auto"
    """Whether to add a header with the origin to records, to detect loops. Auto adds it only if a loop is possible."""
    heartbeat: bool = True
    """Whether to send heartbeats through the mirror, which distinguish an idle mirror from a stalled one. Heartbeats
    are written to the source, so the access of sourceRef must contain Write."""
    suspend: bool = False
    """Whether to pause copying. Positions are kept. Nothing is lost as long as the source keeps the records."""

    @property
    def on_spark(self) -> bool:
        """Whether Spark copies; with a transform workers copy, and Spark evaluates the SQL beside them."""
        return self.engine == "Spark" and self.transform is None


class Mirror(Resource):
    """Copies topics continuously from one Kafka cluster to another, including consumer group offsets."""

    KIND: ClassVar = "Mirror"
    PLURAL: ClassVar = "mirrors"
    SHORT_NAMES: ClassVar = ("mir",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether topics are copied."),
        Column("Lag", "integer", ".status.lagRecords", "Number of records that are not copied yet."),
        Column("Lag seconds", "number", ".status.lagSeconds", "Age of the oldest record that is not copied yet."),
        Column("Last Commit", "date", ".status.lastCommitTime", "Time of the last commit."),
        REASON_COLUMN,
        Column("Engine", "string", ".status.engine", "Workers or Spark.", wide=True),
        Column("Workers", "integer", ".status.workers", "Number of pods that copy.", wide=True),
        Column("Source", "string", ".spec.sourceRef.name", "The KafkaConnection to read from.", wide=True),
        Column("Target", "string", ".spec.targetRef.name", "The KafkaConnection to write to.", wide=True),
        Column("Heartbeat", "number", ".status.heartbeatAgeSeconds", "Age of the last heartbeat.", wide=True),
        Column(
            "Lost",
            "integer",
            ".status.lostRecords",
            "Records deleted before they were copied.",
            wide=True,
        ),
        Column("Suspended", "boolean", ".spec.suspend", "Whether copying is paused.", wide=True),
        OBSERVED_COLUMN,
        MESSAGE_COLUMN,
    )

    spec: MirrorSpec
    """Topics to copy, source and target, and settings for copying."""
    status: MirrorStatus = MirrorStatus()
    """Observed state of the mirror."""
