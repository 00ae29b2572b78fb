"""Owns how an audit ends and in which words; must not know Spark, Kafka or how the words are shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.outcome import (
    Conclusion,
    Outcome,
    amount,
    behind_transactions,
    gaps_in_words,
    missing_in,
    verb,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.gap_detection import ReceivedPartition

_LONGEST_KEY = 60
"""Bytes of a key that a sentence shows."""
_OF_ANOTHER_GENERATION = (
    "The upstream topic was deleted and recreated, so that offsets of the older bundle may name events of the topic "
    "before, which cannot be told from those of the new one."
)


@dataclass(frozen=True, slots=True)
class OtherRecords:
    """What an audit found beside events."""

    foreign: int = 0
    """How many records have a key that is no event's."""
    first_key: bytes | None = None
    """The first of these keys, where no record has an event's; ``None`` also for a record without a key."""
    expired: bool = False
    """Whether Kafka deleted records before an audit read them."""
    uncommitted: tuple[tuple[str, int], ...] = ()
    """Topics, and how many of their offsets are behind transactions that are still open."""


def conclude_audit(
    topics: Sequence[str],
    found: Sequence[ReceivedPartition],
    others: OtherRecords,
    *,
    include_unknown: bool = False,
) -> Conclusion:
    """Put what was received and what was not into words.

    Args:
        topics: that were read.
        found: the source partitions that were received or expected.
        others: what was read or left out beside them.
        include_unknown: whether the bundle shall list also what may have been received and was deleted unread.
    """
    received = sum(partition.received for partition in found)
    if others.foreign and not received:  # All that is expected would seem to be missing, and nothing was understood.
        found = [replace(partition, missing=OffsetRanges(), unknown=partition.expected) for partition in found]
    outcome, sentence = _audit_in_words(topics, found, others, include_unknown=include_unknown)
    gaps = [partition.gaps() for partition in found]
    return Conclusion(
        outcome,
        sentence,
        tuple(entry for entry in gaps if entry is not None),
        tuple(_received(partition) for partition in found),
        {
            "records": sum(partition.records for partition in found) + others.foreign,
            "foreign_keys": others.foreign,
            "received": received,
            "duplicates": sum(partition.duplicates for partition in found),
            "unexpected": sum(partition.unexpected for partition in found),
            "unknown": sum(partition.unknown.count for partition in found),
        },
        {
            (partition.topic, partition.partition): partition.known
            for partition in found
            if partition.given or len(partition.unknown)
        },
        listed=tuple(filter(None, (partition.gaps(with_unknown=True) for partition in found)))
        if include_unknown
        else None,
    )


def told_of_one_generation(concluded: Conclusion, restarted: Collection[TopicPartition]) -> Conclusion:
    """The same where the offsets of `restarted` partitions named other events before: older bundles are about those."""
    if not restarted:
        return concluded
    nothing = dict.fromkeys(restarted, OffsetRanges())
    return replace(concluded, looked_at={**concluded.looked_at, **nothing}, why_unknown=_OF_ANOTHER_GENERATION)


def _audit_in_words(
    topics: Sequence[str], found: Sequence[ReceivedPartition], others: OtherRecords, *, include_unknown: bool
) -> tuple[Outcome, str]:
    read = f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
    received = sum(partition.received for partition in found)
    if others.foreign and not received:
        return Outcome.UNREADABLE_RECORDS, _unrecognised(read, others)
    behind = behind_transactions(others.uncommitted)
    if not found:
        gone = (
            " Kafka has deleted records that no audit has read: say with --expect what should be there, or give an "
            "inventory of the sending side."
        )
        return Outcome.NOTHING_TO_DO, (
            f"Nothing to do: {read} holds no records, and nothing is expected.{behind}{gone if others.expired else ''}"
        )
    inferred = sum(not partition.given for partition in found)
    caution = (
        f" What {amount(inferred, 'partition')} lost before the lowest or after the highest offset seen cannot show; "
        f"say with --expect what should be there, or give an inventory of the sending side."
        if inferred
        else ""
    )
    unknown = _unknown(found, include_unknown=include_unknown)
    rest = f"{unknown}{behind}{caution}"
    outcome = Outcome.UNKNOWN_EVENTS if unknown else None
    missing = [partition.missing for partition in found]
    if not any(len(ranges) for ranges in missing):
        nothing = "Nothing is known to be missing" if unknown else "Nothing is missing"
        return outcome or Outcome.NOTHING_MISSING, (
            f"{nothing}: {amount(received, 'event')} of {amount(len(found), 'partition')} were received.{rest}"
        )
    return outcome or Outcome.GAPS_FOUND, gaps_in_words(missing, [partition.unknown for partition in found]) + rest


def _unrecognised(read: str, others: OtherRecords) -> str:
    key = "none" if others.first_key is None else _shown(others.first_key)
    return (
        f"None of {amount(others.foreign, 'record')} of {read} has the key of an event, topic_partition_offset (the "
        f"first key: {key}), so it is unknown what is missing: give the topic that the receiver writes "
        f"events to, and check that nothing on the way changes their keys."
    )


def _shown(key: bytes) -> str:
    """A key as text of one line and bounded length."""
    text = ascii(key[:_LONGEST_KEY].decode("utf-8", "backslashreplace"))
    return f"{text} and {len(key) - _LONGEST_KEY} more bytes" if len(key) > _LONGEST_KEY else text


def _unknown(found: Sequence[ReceivedPartition], *, include_unknown: bool) -> str:
    amounts = [partition.unknown.count for partition in found if len(partition.unknown)]
    if not amounts:
        return ""
    where = "the bundle lists them, too" if include_unknown else "--include-unknown puts them into the bundle"
    return (
        f" {amount(sum(amounts), 'event')} of {amount(len(amounts), 'partition')} {verb(sum(amounts))} unknown: "
        f"Kafka deleted records before an audit read them, and these events may have been among them; {where}."
    )


def _received(partition: ReceivedPartition) -> dict[str, Any]:
    return {
        **missing_in(partition.topic, partition.partition, partition.missing),
        "unknown": partition.unknown.count,
        "received": partition.received,
        "duplicates": partition.duplicates,
        "first_received": partition.first_received,
        "last_received": partition.last_received,
        "first_expected": partition.expected.first_offset if len(partition.expected) else None,
        "last_expected": partition.expected.last_offset if len(partition.expected) else None,
        "expected": partition.expected.count,
        "bounds": str(partition.bounds),
        "unexpected": partition.unexpected,
        "outside_manifest": partition.outside_inventory,
    }
