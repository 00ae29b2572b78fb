"""The kind Diode: the one-way link as the platform team configures it, and its observed state.

Must not know how pods are built or how a link is checked.
"""

import ipaddress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    Image,
    Label,
    Name,
    PartitionWindow,
    Resources,
    SecretEntry,
    SecretKey,
    Sha256,
    TemplateName,
    Toleration,
    int32,
)
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.link_rate import Budget, LinkProfileEntry
from gapless_api.v1alpha1.model import ApiModel, Message, Moment, Rule, StatusModel, Time
from gapless_api.v1alpha1.resend_limits import ResendLimits, TrustedKey
from gapless_api.v1alpha1.resource import MESSAGE_COLUMN, REASON_COLUMN, Column, Resource


class Target(ApiModel):
    """The receiver at the other end of the link."""

    host: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-.:%_a-zA-Z0-9]+$")]
    """Address or DNS name of the receiver. IPv4, IPv6, broadcast and multicast addresses are supported."""
    port: Annotated[int, int32(1, 65535)]
    """UDP port of the receiver."""


class CertificateSecret(SecretKey):
    """The Secret with the receiver's certificate (PEM, X.509, RSA)."""

    key: SecretEntry = "tls.crt"
    """Entry of the Secret."""


class Encryption(ApiModel):
    """Encryption of events (AES-256-GCM) for the receiver."""

    RULES: ClassVar = (
        Rule(
            "!(self.sharedWithLiveStream && has(self.lane))",
            "lane and sharedWithLiveStream exclude each other: delete lane if resends use the live stream's receiver "
            "port, or delete sharedWithLiveStream if they have their own",
            lambda encryption: not (encryption.shared_with_live_stream and encryption.lane is not None),
            "sharedWithLiveStream",
        ),
    )

    certificate_secret: CertificateSecret
    """The Secret with the receiver's certificate, with which the event key is encrypted. The private key stays on the
    receiving side."""
    lane: Label | None = None
    """Name of the receiver, if several Diodes reach it under different addresses. Diodes with the same lane send
    encrypted resends one at a time, because a receiver has only one event key. Defaults to the host and port of the
    target."""
    shared_with_live_stream: bool = False
    """Whether the live sender uses the same receiver port. A receiver has one event key for all senders, so an
    encrypted resend would make the live stream unreadable. If true, the Diode is Stalled (SharedKeyLane)."""
    generate_new_symmetric_key_every_seconds: Annotated[int, int32(0, 31536000)] = 0
    """Seconds after which all pods of a Resend change to a new event key (air-gap's generateNewSymmetricKeyEvery). Each
    change pauses the resend for about 4 seconds. 0 uses one key for each Resend. A Resend may override it."""


class State(ApiModel):
    """The volume with checkpoints and the shared budget: one PersistentVolumeClaim for each Diode."""

    storage_class_name: Name | None = None
    """Storage class of the volume. Defaults to the cluster's default class."""
    size: Annotated[str, Field(max_length=8, pattern=r"^[1-9][0-9]{0,5}(Mi|Gi|Ti)$")] = "1Gi"
    """Size of the volume. Each resend needs a few KB."""


