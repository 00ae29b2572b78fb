"""Owns the kind Diode: the one-way link as the platform team describes it, and what is known about it.

Must not know how pods are built or how a link is looked at.
"""

import ipaddress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    Count,
    Image,
    Label,
    Name,
    PartitionWindow,
    Rate,
    Resources,
    SecretEntry,
    SecretKey,
    Sha256,
    Toleration,
    int32,
)
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import ApiModel, Message, Moment, Rule, StatusModel, Time
from gapless_api.v1alpha1.resend_limits import ResendLimits, TrustedKey
from gapless_api.v1alpha1.resource import Column, Resource

LONGEST_LEDGER = 100
"""Entries that a version before kept in a Diode's status."""


class Target(ApiModel):
    """The receiver at the other end of the link."""

    host: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-.:%_a-zA-Z0-9]+$")]
    """Address or name of the receiver; IPv4, IPv6, broadcast and multicast addresses are possible."""
    port: Annotated[int, int32(1, 65535)]
    """UDP port of the receiver."""


class Budget(ApiModel):
    """The share of the link that all Resends of the Diode use together."""

    events_per_second: Rate = 0.0
    """Maximum events per second; fractions are allowed. 0 sets no limit."""
    bits_per_second: Annotated[int, Field(ge=0, le=10**12, json_schema_extra={"format": "int64"})] = 0
    """Maximum bits per second on the wire, headers and copies included. 0 sets no limit."""


class CertificateSecret(SecretKey):
    """The Secret with the receiver's certificate (PEM, X.509, RSA)."""

    key: SecretEntry = "tls.crt"
    """Entry of the Secret."""


class Encryption(ApiModel):
    """How events are encrypted (AES-256-GCM) on their way to the receiver."""

    RULES: ClassVar = (
        Rule(
            "!(self.sharedWithLiveStream && has(self.lane))",
            "a lane of its own and sharedWithLiveStream exclude each other: delete lane while resends use the live "
            "stream's receiver port, or delete sharedWithLiveStream when they have their own",
            lambda encryption: not (encryption.shared_with_live_stream and encryption.lane is not None),
            "sharedWithLiveStream",
        ),
    )

    certificate_secret: CertificateSecret
    """The Secret with the receiver's certificate; the event key is encrypted for it. The private key stays on the
    receiving side and is not needed here."""
    lane: Label | None = None
    """A name for the receiver whose single event key these Resends use. Diodes with the same lane send encrypted
    resends one at a time, because a receiver forgets the key of one sender when another announces its own. Without
    it the target's host and port say which Diodes share a receiver."""
    shared_with_live_stream: bool = False
    """Whether the live sender uses the same receiver port. A receiver has one key for all its senders, so an encrypted
    resend would make the live stream unreadable; the Diode is then Stalled (SharedKeyLane)."""
    generate_new_symmetric_key_every_seconds: Annotated[int, int32(0, 31536000)] = 0
    """Seconds after which a new event key replaces the one in use, in all pods of a Resend at once (air-gap's
    generateNewSymmetricKeyEvery). Each replacement pauses the resend for some 4 seconds. 0 for one key for each
    Resend. A Resend may choose another time."""


class State(ApiModel):
    """The volume that keeps checkpoints and the shared budget, one PersistentVolumeClaim for the Diode."""

    storage_class_name: Name | None = None
    """Storage class of the volume. Defaults to the cluster's default class."""
    size: Annotated[str, Field(max_length=8, pattern=r"^[1-9][0-9]{0,5}(Mi|Gi|Ti)$")] = "1Gi"
    """Size of the volume; a checkpoint takes a few KB for each resend."""


