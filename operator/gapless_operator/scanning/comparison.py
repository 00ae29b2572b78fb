"""Whether a scan is compared with the previous bundle, and what the comparison means for the status.

Must not know how the pod of the scan compares two bundles. What a comparison cannot determine is unknown, never closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.gaps.cleanup_policy import COMPACT
from gapless_api.v1alpha1.conditions import Condition, ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.scan_status import Comparison, GapScanStatus
from gapless_operator.common.conditions import ConditionUpdate, conditions_with, transition
from gapless_operator.scanning.conditions import compaction_of
from gapless_operator.scanning.findings import clamp

if TYPE_CHECKING:
    from gapless_api.wire.scan_result import ScanFindings
    from gapless_operator.common.plan import Event

_AUDIT = "Run an audit (source.events) to find out what has arrived."
_RECORDS_MAY_EXPIRE = (Reason.NOT_COMPACTED, Reason.POLICY_UNKNOWN)
_WARNINGS = (Reason.STILL_MISSING, Reason.COMPARISON_FAILED, Reason.NOT_COMPACTED, Reason.POLICY_UNKNOWN)


class ComparisonResult(NamedTuple):
    """What became of the events of the previous bundle."""

    update: ConditionUpdate
    comparison: Comparison | None
    """``None`` when nothing was compared."""


def compare(  # noqa: PLR0911 -- one for each way to end
    before: GapScanStatus, source_digest: str, findings: ScanFindings, *, topic: str, is_partial: bool
) -> ComparisonResult:
    """Return what a scan reports about the previous bundle.

    Args:
        before: the status before the scan, with that bundle.
        source_digest: of the scan.
        findings: of the scan.
        topic: the topic of gap records, for messages.
        is_partial: whether the result of the scan is incomplete, so that more may be missing.
    """
    older = before.bundle
    if older is None:
        return _unknown_result(Reason.NOTHING_TO_COMPARE_WITH, "There is no earlier bundle to compare with.")
    if older.question != source_digest:
        return _unknown_result(
            Reason.NOT_COMPARABLE, f"The previous bundle {older.id} is from a scan of another source."
        )
    if findings.comparison_problem is not None:
        return _unknown_result(
            Reason.COMPARISON_FAILED, f"The previous bundle {older.id} was not compared: {findings.comparison_problem}"
        )
    result = findings.reconciliation
    if result is None:
        return _unknown_result(
            Reason.NOT_COMPARABLE,
            f"The scan was not compared with the previous bundle {older.id}, because its pod could not reach "
            f"{older.location} ({older.type}).",
        )
    if result.with_.sha256 != older.sha256:
        return _unknown_result(
            Reason.COMPARISON_FAILED,
            f"{older.location} contains another bundle (sha256 {result.with_.sha256}) than the previous one, "
            f"{older.id}.",
        )
    if result.listed != result.closed + result.filled + result.unavailable + result.open + result.unknown:
        return _unknown_result(
            Reason.COMPARISON_FAILED, f"The scan's counts for the previous bundle {older.id} do not add up."
        )
    counts = Comparison(
        bundle_id=older.id,
        listed=clamp(result.listed),
        closed=clamp(result.closed + result.filled),
        unavailable=clamp(result.unavailable),
        open=clamp(result.open),
        unknown=clamp(result.unknown),
        new=clamp(result.new),
    )
    policy = findings.cleanup_policy
    unverified = unverified_events(before, source_digest, counts, policy) or 0
    update = _gaps_closed(counts, compaction_of(policy, topic), unverified, is_partial=is_partial)
    return ComparisonResult(update, counts)


def comparison_fields(  # noqa: PLR0913 -- the previous status and the results of the scan
    before: GapScanStatus,
    outcome: ComparisonResult,
    *,
    source_digest: str,
    missing_events: int,
    is_partial: bool,
    policy: str | None,
    at: datetime,
) -> dict[str, Any]:
    """Return the fields of the status that follow from a comparison.

    Args:
        before: the status before the scan.
        outcome: of the comparison.
        source_digest: of the scan.
        missing_events: found by the scan.
        is_partial: whether the result of the scan is incomplete, so that more may be missing.
        policy: cleanup.policy of the gaps topic; ``None`` for an audit.
        at: when the scan ended.
    """
    counts = outcome.comparison
    unverified = unverified_events(before, source_digest, counts, policy)
    total = (before.closed_events_total or 0) + (counts.closed if counts is not None else 0)
    return {
        "comparison": counts,
        "closed_events_total": clamp(total),
        "oldest_gap_since": _oldest_gap_since(
            before,
            counts,
            source_digest=source_digest,
            missing_events=missing_events,
            is_partial=is_partial,
            unverified=unverified,
            at=at,
        ),
        "unverified_events": unverified,
        "gap_topic_cleanup_policy": policy,
    }


def closing_events(conditions: Iterable[Condition], update: ConditionUpdate, *, now: datetime) -> tuple[Event, ...]:
    """Return the event for a change of `GapsClosed`; none after a first scan."""
    if update.reason is Reason.NOTHING_TO_COMPARE_WITH:
        return ()
    kind, before = ConditionType.GAPS_CLOSED, tuple(conditions)
    after = conditions_with(before, {kind: update}, generation=0, now=now)
    return transition(before, after, of=kind, warnings=_WARNINGS)


def _oldest_gap_since(  # noqa: PLR0913 -- as for `comparison_fields`
    before: GapScanStatus,
    counts: Comparison | None,
    *,
    source_digest: str,
    missing_events: int,
    is_partial: bool,
    unverified: int | None,
    at: datetime,
) -> datetime | None:
    """Return since when gaps may be open; it restarts only when a comparison proves that all known gaps have closed.

    Unverified events may be open gaps.
    """
    since, older = before.oldest_gap_since, before.bundle
    if not missing_events:
        return since if is_partial or unverified else None
    if since is None or older is None or (older.question is not None and older.question != source_digest):
        return at
    listed_all = older.missing == before.missing_events  # not so with limit First
    closed = counts is not None and not counts.open and not counts.unknown and not unverified
    return at if closed and listed_all and not is_partial else since


def unverified_events(
    before: GapScanStatus, source_digest: str, counts: Comparison | None, policy: str | None
) -> int | None:
    """Return how many events can no longer be checked, because their gap records expired; ``None`` after an audit.

    Args:
        before: the status before the scan.
        source_digest: of the scan.
        counts: of the comparison.
        policy: cleanup.policy of the gaps topic; ``None`` for an audit.
    """
    if policy is None:
        return None
    is_same_source = before.bundle is not None and before.bundle.question in {None, source_digest}
    earlier = (before.unverified_events or 0) if is_same_source else 0
    return clamp(earlier + (counts.unknown if counts is not None and policy != COMPACT else 0))


def _gaps_closed(
    counts: Comparison, compaction: ConditionUpdate, unverified: int, *, is_partial: bool
) -> ConditionUpdate:
    """Return the condition `GapsClosed`."""
    listed, bundle = counts.listed, f"the previous bundle {counts.bundle_id}"
    more = f" New since then: {counts.new:,}." if counts.new else ""
    is_compacted = compaction.reason not in _RECORDS_MAY_EXPIRE
    if not counts.open and (unverified or (not is_compacted and not listed)):
        reason = Reason.NOT_ALL_LOOKED_AT if is_compacted else compaction.reason
        how_many = f"For {unverified:,} events of earlier bundles, no" if unverified else "No"
        remedy = _AUDIT if is_compacted else compaction.message
        return ConditionUpdate(None, reason, f"{how_many} record shows any longer whether they arrived. {remedy}{more}")
    if not listed and is_partial:
        return ConditionUpdate(
            None,
            Reason.NOT_ALL_LOOKED_AT,
            f"{bundle[0].upper()}{bundle[1:]} lists nothing, but this scan could not check everything, and events "
            f"of earlier bundles may still be missing.{more}",
        )
    if not listed:
        return ConditionUpdate(
            True, Reason.NOTHING_WAS_MISSING, f"{bundle[0].upper()}{bundle[1:]} lists nothing.{more}"
        )
    events = "1 event" if listed == 1 else f"{listed:,} events"
    if counts.open:
        are = "is" if counts.open == 1 else "are"
        return ConditionUpdate(
            False,
            Reason.STILL_MISSING,
            f"{counts.open:,} of {events} of {bundle} {are} still missing.{_not_checked(counts)}{more}",
        )
    if counts.unknown:
        return ConditionUpdate(
            None,
            Reason.NOT_ALL_LOOKED_AT,
            f"{counts.unknown:,} of {events} of {bundle} could not be checked; none of the others is missing.{more}",
        )
    unavailable = f" Permanently unavailable: {counts.unavailable:,}." if counts.unavailable else ""
    message = f"{bundle[0].upper()}{bundle[1:]} listed {events}; none is still missing.{unavailable}{more}"
    return ConditionUpdate(True, Reason.ALL_CLOSED, message)


def _not_checked(counts: Comparison) -> str:
    return f" Not checked: {counts.unknown:,}." if counts.unknown else ""


def _unknown_result(reason: Reason, message: str) -> ComparisonResult:
    return ComparisonResult(ConditionUpdate(None, reason, message), None)