def _is_address(text: str) -> bool:
    """Return whether CEL's isIP accepts `text`: neither zones nor IPv4-mapped IPv6 addresses."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text and getattr(address, "ipv4_mapped", None) is None


class DiodeSpec(ApiModel):
    """Desired state of the link."""

    RULES: ClassVar = (
        Rule(
            "self.payloadSize == 0 || self.payloadSize >= 500",
            "payloadSize must be 0 (use the interface's MTU) or 500 to 65459",
            lambda diode: diode.payload_size == 0 or diode.payload_size >= 500,
            "payloadSize",
        ),
        Rule(
            "!has(self.topicTranslations) || self.topicTranslations.all(one, self.topicTranslations.exists_one(other, "
            "self.topicTranslations[other] == self.topicTranslations[one]))",
            "two topics are translated to the same topic, so the topic of an event would be ambiguous: create one "
            "Diode for each of them",
            lambda diode: len(set((diode.topic_translations or {}).values())) == len(diode.topic_translations or {}),
            "topicTranslations",
        ),
        Rule(
            "!has(self.sourceAddress) || isIP(self.sourceAddress)",
            "write an IP address of the interface, such as 10.0.0.1 or fd00::1",
            lambda diode: diode.source_address is None or _is_address(diode.source_address),
            "sourceAddress",
        ),
        Rule(
            "!has(self.encryption) || self.maxConcurrentResends == 1",
            "encrypted resends run one at a time, because a receiver has one event key: set maxConcurrentResends to 1",
            lambda diode: diode.encryption is None or diode.max_concurrent_resends == 1,
            "maxConcurrentResends",
        ),
        Rule(
            "!has(self.trustedKeys) || self.trustedKeys.all(one, self.trustedKeys.exists_one(other, other.name == "
            "one.name))",
            "two trusted keys have the same name: give each a unique name",
            lambda diode: len({key.name for key in diode.trusted_keys}) == len(diode.trusted_keys),
            "trustedKeys",
        ),
        Rule(
            "[has(self.budget) && (self.budget.eventsPerSecond > 0.0 || self.budget.bitsPerSecond > 0), "
            "has(self.profileRef), has(self.unlimited) && self.unlimited].filter(given, given).size() == 1",
            "say in exactly one way how fast Resends may send: a budget with a rate above 0, profileRef for a measured "
            "rate, or unlimited: true, which may lose events and disturb the live stream",
            lambda diode: (
                (
                    [
                        diode.budget is not None and diode.budget.is_limited,
                        diode.profile_ref is not None,
                        diode.unlimited,
                    ]
                ).count(True)
                == 1
            ),
            "budget",
        ),
    )

    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(min_length=1, max_length=16)]
    """Labels of the node whose network interface is connected to the diode. All Resends run there."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Tolerations of the sender pods, for taints of that node."""
    nic: Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[^\s/:]+$")]
    """Network interface of the node that is connected to the diode."""
    target: Target
    """The receiver at the other end."""
    source_address: Annotated[str, Field(min_length=2, max_length=45)] | None = None
    """IP address of the interface to send from. Defaults to the kernel's choice."""
    dscp: Annotated[int, int32(0, 63)] | None = None
    """Differentiated services code point (DSCP) of every datagram, such as 8 (CS1), 18 (AF21) or 46 (EF), by which
    switches before the diode can distinguish Resends from the live stream. Defaults to 0."""
    ttl: Annotated[int, int32(1, 255)] | None = None
    """Time to live (IPv6: hop limit) of every datagram. Defaults to the kernel's default, usually 64, or 1 for
    multicast."""
    payload_size: Annotated[int, int32(0, 65459)] = 1400
    """Maximum UDP payload in bytes, 500 to 65459. 0 uses the interface's MTU."""
    suspend: bool = False
    """Whether to stop sending. All pods that send over the link end within seconds, and no new ones start. Progress is
    kept; setting it to false resumes."""
    copies: Annotated[int, int32(1, 100)] = 1
    """Number of times that each datagram is sent, to compensate for loss on the link. The receiver drops duplicates. A
    Resend may override it."""
    budget: Budget | None = None
    """Limits of all Resends of the Diode together. A Diode has exactly one of budget, profileRef and unlimited."""
    profile_ref: LinkProfileEntry | None = None
    """The link profile whose rates are the budget: for datagrams, with their copies, and for bits per second. It is
    read again whenever a Resend is reconciled. Without it, or if it is invalid, nothing is sent."""
    unlimited: bool = False
    """Whether Resends may send as fast as the node can, which may lose events and disturb the live stream."""
    max_concurrent_resends: Annotated[int, int32(1, 16)] = 1
    """Maximum number of Resends that send at the same time, and of Resends that plan at the same time. Others wait,
    ordered by priority, then by age."""
    encryption: Encryption | None = None
    """Encryption of events for the receiver. If absent, events are sent unencrypted."""
    partition_window: PartitionWindow = PartitionWindow()
    """Downstream partitions of this cluster. Windows of different Diodes must not overlap."""
    limits: ResendLimits = ResendLimits()
    """Limits of Resends over this Diode."""
    trusted_keys: Annotated[tuple[TrustedKey, ...], Field(max_length=16)] = ()
    """Public keys that verify bundles. A bundle must be signed with one of the private keys. If absent, unsigned
    bundles are accepted, including hand-written ones; sha256 detects corruption, not forgery."""
    topic_translations: (
        Annotated[
            dict[str, Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f]+$")]],
            Field(max_length=64),
        ]
        | None
    ) = None
    """Translation of upstream topics to topics on the wire, as configured in the live sender. Kafka is read under the
    upstream name."""
    require_static_neighbour: bool = False
    """Whether the node must have a permanent neighbour (ARP) entry for the target. Set it to true for a real diode,
    through which no ARP reply can return."""
    state: State = State()
    """The volume for checkpoints, from which a new pod resumes."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """What happens to the ledger and to the volume with the checkpoints when the Diode is deleted. Retain keeps them
    for the next Diode of the same name, so that nothing is sent twice. Delete deletes them with the Diode."""
    not_before: Time | None = None
    """Resends of work that is older than this time require force. Set it after the cluster was restored without the
    ledger. The age of the work is the age of its bundle, or the start of its time range. The age of offsets is unknown,
    so Resends of offsets also require force."""
    resources: Resources | None = None
    """CPU and memory of each sender pod. Defaults to the operator's."""
    image: Image | None = None
    """Image of the sender pods. Defaults to the operator's."""
    pod_template: TemplateName | None = None
    """Name of what is added to the sender pods, such as labels and a priority class. It must be listed in the chart's
    podTemplates, and must not choose a node. Defaults to the chart's sender.podTemplate."""


