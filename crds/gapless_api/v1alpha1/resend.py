"""Owns the kind Resend: which events to send again over a Diode, and what became of them.

Must not know how they are sent, in which pods, or when it is whose turn.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    FORMER_STORAGE,
    KAFKA_BY_REFERENCE,
    Count,
    Former,
    Name,
    Offset,
    Partition,
    PartitionWindow,
    Rate,
    Reference,
    SecretEntry,
    Sha256,
    WireTopic,
    int32,
    stays_inside,
)
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.input_filter import InputFilter
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, EachOnce, Moment, Rule, StatusModel, Time, TransitionRule
from gapless_api.v1alpha1.resource import Column, Resource
from gapless_api.v1alpha1.sender_options import SenderOptions

LONGEST_INLINE_BUNDLE = 262144
"""Characters. kubectl apply keeps a copy of the object in an annotation, which may not be larger than this."""
LONGEST_UNAVAILABLE = 100
"""Ranges in the status; the report has them all."""
CHANGEABLE = frozenset(
    {
        "mode",
        "suspend",
        "eps",
        "priority",
        "force",
        "stall_timeout_seconds",
        "log_level",
        "retry",
        "active_deadline_seconds",
        "backoff_limit",
        "ttl_seconds_after_finished",
    }
)
"""Fields of the spec that may be changed: none of them changes which events are meant."""

FillReason = Literal["NonExistent", "Expired", "TooLarge"]
"""Why an event cannot be sent and an empty one may be sent in its place."""


class ConfigMapEntry(ApiModel):
    """An entry of a ConfigMap in the same namespace."""

    name: Name
    """Name of the ConfigMap."""
    key: SecretEntry = "bundle.json"
    """Entry of the ConfigMap, in data or in binaryData; it may be compressed (gzip)."""


class BundleSource(ApiModel):
    """Location of the bundle to send."""

    RULES: ClassVar = (
        Rule(
            "!has(self.persistentVolumeClaim) && !has(self.s3)",
            "volumes and stores are named by a StorageLocation of the platform team: write storageRef: {name: NAME} "
            "and path in place of persistentVolumeClaim and s3",
            lambda bundle: bundle.persistent_volume_claim is None and bundle.s3 is None,
            stored=FORMER_STORAGE,
        ),
        Rule(
            "[has(self.inline), has(self.configMap), has(self.storageRef)].filter(given, given).size() == 1 || "
            "has(self.persistentVolumeClaim) || has(self.s3)",
            "say where the bundle is, exactly once: inline, configMap or storageRef",
            lambda bundle: (
                sum(place is not None for place in (bundle.inline, bundle.config_map, bundle.storage_ref)) == 1
            ),
        ),
        Rule(
            "has(self.storageRef) == has(self.path)",
            "storageRef and path belong together: give both or neither",
            lambda bundle: (bundle.storage_ref is None) == (bundle.path is None),
            "path",
        ),
        stays_inside("path"),
    )

    inline: Annotated[str, Field(min_length=2, max_length=LONGEST_INLINE_BUNDLE)] | None = None
    """The bundle itself, as the JSON text that a scan writes; at most 256 KiB, and less with kubectl apply, which
    keeps a second copy in an annotation unless it is called with --server-side."""
    config_map: ConfigMapEntry | None = None
    """The bundle is in a ConfigMap; kubectl create configmap NAME --from-file=bundle.json makes one."""
    storage_ref: Reference | None = None
    """The bundle is in this StorageLocation, at path."""
    path: (
        Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*$")] | None
    ) = None
    """Path of the bundle in the StorageLocation; it may be compressed (gzip)."""
    sha256: Sha256 | None = None
    """Expected digest of the bundle, as in the GapScan's status and the output of gapless bundle show; any other is
    refused."""
    persistent_volume_claim: Former = None
    """Removed: use storageRef and path."""
    s3: Former = None
    """Removed: use storageRef and path."""


class Offsets(ApiModel):
    """A range of offsets of one partition."""

    RULES: ClassVar = (
        Rule(
            "!has(self.to) || self.from <= self.to",
            "from is after to: write the lower offset as from; both are inclusive",
            lambda offsets: offsets.to is None or offsets.from_ <= offsets.to,
            "from",
        ),
    )

    topic: WireTopic
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    from_: Annotated[Offset, Field(alias="from")]
    """First offset to send, inclusive."""
    to: Offset | None = None
    """Last offset to send, inclusive. Defaults to the last one that exists when the resend first starts; later records
    are not sent."""


class TimeRange(ApiModel):
    """A range of Kafka timestamps."""

    RULES: ClassVar = (
        Rule(
            "!has(self.to) || self.from <= self.to",
            "from is after to: write the older time as from; both are inclusive",
            lambda time_range: time_range.to is None or time_range.from_ <= time_range.to,
            "from",
        ),
    )

    topic: WireTopic
    """Topic as the receiving side names it."""
    partition: Partition | None = None
    """Partition as the receiving side numbers it. Defaults to all partitions of the Diode's window."""
    from_: Annotated[Time, Field(alias="from")]
    """Oldest Kafka timestamp to send, inclusive, such as 2026-11-20T10:00:00Z."""
    to: Time | None = None
    """Newest Kafka timestamp to send, inclusive. Defaults to everything that exists when the Resend first starts."""


