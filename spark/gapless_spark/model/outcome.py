"""Owns how a job can end, and what the outcomes of scans and audits have in common; the words of each are its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import (
    GaplessError,
    SourceUnreachableError,
    StoppedError,
    UndeliveredError,
    error_outcome,
)
from gapless_api.base.exit_codes import ExitCode
from gapless_kafka.access.errors import TopicMissingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_api.bundle.form import PartitionGaps
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.offsets.ranges import OffsetRanges


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


def missing_in(topic: str, partition: int, ranges: OffsetRanges) -> dict[str, Any]:
    """The row of a partition: how much is missing, and where."""
    return {
        "topic": topic,
        "partition": partition,
        "missing": ranges.count,
        "ranges": len(ranges),
        "first_missing": ranges.first_offset if len(ranges) else None,
        "last_missing": ranges.last_offset if len(ranges) else None,
    }


def gaps_in_words(partitions: Sequence[OffsetRanges], unknown: Sequence[OffsetRanges] = ()) -> str:
    """How much is missing, and of how many partitions nothing is."""
    missing = sum(found.count for found in partitions)
    ranges = sum(len(found) for found in partitions)
    incomplete = sum(bool(len(found)) for found in partitions)
    complete = len(partitions) - incomplete
    if unknown:
        complete = sum(
            not len(found) and not len(doubtful) for found, doubtful in zip(partitions, unknown, strict=True)
        )
    return (
        f"{amount(missing, 'event')} {verb(missing)} missing, in {amount(ranges, 'range')} of "
        f"{amount(incomplete, 'partition')}; {complete} of {amount(len(partitions), 'partition')} "
        f"{verb(complete)} complete."
    )


def behind_transactions(uncommitted: Iterable[tuple[str, int]]) -> str:
    """What was not read because transactions are still open, by topic; empty for nothing."""
    return "".join(
        f" {amount(count, 'record')} of topic {topic} {verb(count)} behind a transaction that is still open, and "
        f"{'was' if count == 1 else 'were'} not read."
        for topic, count in uncommitted
        if count
    )


def verb(number: int) -> str:
    """``is`` or ``are``."""
    return "is" if number == 1 else "are"


def amount(number: int, noun: str) -> str:
    """A number with its noun."""
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
    return ExitCode.DONE if error is None else error_outcome(error).exit_code
