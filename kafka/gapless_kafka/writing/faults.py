"""What an error of Kafka means to a writing program, as one sentence; must not know what is written.

Any other error means the same as to a reader: see `gapless_kafka.access.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceStalledError, SourceUnreachableError
from gapless_kafka.access.errors import DENIED, OTHER, TRANSIENT, fault_of, reason_in

if TYPE_CHECKING:
    from gapless_kafka.writing.positions import WorkPartition


class TakenOverError(ConfigurationError):
    """A later run of the same work has started; this one must stop writing."""


class Refusal(NamedTuple):
    """Why records of a partition are not written, while others can be."""

    may_skip: bool
    """Whether a record is refused because of what it is, so that it may be skipped by request."""
    cause: str
    """Why, as the end of a sentence about the record."""
    sentence: str
    """The error, if the record is not skipped."""
    is_unexpected: bool = False
    """Whether an exception that no rule expects was raised here, and Kafka refused nothing."""


class RecordsRefusedError(ConfigurationError):
    """Kafka refuses records of some partitions of a transaction, of which nothing was written."""

    def __init__(self, refusals: Mapping[WorkPartition, Refusal]) -> None:
        """`refusals` are by source partition."""
        super().__init__(next(iter(refusals.values())).sentence)
        self.refusals = refusals


_TOO_LARGE = (
    "Kafka at {servers} refuses a record for the topic {topic} because it is too large; raise "
    "max.message.bytes of the topic and run again, which continues after the written records."
)
_TIMESTAMP = (
    "Kafka at {servers} refuses a record for the topic {topic} because of its timestamp; raise "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic and run again, which continues "
    "after the written records."
)
_REPLICAS = (
    "The topic {topic} of Kafka at {servers} has fewer in-sync replicas than min.insync.replicas; start the brokers of "
    "its replicas and run again."
)
_INVALID = (
    "Kafka at {servers} refuses a record for the topic {topic}{reason}; a compacted topic accepts no record without a "
    "key. Change cleanup.policy of the topic, or write to another topic."
)
_DENIED_TOPIC = (
    "Kafka at {servers} denies writing to the topic {topic}; grant this user the operations Write and Describe on it, "
    "or log in as another user."
)
_DENIED_TRANSACTIONS = (
    "Kafka at {servers} denies transactions; grant this user the operations Write and Describe on transactional IDs "
    "with the prefix {transactional_id}, or use --delivery=at-least-once."
)
_TIMEOUT = (
    "Kafka at {servers} refuses the transaction timeout of this program (120000 ms); raise "
    "transaction.max.timeout.ms of the brokers to 120000 or more."
)
_PARTITION = (
    "The topic {topic} of Kafka at {servers} has fewer partitions than the source; add partitions, or correct the name."
)
_POLICY = "A policy of Kafka at {servers} refuses records for the topic {topic}{reason}; change it and run again."
_SENTENCES: dict[str, tuple[type[GaplessError], str]] = {
    "MSG_SIZE_TOO_LARGE": (ConfigurationError, _TOO_LARGE),
    "RECORD_LIST_TOO_LARGE": (ConfigurationError, _TOO_LARGE),
    "INVALID_TIMESTAMP": (ConfigurationError, _TIMESTAMP),
    "INVALID_RECORD": (ConfigurationError, _INVALID),
    "_INVALID_DIFFERENT_RECORD": (ConfigurationError, _INVALID),
    "NOT_ENOUGH_REPLICAS": (SourceStalledError, _REPLICAS),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": (SourceStalledError, _REPLICAS),
    "TOPIC_AUTHORIZATION_FAILED": (SourceUnreachableError, _DENIED_TOPIC),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (SourceUnreachableError, _DENIED_TRANSACTIONS),
    "INVALID_TRANSACTION_TIMEOUT": (ConfigurationError, _TIMEOUT),
    "POLICY_VIOLATION": (ConfigurationError, _POLICY),
    "_UNKNOWN_PARTITION": (ConfigurationError, _PARTITION),
}
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"})
_REFUSALS = frozenset(
    {
        *("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP", "INVALID_RECORD", "POLICY_VIOLATION"),
        "_INVALID_DIFFERENT_RECORD",
        *("TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"),
    }
)

_RECORD_REFUSALS = frozenset(
    {
        *("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP", "INVALID_RECORD"),
        "_INVALID_DIFFERENT_RECORD",
    }
)


_CAUSES = {
    "MSG_SIZE_TOO_LARGE": "it is too large for max.message.bytes",
    "RECORD_LIST_TOO_LARGE": "it is too large for max.message.bytes",
    "INVALID_TIMESTAMP": (
        "its timestamp is outside of message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    ),
    "INVALID_RECORD": "Kafka finds it invalid, as a record without a key in a compacted topic",
}
"""Why a record is refused, as the end of a sentence."""


def refusal_cause(error: KafkaError) -> str:
    """Return why a record is refused, as the end of a sentence about it."""
    return _CAUSES.get(error.name()) or reason_in(error.str()) or error.name()


def stops_partition(error: KafkaError) -> bool:
    """Whether Kafka refuses records of one partition, so that others can be written without them."""
    return is_record_refusal(error) or error.name() == "POLICY_VIOLATION"


def is_record_refusal(error: KafkaError) -> bool:
    """Whether Kafka refuses a record because of what it is, and would accept others in the same partition."""
    return error.name() in _RECORD_REFUSALS


def is_refusal(error: KafkaError) -> bool:
    """Whether Kafka refuses some records of a topic, and may accept others."""
    return error.name() in _REFUSALS


def is_unknown_to_client(error: KafkaError) -> bool:
    """Whether the topic or partition is missing in the client's metadata, perhaps because it is new."""
    return error.name() in {"_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}


def is_transaction_failed(error: KafkaError) -> bool:
    """Whether the transaction has failed before, with its reason in a delivery report."""
    return bool(error.name() == "_STATE")


def is_purged(error: KafkaError) -> bool:
    """Whether the client discarded the record before Kafka acknowledged it."""
    return error.name() in {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}


def not_written(error: KafkaError | None) -> KafkaError:
    """Return why a record was not written whose delivery report has no offset: `error`, if there is one.

    Without an error the client has only concluded that Kafka accepted the record. It sends up to five batches before
    the first is answered. If the leader rejects the first, because it has just begun to lead the partition, and accepts
    the next one, the client takes both for accepted; but Kafka accepts any first batch of a producer, and has only that
    one. Such records must be written again, as those that the client has purged.
    """
    return error or KafkaError(KafkaError._PURGE_QUEUE, "acknowledged without an offset")  # noqa: SLF001 -- its name


def failure_of(errors: Sequence[KafkaError]) -> KafkaError:
    """Return the error that caused the others: all records of a refused batch fail, and later ones are purged."""
    return min(errors, key=lambda error: (is_purged(error), error.name() == "_INVALID_DIFFERENT_RECORD"))


def is_fenced(error: KafkaError) -> bool:
    """Whether another producer with the same transactional ID has started."""
    return error.name() in _FENCED


def writing_error(error: KafkaError, servers: str, topic: str, *, transactional_id: str = "") -> GaplessError:
    """The error to raise when Kafka refuses a record or a transaction.

    Args:
        error: of Kafka's client.
        servers: the bootstrap servers.
        topic: the topic that is written to.
        transactional_id: of the producer; empty for none.
    """
    if is_fenced(error):
        return TakenOverError(
            f"Another run of the same work has started to write to {topic} and continues it; this one has ended."
        )
    name, reason = error.name(), reason_in(error.str())
    if name in _SENTENCES:
        kind, sentence = _SENTENCES[name]
        prefix = transactional_id.rpartition("-")[0]
        shown = f" ({reason})" if reason else ""
        return kind(sentence.format(servers=servers, topic=topic, reason=shown, transactional_id=prefix))
    fault = fault_of(name)
    if fault is DENIED:
        return SourceUnreachableError(
            f"Kafka at {servers} denies writing ({reason}); grant this user the operation Write on the topic {topic}, "
            f"on the control topic and on its transactional IDs."
        )
    if fault is TRANSIENT:
        return SourceStalledError(
            f"Kafka at {servers} stopped answering while the topic {topic} was written ({reason}); check the brokers "
            f"and run again."
        )
    if fault is not OTHER:
        return fault.error(servers, f"the topic {topic}", reason=reason)
    return SourceUnreachableError(
        f"Kafka at {servers} returned an error while the topic {topic} was written ({reason}); check the logs of the "
        f"brokers and run again."
    )