class TimeFilter(ApiModel):
    """Limits a bundle or offsets to a time range. Other events are skipped and are not part of the plan."""

    RULES: ClassVar = (
        Rule(
            "has(self.from) || has(self.to)",
            "a timeFilter without from and to filters nothing: give at least one of them, or delete timeFilter",
            lambda time_filter: time_filter.from_ is not None or time_filter.to is not None,
        ),
        Rule(
            "!has(self.from) || !has(self.to) || self.from <= self.to",
            "from is after to: write the older time as from; both are inclusive",
            lambda times: times.from_ is None or times.to is None or times.from_ <= times.to,
            "from",
        ),
    )

    from_: Annotated[Time | None, Field(alias="from")] = None
    """Oldest Kafka timestamp to send, inclusive, such as 2026-11-20T10:00:00Z. Defaults to no limit."""
    to: Time | None = None
    """Newest Kafka timestamp to send, inclusive. Defaults to no limit."""


class ResendSpec(SenderOptions):
    """Which events to send, and how.

    Only mode (Plan to Send), suspend, eps, priority, force, retry, stallTimeoutSeconds, logLevel,
    activeDeadlineSeconds, backoffLimit and ttlSecondsAfterFinished may change.
    """

    RULES: ClassVar = (
        KAFKA_BY_REFERENCE,
        Rule(
            "[has(self.bundle), has(self.offsets), has(self.timeRange)].filter(given, given).size() == 1",
            "say what to send exactly once: bundle (what a scan found), offsets or timeRange",
            lambda resend: (
                sum(chosen is not None for chosen in (resend.bundle, resend.offsets, resend.time_range)) == 1
            ),
        ),
        Rule(
            "self.unavailable == 'Fill' || !has(self.fill) || size(self.fill) == 0",
            "fill says what unavailable: Fill may close: set unavailable to Fill, or delete fill",
            lambda resend: resend.unavailable == "Fill" or not resend.fill,
            "fill",
        ),
        Rule(
            "!has(self.timeFilter) || !has(self.timeRange)",
            "timeFilter narrows a bundle or offsets, and timeRange has times of its own: delete timeFilter",
            lambda resend: resend.time_filter is None or resend.time_range is None,
            "timeFilter",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "self.mode == oldSelf.mode || oldSelf.mode == 'Plan'",
            "mode can be changed from Plan to Send only: what is being sent cannot become a plan again; set suspend to "
            "stop it",
            "mode",
        ),
    )

    diode_ref: Reference
    """The Diode to send over, in the same namespace."""
    kafka_ref: Reference | None = None
    """The KafkaConnection of the sending side, in the same namespace. Required."""
    kafka: Former = None
    """Removed: use kafkaRef."""
    bundle: BundleSource | None = None
    """Sends what a bundle lists. Exactly one of bundle, offsets and timeRange must be given."""
    offsets: Offsets | None = None
    """Sends a range of offsets of one partition."""
    time_range: TimeRange | None = None
    """Sends the events of a time range, by Kafka's timestamps."""
    time_filter: TimeFilter | None = None
    """Sends only those events of the bundle or the offsets that are in a time range."""
    partition_window: PartitionWindow | None = None
    """Overrides the Diode's window, for example for a bundle that is older than a change of the window. It must be
    listed in the Diode's limits.partitionWindows."""
    eps: Rate | None = None
    """Maximum events per second; fractions are allowed. 0 or absent sets no limit besides the Diode's budget. Running
    senders apply a change within about a minute, without a restart."""
    copies: Annotated[int, int32(1, 100)] | None = None
    """How many times each datagram is sent. Defaults to the Diode's copies."""
    compress_when_length_exceeds: Annotated[int, int32(0, 2**31 - 1)] = 0
    """Values longer than this number of bytes are sent compressed (gzip). 0 disables compression."""
    input_filter: InputFilter | None = None
    """Withholds events by their content."""
    unavailable: Literal["Report", "Fill"] = "Report"
    """What happens to offsets that Kafka no longer has. Report lists them in the status. Fill sends empty events in
    their place, which the gap detector counts as received."""
    fill: Annotated[tuple[FillReason, ...], Field(max_length=3, json_schema_extra=LIST_SET), EachOnce] = ()
    """Reasons that unavailable: Fill covers: NonExistent (compacted away, or a transaction marker), Expired (deleted by
    retention), TooLarge (more datagrams than the receiver accepts). Defaults to NonExistent."""
    mode: Literal["Plan", "Send"] = "Send"
    """Plan computes status.plan and sends nothing. Change it to Send to send."""
    suspend: bool = False
    """Whether to pause. Progress is kept; setting it to false resumes."""
    parallelism: Annotated[int, int32(1, 64)] = 1
    """Number of sender pods. They divide the partitions, so more pods than partitions have no effect."""
    priority: Annotated[int, int32(-1000, 1000)] = 0
    """Order of waiting Resends on a Diode: the highest priority first, then the oldest."""
    ttl_seconds_after_finished: Annotated[int, int32(0, 31536000)] | None = None
    """Seconds after which a finished Resend is deleted. If absent, it is kept. The Diode's ledger remembers it."""
    active_deadline_seconds: Annotated[int, int32(1, 31536000)] | None = None
    """Maximum running time in seconds. If absent, there is no limit."""
    backoff_limit: Annotated[int, int32(0, 100)] = 6
    """Number of retries of a failed attempt, with growing delays. Progress is kept between attempts."""
    force: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """A new value repeats work that was already sent. Without it, the same work is sent once, also if this object is
    deleted and created again."""
    retry: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """A new value starts another round of attempts after a failure, or at once instead of waiting. The work resumes
    where it stopped."""

    @property
    def fillable(self) -> tuple[FillReason, ...]:
        """The reasons that are filled, with the default; empty when none is."""
        if self.unavailable != "Fill":
            return ()
        return tuple(sorted(set(self.fill))) or ("NonExistent",)


