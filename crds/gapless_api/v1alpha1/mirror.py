"""Owns the kind Mirror: which topics are copied from one Kafka cluster to another, how, and by what.

Must not know how a record is copied.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import Cpu, Memory, Reference, int32
from gapless_api.v1alpha1.mirror_status import MirrorStatus
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, EachOnce, Rule, TransitionRule
from gapless_api.v1alpha1.resource import Column, Resource
from gapless_api.v1alpha1.spark_options import SparkOptions
from gapless_api.v1alpha1.topic_choice import Pattern, TopicMasks, TopicNames, TopicPrefixes, chooses_topics

LONGEST_MIRROR_NAME = 63
MirrorName = Annotated[
    str, Field(min_length=1, max_length=LONGEST_MIRROR_NAME, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
]
"""The name of a mirror in the target cluster."""
PerSecond = Annotated[int, Field(ge=1, le=2**53, json_schema_extra={"format": "int64"})]
GroupName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f,]+$")]
Rename = Annotated[str, Field(min_length=7, max_length=249, pattern=r"^([-._a-zA-Z0-9]|[{]topic[}]|[{]source[}])+$")]


class MirrorLimits(ApiModel):
    """Upper limits of all workers together. A change is taken over within two minutes, without a restart."""

    max_bytes_per_second: PerSecond | None = None
    """Bytes of keys and values per second. If absent, there is no limit."""
    max_records_per_second: PerSecond | None = None
    """Records per second. If absent, there is no limit."""


class MirroredGroups(ApiModel):
    """Consumer groups whose positions are translated to offsets of the target and written there."""

    RULES: ClassVar = (
        Rule(
            "(has(self.names) && size(self.names) > 0) || (has(self.prefixes) && size(self.prefixes) > 0) || "
            "has(self.pattern)",
            "say which groups are translated: names, prefixes or pattern",
            lambda groups: bool(groups.names or groups.prefixes or groups.pattern),
            "names",
        ),
    )

    names: Annotated[tuple[GroupName, ...], Field(max_length=256, json_schema_extra=LIST_SET), EachOnce] = ()
    """Groups, by name."""
    prefixes: Annotated[tuple[GroupName, ...], Field(max_length=64, json_schema_extra=LIST_SET), EachOnce] = ()
    """Also groups whose names begin with one of these."""
    pattern: Pattern | None = None
    """Also groups whose complete names match this regular expression."""
    interval_seconds: Annotated[int, int32(1, 86400)] = 60
    """Seconds between two translations."""


class MirrorWorkers(ApiModel):
    """The pods of engine Workers, which share the partitions and take over from one another within 10 seconds."""

    count: Annotated[int, int32(1, 64)] = 1
    """Number of pods. More than spec.lanes have nothing to do."""
    cpu: Cpu = "500m"
    """CPU request of each. There is no CPU limit."""
    memory: Memory = "512Mi"
    """Memory request and limit of each."""
    start_deadline_seconds: Annotated[int, int32(30, 86400)] = 600
    """Seconds until the first pod must run. After that the attempt fails, for example because its image cannot be
    pulled."""


class MirrorSpark(SparkOptions):
    """Where Spark runs with engine Spark."""

    RULES: ClassVar = (
        Rule(
            "self.reader == 'Spark'",
            "reader Local reads without Spark: delete reader, or set spec.engine to Workers",
            lambda spark: spark.reader == "Spark",
            "reader",
        ),
    )


class MirrorSpec(ApiModel):
    """Which topics are copied, from where to where, and by what."""

    RULES: ClassVar = (
        chooses_topics("copied"),
        Rule(
            "self.sourceRef.name != self.targetRef.name || self.rename != '{topic}'",
            "sourceRef and targetRef name the same KafkaConnection and rename changes nothing, so records would be "
            "copied in circles: correct one of them",
            lambda mirror: mirror.source_ref.name != mirror.target_ref.name or mirror.rename != "{topic}",
            "targetRef",
        ),
        Rule(
            "!has(self.transform) || self.engine != 'Workers'",
            "transform is SQL, which needs Spark: set engine to Spark or Auto, or delete transform",
            lambda mirror: mirror.transform is None or mirror.engine != "Workers",
            "transform",
        ),
        Rule(
            "!has(self.transform) || (!self.transform.contains('--') && !self.transform.contains('/*'))",
            "transform is written in one line, where a comment would hide what follows: delete -- and /*",
            lambda mirror: mirror.transform is None or not ("--" in mirror.transform or "/*" in mirror.transform),
            "transform",
        ),
        Rule(
            "!has(self.transformTopics) || size(self.transformTopics) == 0 || has(self.transform)",
            "transformTopics are topics to which a transform sends records: give transform, or delete transformTopics",
            lambda mirror: not mirror.transform_topics or mirror.transform is not None,
            "transformTopics",
        ),
        Rule(
            "self.rename.split('{topic}').size() == 2",
            "rename must contain {topic} once, or topics would become one: write for example {source}.{topic}",
            lambda mirror: mirror.rename.count("{topic}") == 1,
            "rename",
        ),
        Rule(
            "!self.rename.contains('{source}') || has(self.sourceName)",
            "rename contains {source}: give sourceName, too",
            lambda mirror: "{source}" not in mirror.rename or mirror.source_name is not None,
            "sourceName",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '') && self.lanes == "
            "oldSelf.lanes",
            "name and lanes say where the positions of the mirror are kept and cannot be changed: create another "
            "Mirror, which begins with the oldest records",
        ),
    )

    source_ref: Reference
    """The KafkaConnection to read, in the same namespace. Its access must contain Read."""
    target_ref: Reference
    """The KafkaConnection to write to, in the same namespace. Its access must contain Write."""
    name: MirrorName | None = None
    """Name of the mirror in the target cluster, which keeps the positions in the topic _gapless_mirror_NAME. It must
    be unique there. Defaults to NAMESPACE.NAME of the Mirror."""
    topics: TopicNames = ()
    """Topics to copy, by name; each must exist."""
    topic_prefixes: TopicPrefixes = ()
    """Also topics whose names begin with one of these; later ones are found within a minute."""
    topic_pattern: Pattern | None = None
    """Also topics whose complete names match this regular expression."""
    exclude: TopicMasks = ()
    """Topics that are left out; * stands for any characters."""
    start_at_group: GroupName | None = None
    """Consumer group of the source at whose positions copying begins, such as that of the mirror before this one, which
    must have ended. Only partitions that the mirror has not copied yet begin there."""
    source_name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[-._a-zA-Z0-9]+$")] | None = None
    """Name of the source cluster, which rename may use."""
    rename: Rename = "{topic}"
    """Name of a topic in the target: {topic} stands for its name in the source, {source} for sourceName."""
    create_topics: bool = True
    """Whether missing topics are created in the target, with the partitions and the configuration of the source."""
    engine: Literal["Auto", "Workers", "Spark"] = "Auto"
    """What copies: Workers are plain pods that take over from one another within 10 seconds; Spark scales with
    executors and is needed for transform. Auto takes Spark if there is a transform, and Workers if not. Another engine
    continues where the one before stopped."""
    workers: MirrorWorkers = MirrorWorkers()
    """The pods of engine Workers."""
    spark: MirrorSpark = MirrorSpark()
    """Where Spark runs with engine Spark."""
    lanes: Annotated[int, int32(1, 256)] = 8
    """Number of lanes that the partitions are divided into; each is copied by one worker or task at a time."""
    transform: Annotated[str, Field(min_length=1, max_length=16384)] | None = None
    """SQL that filters, masks or routes records, over the columns key, value, headers, topic, partition, offset and
    timestamp of the table records. Needs Spark. Line breaks become spaces."""
    transform_topics: TopicNames = ()
    """Topics on the target to which the transform may send records; they exist, and targetRef allows them."""
    delivery: Literal["ExactlyOnce", "AtLeastOnce"] = "ExactlyOnce"
    """ExactlyOnce writes records and positions in one transaction; AtLeastOnce may write some records twice after a
    failure."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None
    """Compression in the target. Defaults to that of gapless mirror."""
    limits: MirrorLimits = MirrorLimits()
    """Upper limits of all workers together."""
    groups: MirroredGroups | None = None
    """Consumer groups whose positions are translated. If absent, none."""
    on_data_loss: Literal["Fail", "SkipAndRecord"] = "Fail"
    """What happens when the source has deleted records before they were copied, or a topic was recreated: Fail stops
    the partition and reports the range; SkipAndRecord records the lost range and continues behind it."""
    provenance: Literal["Auto", "Always", "Never"] = "Auto"
    """Whether records get a header that names their origin, by which loops are noticed. Auto adds it where a loop is
    possible."""
    heartbeat: bool = True
    """Whether a heartbeat is sent through the mirror, by which an idle mirror differs from a stalled one. It is
    written to the source, so it needs Write in the access of sourceRef."""
    suspend: bool = False
    """Whether copying pauses. Positions are kept; nothing is lost as long as the source keeps the records."""

    @property
    def on_spark(self) -> bool:
        """Whether Spark copies."""
        return self.engine == "Spark" or (self.engine == "Auto" and self.transform is not None)


