"""The kind Restore: which part of an archive is written to which Kafka cluster, and the observed state.

Must not know how records are written.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.archive import ARCHIVE_REFERENCE_RULES, Region
from gapless_api.v1alpha1.common import (
    FolderPath,
    KafkaTopic,
    Name,
    Offset,
    Partition,
    Reference,
    SecretEntry,
    TemplateName,
    int32,
)
from gapless_api.v1alpha1.model import ApiModel, Rule, Time, TransitionRule, immutable_field_rules
from gapless_api.v1alpha1.resource import MESSAGE_COLUMN, OBSERVED_COLUMN, REASON_COLUMN, Column, Resource
from gapless_api.v1alpha1.restore_status import RestoreStatus
from gapless_api.v1alpha1.spark_options import SparkOptions

Generation = Annotated[str, Field(min_length=16, max_length=22, pattern=r"^([A-Za-z0-9_-]{22}|kafka-replicator)$")]
Remapping = Annotated[str, Field(min_length=3, max_length=512, pattern=r"^(modulo|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)$")]
_MUTABLE_FIELDS = frozenset({"mode", "suspend", "retry", "backoff_limit", "engine", "pod_template"})


class RestoreOffsets(ApiModel):
    """A range of offsets of the archived topic."""

    RULES: ClassVar = (
        Rule(
            "!has(self.from) || !has(self.to) || self.from <= self.to",
            "from is greater than to: write the lower offset as from; both are inclusive",
            lambda offsets: offsets.from_ is None or offsets.to is None or offsets.from_ <= offsets.to,
            "from",
        ),
    )

    from_: Annotated[Offset | None, Field(alias="from")] = None
    """First offset, inclusive. Defaults to the first archived offset."""
    to: Offset | None = None
    """Last offset, inclusive. Defaults to the last archived offset."""


class GroupOffsetsEntry(ApiModel):
    """An entry of a ConfigMap in the same namespace."""

    name: Name
    """Name of the ConfigMap."""
    key: SecretEntry = "offsets.csv"
    """Entry of the ConfigMap."""


class RestoreTopic(ApiModel):
    """A topic to restore."""

    name: KafkaTopic
    """Name of the topic in the archive."""
    to_topic: KafkaTopic | None = None
    """Name of the topic in the target. Defaults to the same name."""


class GroupOffsets(ApiModel):
    """Consumer group offsets, which are translated to offsets of the target and committed there."""

    config_map: GroupOffsetsEntry
    """The ConfigMap with the output of kafka-consumer-groups.sh --export."""
    group_name: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f,]+$")] | None = None
    """Consumer group of the offsets, if the file does not name one."""


class RestoreSpec(ApiModel):
    """Part of an archive to restore, and settings for writing it.

    Only mode (Plan to Once or Follow, Follow to Once), suspend, retry, backoffLimit, engine and podTemplate may change.
    """

    RULES: ClassVar = (
        *ARCHIVE_REFERENCE_RULES,
        Rule(
            "!has(self.since) || !has(self.until) || self.since < self.until",
            "since is not before until: write the earlier time as since",
            lambda restore: restore.since is None or restore.until is None or restore.since < restore.until,
            "since",
        ),
        Rule(
            "!has(self.generation) || size(self.topics) == 1",
            "generation is the topic ID of one topic: restore each of the other topics with a separate Restore",
            lambda restore: restore.generation is None or len(restore.topics) == 1,
            "generation",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "self.mode == oldSelf.mode || oldSelf.mode == 'Plan' || (oldSelf.mode == 'Follow' && self.mode == 'Once')",
            "mode can be changed only from Plan to Once or Follow, and from Follow to Once: set suspend to stop "
            "restoring",
            "mode",
        ),
    )

    archive_ref: Reference | None = None
    """The Archive to restore from, in the same namespace."""
    storage_ref: Reference | None = None
    """The StorageLocation of an archive that has no Archive in this namespace. Requires region."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""
    region: Region | None = None
    """Region in the archive."""
    kafka_ref: Reference
    """The KafkaConnection to write to, in the same namespace. Its access must contain Write."""
    topics: Annotated[tuple[RestoreTopic, ...], Field(min_length=1, max_length=100)]
    """Topics to restore."""
    mode: Literal["Plan", "Once", "Follow"] = "Plan"
    """Plan computes status.plan without writing anything. Change it to Once to restore the archived records, or to
    Follow to also restore records that are archived later."""
    suspend: bool = False
    """Whether to pause restoring. Progress is kept; setting it to false resumes."""
    generation: Generation | None = None
    """Topic ID of the generation to restore, if the topic was deleted and recreated while it was archived. Defaults to
    the newest generation; required if the commits of the archive do not prove which one it is. The word
    kafka-replicator selects its segments where they are beside commits in another layout."""
    partitions: Annotated[tuple[Partition, ...], Field(max_length=1000)] = ()
    """Partitions of each topic to restore. Defaults to all."""
    offsets: RestoreOffsets | None = None
    """Offsets of each partition to restore. Defaults to all."""
    since: Time | None = None
    """Earliest timestamp to restore, inclusive, such as 2026-11-20T10:00:00Z. Records without a timestamp are
    omitted."""
    until: Time | None = None
    """Latest timestamp to restore, exclusive."""
    remap_partitions: Remapping | None = None
    """Mapping of partitions for a target with fewer partitions: modulo, or comma-separated pairs SOURCE:TARGET. If
    absent, such a target is refused."""
    create_topics: bool = True
    """Whether to create missing topics, with the archived configuration and number of partitions. If false, the Restore
    is refused."""
    replication_factor: Annotated[int, int32(1, 1000)] | None = None
    """Replication factor of created topics. Defaults to that of the brokers."""
    adjust_retention: Literal["No", "WhileRestoring", "Keep"] = "No"
    """Whether to change settings of the target topics that delete or reject old records. No refuses such a target.
    WhileRestoring resets them when the restore is complete. Keep does not reset them."""
    timestamps: Literal["Keep", "Replace"] = "Keep"
    """Whether a target that replaces timestamps with the append time (LogAppendTime) is refused (Keep) or accepted
    (Replace)."""
    delivery: Literal["ExactlyOnce", "AtLeastOnce"] = "ExactlyOnce"
    """ExactlyOnce writes records and the position in one transaction. AtLeastOnce may write some records twice after a
    failure."""
    on_lost: Literal["Fail", "Skip"] = "Fail"
    """What happens if expected offsets are not in the archive, or a segment is damaged."""
    on_bad_record: Literal["Fail", "SkipAndRecord"] = "Fail"
    """What happens if the target refuses a record: it is too large, or has a timestamp or no key where the topic does
    not allow that. Fail stops its partition before it, and restores everything else. SkipAndRecord records its offset
    and continues after it. In both cases the Restore is Incomplete."""
    lost_segment_timeout_seconds: Annotated[int, int32(1, 31_536_000)] = 86400
    """Total time in seconds to wait for late segments. Applies to mode Follow."""
    late_segment_retries: Annotated[int, int32(1, 50)] = 16
    """Number of checks for late segments within lostSegmentTimeoutSeconds, with exponential backoff."""
    group_offsets: GroupOffsets | None = None
    """Consumer group offsets to translate. If absent, none are translated."""
    engine: SparkOptions = SparkOptions()
    """How and where the work runs."""
    pod_template: TemplateName | None = None
    """Name of what is added to the pods, such as labels and tolerations. It must be listed in the chart's podTemplates.
    Defaults to the chart's podTemplate."""
    backoff_limit: Annotated[int, int32(0, 100)] = 6
    """Number of retries after a failed attempt, with increasing delays. Progress is kept between attempts."""
    retry: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """A new value starts a new round of attempts after a failure, or ends the delay before the next attempt."""