_NOT_CHANGEABLE = (
    "{} cannot be changed: create a new Resend under another name; only mode (Plan to Send), suspend, eps, priority, "
    "force, retry, stallTimeoutSeconds, logLevel, activeDeadlineSeconds, backoffLimit and ttlSecondsAfterFinished may "
    "change"
)


def _unchangeable(name: str, *, always_there: bool) -> TransitionRule:
    same = f"self.{name} == oldSelf.{name}"
    return TransitionRule(
        same if always_there else f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})",
        _NOT_CHANGEABLE.format(name),
        name,
    )


# After the class, because the fields are what the rules are about.
ResendSpec.TRANSITIONS += tuple(
    _unchangeable(str(field.alias), always_there=field.is_required() or field.get_default() not in (None, ()))
    for name, field in ResendSpec.model_fields.items()
    if name not in CHANGEABLE | {"kafka", "kafka_ref"}
)
ResendSpec.TRANSITIONS += (
    # Objects of the version before have no kafkaRef and may get one.
    TransitionRule(
        "!has(oldSelf.kafkaRef) || (has(self.kafkaRef) && self.kafkaRef == oldSelf.kafkaRef)",
        _NOT_CHANGEABLE.format("kafkaRef"),
        "kafkaRef",
    ),
)


class ResendPlan(StatusModel):
    """Result of the plan."""

    events: Count
    """Planned offsets."""
    ranges: Count = 0
    """Ranges of the planned offsets."""
    bytes: Count | None = None
    """Payload in bytes, estimated by a sample."""
    datagrams: Count | None = None
    """Datagrams, estimated by a sample."""
    estimated_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated duration at the rate that eps and the Diode's budget allow."""
    unavailable: Count = 0
    """Planned offsets that Kafka no longer has."""