def _is_address(text: str) -> bool:
    """As the API server sees it, which takes neither zones nor IPv4 within IPv6."""
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
            "payloadSize must be 0 (as large as the interface's MTU carries) or 500 to 65459",
            lambda diode: diode.payload_size == 0 or diode.payload_size >= 500,
            "payloadSize",
        ),
        Rule(
            "!has(self.topicTranslations) || self.topicTranslations.all(one, self.topicTranslations.exists_one(other, "
            "self.topicTranslations[other] == self.topicTranslations[one]))",
            "two topics are translated into the same one, so that the topic of an event would be ambiguous: create one "
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
            "encrypted resends run one at a time, because the receiver knows one key: set maxConcurrentResends to 1",
            lambda diode: diode.encryption is None or diode.max_concurrent_resends == 1,
            "maxConcurrentResends",
        ),
        Rule(
            "!has(self.trustedKeys) || self.trustedKeys.all(one, self.trustedKeys.exists_one(other, other.name == "
            "one.name))",
            "two trusted keys have the same name: give each a name of its own",
            lambda diode: len({key.name for key in diode.trusted_keys}) == len(diode.trusted_keys),
            "trustedKeys",
        ),
    )

    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(min_length=1, max_length=16)]
    """Labels of the node whose network interface is connected to the diode. All Resends run there."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints of that node that the sender pods may ignore."""
    nic: Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[^\s/:]+$")]
    """Network interface of the node that is connected to the diode."""
    target: Target
    """The receiver at the other end."""
    source_address: Annotated[str, Field(min_length=2, max_length=45)] | None = None
    """IP address of the interface to send from. Defaults to the kernel's choice."""
    dscp: Annotated[int, int32(0, 63)] | None = None
    """Differentiated services code point of every datagram, such as 8 (CS1), 18 (AF21) or 46 (EF), by which switches
    before the diode distinguish Resends from the live stream. Defaults to the kernel's, which is 0."""
    ttl: Annotated[int, int32(1, 255)] | None = None
    """Time to live (IPv6: hop limit) of every datagram. Defaults to the kernel's, which is 64, and 1 for a multicast
    group."""
    payload_size: Annotated[int, int32(0, 65459)] = 1400
    """Maximum UDP payload in bytes, 500 to 65459. 0 uses the interface's MTU."""
    suspend: bool = False
    """Stops sending. Every pod that sends over the link ends within seconds, and none starts. Progress is kept; setting
    it to false resumes."""
    copies: Annotated[int, int32(1, 100)] = 1
    """How many times each datagram is sent, against loss on the link. The receiver drops duplicates. A Resend may
    override it."""
    budget: Budget = Budget()
    """The share of the link that all Resends of the Diode use together."""
    max_concurrent_resends: Annotated[int, int32(1, 16)] = 1
    """Maximum number of Resends that send at the same time, and of plans beside them. The others wait by priority, then
    by age."""
    encryption: Encryption | None = None
    """Encrypts events for the receiver. If absent, events are sent unencrypted."""
    partition_window: PartitionWindow = PartitionWindow()
    """Which downstream partitions belong to this cluster. Windows of different Diodes must not overlap."""
    limits: ResendLimits = ResendLimits()
    """Limits of Resends over this Diode."""
    trusted_keys: Annotated[tuple[TrustedKey, ...], Field(max_length=16)] = ()
    """Public keys of accepted signers. A bundle must be signed with one of them. If absent, unsigned bundles are
    accepted, including hand-written ones; sha256 detects damage, not forgery."""
    topic_translations: (
        Annotated[
            dict[str, Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f]+$")]],
            Field(max_length=64),
        ]
        | None
    ) = None
    """The live sender's translation of upstream topics to topics on the wire; Kafka is read under the upstream name."""
    require_static_neighbour: bool = False
    """Whether the node must have a permanent neighbour (ARP) entry for the target. Set it to true behind a real diode,
    where no ARP reply comes back; a test without a diode does not need the entry."""
    state: State = State()
    """The volume for checkpoints, so that a new pod resumes where the last one stopped."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """What happens to the ledger and to the volume with the checkpoints when the Diode is deleted: Retain keeps them
    for the next Diode of the same name, so that nothing is sent twice. Delete deletes them with the Diode."""
    not_before: Time | None = None
    """Resends of work that is older than this time need force. Set it when a cluster was restored and the ledger was
    lost. The age of the work is that of its bundle, or of the oldest timestamp of its time range. The age of offsets
    is unknown, so a Resend of offsets needs force, too."""
    resources: Resources | None = None
    """CPU and memory of each sender pod. Defaults to the operator's."""
    image: Image | None = None
    """Image of the sender pods. Defaults to the operator's."""


