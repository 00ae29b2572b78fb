"""The observations of a cluster as frozen data: the findings are functions of these alone.

`Unknown` marks what could not be observed; it must lead to a finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.doctor_report import Side

GROUP_TOPIC, TRANSACTION_TOPIC = "__consumer_offsets", "__transaction_state"


@dataclass(frozen=True, slots=True)
class Unknown:
    """An observation that could not be made."""

    reason: str
    """A clause without a period at its end."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """The advertised address."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition in the metadata of the cluster."""

    leader: int
    """-1 for none."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """Details of a checked topic."""

    id: str
    """Empty where brokers have none."""
    configuration: Mapping[str, str] | Unknown
    """All effective settings."""
    operations: frozenset[str] | Unknown
    """The authorized operations of this user on the topic, such as WRITE."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The extent of a partition."""

    first: int
    end: int
    newest_ms: int | None = None
    """The latest timestamp of a record; ``None`` without records."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no offsets."""
        return self.first >= self.end


@dataclass(frozen=True, slots=True)
class BrokerStamp:
    """The latest timestamp in a partition whose timestamps a broker writes, from two queries."""

    partition: TopicPartition
    first_seen_at_ms: float
    """The local clock before the first query."""
    seen_at_ms: float
    """The local clock after the second query."""
    newest_ms: int
    is_new: bool
    """Whether the record was written between the two queries."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a broker, or in a local file."""

    subject: str
    begins: datetime
    expires: datetime
    where: str
    """The broker's address, or the file."""
    setting: str = ""
    """The setting of the file; empty for a broker's."""


@dataclass(frozen=True, slots=True)
class BrokerConnection:
    """An attempt to connect to the advertised address of a broker."""

    broker: Broker
    problem: str = ""
    """Why the connection failed; empty when it succeeded."""
    distrust: str = ""
    """Why the broker's certificate is not trusted; empty when it is, or without TLS."""
    certificates: tuple[Certificate, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """An attempt to read one partition without a consumer group."""

    partition: TopicPartition
    problem: str = ""
    """Why nothing was read; empty when the broker responded."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The position of a consumer group in a partition, and the timestamp of the next record that it will read."""

    next_offset: int
    record_ms: int | None = None
    """``None`` without such a record, or when it was not read."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group."""

    name: str
    positions: Mapping[TopicPartition, GroupPosition] | Unknown
    """Partitions with a committed offset. Unknown when the coordinator does not respond or denies access."""
    is_denied: bool = False
    """Whether the coordinator responded and denied access to the group."""
    has_positions: bool = True
    """Whether the group must have positions; otherwise only its coordinator matters."""
    noun: str = "group"
    """``mirror`` for a mirror, which stores its positions elsewhere, but loses records to retention like a group."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One ACL for transactional IDs."""

    principal: str
    """Such as ``User:alice``, or ``User:*`` for everyone."""
    name: str
    """The transactional ID or its prefix; ``*`` for all."""
    is_prefix: bool
    operation: str
    """Such as WRITE, or ALL."""
    allows: bool

    def matches(self, principal: str, transactional_id: str) -> bool:
        """Whether the ACL applies to this user and this ID."""
        applies = transactional_id.startswith(self.name) if self.is_prefix else self.name in {"*", transactional_id}
        return applies and self.principal in {principal, "User:*"}


@dataclass(frozen=True, slots=True)
class Identity:
    """The topic ID in an earlier report or in the positions of a mirror."""

    side: Side
    topic: str
    id: str
    where: str
    """The report, or the mirror."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster at one moment."""

    side: Side
    servers: str
    id: str
    brokers: Mapping[int, Broker]
    partitions: Mapping[str, Mapping[int, Partition]]
    """The partitions of all visible topics, by partition number."""
    checked: Sequence[str]
    """The topics to check, including those that do not exist."""
    operations: frozenset[str] | Unknown
    """The authorized operations of this user on the cluster."""
    topics: Mapping[str, TopicDetails] = field(default_factory=dict)
    """The checked topics that exist."""
    unseen_topics: Mapping[str, Unknown] = field(default_factory=dict)
    """The checked topics that could not be described, so that their existence is unknown."""
    hidden_topics: frozenset[str] = frozenset()
    """The internal topics that could not be described."""
    broker_settings: Mapping[int, Mapping[str, str]] | Unknown = field(default_factory=dict)
    principal: str = ""
    """The principal of this user; empty when only the brokers know it."""
    transactional_rules: Sequence[AccessRule] | Unknown | None = None
    """The ACLs for transactional IDs; ``None`` where they are not needed, empty without an authorizer."""
    connections: Sequence[BrokerConnection] = ()
    offsets: Mapping[TopicPartition, PartitionOffsets | Unknown] = field(default_factory=dict)
    stamps: Sequence[BrokerStamp] = ()
    probes: Sequence[Probe] | Unknown = ()
    groups: Sequence[Group] = ()

    def broker_setting(self, name: str) -> dict[int, str]:
        """Return a setting by broker, for the brokers that return it."""
        if isinstance(self.broker_settings, Unknown):
            return {}
        return {number: settings[name] for number, settings in self.broker_settings.items() if name in settings}

    def setting(self, topic: str, name: str) -> str | None:
        """Return an effective setting of a checked topic; ``None`` when it is unknown."""
        details = self.topics.get(topic)
        if details is None or isinstance(details.configuration, Unknown):
            return None
        return details.configuration.get(name)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A cluster that does not respond, or refuses the connection."""

    side: Side
    servers: str
    problem: str
    connections: Sequence[BrokerConnection] = ()
    """Attempts to connect to the bootstrap servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """All observations of one run."""

    at_ms: float
    """The local clock."""
    source: Cluster | Unreachable
    target: Cluster | Unreachable | None
    target_names: Mapping[str, str]
    """The names of the topics at the target, by their names at the source."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why the mirror that is checked does not copy a topic, by its name at the source."""
    certificates: Sequence[Certificate] = ()
    """Certificates in local files."""
    remembered: Sequence[Identity] = ()
    remembered_clusters: Mapping[Side, str] = field(default_factory=dict)
    named: Mapping[Side, Sequence[str]] = field(default_factory=dict)
    """Topics that must exist."""
    gap_topic: str | None = None
    control_topic: str | None = None
    """The control topic of the mirror that is checked, if it exists."""
    position_differences: Sequence[tuple[str, str, str]] = ()
    """What is different about positions of the mirror that is checked: source partition, state and sentence."""
    transactional_ids: Sequence[str] = ()
    certificate_days: int = 30
    unknown: Sequence[tuple[Side, Unknown]] = ()
    """Other observations that could not be made."""

    def clusters(self) -> dict[Side, Cluster]:
        """Return the reachable clusters."""
        return {cluster.side: cluster for cluster in (self.source, self.target) if isinstance(cluster, Cluster)}
