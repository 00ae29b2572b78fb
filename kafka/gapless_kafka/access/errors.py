"""Owns what each of Kafka's errors means: who must act, how a command ends, and the sentence that says so.

Must not know any client of Kafka: errors come as the names that librdkafka gives them, which are those of Kafka's
protocol, and with ``_`` in front those of the client itself. What is in no row is `OTHER`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gapless_api.base.errors import (
    ERROR_OUTCOMES,
    ConfigurationError,
    GaplessError,
    SourceStalledError,
    SourceUnreachableError,
)

if TYPE_CHECKING:
    from gapless_api.base.errors import ErrorOutcome


class TopicMissingError(ConfigurationError):
    """The topic does not exist."""


class Actor(StrEnum):
    """Who must act."""

    NOBODY = "nobody"
    """It passes; whoever reads goes on and waits."""
    USER = "the user"
    PLATFORM = "the platform team"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of errors."""

    actor: Actor
    """Who must act when waiting does not help."""
    passes: bool
    """Whether a reader goes on, and waits as long as a stall may last."""
    raises: type[GaplessError]
    """How it ends when nobody waits any more; the class says the condition reason and the exit code."""
    sentence: str
    """With ``servers``, ``subject`` (such as "the topic t"), ``reason`` (in parentheses, or nothing) and ``hint``."""

    @property
    def verdict(self) -> ErrorOutcome:
        """Condition reason and exit code."""
        return ERROR_OUTCOMES[self.raises]

    def error(self, servers: str, subject: str = "a topic", *, reason: str = "", hint: str = "") -> GaplessError:
        """The error to raise.

        Args:
            servers: the bootstrap servers.
            subject: what was asked for.
            reason: what Kafka's client says; may be empty.
            hint: more advice for whom the name of a topic is wrong; begins with a comma.
        """
        told = f" ({reason})" if reason else ""
        return self.raises(self.sentence.format(servers=servers, subject=subject, reason=told, hint=hint))


PASSING = Fault(
    Actor.NOBODY,
    True,
    SourceStalledError,
    "Kafka at {servers} stopped answering while {subject} was read{reason}; check the brokers and run again.",
)
UNREACHABLE = Fault(
    Actor.PLATFORM,
    True,
    SourceUnreachableError,
    "Kafka at {servers} cannot be reached{reason}; check the address, the network, the TLS and login settings, and "
    "whether the brokers run.",
)
LOGIN = Fault(
    Actor.USER,
    True,
    SourceUnreachableError,
    "Kafka at {servers} refuses the connection{reason}; check caFile, certFile, saslMechanism, the name and the "
    "password.",
)
DENIED = Fault(
    Actor.PLATFORM,
    False,
    SourceUnreachableError,
    "Kafka at {servers} denies access to {subject}; grant this user the operations Read and Describe on it, or log in "
    "as another.",
)
NO_TOPIC = Fault(
    Actor.USER,
    False,
    ConfigurationError,
    "Kafka at {servers} does not have {subject}; correct the name or the address{hint}.",
)
BAD_NAME = Fault(
    Actor.USER, False, ConfigurationError, "Kafka allows no topic to be called so: {subject}; correct the name."
)
EXPIRED = Fault(
    Actor.PLATFORM,
    False,
    SourceUnreachableError,
    "Kafka at {servers} has deleted records of {subject} before they were read; run again, or keep them longer.",
)
BAD_SETTINGS = Fault(
    Actor.USER, False, ConfigurationError, "Kafka's client refuses the settings{reason}; correct the Kafka settings."
)
OTHER = Fault(
    Actor.PLATFORM,
    False,
    SourceUnreachableError,
    "Kafka at {servers} answers with an error for {subject}{reason}; check the brokers' logs.",
)
"""Every error that is in no row of the table."""

_ROWS: dict[str, tuple[Fault, str]] = {
    "no error": (PASSING, "NO_ERROR _NO_ERROR _PARTITION_EOF"),
    "busy with itself, such as with the choice of a leader": (
        PASSING,
        (
            "BROKER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE FENCED_LEADER_EPOCH FETCH_SESSION_ID_NOT_FOUND "
            "INCONSISTENT_TOPIC_ID INVALID_FETCH_SESSION_EPOCH KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE "
            "NETWORK_EXCEPTION NOT_CONTROLLER NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE "
            "PREFERRED_LEADER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS REBOOTSTRAP_REQUIRED REPLICA_NOT_AVAILABLE "
            "STALE_BROKER_EPOCH STALE_CTRL_EPOCH THROTTLING_QUOTA_EXCEEDED UNKNOWN UNKNOWN_LEADER_EPOCH "
            "UNKNOWN_TOPIC_ID _INTR _IN_PROGRESS _NODE_UPDATE _OUTDATED _PREV_IN_PROGRESS _RETRY _WAIT_CACHE "
            "_WAIT_COORD"
        ),
    ),
    "of a consumer group, which we never use": (
        PASSING,
        (
            "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH "
            "GROUP_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED ILLEGAL_GENERATION "
            "INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID MEMBER_ID_REQUIRED NOT_COORDINATOR REBALANCE_IN_PROGRESS "
            "STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT _ASSIGNMENT_LOST "
            "_MAX_POLL_EXCEEDED _NO_OFFSET _UNKNOWN_GROUP"
        ),
    ),
    "no answer": (
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
    "no name that a topic can have": (BAD_NAME, "TOPIC_EXCEPTION"),
    "deleted before it was read": (EXPIRED, "OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET"),
    "settings that the client refuses": (BAD_SETTINGS, "INVALID_CONFIG _INVALID_ARG _NOT_CONFIGURED"),
}
_HAS_MEMBERS = frozenset(
    {
        *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "UNRELEASED_INSTANCE_ID"),
        *("FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
    }
)
FAULTS: dict[str, Fault] = {name: fault for fault, names in _ROWS.values() for name in names.split()}
"""By librdkafka's name of the error."""


def fault_of(name: str) -> Fault:
    """What Kafka's error `name` means."""
    return FAULTS.get(name, OTHER)


def denies_topic(name: str) -> bool:
    """Whether Kafka's error `name` denies a topic, and nothing else."""
    return name == "TOPIC_AUTHORIZATION_FAILED"


def group_has_members(name: str) -> bool:
    """Whether an answer to a commit by somebody who is no member of the group says that it has some."""
    return name in _HAS_MEMBERS


def denies_group(name: str) -> bool:
    """Whether Kafka's error `name` denies a consumer group; it passes for a reader, which uses none."""
    return name == "GROUP_AUTHORIZATION_FAILED"


def reason_in(text: str) -> str:
    """What librdkafka says, in one line and without the names of its threads and brokers in front."""
    return " ".join(text.split()).rpartition("]: ")[2].rstrip(".")
