"""Owns what is observed of a cluster, in frozen data: the findings are functions of this and of nothing else.

`Unknown` stands where something could not be observed; whoever looks at it must say so in a finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.doctor_report import Side

GROUP_TOPIC, TRANSACTION_TOPIC = "__consumer_offsets", "__transaction_state"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something could not be observed."""

    reason: str
    """In one sentence, without a period at its end."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is registered and running."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the cluster's metadata have it."""

    leader: int
    """-1 for none."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """What is known of a topic that is checked."""

    id: str
    """Empty where brokers have none."""
    configuration: Mapping[str, str] | Unknown
    """Every setting in force."""
    operations: frozenset[str] | Unknown
    """What this user may do with it, such as WRITE."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """What a partition holds."""

    first: int
    end: int
    newest_ms: int | None = None
    """The latest timestamp of a record; ``None`` for no record."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds no offset."""
        return self.first >= self.end


@dataclass(frozen=True, slots=True)
class BrokerStamp:
    """The latest timestamp that a broker itself has written into a partition, looked at twice."""

    place: TopicPartition
    first_seen_at_ms: float
    """By our clock, when the end of the partition was looked at first."""
    seen_at_ms: float
    """By our clock, after the second look."""
    newest_ms: int
    is_new: bool
    """Whether the record was written between the two looks."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a broker, or in a file of ours."""

    subject: str
    begins: datetime
    expires: datetime
    where: str
    """The broker's address, or the file."""
    setting: str = ""
    """The setting of the file; empty for a broker's."""


@dataclass(frozen=True, slots=True)
class BrokerConnection:
    """An attempt to connect to a broker at the address that the cluster names."""

    broker: Broker
    problem: str = ""
    """Why no connection came about; empty when one did."""
    distrust: str = ""
    """Why the broker's certificate is not trusted; empty when it is, or without TLS."""
    certificates: tuple[Certificate, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """An attempt to read one partition without a consumer group."""

    place: TopicPartition
    problem: str = ""
    """Why nothing was read; empty when the broker answered."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a consumer group stands in a partition, and the age of the next record that it will read."""

    next_offset: int
    record_ms: int | None = None
    """The timestamp of that record; ``None`` for no record, or when it was not looked up."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group."""

    name: str
    positions: Mapping[TopicPartition, GroupPosition] | Unknown
    """Without the partitions where it has none. Unknown when its coordinator does not answer or refuses us."""
    is_denied: bool = False
    """Whether the coordinator has answered that this user may not see the group."""
    has_positions: bool = True
    """Whether the group is expected to have positions; otherwise only its coordinator matters."""
    noun: str = "group"
    """What a sentence calls it: a mirror keeps its positions elsewhere, and is overtaken by retention as a group is."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule of Kafka's access control about transactional IDs."""

    principal: str
    """Such as ``User:alice``, or ``User:*`` for everyone."""
    name: str
    """Of the transactional ID, or what it begins with; ``*`` for all."""
    is_prefix: bool
    operation: str
    """Such as WRITE, or ALL."""
    allows: bool

    def matches(self, principal: str, transactional_id: str) -> bool:
        """Whether the rule is about this user and this ID."""
        about = transactional_id.startswith(self.name) if self.is_prefix else self.name in {"*", transactional_id}
        return about and self.principal in {principal, "User:*"}


@dataclass(frozen=True, slots=True)
class Identity:
    """What is remembered about a topic."""

    side: Side
    topic: str
    id: str
    where: str
    """Who remembers it, such as a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster at one moment."""

    side: Side
    servers: str
    id: str
    brokers: Mapping[int, Broker]
    partitions: Mapping[str, Mapping[int, Partition]]
    """Of every topic that the cluster shows us, by partition number."""
    checked: Sequence[str]
    """The topics to check, also those that do not exist."""
    operations: frozenset[str] | Unknown
    """What this user may do with the cluster."""
    topics: Mapping[str, TopicDetails] = field(default_factory=dict)
    """The checked topics that exist."""
    unseen_topics: Mapping[str, Unknown] = field(default_factory=dict)
    """The checked topics of which the cluster does not say whether they exist."""
    hidden_topics: frozenset[str] = frozenset()
    """Internal topics of which the cluster does not say whether they exist."""
    broker_settings: Mapping[int, Mapping[str, str]] | Unknown = field(default_factory=dict)
    principal: str = ""
    """Who this user is to Kafka's access control; empty when only the brokers know."""
    transactional_rules: Sequence[AccessRule] | Unknown | None = None
    """The rules about transactional IDs; ``None`` where they do not matter. Without access control there are none."""
    connections: Sequence[BrokerConnection] = ()
    offsets: Mapping[TopicPartition, PartitionOffsets | Unknown] = field(default_factory=dict)
    stamps: Sequence[BrokerStamp] = ()
    probes: Sequence[Probe] | Unknown = ()
    groups: Sequence[Group] = ()

    def broker_setting(self, name: str) -> dict[int, str]:
        """A setting of the brokers that tell it, by broker."""
        if isinstance(self.broker_settings, Unknown):
            return {}
        return {number: found[name] for number, found in self.broker_settings.items() if name in found}

    def setting(self, topic: str, name: str) -> str | None:
        """A setting in force of a checked topic; ``None`` when it is not known."""
        details = self.topics.get(topic)
        if details is None or isinstance(details.configuration, Unknown):
            return None
        return details.configuration.get(name)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A cluster that does not answer, or refuses us."""

    side: Side
    servers: str
    problem: str
    connections: Sequence[BrokerConnection] = ()
    """Attempts to connect to the bootstrap servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Everything that one run has observed."""

    at_ms: float
    """Our clock."""
    source: Cluster | Unreachable
    target: Cluster | Unreachable | None
    target_names: Mapping[str, str]
    """The topics at the target, by their names at the source."""
    certificates: Sequence[Certificate] = ()
    """In files of ours."""
    remembered: Sequence[Identity] = ()
    remembered_clusters: Mapping[Side, str] = field(default_factory=dict)
    named: Mapping[Side, Sequence[str]] = field(default_factory=dict)
    """Topics that must exist."""
    gap_topic: str | None = None
    control_topic: str | None = None
    """The control topic of the mirror that is checked, if it exists."""
    transactional_ids: Sequence[str] = ()
    certificate_days: int = 30
    unknown: Sequence[tuple[Side, Unknown]] = ()
    """What else could not be observed."""

    def clusters(self) -> dict[Side, Cluster]:
        """The clusters that answered."""
        return {found.side: found for found in (self.source, self.target) if isinstance(found, Cluster)}
