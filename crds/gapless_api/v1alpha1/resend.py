"""The kind Resend: which events to send again over a Diode, and the observed state.

Must not know how they are sent, in which pods, or in which order Resends run.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.archive import ARCHIVE_REFERENCE_RULES, Region
from gapless_api.v1alpha1.common import (
    FolderPath,
    PartitionWindow,
    Rate,
    Reference,
    int32,
)
from gapless_api.v1alpha1.input_filter import InputFilter
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, Rule, TransitionRule, UniqueItems, immutable_field_rules
from gapless_api.v1alpha1.resend_source import BundleSource, Offsets, TimeFilter, TimeRange
from gapless_api.v1alpha1.resend_status import ResendStatus
from gapless_api.v1alpha1.resource import MESSAGE_COLUMN, OBSERVED_COLUMN, REASON_COLUMN, Column, Resource
from gapless_api.v1alpha1.sender_options import SenderOptions

MUTABLE_FIELDS = frozenset(
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
"""Mutable fields of the spec. None of them changes which events are sent."""

FillReason = Literal["NonExistent", "Expired", "TooLarge"]
"""Why an event cannot be sent, so that an empty event may be sent in its place."""


class Fallback(ApiModel):
    """Archive from which events are read that Kafka has deleted."""

    RULES: ClassVar = ARCHIVE_REFERENCE_RULES

    archive_ref: Reference | None = None
    """An Archive in the same namespace."""
    storage_ref: Reference | None = None
    """The StorageLocation of an archive that has no Archive in this namespace. Requires region."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""
    region: Region | None = None
    """Region in the archive."""


class ResendSpec(SenderOptions):
    """Events to send, and settings for sending.

    Only mode (Plan to Send), suspend, eps, priority, force, retry, stallTimeoutSeconds, logLevel,
    activeDeadlineSeconds, backoffLimit and ttlSecondsAfterFinished may change.
    """

    RULES: ClassVar = (
        Rule(
            "[has(self.bundle), has(self.offsets), has(self.timeRange)].filter(present, present).size() == 1",
            "give exactly one of bundle (the result of a scan), offsets and timeRange",
            lambda resend: sum(part is not None for part in (resend.bundle, resend.offsets, resend.time_range)) == 1,
        ),
        Rule(
            "self.unavailable == 'Fill' || !has(self.fill) || size(self.fill) == 0",
            "fill requires unavailable: Fill: set unavailable to Fill, or delete fill",
            lambda resend: resend.unavailable == "Fill" or not resend.fill,
            "fill",
        ),
        Rule(
            "!has(self.timeFilter) || !has(self.timeRange)",
            "timeFilter applies only to a bundle or offsets, because timeRange has its own times: delete timeFilter",
            lambda resend: resend.time_filter is None or resend.time_range is None,
            "timeFilter",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "self.mode == oldSelf.mode || oldSelf.mode == 'Plan'",
            "mode can be changed only from Plan to Send: set suspend to stop sending",
            "mode",
        ),
    )

    diode_ref: Reference
    """The Diode to send over, in the same namespace."""
    kafka_ref: Reference
    """The KafkaConnection of the sending side, in the same namespace."""
    bundle: BundleSource | None = None
    """Sends the events that a bundle lists. Exactly one of bundle, offsets and timeRange is required."""
    offsets: Offsets | None = None
    """Sends a range of offsets of one partition."""
    time_range: TimeRange | None = None
    """Sends the events of a time range, by Kafka timestamp."""
    time_filter: TimeFilter | None = None
    """Limits the events of the bundle or the offsets to a time range."""
    fallback: Fallback | None = None
    """Archive from which events are read that Kafka has deleted. If absent, they are unavailable."""
    partition_window: PartitionWindow | None = None
    """Overrides the partitionWindow of the Diode, for example for a bundle that was created before the window changed.
    It must be listed in the Diode's limits.partitionWindows."""
    eps: Rate | None = None
    """Maximum events per second; fractions are allowed. 0 or absent sets no limit other than the Diode's limits.
    Running senders apply a change within about a minute, without a restart."""
    copies: Annotated[int, int32(1, 100)] | None = None
    """Number of times that each datagram is sent. Defaults to the Diode's copies."""
    compress_when_length_exceeds: Annotated[int, int32(0, 2**31 - 1)] = 0
    """Values longer than this number of bytes are sent compressed (gzip). 0 disables compression."""
    input_filter: InputFilter | None = None
    """Filters events by their value."""
    unavailable: Literal["Report", "Fill"] = "Report"
    """What happens to events that cannot be sent. Report lists them in the status. Fill sends empty events in their
    place, which the gap detector counts as received."""
    fill: Annotated[tuple[FillReason, ...], Field(max_length=3, json_schema_extra=LIST_SET), UniqueItems] = ()
    """Reasons for which unavailable: Fill sends empty events: NonExistent (removed by compaction, or a transaction
    marker), Expired (deleted by retention), TooLarge (more datagrams than maxFragments). Defaults to NonExistent."""
    mode: Literal["Plan", "Send"] = "Send"
    """Plan computes status.plan without sending anything. Change it to Send to send the events."""
    suspend: bool = False
    """Whether to pause sending. Progress is kept; setting it to false resumes."""
    parallelism: Annotated[int, int32(1, 64)] = 1
    """Number of sender pods. The partitions are divided between them, so more pods than partitions have no effect."""
    priority: Annotated[int, int32(-1000, 1000)] = 0
    """Order of waiting Resends on a Diode: the highest priority first, then the oldest."""
    ttl_seconds_after_finished: Annotated[int, int32(0, 31536000)] | None = None
    """Seconds after which a finished Resend is deleted. If absent, it is kept. Its entry in the Diode's ledger
    remains."""
    active_deadline_seconds: Annotated[int, int32(1, 31536000)] | None = None
    """Maximum duration in seconds. If absent, there is no limit."""
    backoff_limit: Annotated[int, int32(0, 100)] = 6
    """Number of retries after a failed attempt, with increasing delays. Progress is kept between attempts."""
    force: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """A new value repeats work that was already sent. If absent, the same work is sent only once, even if this object
    is deleted and recreated."""
    retry: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """A new value starts a new round of attempts after a failure, or ends the delay before the next attempt. Sending
    resumes where it stopped."""

    @property
    def fillable(self) -> tuple[FillReason, ...]:
        """Reasons for which empty events are sent, with the default applied."""
        if self.unavailable != "Fill":
            return ()
        return tuple(sorted(set(self.fill))) or ("NonExistent",)


