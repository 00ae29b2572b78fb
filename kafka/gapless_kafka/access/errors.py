"""What each of Kafka's errors means to a reader: the error to raise, its message, and whether to retry.

Must not know any Kafka client: errors are given by the names of librdkafka, which are those of Kafka's protocol, or
begin with ``_`` for errors of the client itself. An error that is in no row is `OTHER`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceStalledError, SourceUnreachableError


class TopicMissingError(ConfigurationError):
    """The topic does not exist."""


class PartitionUnreadableError(SourceUnreachableError):
    """A partition cannot be read from an offset on; other partitions can."""

    def __init__(self, sentence: str, topic: str, partition: int, offset: int, reason: str) -> None:
        """Store where; `offset` is negative where Kafka's client does not give it."""
        super().__init__(sentence)
        self.topic, self.partition, self.offset, self.reason = topic, partition, offset, reason


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of errors."""

    is_transient: bool
    """Whether a reader retries until the stall timeout."""
    raises: type[GaplessError]
    """The error to raise in the end; its class decides the condition reason and the exit code."""
    sentence: str
    """With ``servers``, ``subject`` (such as "the topic t"), ``reason`` (in parentheses, or nothing) and ``hint``."""

    def error(self, servers: str, subject: str = "a topic", *, reason: str = "", hint: str = "") -> GaplessError:
        """The error to raise.

        Args:
            servers: the bootstrap servers.
            subject: what was requested.
            reason: the message of Kafka's client; may be empty.
            hint: more advice in case the topic name is wrong; begins with a comma.
        """
        shown = f" ({reason})" if reason else ""
        return self.raises(self.sentence.format(servers=servers, subject=subject, reason=shown, hint=hint))


TRANSIENT = Fault(
    True,
    SourceStalledError,
    "Kafka at {servers} stopped answering while {subject} was read{reason}; check the brokers and run again.",
)
UNREACHABLE = Fault(
    True,
    SourceUnreachableError,
    "Kafka at {servers} cannot be reached{reason}; check the bootstrap servers, the network, the TLS and SASL "
    "settings, and whether the brokers are running.",
)
LOGIN = Fault(
    True,
    SourceUnreachableError,
    "Kafka at {servers} refuses the connection{reason}; check caFile, certFile, saslMechanism, saslUsername and "
    "saslPasswordFile, or the settings that begin with oauth or kerberos.",
)
DENIED = Fault(
    False,
    SourceUnreachableError,
    "Kafka at {servers} denies access to {subject}; grant this user the operations Read and Describe on it, or log in "
    "as another user.",
)
NO_TOPIC = Fault(
    False,
    ConfigurationError,
    "Kafka at {servers} does not have {subject}; correct the name or the bootstrap servers{hint}.",
)
BAD_NAME = Fault(
    False,
    ConfigurationError,
    "Kafka at {servers} rejects the name of {subject}; use at most 249 letters, digits, periods, underscores and "
    "hyphens.",
)
EXPIRED = Fault(
    False,
    SourceUnreachableError,
    "Kafka at {servers} has deleted records of {subject} before they were read; run again, and raise retention.ms or "
    "retention.bytes if it recurs.",
)
BAD_SETTINGS = Fault(
    False, ConfigurationError, "Kafka's client rejects its settings{reason}; correct the Kafka settings."
)
OTHER = Fault(
    False,
    SourceUnreachableError,
    "Kafka at {servers} returned an error for {subject}{reason}; check the logs of the brokers.",
)
"""Every error that is in no row of the table."""

_ROWS: dict[str, tuple[Fault, str]] = {
    "no error": (TRANSIENT, "NO_ERROR _NO_ERROR _PARTITION_EOF"),
    "transient in the cluster, such as a leader election": (
        TRANSIENT,
        (
            "BROKER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE FENCED_LEADER_EPOCH FETCH_SESSION_ID_NOT_FOUND "
            "INCONSISTENT_TOPIC_ID INVALID_FETCH_SESSION_EPOCH KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE "
            "NETWORK_EXCEPTION NOT_CONTROLLER NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE "
            "PREFERRED_LEADER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS REBOOTSTRAP_REQUIRED REPLICA_NOT_AVAILABLE "
            "STALE_BROKER_EPOCH STALE_CTRL_EPOCH THROTTLING_QUOTA_EXCEEDED UNKNOWN UNKNOWN_LEADER_EPOCH "
            "UNKNOWN_TOPIC_ID _INTR _IN_PROGRESS _NODE_UPDATE _NOENT _OUTDATED _PREV_IN_PROGRESS _RETRY _WAIT_CACHE "
            "_WAIT_COORD"
        ),
    ),
    "of a consumer group, which a reader never joins": (
        TRANSIENT,
        (
            "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH "
            "GROUP_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED ILLEGAL_GENERATION "
            "INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID MEMBER_ID_REQUIRED NOT_COORDINATOR REBALANCE_IN_PROGRESS "
            "STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT _ASSIGNMENT_LOST "
            "_MAX_POLL_EXCEEDED _NO_OFFSET _UNKNOWN_GROUP"
        ),
    ),
    "no response": (
        UNREACHABLE,
        (
            "REQUEST_TIMED_OUT _ALL_BROKERS_DOWN _DESTROY_BROKER _MSG_TIMED_OUT _RESOLVE _TIMED_OUT _TIMED_OUT_QUEUE "
            "_TRANSPORT _UNKNOWN_BROKER"
        ),
    ),
    "wrong certificates or credentials": (
        LOGIN,
        (
            "ILLEGAL_SASL_STATE SASL_AUTHENTICATION_FAILED SECURITY_DISABLED UNACCEPTABLE_CREDENTIAL "
            "UNSUPPORTED_SASL_MECHANISM _AUTHENTICATION _SSL"
        ),
    ),
    "no permission": (
        DENIED,
        (
            "CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED "
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        ),
    ),
    "no such topic": (NO_TOPIC, "UNKNOWN_TOPIC_OR_PART _UNKNOWN_PARTITION _UNKNOWN_TOPIC"),
    "invalid topic name": (BAD_NAME, "TOPIC_EXCEPTION"),
    "deleted before it was read": (EXPIRED, "OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET"),
    "settings that the client rejects": (BAD_SETTINGS, "INVALID_CONFIG _INVALID_ARG _NOT_CONFIGURED"),
}
_HAS_MEMBERS = frozenset(
    {
        *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "UNRELEASED_INSTANCE_ID"),
        *("FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
    }
)
_DAMAGE = frozenset({"_BAD_MSG", "_BAD_COMPRESSION", "INVALID_MSG"})
"""A wrong checksum, records that cannot be decompressed, and damage that the broker has found itself."""
FAULTS: dict[str, Fault] = {name: fault for fault, names in _ROWS.values() for name in names.split()}
"""By the name that librdkafka gives the error."""


def fault_of(name: str) -> Fault:
    """Return what Kafka's error `name` means."""
    return FAULTS.get(name, OTHER)


def is_damage(name: str) -> bool:
    """Whether Kafka's error `name` says that a batch cannot be read as it was written: its log is damaged."""
    return name in _DAMAGE


def denies_topic(name: str) -> bool:
    """Whether Kafka's error `name` denies access to a topic."""
    return name == "TOPIC_AUTHORIZATION_FAILED"


def group_has_members(name: str) -> bool:
    """Whether Kafka's error `name`, in response to a commit by a non-member, shows that the group has members."""
    return name in _HAS_MEMBERS


def denies_group(name: str) -> bool:
    """Whether Kafka's error `name` denies access to a consumer group; a reader, which joins none, ignores it."""
    return name == "GROUP_AUTHORIZATION_FAILED"


def reason_in(text: str) -> str:
    """Return a message of librdkafka in one line, without the thread and broker names at its beginning."""
    return " ".join(text.split()).rpartition("]: ")[2].rstrip(".")
