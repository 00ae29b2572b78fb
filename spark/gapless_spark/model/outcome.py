"""Owns how a job can end and in which words; must not know Spark, Kafka or how the words are shown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import (
    ConfigurationError,
    GaplessError,
    SourceUnreachableError,
    StoppedError,
    UndeliveredError,
    verdict,
)
from gapless_api.base.exit_codes import ExitCode
from gapless_api.gaps.cleanup_policy import COMPACT, KEEPS_ALL, warning, why_unknown
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.bundle.form import PartitionGaps
    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.gap_detection import ReceivedPartition
    from gapless_spark.model.gap_windows import Stale, WindowFindings

_LONGEST_KEY = 60
"""Bytes of a key that a sentence shows."""


class Outcome(StrEnum):
    """What a script can tell from the report's ``outcome``."""

    GAPS_FOUND = "gaps-found"
    NOTHING_MISSING = "nothing-missing"
    NOTHING_TO_DO = "nothing-to-do"
    UNKNOWN_EVENTS = "unknown-events"
    UNREADABLE_RECORDS = "unreadable-records"
    TOPIC_MISSING = "topic-missing"
    UNREACHABLE = "unreachable"
    BAD_CONFIGURATION = "bad-configuration"
    STOPPED = "stopped"


class TopicMissingError(ConfigurationError):
    """The topic does not exist."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a job that finished has ended; the bundle is written in any case."""

    outcome: Outcome
    sentence: str
    results: tuple[PartitionGaps, ...]
    """Every partition that was looked at."""
    partitions: tuple[dict[str, Any], ...]
    """The same for the report and the table, in the same order."""
    details: dict[str, Any] = field(default_factory=dict)
    """What the report says beyond what every report says."""
    looked_at: Mapping[TopicPartition, OffsetRanges] = field(default_factory=dict)
    """What was looked at in a partition, where that is not everything within the window of its result."""
    absent: Mapping[TopicPartition, OffsetRanges] = field(default_factory=dict)
    """What an inventory of the other side declares to be no events."""
    listed: tuple[PartitionGaps, ...] | None = None
    """What the bundle lists, where that is more than is missing."""
    inferred: tuple[PartitionGaps, ...] = ()
    """What of the results follows from what was seen, and was not seen itself."""
    why_unknown: str = ""
    """Why nothing is known of offsets that were not looked at, and what to do."""
    source: Mapping[str, str] = field(default_factory=dict)
    """What the bundle says of its source beyond what every bundle says."""

    @property
    def missing(self) -> int:
        """How many events are missing, in all partitions together."""
        return sum(result.ranges.count for result in self.results)

    def error(self) -> GaplessError | None:
        """What makes the command end with another exit code than 0."""
        incomplete = self.outcome in {Outcome.UNREADABLE_RECORDS, Outcome.UNKNOWN_EVENTS}
        return UndeliveredError(self.sentence) if incomplete else None


def conclude_scan(topic: str, found: WindowFindings, policy: str, *, has_lost_records: bool) -> Conclusion:
    """Put what the gaps topic says into words.

    Args:
        topic: the gaps topic.
        found: what its records say.
        policy: its cleanup.policy.
        has_lost_records: whether Kafka has ever deleted records of it other than by compaction.
    """
    outcome, sentence = _scan_in_words(topic, found, policy)
    keeps_all = policy == COMPACT and not has_lost_records and not found.tombstones
    inferred = {(entry.topic, entry.partition): entry.ranges for entry in found.inferred}
    findings = zip(found.results, found.stale, found.told_of, strict=True)
    return Conclusion(
        outcome,
        sentence,
        found.results,
        tuple(
            _listed(result, stale, told_of, inferred.get((result.topic, result.partition)))
            for result, stale, told_of in findings
        ),
        {
            "cleanup_policy": policy,
            **_beyond_the_records(found),
            "windows": found.windows,
            "complete_windows": found.complete_windows,
            "tombstones": found.tombstones,
            "unreadable": found.unreadable,
            "first_unreadable": [record._asdict() for record in found.first_unreadable],
        },
        looked_at={
            (result.topic, result.partition): told_of
            for result, told_of in zip(found.results, found.told_of, strict=True)
        },
        inferred=found.inferred,
        why_unknown=why_unknown(topic, policy),
        source=KEEPS_ALL if keeps_all else {},
    )


