"""The outcome of a scan and its message; must not know Spark, Kafka or how the message is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.quantities import quantity
from gapless_api.gaps.cleanup_policy import COMPACT, KEEPS_ALL, warning, why_unknown
from gapless_api.page.model import missing_row
from gapless_api.page.next_steps import UNREAD
from gapless_spark.model.outcome import Conclusion, Outcome, describe_gaps, describe_uncommitted, is_or_are

if TYPE_CHECKING:
    from gapless_api.bundle.form import PartitionGaps
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_spark.model.gap_windows import Stale, WindowFindings


def conclude_scan(
    topic: str, found: WindowFindings, policy: str, *, has_lost_records: bool, uncommitted: int = 0
) -> Conclusion:
    """Return the conclusion of a scan.

    Args:
        topic: the gaps topic.
        found: the windows in its records.
        policy: its cleanup.policy.
        has_lost_records: whether Kafka has ever deleted records of it other than by compaction.
        uncommitted: how many of its offsets an open transaction holds back.
    """
    outcome, sentence = _scan_sentence(topic, found, policy, uncommitted)
    keeps_all = policy == COMPACT and not (has_lost_records or found.tombstones or found.unreadable or uncommitted)
    inferred = {(entry.topic, entry.partition): entry.ranges for entry in found.inferred}
    findings = zip(found.results, found.stale, found.reported, strict=True)
    return Conclusion(
        outcome,
        sentence,
        found.results,
        tuple(
            _partition_row(result, stale, reported, inferred.get((result.topic, result.partition)))
            for result, stale, reported in findings
        ),
        {
            "cleanup_policy": policy,
            "missing_now": found.missing - found.only_stale,
            **_inference_details(found),
            "windows": found.windows,
            "complete_windows": found.complete_windows,
            "tombstones": found.tombstones,
            "unreadable": found.unreadable,
            UNREAD: uncommitted,
            "first_unreadable": [record._asdict() for record in found.first_unreadable],
        },
        checked={
            (result.topic, result.partition): checked
            for result, checked in zip(found.results, found.checked, strict=True)
        },
        inferred=found.inferred,
        no_longer_tracked=found.only_stale,
        why_unknown=" ".join(filter(None, (why_unknown(topic, policy), _left_out(found)))),
        source=KEEPS_ALL if keeps_all else {},
    )


def _partition_row(
    result: PartitionGaps, stale: Stale, reported: OffsetRanges, inferred: OffsetRanges | None
) -> dict[str, Any]:
    return {
        **missing_row(result.topic, result.partition, result.ranges),
        "inferred_events": inferred.count if inferred is not None else 0,
        "inferred_ranges": len(inferred) if inferred is not None else 0,
        "stale_events": stale.events,
        "stale_windows": stale.windows,
        "without_record": result.window_max + 1 - reported.count,
        "looked_up_to": result.window_max,
    }


def _inference_details(found: WindowFindings) -> dict[str, Any]:
    """Return the totals of inferred losses and stale records for the report."""
    details: dict[str, Any] = {
        "infer": found.options.infer,
        "inferred_events": sum(entry.ranges.count for entry in found.inferred),
        "inferred_ranges": sum(len(entry.ranges) for entry in found.inferred),
        "skip_stale": found.options.skip_stale,
        "stale_events": found.stale_events,
        "stale_windows": sum(stale.windows for stale in found.stale),
    }
    if details["inferred_events"] or details["stale_events"]:
        details["recommended"] = _audit_command(found)
    return details


def _audit_command(found: WindowFindings) -> str:
    """Return the audit that finds out which inferred or stale events are really missing."""
    topics = {entry.topic for entry in found.inferred}
    topics |= {result.topic for result, stale in zip(found.results, found.stale, strict=True) if stale.events}
    return f"gapless audit --topics={','.join(sorted(topics))}"


def _caution(found: WindowFindings) -> str:
    """Return a warning if the bundle has more, or less, than the records report; empty otherwise."""
    text = ""
    inferred = sum(entry.ranges.count for entry in found.inferred)
    if inferred:
        ranges = sum(len(entry.ranges) for entry in found.inferred)
        text = (
            f" {inferred:,} of them, in {quantity(ranges, 'range')}, are inferred and not reported by any record; some "
            f"may have arrived."
        )
    text += _no_longer_tracked(found)
    if text:
        text += f" For an exact result run {_audit_command(found)} where the received events are stored."
    return text


def _no_longer_tracked(found: WindowFindings) -> str:
    """Return the sentence about the events in stale records; empty if there are none."""
    events = found.stale_events
    if not events:
        return ""
    windows = sum(stale.windows for stale in found.stale)
    it_is, it = ("It is", "it") if events == 1 else ("They are", "them")
    in_bundle = (
        f"{it_is} left out of the bundle, and --include-stale adds {it}."
        if found.options.skip_stale
        else f"{it_is} in the bundle, and gapless scan --skip-stale leaves {it} out."
    )
    return (
        f" {quantity(events, 'event')} in {quantity(windows, 'window')} {is_or_are(events)} no longer tracked by the "
        f"detector: missing when it last wrote the {'record' if windows == 1 else 'records'}, and unknown since. "
        f"{in_bundle}"
    )


def _left_out(found: WindowFindings) -> str:
    """Return why the offsets of stale records are unknown; empty if none were left out."""
    if not found.options.skip_stale or not found.stale_events:
        return ""
    audit = _audit_command(found)
    return f"The detector no longer tracks some windows; run {audit} where the received events are stored."


def _scan_sentence(topic: str, found: WindowFindings, policy: str, uncommitted: int) -> tuple[Outcome, str]:
    outcome, sentence = _records_sentence(topic, found, is_compacted=policy == COMPACT, is_all=not uncommitted)
    if uncommitted and outcome is Outcome.UNREADABLE_RECORDS:
        sentence += describe_uncommitted([(topic, uncommitted)])
    elif uncommitted:
        outcome, sentence = Outcome.UNKNOWN_EVENTS, f"{_unread_sentence(topic, found, uncommitted)} {sentence}"
    return outcome, " ".join(filter(None, (sentence, warning(topic, policy))))


def _unread_sentence(topic: str, found: WindowFindings, uncommitted: int) -> str:
    """Return the sentence about gap records behind an open transaction, which may be the latest of any window."""
    return (
        f"It is unknown whether {'more' if found.missing else 'anything'} is missing: "
        f"{quantity(uncommitted, 'record')} of topic {topic} could not be read yet, because a transaction before "
        f"{'it' if uncommitted == 1 else 'them'} is still open; scan again when it has ended."
    )


def _records_sentence(topic: str, found: WindowFindings, *, is_compacted: bool, is_all: bool) -> tuple[Outcome, str]:
    """Return the outcome and the sentence of the records that were read, which may not be all."""
    missing = found.missing
    if found.unreadable:
        where = found.first_unreadable[0]
        others = f"only what the others report ({quantity(missing, 'event')} missing)" if found.windows else "nothing"
        return Outcome.UNREADABLE_RECORDS, (
            f"{quantity(found.unreadable, 'record')} of topic {topic} cannot be read as gap records, the first in "
            f"partition {where.partition} at offset {where.offset} ({where.reason}); the bundle holds {others}. Check "
            f"that only the gap detector writes to this topic.{_caution(found)}"
        )
    if not found.windows:
        nothing = f"Nothing to do: topic {topic} holds no gap records" if is_all else "There are no other gap records"
        return Outcome.NOTHING_TO_DO, f"{nothing}; the bundle is empty."
    has_stale = found.stale_events > 0
    if missing == found.only_stale:
        nothing = f"No {'' if is_all else 'other '}record reports that anything"
        nothing = "Nothing" if is_compacted and is_all else nothing
        return Outcome.NOTHING_MISSING, (
            f"{nothing} is missing{' now' if has_stale else ''}: {quantity(found.windows, 'window')} of "
            f"{quantity(len(found.results), 'partition')} in topic {topic} {'was' if found.windows == 1 else 'were'} "
            f"read.{_caution(found)}"
        )
    gaps = describe_gaps(
        found.missing_now,
        [stale.events for stale in found.stale],
        missing_words="missing now" if has_stale else "missing",
    )
    return Outcome.GAPS_FOUND, f"{'' if is_all else 'According to the other records, '}{gaps}{_caution(found)}"
