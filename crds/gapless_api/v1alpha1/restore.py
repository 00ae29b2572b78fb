"""Owns the kind Restore: which part of an archive goes to which Kafka, and what became of it.

Must not know how records are written.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.archive import ARCHIVE_BY_REFERENCE, Region
from gapless_api.v1alpha1.common import (
    FolderPath,
    KafkaTopic,
    Name,
    Offset,
    Partition,
    Reference,
    SecretEntry,
    int32,
)
from gapless_api.v1alpha1.model import ApiModel, Rule, Time, TransitionRule
from gapless_api.v1alpha1.resource import Column, Resource
from gapless_api.v1alpha1.restore_status import RestoreStatus
from gapless_api.v1alpha1.spark_options import SparkOptions

TopicId = Annotated[str, Field(min_length=22, max_length=22, pattern=r"^[A-Za-z0-9_-]{22}$")]
Remapping = Annotated[str, Field(min_length=3, max_length=512, pattern=r"^(modulo|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)$")]
_CHANGEABLE = frozenset({"mode", "suspend", "retry", "backoff_limit", "engine"})


class RestoreOffsets(ApiModel):
    """A range of offsets, as the archived topic counted them."""

    RULES: ClassVar = (
        Rule(
            "!has(self.from) || !has(self.to) || self.from <= self.to",
            "from is after to: write the lower offset as from; both are inclusive",
            lambda offsets: offsets.from_ is None or offsets.to is None or offsets.from_ <= offsets.to,
            "from",
        ),
    )

    from_: Annotated[Offset | None, Field(alias="from")] = None
    """First offset, inclusive. Defaults to the first one that is archived."""
    to: Offset | None = None
    """Last offset, inclusive. Defaults to the last one that is archived."""


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
    """Positions of consumer groups, which are translated to the offsets of the target and committed there."""

    config_map: GroupOffsetsEntry
    """The ConfigMap with the file that kafka-consumer-groups.sh --export writes."""
    group_name: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f,]+$")] | None = None
    """Consumer group of that file, if the file does not name one."""


class RestoreSpec(ApiModel):
    """Which part of an archive goes to which Kafka.

    Only mode (Plan to Once or Follow, Follow to Once), suspend, retry, backoffLimit and engine may change.
    """

    RULES: ClassVar = (
        *ARCHIVE_BY_REFERENCE,
        Rule(
            "!has(self.since) || !has(self.until) || self.since < self.until",
            "since is not before until: write the older time as since",
            lambda restore: restore.since is None or restore.until is None or restore.since < restore.until,
            "since",
        ),
        Rule(
            "!has(self.generation) || size(self.topics) == 1",
            "generation is the topic ID of one topic: restore the others by a Restore of their own",
            lambda restore: restore.generation is None or len(restore.topics) == 1,
            "generation",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "self.mode == oldSelf.mode || oldSelf.mode == 'Plan' || (oldSelf.mode == 'Follow' && self.mode == 'Once')",
            "mode can be changed from Plan to Once or Follow, and from Follow to Once: what is being restored cannot "
            "become a plan again; set suspend to stop it",
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
    """The region in that archive."""
    kafka_ref: Reference
    """The KafkaConnection to write to, in the same namespace. Its access must contain Write."""
    topics: Annotated[tuple[RestoreTopic, ...], Field(min_length=1, max_length=100)]
    """What to restore."""
    mode: Literal["Plan", "Once", "Follow"] = "Plan"
    """Plan computes status.plan and writes nothing. Change it to Once to restore what is archived, or to Follow to
    restore also what is archived later."""
    suspend: bool = False
    """Whether to pause. Progress is kept; setting it to false resumes."""
    generation: TopicId | None = None
    """Topic ID, where the topic was deleted and recreated while it was archived. Defaults to the latest one."""
    partitions: Annotated[tuple[Partition, ...], Field(max_length=1000)] = ()
    """Partitions to restore of each topic. Defaults to all."""
    offsets: RestoreOffsets | None = None
    """Offsets to restore of each partition. Defaults to all."""
    since: Time | None = None
    """Oldest timestamp to restore, inclusive, such as 2026-11-20T10:00:00Z. Records without timestamp are left out."""
    until: Time | None = None
    """Restores records with earlier timestamps only."""
    remap_partitions: Remapping | None = None
    """Rule for a target with fewer partitions, which is refused without it: modulo, or pairs SOURCE:TARGET."""
    create_topics: bool = True
    """Whether missing topics are created, with the archived configuration and partition count, or refused."""
    replication_factor: Annotated[int, int32(1, 1000)] | None = None
    """Replicas of topics that are created. Defaults to the brokers'."""
    adjust_retention: Literal["No", "WhileRestoring", "Keep"] = "No"
    """Whether to change settings of the target that delete or refuse old records. WhileRestoring puts them back when
    the restore is done. With No such a target is refused."""
    timestamps: Literal["Keep", "Replace"] = "Keep"
    """Whether a target that replaces timestamps by its own time (LogAppendTime) is refused (Keep) or accepted."""
    delivery: Literal["ExactlyOnce", "AtLeastOnce"] = "ExactlyOnce"
    """ExactlyOnce writes in transactions, together with the position. AtLeastOnce may repeat records after a
    failure."""
    on_lost: Literal["Fail", "Skip"] = "Fail"
    """What happens when offsets are not in the archive although they should be, or a segment is damaged."""
    lost_segment_timeout_seconds: Annotated[int, int32(1, 31_536_000)] = 86400
    """With mode Follow: how long to wait in all for segments that are late."""
    late_segment_retries: Annotated[int, int32(1, 50)] = 16
    """How many times to look for them in this time; the pauses double."""
    group_offsets: GroupOffsets | None = None
    """Positions of consumer groups to translate. If absent, none are."""
    engine: SparkOptions = SparkOptions()
    """Where the work runs."""
    backoff_limit: Annotated[int, int32(0, 100)] = 6
    """Number of retries of a failed attempt, with growing delays. Progress is kept between attempts."""
    retry: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """A new value starts another round of attempts after a failure, or at once instead of waiting."""


