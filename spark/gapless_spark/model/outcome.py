"""The outcomes of jobs, and the parts of their messages that scans and audits have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from gapless_api.base.quantities import quantity
from gapless_kafka.access.errors import TopicMissingError
from gapless_spark.model.arrivals import Arrivals, lost_members

if TYPE_CHECKING:
    from gapless_api.bundle.form import PartitionGaps
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.offsets.ranges import OffsetRanges


class Outcome(StrEnum):
    """The values of the report's ``outcome``."""

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
    """The result of a job that has finished; the bundle is written in any case."""

    outcome: Outcome
    sentence: str
    results: tuple[PartitionGaps, ...]
    """Every partition that was checked."""
    partitions: tuple[dict[str, Any], ...]
    """The same for the report and the table, in the same order."""
    details: dict[str, Any] = field(default_factory=dict)
    """Members of the report that only this job writes."""
    checked: Mapping[TopicPartition, OffsetRanges] = field(default_factory=dict)
    """The offsets checked in a partition, where these are not all offsets in the window of its result."""
    absent: Mapping[TopicPartition, OffsetRanges] = field(default_factory=dict)
    """Offsets without an event, according to an inventory of the sending side."""
    listed: tuple[PartitionGaps, ...] | None = None
    """The ranges in the bundle, if these are more than the missing ones."""
    inferred: tuple[PartitionGaps, ...] = ()
    """The part of the results that is inferred and not reported."""
    no_longer_tracked: int = 0
    """How many of the missing events may have arrived, because their records are not updated any more."""
    why_unknown: str = ""
    """Why the state of unchecked offsets is unknown, and what to do."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Members of the bundle's source that only this job writes."""
    arrivals: Mapping[TopicPartition, Arrivals] = field(default_factory=dict)
    """When the events of partitions arrived, as far as the job knows."""

    @property
    def missing(self) -> int:
        """The number of missing events in all partitions."""
        return sum(result.ranges.count for result in self.results)

    @property
    def is_missing_now(self) -> bool:
        """Whether an event is known to be missing."""
        return self.missing > self.no_longer_tracked

    def lost_between(self, topic_partition: TopicPartition, missing: OffsetRanges) -> dict[str, str | None] | None:
        """Return between which times offsets of a partition were lost; ``None`` if this job does not know arrivals."""
        arrivals = self.arrivals.get(topic_partition)
        return None if arrivals is None else lost_members(arrivals, missing)

    def error(self) -> GaplessError | None:
        """Return the error that the command ends with; ``None`` for exit code 0."""
        incomplete = self.outcome in {Outcome.UNREADABLE_RECORDS, Outcome.UNKNOWN_EVENTS}
        return UndeliveredError(self.sentence) if incomplete else None


def describe_gaps(
    partitions: Sequence[OffsetRanges], unknown: Sequence[int] = (), *, missing_words: str = "missing"
) -> str:
    """Return the sentence about the missing ranges of all partitions; partitions with `unknown` are not complete."""
    missing = sum(gaps.count for gaps in partitions)
    ranges = sum(len(gaps) for gaps in partitions)
    incomplete = sum(bool(len(gaps)) for gaps in partitions)
    complete = len(partitions) - incomplete
    if unknown:
        complete = sum(not len(gaps) and not count for gaps, count in zip(partitions, unknown, strict=True))
    return (
        f"{quantity(missing, 'event')} {is_or_are(missing)} {missing_words}, in {quantity(ranges, 'range')} of "
        f"{quantity(incomplete, 'partition')}; {complete:,} of {quantity(len(partitions), 'partition')} "
        f"{is_or_are(complete)} complete."
    )


def describe_uncommitted(uncommitted: Iterable[tuple[str, int]]) -> str:
    """Return a sentence for each topic with records that open transactions hold back; empty for none."""
    return "".join(
        f" {quantity(count, 'record')} of topic {topic} {'was' if count == 1 else 'were'} not read, because a "
        f"transaction before {'it' if count == 1 else 'them'} is still open."
        for topic, count in uncommitted
        if count
    )


def is_or_are(number: int) -> str:
    """Return ``is`` or ``are``."""
    return "is" if number == 1 else "are"


def outcome_of(error: GaplessError) -> Outcome:
    """Return the outcome of a job that ended with `error`."""
    if isinstance(error, TopicMissingError):
        return Outcome.TOPIC_MISSING
    if isinstance(error, StoppedError):
        return Outcome.STOPPED
    if isinstance(error, SourceUnreachableError):
        return Outcome.UNREACHABLE
    return Outcome.BAD_CONFIGURATION


def exit_code_of(error: GaplessError | None) -> ExitCode:
    """Return the exit code of a job that ended with `error`, or without one."""
    return ExitCode.DONE if error is None else error_outcome(error).exit_code