class Progress(StatusModel):
    """Progress. planned = sent + filtered + filled + unavailable + remaining."""

    planned: Count = 0
    """Planned events."""
    sent: Count = 0
    """Events sent."""
    filtered: Count = 0
    """Events sent empty because a rule denied them."""
    filled: Count = 0
    """Offsets without an event, sent as empty ones."""
    unavailable: Count = 0
    """Events that could not be sent."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] = 0
    """Percentage that is done; 100 only if nothing remains."""
    events_per_second: Annotated[float, Field(ge=0)] | None = None
    """Current rate."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated remaining time at this rate."""
    updated_at: Moment | None = None
    """Time of this update; at most one every 5 seconds."""


class UnavailableRange(StatusModel):
    """Offsets that could not be sent, for one reason."""

    topic: Annotated[str, Field(max_length=249)]
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    first: Offset
    """First offset, inclusive."""
    last: Offset
    """Last offset, inclusive."""
    reason: Annotated[str, Field(max_length=64)]
    """NonExistent (compacted away, or a transaction marker), Expired (deleted by retention), NotYetWritten (beyond the
    partition's end), or TooLarge (more datagrams than the receiver accepts)."""


class ResendStatus(StatusModel):
    """Observed state of the Resend."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Accepted, Ready, Reconciling, Stalled and Succeeded, each with its reason."""
    phase: Annotated[str, Field(max_length=32)] | None = None
    """Short summary for people. Programs should read the conditions."""
    plan: ResendPlan | None = None
    """Result of the plan."""
    progress: Progress | None = None
    """Progress of the Resend."""
    unavailable: Annotated[tuple[UnavailableRange, ...], Field(max_length=LONGEST_UNAVAILABLE)] = ()
    """Ranges that could not be sent; the first 100, all are in the report."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of the current or last attempt."""
    job: Annotated[str, Field(max_length=253)] | None = None
    """Name of the Job that sends or sent."""
    session_key_secret: Annotated[str, Field(max_length=253)] | None = None
    """Name of the Secret with the session key; the pods of all attempts at the same work share it."""
    report: Annotated[str, Field(max_length=253)] | None = None
    """Name of the ConfigMap with the complete report."""
    identity: Sha256 | None = None
    """Digest of the work, as in the Diode's ledger."""
    force: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.force when this work began."""
    retry: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.retry when this round of attempts began."""
    attempts_before: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts before this round. backoffLimit counts the attempts of one round."""
    checkpoint: Annotated[str, Field(max_length=128)] | None = None
    """Folder on the Diode's volume with the checkpoints. The next Resend of the same work resumes there."""
    bundle_id: Annotated[str, Field(max_length=128)] | None = None
    """Id of the bundle, when it has one."""
    bundle_sha256: Sha256 | None = None
    """Digest of the bundle that was validated. A different bundle in its place is not sent."""
    started_at: Moment | None = None
    """Time of its first turn."""
    finished_at: Moment | None = None
    """When it ended."""
    retry_at: Moment | None = None
    """Start of the next attempt after a failure."""


class Resend(Resource):
    """Sends events from Kafka over a Diode again, to close gaps on the receiving side."""

    KIND: ClassVar = "Resend"
    PLURAL: ClassVar = "resends"
    SHORT_NAMES: ClassVar = ("rsnd",)
    COLUMNS: ClassVar = (
        Column("Phase", "string", ".status.phase", "One word for people."),
        Column("Percent", "integer", ".status.progress.percent", "How much is done."),
        Column("Sent", "integer", ".status.progress.sent", "Events sent."),
        Column("Planned", "integer", ".status.progress.planned", "Planned events."),
        Column("Unavailable", "integer", ".status.progress.unavailable", "Events that could not be sent."),
        Column("Mode", "string", ".spec.mode", "Whether it plans or sends.", wide=True),
        Column("Diode", "string", ".spec.diodeRef.name", "The link it goes over.", wide=True),
        Column("Priority", "integer", ".spec.priority", "Higher goes first.", wide=True),
        Column("Rate", "number", ".status.progress.eventsPerSecond", "Events per second.", wide=True),
        Column("ETA", "number", ".status.progress.etaSeconds", "Seconds left.", wide=True),
        Column("Attempt", "integer", ".status.attempt", "Number of the attempt.", wide=True),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: ResendSpec
    """Which events to send, and how."""
    status: ResendStatus = ResendStatus()
    """Observed state of the Resend."""