class Mirror(Resource):
    """Copies topics from one Kafka cluster to another, live, with the positions of consumer groups."""

    KIND: ClassVar = "Mirror"
    PLURAL: ClassVar = "mirrors"
    SHORT_NAMES: ClassVar = ("mir",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether topics are copied."),
        Column("Lag", "integer", ".status.lagRecords", "Records that are not copied yet."),
        Column("Lag seconds", "number", ".status.lagSeconds", "Age of the oldest of these."),
        Column("Last Commit", "date", ".status.lastCommitTime", "When records were copied last."),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word."),
        Column("Engine", "string", ".status.engine", "What copies, Workers or Spark.", wide=True),
        Column("Workers", "integer", ".status.workers", "Pods that copy.", wide=True),
        Column("Source", "string", ".spec.sourceRef.name", "The KafkaConnection to read.", wide=True),
        Column("Target", "string", ".spec.targetRef.name", "The KafkaConnection to write to.", wide=True),
        Column("Heartbeat", "number", ".status.heartbeatAgeSeconds", "Age of the last heartbeat.", wide=True),
        Column("Lost", "integer", ".status.lostRecords", "Records that the source deleted too early.", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether nothing is copied.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: MirrorSpec
    """Which topics are copied, and to where."""
    status: MirrorStatus = MirrorStatus()
    """Observed state of the mirror."""
