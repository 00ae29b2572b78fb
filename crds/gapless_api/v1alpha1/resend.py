"""Owns the kind Resend: which events to send again over a Diode, and what became of them.

Must not know how they are sent, in which pods, or when it is whose turn.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.archive import ARCHIVE_BY_REFERENCE, Region
from gapless_api.v1alpha1.common import (
    KAFKA_BY_REFERENCE,
    FolderPath,
    Former,
    PartitionWindow,
    Rate,
    Reference,
    int32,
)
from gapless_api.v1alpha1.input_filter import InputFilter
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, EachOnce, Rule, TransitionRule
from gapless_api.v1alpha1.resend_source import BundleSource, Offsets, TimeFilter, TimeRange
from gapless_api.v1alpha1.resend_status import ResendStatus
from gapless_api.v1alpha1.resource import Column, Resource
from gapless_api.v1alpha1.sender_options import SenderOptions

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


class Fallback(ApiModel):
    """Where events are read that Kafka no longer has."""

    RULES: ClassVar = ARCHIVE_BY_REFERENCE

    archive_ref: Reference | None = None
    """An Archive in the same namespace."""
    storage_ref: Reference | None = None
    """The StorageLocation of an archive that has no Archive in this namespace. Requires region."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""
    region: Region | None = None
    """The region in that archive."""


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
    fallback: Fallback | None = None
    """Where events are read that Kafka no longer has. If absent, they are unavailable."""
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