# After the class, because the rules cover its fields.
RestoreSpec.TRANSITIONS += immutable_field_rules(
    RestoreSpec,
    _MUTABLE_FIELDS,
    "{} cannot be changed: create a new Restore under another name; only mode, suspend, retry, backoffLimit, engine "
    "and podTemplate may change",
)


class Restore(Resource):
    """Writes topics of an archive back to Kafka, after a person has approved the plan."""

    KIND: ClassVar = "Restore"
    PLURAL: ClassVar = "restores"
    SHORT_NAMES: ClassVar = ("rstr",)
    COLUMNS: ClassVar = (
        Column("Phase", "string", ".status.phase", "Short summary of the state."),
        Column("Percent", "integer", ".status.progress.percent", "Progress in percent."),
        Column("Restored", "integer", ".status.progress.restored", "Number of records written."),
        Column("Remaining", "integer", ".status.progress.remaining", "Number of records to be written."),
        Column("Lost", "integer", ".status.progress.lost", "Offsets that could not be restored."),
        Column("Mode", "string", ".spec.mode", "Plan, Once or Follow."),
        Column("Planned", "integer", ".status.plan.records", "Number of planned records.", wide=True),
        Column("Rate", "number", ".status.progress.recordsPerSecond", "Records per second.", wide=True),
        Column("ETA", "number", ".status.progress.etaSeconds", "Estimated remaining seconds.", wide=True),
        Column("Attempt", "integer", ".status.attempt", "Number of the current attempt.", wide=True),
        REASON_COLUMN._replace(wide=True),
        OBSERVED_COLUMN,
        MESSAGE_COLUMN,
    )

    spec: RestoreSpec
    """Part of an archive to restore, and settings for writing it."""
    status: RestoreStatus = RestoreStatus()
    """Observed state of the Restore."""