_IMMUTABLE = (
    "{} cannot be changed: create a new Resend under another name; only mode (Plan to Send), suspend, eps, priority, "
    "force, retry, stallTimeoutSeconds, logLevel, activeDeadlineSeconds, backoffLimit and ttlSecondsAfterFinished may "
    "change"
)


# After the class, because the rules cover its fields.
ResendSpec.TRANSITIONS += immutable_field_rules(ResendSpec, MUTABLE_FIELDS, _IMMUTABLE)


class Resend(Resource):
    """Sends events from Kafka again over a Diode, to close gaps on the receiving side."""

    KIND: ClassVar = "Resend"
    PLURAL: ClassVar = "resends"
    SHORT_NAMES: ClassVar = ("rsnd",)
    COLUMNS: ClassVar = (
        Column("Phase", "string", ".status.phase", "Short summary of the state."),
        Column("Percent", "integer", ".status.progress.percent", "Progress in percent."),
        Column("Sent", "integer", ".status.progress.sent", "Events sent."),
        Column("Planned", "integer", ".status.progress.planned", "Planned events."),
        Column("Unavailable", "integer", ".status.progress.unavailable", "Events that could not be sent."),
        Column("Mode", "string", ".spec.mode", "Plan or Send.", wide=True),
        Column("Diode", "string", ".spec.diodeRef.name", "Name of the Diode.", wide=True),
        Column("Priority", "integer", ".spec.priority", "Priority; the highest runs first.", wide=True),
        Column("Rate", "number", ".status.progress.eventsPerSecond", "Events per second.", wide=True),
        Column("ETA", "number", ".status.progress.etaSeconds", "Estimated remaining seconds.", wide=True),
        Column("Attempt", "integer", ".status.attempt", "Number of the current attempt.", wide=True),
        REASON_COLUMN._replace(wide=True),
        OBSERVED_COLUMN,
        MESSAGE_COLUMN,
    )

    spec: ResendSpec
    """Events to send, and settings for sending."""
    status: ResendStatus = ResendStatus()
    """Observed state of the Resend."""