class Preflight(StatusModel):
    """Result of the last preflight check of the node."""

    node: Annotated[str, Field(max_length=253)] = ""
    """Node that was checked."""
    nic: Annotated[str, Field(max_length=15)] = ""
    """Interface that was checked."""
    exists: bool = False
    """Whether the node has the interface."""
    up: bool = False
    """Whether it is up."""
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
    """When."""


class ActiveResend(StatusModel):
    """A Resend that is running."""

    name: Name
    """Name of the Resend."""
    resend_uid: Annotated[str, Field(max_length=64)] = ""
    """UID of the Resend."""
    mode: Literal["Plan", "Send"] = "Send"
    """Whether it sends or plans."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of its attempt."""
    since: Moment | None = None
    """Time at which its turn began."""
    identity: Sha256 | None = None
    """Digest of the work. A Resend of the same work waits until it has ended."""


class LedgerEntry(StatusModel):
    """A Resend that has ended. It prevents the same work from being sent twice by accident."""

    identity: Sha256
    """Digest of the work: selection, bundle, window and filter."""
    resend: Name
    """Name of the Resend."""
    resend_uid: Annotated[str, Field(max_length=64)] = ""
    """UID of the Resend."""
    bundle_id: Annotated[str, Field(max_length=128)] | None = None
    """Id of the bundle, when it was one with an id."""
    force: Annotated[str, Field(max_length=64)] | None = None
    """The Resend's force, when it had one."""
    finished_at: Moment
    """When it ended."""
    sent: Count = 0
    """Events sent."""
    filtered: Count = 0
    """Events sent empty because a rule denied them."""
    filled: Count = 0
    """Offsets without an event, sent as empty ones."""
    unavailable: Count = 0
    """Events that could not be sent."""


class DiodeStatus(StatusModel):
    """Observed state of the link."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Ready, LinkUp, Reconciling and Stalled, each with its reason."""
    preflight: Preflight | None = None
    """Result of the last preflight check of the node."""
    active: Annotated[tuple[ActiveResend, ...], Field(max_length=32)] = ()
    """Resends that are running, up to maxConcurrentResends that send and as many that plan."""
    queued: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """How many Resends wait for their turn."""
    ledger: Annotated[tuple[LedgerEntry, ...], Field(max_length=LONGEST_LEDGER)] = ()
    """Ended Resends as an earlier version stored them. They are moved to the ConfigMaps of the ledger."""


class Diode(Resource):
    """A one-way link: its node and interface, the receiver behind it, and how much may be sent."""

    KIND: ClassVar = "Diode"
    PLURAL: ClassVar = "diodes"
    SHORT_NAMES: ClassVar = ("diode",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether resends can run."),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word."),
        Column("Node", "string", ".status.preflight.node", "The node that leads to the diode."),
        Column("Suspended", "boolean", ".spec.suspend", "Whether spec.suspend stops all that sends over it."),
        Column("Active", "string", ".status.active[*].name", "Resends that are running."),
        Column("Queued", "integer", ".status.queued", "Resends that wait."),
        Column("NIC", "string", ".spec.nic", "The interface that leads to the diode.", wide=True),
        Column("Target", "string", ".spec.target.host", "The receiver.", wide=True),
        Column("Port", "integer", ".spec.target.port", "The receiver's UDP port.", wide=True),
        Column("Start", "integer", ".spec.partitionWindow.start", "First downstream partition.", wide=True),
        Column("Count", "integer", ".spec.partitionWindow.count", "Partitions; 0 for all above.", wide=True),
        Column("MTU", "integer", ".status.preflight.mtu", "Largest IP packet of the interface.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: DiodeSpec
    """Desired state of the link."""
    status: DiodeStatus = DiodeStatus()
    """Observed state of the link."""
