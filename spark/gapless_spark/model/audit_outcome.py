"""The outcome of an audit and its message; must not know Spark, Kafka or how the message is shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.quantities import quantity
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.page.model import missing_row
from gapless_api.wire.lost_times import LOST_TIMES
from gapless_spark.model.arrivals import Losses, lost_members, lost_times
from gapless_spark.model.outcome import (
    Conclusion,
    Outcome,
    describe_gaps,
    describe_uncommitted,
    is_or_are,
)

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.gap_detection import ReceivedPartition

_MAX_LOST_HOURS = 7 * 24
"""The newest of the hours in which events were lost, in the report."""
_MAX_KEY_BYTES = 60
"""How much of a key a message shows."""
_RECREATED = (
    "The upstream topic was deleted and recreated, so offsets in the older bundle may identify events of the previous "
    "topic, which cannot be distinguished from events of the new one."
)


@dataclass(frozen=True, slots=True)
class OtherRecords:
    """Records that are not received events, and records that were not read."""

    foreign: int = 0
    """How many records have a key that does not name an event."""
    first_key: bytes | None = None
    """The first of these keys, if no record is an event; ``None`` also for a record without a key."""
    expired: bool = False
    """Whether Kafka deleted records before an audit read them."""
    uncommitted: tuple[tuple[str, int], ...] = ()
    """Topics, and how many of their offsets open transactions hold back."""
    held_back: frozenset[TopicPartition] = frozenset()
    """Source partitions whose events may be among these: their unknown events are not those of deleted records."""


def conclude_audit(
    topics: Sequence[str],
    partitions: Sequence[ReceivedPartition],
    others: OtherRecords,
    *,
    include_unknown: bool = False,
) -> Conclusion:
    """Return the conclusion of an audit.

    Args:
        topics: the topics that were read.
        partitions: the source partitions that were received or expected.
        others: other records.
        include_unknown: whether the bundle also lists events that may have been received and deleted unread.
    """
    received = sum(partition.received for partition in partitions)
    if others.foreign and not received:  # no record is an event: all expected events would seem to be missing
        partitions = [
            replace(partition, missing=OffsetRanges(), unknown=partition.expected) for partition in partitions
        ]
    outcome, sentence = _audit_sentence(topics, partitions, others, include_unknown=include_unknown)
    losses = [Losses(each.missing, each.expected, each.arrivals) for each in partitions if len(each.missing)]
    gaps = [partition.gaps() for partition in partitions]
    return Conclusion(
        outcome,
        sentence,
        tuple(entry for entry in gaps if entry is not None),
        tuple(_partition_row(partition) for partition in partitions),
        {
            "records": sum(partition.records for partition in partitions) + others.foreign,
            "foreign_keys": others.foreign,
            "received": received,
            "duplicates": sum(partition.duplicates for partition in partitions),
            "unexpected": sum(partition.unexpected for partition in partitions),
            "unknown": sum(partition.unknown.count for partition in partitions),
            "unknown_behind_transactions": sum(partition.unknown.count for partition in _held_back(partitions, others)),
            "lost": LOST_TIMES.to_json(lost_times(losses, max_hours=_MAX_LOST_HOURS)),
        },
        {
            (partition.topic, partition.partition): partition.known
            for partition in partitions
            if partition.given or len(partition.unknown)
        },
        listed=tuple(filter(None, (partition.gaps(with_unknown=True) for partition in partitions)))
        if include_unknown
        else None,
        arrivals={(partition.topic, partition.partition): partition.arrivals for partition in partitions},
    )


def limit_to_generation(conclusion: Conclusion, restarted: Collection[TopicPartition]) -> Conclusion:
    """Mark `restarted` partitions as unchecked: offsets in older bundles identify events of the previous topic."""
    if not restarted:
        return conclusion
    unchecked = dict.fromkeys(restarted, OffsetRanges())
    return replace(conclusion, checked={**conclusion.checked, **unchecked}, why_unknown=_RECREATED)


def _audit_sentence(
    topics: Sequence[str], partitions: Sequence[ReceivedPartition], others: OtherRecords, *, include_unknown: bool
) -> tuple[Outcome, str]:
    read = f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
    received = sum(partition.received for partition in partitions)
    if others.foreign and not received:
        return Outcome.UNREADABLE_RECORDS, _foreign_keys_sentence(read, others)
    open_transactions = describe_uncommitted(others.uncommitted)
    if not partitions:
        expired = (
            " Kafka has deleted records that no audit has read: give the expected offsets with --expect, or an "
            "inventory of the sending side."
        )
        return Outcome.NOTHING_TO_DO, (
            f"Nothing to do: {read} holds no records, and nothing is expected.{open_transactions}"
            f"{expired if others.expired else ''}"
        )
    inferred = sum(not partition.given for partition in partitions)
    caution = (
        f" Losses before the lowest or after the highest received offset of {quantity(inferred, 'partition')} are not "
        f"detected; give the expected offsets with --expect, or an inventory of the sending side."
        if inferred
        else ""
    )
    unknown = _unknown_sentences(partitions, others, include_unknown=include_unknown)
    rest = f"{unknown}{open_transactions}{caution}"
    outcome = Outcome.UNKNOWN_EVENTS if unknown else None
    missing = [partition.missing for partition in partitions]
    if not any(len(ranges) for ranges in missing):
        nothing = "Nothing is known to be missing" if unknown else "Nothing is missing"
        return outcome or Outcome.NOTHING_MISSING, (
            f"{nothing}: {quantity(received, 'event')} of {quantity(len(partitions), 'partition')} were received.{rest}"
        )
    gaps = describe_gaps(missing, [len(partition.unknown) for partition in partitions])
    return outcome or Outcome.GAPS_FOUND, gaps + rest


def _foreign_keys_sentence(read: str, others: OtherRecords) -> str:
    key = "none" if others.first_key is None else _printable_key(others.first_key)
    return (
        f"None of {quantity(others.foreign, 'record')} of {read} has the key of an event, topic_partition_offset (the "
        f"first key: {key}), so it is unknown what is missing: give the topic to which the receiver writes "
        f"events, and check that no program changes their keys."
    )


def _printable_key(key: bytes) -> str:
    """Return a key as one line of bounded length."""
    text = ascii(key[:_MAX_KEY_BYTES].decode("utf-8", "backslashreplace"))
    return f"{text} and {len(key) - _MAX_KEY_BYTES} more bytes" if len(key) > _MAX_KEY_BYTES else text


def _held_back(partitions: Sequence[ReceivedPartition], others: OtherRecords) -> list[ReceivedPartition]:
    """Return the partitions whose unknown events may be behind an open transaction."""
    return [each for each in partitions if (each.topic, each.partition) in others.held_back and len(each.unknown)]


def _unknown_sentences(partitions: Sequence[ReceivedPartition], others: OtherRecords, *, include_unknown: bool) -> str:
    truncated = [each for each in partitions if len(each.unknown) and each.ambiguous_from is not None]
    held_back = [each for each in _held_back(partitions, others) if each.ambiguous_from is None]
    expired = [
        each
        for each in partitions
        if len(each.unknown) and each.ambiguous_from is None and (each.topic, each.partition) not in others.held_back
    ]
    where = "the bundle also lists them" if include_unknown else "--include-unknown adds them to the bundle"
    return "".join(
        f" {_unknown_events(some)}: {why}; {rest}."
        for some, why, rest in (
            (expired, "Kafka deleted records before an audit read them, which may include these events", where),
            (truncated, _truncation(truncated), f"resend them: {where}"),
            (
                held_back,
                "an open transaction holds back records, which may include these events",
                f"audit again when it has ended, or {where}",
            ),
        )
        if some
    )


def _truncation(partitions: Sequence[ReceivedPartition]) -> str:
    """Return why events are unknown whose offsets identified others before the upstream log was truncated."""
    shown = ", ".join(f"{each.topic}/{each.partition} from offset {each.ambiguous_from:,}" for each in partitions[:5])
    more = f" and {len(partitions) - 5:,} more" if len(partitions) > 5 else ""
    return (
        f"the upstream log was truncated between two inventories, so that the offsets belong to other events than "
        f"before ({shown}{more}), and it is unknown which of them were received"
    )


def _unknown_events(partitions: Sequence[ReceivedPartition]) -> str:
    amount = sum(partition.unknown.count for partition in partitions)
    return f"{quantity(amount, 'event')} of {quantity(len(partitions), 'partition')} {is_or_are(amount)} unknown"


def _partition_row(partition: ReceivedPartition) -> dict[str, Any]:
    return {
        **missing_row(partition.topic, partition.partition, partition.missing),
        **lost_members(partition.arrivals, partition.missing),
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