def _listed(
    result: PartitionGaps, stale: Stale, told_of: OffsetRanges, inferred: OffsetRanges | None
) -> dict[str, Any]:
    return {
        **_missing(result.topic, result.partition, result.ranges),
        "inferred_events": inferred.count if inferred is not None else 0,
        "inferred_ranges": len(inferred) if inferred is not None else 0,
        "stale_events": stale.events,
        "stale_windows": stale.windows,
        "without_record": result.window_max + 1 - told_of.count,
        "looked_up_to": result.window_max,
    }


def _beyond_the_records(found: WindowFindings) -> dict[str, Any]:
    """What the report says of all partitions together about what no record tells, or none tells any more."""
    details: dict[str, Any] = {
        "infer": found.choices.infer,
        "inferred_events": sum(entry.ranges.count for entry in found.inferred),
        "inferred_ranges": sum(len(entry.ranges) for entry in found.inferred),
        "skip_stale": found.choices.skip_stale,
        "stale_events": sum(stale.events for stale in found.stale),
        "stale_windows": sum(stale.windows for stale in found.stale),
    }
    if details["inferred_events"] or details["stale_events"]:
        details["recommended"] = _audit_of(found)
    return details


def _audit_of(found: WindowFindings) -> str:
    """The command that tells the truth about what is only inferred, or stale."""
    doubtful = {entry.topic for entry in found.inferred}
    doubtful |= {result.topic for result, stale in zip(found.results, found.stale, strict=True) if stale.events}
    return f"gapless audit --topics={','.join(sorted(doubtful))}"


def _caution(found: WindowFindings) -> str:
    """What somebody must know who trusts the bundle of a scan that did more, or less, than the records say."""
    said = ""
    inferred = sum(entry.ranges.count for entry in found.inferred)
    if inferred:
        ranges = sum(len(entry.ranges) for entry in found.inferred)
        said = (
            f" {inferred} of them, in {_amount(ranges, 'range')}, nobody has reported: they are inferred, and some may "
            f"have arrived."
        )
    skipped = sum(stale.events for stale in found.stale) if found.choices.skip_stale else 0
    if skipped:
        windows = sum(stale.windows for stale in found.stale)
        said += (
            f" {_amount(skipped, 'event')} in stale records of {_amount(windows, 'window')} {_are(skipped)} left out, "
            f"whether missing or not."
        )
    if said:
        said += f" Where the events are kept, {_audit_of(found)} tells exactly."
    return said


def _scan_in_words(topic: str, found: WindowFindings, policy: str) -> tuple[Outcome, str]:
    outcome, sentence = _records_in_words(topic, found, is_compacted=policy == COMPACT)
    return outcome, " ".join(filter(None, (sentence, warning(topic, policy))))


def _records_in_words(topic: str, found: WindowFindings, *, is_compacted: bool) -> tuple[Outcome, str]:
    missing = found.missing
    if found.unreadable:
        where = found.first_unreadable[0]
        others = f"what the others say ({_amount(missing, 'event')} missing)" if found.windows else "nothing"
        return Outcome.UNREADABLE_RECORDS, (
            f"{_amount(found.unreadable, 'record')} of topic {topic} cannot be read as gap records, the first in "
            f"partition {where.partition} at offset {where.offset} ({where.reason}); the bundle holds {others}: check "
            f"that the gap detector writes this topic and nobody else.{_caution(found)}"
        )
    if not found.windows:
        return Outcome.NOTHING_TO_DO, f"Nothing to do: topic {topic} holds no gap records; the bundle is empty."
    if not missing:
        left_out = found.choices.skip_stale and any(stale.events for stale in found.stale)
        nothing = "Nothing" if is_compacted else "No record tells that anything"
        return Outcome.NOTHING_MISSING, (
            f"{nothing} {'else ' if left_out else ''}is missing: {_amount(found.windows, 'window')} of "
            f"{_amount(len(found.results), 'partition')} in topic {topic} say so.{_caution(found)}"
        )
    return Outcome.GAPS_FOUND, _gaps([result.ranges for result in found.results]) + _caution(found)