_NOT_CHANGEABLE = (
    "{} cannot be changed: create a new Restore under another name; only mode, suspend, retry, backoffLimit and engine "
    "may change"
)


def _unchangeable(name: str, *, always_there: bool) -> TransitionRule:
    same = f"self.{name} == oldSelf.{name}"
    return TransitionRule(
        same if always_there else f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})",
        _NOT_CHANGEABLE.format(name),
        name,
    )


# After the class, because the fields are what the rules are about.
RestoreSpec.TRANSITIONS += tuple(
    _unchangeable(str(field.alias), always_there=field.is_required() or field.get_default() not in (None, ()))
    for name, field in RestoreSpec.model_fields.items()
    if name not in _CHANGEABLE
)


class Restore(Resource):
    """Writes topics of an archive back to Kafka, after a plan that a person has approved."""

    KIND: ClassVar = "Restore"
    PLURAL: ClassVar = "restores"
    SHORT_NAMES: ClassVar = ("rstr",)
    COLUMNS: ClassVar = (
        Column("Phase", "string", ".status.phase", "One word for people."),
        Column("Percent", "integer", ".status.progress.percent", "How much is done."),
        Column("Restored", "integer", ".status.progress.restored", "Records written."),
        Column("Remaining", "integer", ".status.progress.remaining", "Records still to be written."),
        Column("Lost", "integer", ".status.progress.lost", "Offsets that no segment holds."),
        Column("Mode", "string", ".spec.mode", "Whether it plans, restores once, or follows."),
        Column("Planned", "integer", ".status.plan.records", "Planned records.", wide=True),
        Column("Rate", "number", ".status.progress.recordsPerSecond", "Records per second.", wide=True),
        Column("ETA", "number", ".status.progress.etaSeconds", "Seconds left.", wide=True),
        Column("Attempt", "integer", ".status.attempt", "Number of the attempt.", wide=True),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: RestoreSpec
    """Which part of an archive goes to which Kafka."""
    status: RestoreStatus = RestoreStatus()
    """Observed state of the Restore."""