class Preflight(StatusModel):
    """Result of the last preflight check of the node."""

    node: Annotated[str, Field(max_length=253)] = ""
    """Node that was checked."""
    nic: Annotated[str, Field(max_length=15)] = ""
    """Interface that was checked."""
    exists: bool = False
    """Whether the node has the interface."""
    up: bool = False
    """Whether the interface is up."""
    carrier: bool = False
    """Whether the interface has a carrier."""
    mtu: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] | None = None
    """MTU of the interface in bytes."""
    neighbour: Annotated[str, Field(max_length=32)] | None = None
    """State of the neighbour entry for the target, such as PERMANENT. Absent if there is none."""
    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = None
    """Generation of the spec that was checked."""
    message: Message | None = None
    """Description of the problem."""
    checked_at: Moment | None = None
    """Time of the check."""


class ActiveResend(StatusModel):
    """A Resend that is running."""

    name: Name
    """Name of the Resend."""
    resend_uid: Annotated[str, Field(max_length=64)] = ""
    """UID of the Resend."""
    mode: Literal["Plan", "Send"] = "Send"
    """Whether it sends or plans."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of the attempt."""
    since: Moment | None = None
    """Time at which the Resend started."""
    identity: Sha256 | None = None
    """Digest of the work. A Resend of the same work waits until it has ended."""


class DiodeStatus(StatusModel):
    """Observed state of the link."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Ready, LinkUp, Reconciling and Stalled, each with its reason."""
    preflight: Preflight | None = None
    """Result of the last preflight check of the node."""
    active: Annotated[tuple[ActiveResend, ...], Field(max_length=32)] = ()
    """Running Resends: up to maxConcurrentResends that send, and as many that plan."""
    queued: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of Resends that wait."""


class Diode(Resource):
    """A one-way link: its node and network interface, its receiver, and the limits for sending."""

    KIND: ClassVar = "Diode"
    PLURAL: ClassVar = "diodes"
    SHORT_NAMES: ClassVar = ("diode",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether Resends can run."),
        REASON_COLUMN,
        Column("Node", "string", ".status.preflight.node", "Node that is connected to the diode."),
        Column("Suspended", "boolean", ".spec.suspend", "Whether sending is suspended."),
        Column("Active", "string", ".status.active[*].name", "Running Resends."),
        Column("Queued", "integer", ".status.queued", "Number of Resends that wait."),
        Column("NIC", "string", ".spec.nic", "Network interface that is connected to the diode.", wide=True),
        Column("Target", "string", ".spec.target.host", "Address of the receiver.", wide=True),
        Column("Port", "integer", ".spec.target.port", "UDP port of the receiver.", wide=True),
        Column("Start", "integer", ".spec.partitionWindow.start", "First downstream partition.", wide=True),
        Column("Count", "integer", ".spec.partitionWindow.count", "Number of partitions; 0 for all.", wide=True),
        Column("MTU", "integer", ".status.preflight.mtu", "MTU of the interface.", wide=True),
        MESSAGE_COLUMN,
    )

    spec: DiodeSpec
    """Desired state of the link."""
    status: DiodeStatus = DiodeStatus()
    """Observed state of the link."""
