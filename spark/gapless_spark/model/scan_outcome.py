"""Owns how a scan ends and in which words; must not know Spark, Kafka or how the words are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.gaps.cleanup_policy import COMPACT, KEEPS_ALL, warning, why_unknown
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
    from gapless_api.bundle.form import PartitionGaps
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_spark.model.gap_windows import Stale, WindowFindings


def conclude_scan(
    topic: str, found: WindowFindings, policy: str, *, has_lost_records: bool, uncommitted: int = 0
) -> Conclusion:
    """Put what the gaps topic says into words.

    Args:
        topic: the gaps topic.
        found: what its records say.
        policy: its cleanup.policy.
        has_lost_records: whether Kafka has ever deleted records of it other than by compaction.
        uncommitted: how many of its offsets are behind a transaction that is still open.
    """
    outcome, sentence = _scan_in_words(topic, found, policy, behind_transactions([(topic, uncommitted)]))
    keeps_all = policy == COMPACT and not (has_lost_records or found.tombstones or found.unreadable)
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
        **missing_in(result.topic, result.partition, result.ranges),
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
            f" {inferred} of them, in {amount(ranges, 'range')}, were in no record: they are inferred, and some may "
            f"have arrived."
        )
    skipped = sum(stale.events for stale in found.stale) if found.choices.skip_stale else 0
    if skipped:
        windows = sum(stale.windows for stale in found.stale)
        said += (
            f" {amount(skipped, 'event')} in stale records of {amount(windows, 'window')} {verb(skipped)} left out, "
            f"whether missing or not."
        )
    if said:
        said += f" Where the events are kept, {_audit_of(found)} tells exactly."
    return said


def _scan_in_words(topic: str, found: WindowFindings, policy: str, behind: str) -> tuple[Outcome, str]:
    outcome, sentence = _records_in_words(topic, found, is_compacted=policy == COMPACT)
    return outcome, " ".join(filter(None, (sentence + behind, warning(topic, policy))))


def _records_in_words(topic: str, found: WindowFindings, *, is_compacted: bool) -> tuple[Outcome, str]:
    missing = found.missing
    if found.unreadable:
        where = found.first_unreadable[0]
        others = f"what the others say ({amount(missing, 'event')} missing)" if found.windows else "nothing"
        return Outcome.UNREADABLE_RECORDS, (
            f"{amount(found.unreadable, 'record')} of topic {topic} cannot be read as gap records, the first in "
            f"partition {where.partition} at offset {where.offset} ({where.reason}); the bundle holds {others}: check "
            f"that the gap detector writes this topic and nothing else does.{_caution(found)}"
        )
    if not found.windows:
        return Outcome.NOTHING_TO_DO, f"Nothing to do: topic {topic} holds no gap records; the bundle is empty."
    if not missing:
        left_out = found.choices.skip_stale and any(stale.events for stale in found.stale)
        nothing = "Nothing" if is_compacted else "No record tells that anything"
        return Outcome.NOTHING_MISSING, (
            f"{nothing} {'else ' if left_out else ''}is missing: {amount(found.windows, 'window')} of "
            f"{amount(len(found.results), 'partition')} in topic {topic} say so.{_caution(found)}"
        )
    return Outcome.GAPS_FOUND, gaps_in_words([result.ranges for result in found.results]) + _caution(found)