@dataclass(frozen=True, slots=True)
class OtherRecords:
    """What an audit found beside events."""

    foreign: int = 0
    """How many records have a key that is no event's."""
    first_key: bytes | None = None
    """The first of these keys, where no record has an event's; ``None`` also for a record without a key."""
    uncommitted: tuple[TopicPartition, ...] = ()
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


def _audit_in_words(
    topics: Sequence[str], found: Sequence[ReceivedPartition], others: OtherRecords, *, include_unknown: bool
) -> tuple[Outcome, str]:
    read = f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
    received = sum(partition.received for partition in found)
    if others.foreign and not received:
        return Outcome.UNREADABLE_RECORDS, _unrecognised(read, others)
    behind = _behind_transactions(others)
    if not found:
        return Outcome.NOTHING_TO_DO, f"Nothing to do: {read} holds no records, and nothing is expected.{behind}"
    inferred = sum(not partition.given for partition in found)
    caution = (
        f" What {_amount(inferred, 'partition')} lost before the lowest or after the highest offset seen cannot show; "
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
            f"{nothing}: {_amount(received, 'event')} of {_amount(len(found), 'partition')} were received.{rest}"
        )
    return outcome or Outcome.GAPS_FOUND, _gaps(missing, [partition.unknown for partition in found]) + rest


def _unrecognised(read: str, others: OtherRecords) -> str:
    key = "none" if others.first_key is None else _shown(others.first_key)
    return (
        f"None of {_amount(others.foreign, 'record')} of {read} has the key of an event, topic_partition_offset (the "
        f"first key: {key}), so nothing can be said about what is missing: give the topic that the receiver writes "
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
        f" {_amount(sum(amounts), 'event')} of {_amount(len(amounts), 'partition')} {_are(sum(amounts))} unknown: "
        f"Kafka deleted records before an audit read them, and these events may have been among them; {where}."
    )


def _behind_transactions(others: OtherRecords) -> str:
    return "".join(
        f" {_amount(count, 'record')} of topic {topic} {_are(count)} behind a transaction that is still open, and "
        f"{'was' if count == 1 else 'were'} not read."
        for topic, count in others.uncommitted
        if count
    )


def _missing(topic: str, partition: int, ranges: OffsetRanges) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "missing": ranges.count,
        "ranges": len(ranges),
        "first_missing": ranges.first_offset if len(ranges) else None,
        "last_missing": ranges.last_offset if len(ranges) else None,
    }


def _received(partition: ReceivedPartition) -> dict[str, Any]:
    return {
        **_missing(partition.topic, partition.partition, partition.missing),
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


def _gaps(partitions: Sequence[OffsetRanges], unknown: Sequence[OffsetRanges] = ()) -> str:
    missing = sum(found.count for found in partitions)
    ranges = sum(len(found) for found in partitions)
    incomplete = sum(bool(len(found)) for found in partitions)
    complete = len(partitions) - incomplete
    if unknown:
        complete = sum(
            not len(found) and not len(doubtful) for found, doubtful in zip(partitions, unknown, strict=True)
        )
    return (
        f"{_amount(missing, 'event')} {_are(missing)} missing, in {_amount(ranges, 'range')} of "
        f"{_amount(incomplete, 'partition')}; {complete} of {_amount(len(partitions), 'partition')} "
        f"{_are(complete)} complete."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _amount(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def outcome_of(error: GaplessError) -> Outcome:
    """How a job that did not finish has ended."""
    if isinstance(error, TopicMissingError):
        return Outcome.TOPIC_MISSING
    if isinstance(error, StoppedError):
        return Outcome.STOPPED
    if isinstance(error, SourceUnreachableError):
        return Outcome.UNREACHABLE
    return Outcome.BAD_CONFIGURATION


def exit_code_of(error: GaplessError | None) -> ExitCode:
    """The exit code of a job that ended with `error`, or well."""
    return ExitCode.DONE if error is None else verdict(error).exit_code
