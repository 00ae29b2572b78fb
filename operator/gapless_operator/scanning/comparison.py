"""Owns whether a scan is compared with the previous bundle, and what the comparison means for the status.

Must not know how two bundles are compared, which the pod of the scan does. What a comparison cannot tell is unknown,
never closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.gaps.cleanup_policy import COMPACT
from gapless_api.v1alpha1.conditions import Condition, ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.scan_status import Comparison
from gapless_operator.common.conditions import ConditionUpdate, conditions_with, transition
from gapless_operator.scanning.conditions import compaction_of
from gapless_operator.scanning.findings import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.scan_status import GapScanStatus
    from gapless_api.wire.scan_result import ScanFindings
    from gapless_operator.common.plan import Event

_AUDIT = "Run an audit (source.events) to find out what has arrived."
_MAY_FORGET = (Reason.NOT_COMPACTED, Reason.POLICY_UNKNOWN)
_WARNINGS = (Reason.STILL_MISSING, Reason.COMPARISON_FAILED, Reason.NOT_COMPACTED, Reason.POLICY_UNKNOWN)


class ComparisonResult(NamedTuple):
    """What became of the bundle before."""

    update: ConditionUpdate
    comparison: Comparison | None
    """``None`` when nothing was compared."""


def compare(  # noqa: PLR0911 -- one for each way to end
    before: GapScanStatus, asked: str, findings: ScanFindings, *, topic: str, is_partial: bool
) -> ComparisonResult:
    """Read what a scan says about the bundle before.

    Args:
        before: the status before the scan, with that bundle.
        asked: the `question` of the scan.
        findings: of the scan.
        topic: that the scan read.
        is_partial: whether the scan could not read or know everything, so that more may be missing.
    """
    older = before.bundle
    if older is None:
        return _unknown_result(Reason.NOTHING_TO_COMPARE_WITH, "There is no earlier bundle to compare with.")
    if older.question != asked:
        return _unknown_result(Reason.NOT_COMPARABLE, f"The previous bundle {older.id} is of a scan of another source.")
    if findings.comparison_problem is not None:
        return _unknown_result(
            Reason.COMPARISON_FAILED, f"The previous bundle {older.id} was not compared: {findings.comparison_problem}"
        )
    found = findings.reconciliation
    if found is None:
        return _unknown_result(
            Reason.NOT_COMPARABLE,
            f"The scan was not compared with the previous bundle {older.id}: its pod could not reach {older.location} "
            f"({older.type}).",
        )
    if found.with_.sha256 != older.sha256:
        return _unknown_result(
            Reason.COMPARISON_FAILED,
            f"{older.location} holds another bundle (sha256 {found.with_.sha256}) than {older.id}, which the last scan "
            f"wrote there.",
        )
    if found.listed != found.closed + found.filled + found.unavailable + found.open + found.unknown:
        return _unknown_result(
            Reason.COMPARISON_FAILED, f"The counts of the scan about the previous bundle {older.id} do not add up."
        )
    counts = Comparison(
        bundle_id=older.id,
        listed=counted(found.listed),
        closed=counted(found.closed + found.filled),
        unavailable=counted(found.unavailable),
        open=counted(found.open),
        unknown=counted(found.unknown),
        new=counted(found.new),
    )
    policy = findings.cleanup_policy
    unverified = unverified_events(before, asked, counts, policy) or 0
    update = _in_words(counts, compaction_of(policy, topic), unverified, is_partial=is_partial)
    return ComparisonResult(update, counts)


def comparison_fields(  # noqa: PLR0913 -- what was known before, and what is known now
    before: GapScanStatus,
    outcome: ComparisonResult,
    *,
    asked: str,
    missing_events: int,
    is_partial: bool,
    policy: str | None,
    at: datetime,
) -> dict[str, Any]:
    """The fields of the status that follow from a comparison.

    Args:
        before: the status before the scan.
        outcome: of the comparison.
        asked: the `question` of the scan.
        missing_events: that the scan found.
        is_partial: whether some records could not be read, so that more may be missing.
        policy: cleanup.policy of the gaps topic; ``None`` for an audit.
        at: when the scan ended.
    """
    counts = outcome.comparison
    unverified = unverified_events(before, asked, counts, policy)
    total = (before.closed_events_total or 0) + (counts.closed if counts is not None else 0)
    return {
        "comparison": counts,
        "closed_events_total": counted(total),
        "oldest_gap_since": _oldest_gap_since(
            before,
            counts,
            asked=asked,
            missing_events=missing_events,
            is_partial=is_partial,
            unverified=unverified,
            at=at,
        ),
        "unverified_events": unverified,
        "gap_topic_cleanup_policy": policy,
    }


def closing_events(conditions: Iterable[Condition], update: ConditionUpdate, *, now: datetime) -> tuple[Event, ...]:
    """The event that tells of a new state of `GapsClosed`; a first scan has nothing to tell."""
    if update.reason is Reason.NOTHING_TO_COMPARE_WITH:
        return ()
    kind, before = ConditionType.GAPS_CLOSED, tuple(conditions)
    after = conditions_with(before, {kind: update}, generation=0, now=now)
    return transition(before, after, of=kind, warnings=_WARNINGS)


def _oldest_gap_since(  # noqa: PLR0913 -- as above
    before: GapScanStatus,
    counts: Comparison | None,
    *,
    asked: str,
    missing_events: int,
    is_partial: bool,
    unverified: int | None,
    at: datetime,
) -> datetime | None:
    """Since when gaps may be open; a new beginning only where a comparison proves that all known ones have closed.

    Events that are unverified may be gaps that are open.
    """
    # A status of before this was recorded has only the time of its scan.
    known = before.oldest_gap_since or (before.last_scan_time if before.missing_events else None)
    older = before.bundle
    if not missing_events:
        return known if is_partial or unverified else None
    if known is None or older is None or (older.question is not None and older.question != asked):
        return at
    listed_all = older.missing == before.missing_events  # not so with limit First
    closed = counts is not None and not counts.open and not counts.unknown and not unverified
    return at if closed and listed_all and not is_partial else known


def unverified_events(before: GapScanStatus, asked: str, counts: Comparison | None, policy: str | None) -> int | None:
    """How many events nobody hears of again, because their records expired; ``None`` after an audit.

    Args:
        before: the status before the scan.
        asked: the `question` of the scan.
        counts: what the comparison says.
        policy: cleanup.policy of the gaps topic; ``None`` for an audit.
    """
    if policy is None:
        return None
    same = before.bundle is not None and before.bundle.question in {None, asked}
    known = (before.unverified_events or 0) if same else 0
    return counted(known + (counts.unknown if counts is not None and policy != COMPACT else 0))


def _in_words(counts: Comparison, compaction: ConditionUpdate, unverified: int, *, is_partial: bool) -> ConditionUpdate:
    listed, bundle = counts.listed, f"the previous bundle {counts.bundle_id}"
    more = f" New since then: {counts.new:,}." if counts.new else ""
    is_compacted = compaction.reason not in _MAY_FORGET
    if not counts.open and (unverified or (not is_compacted and not listed)):
        reason = Reason.NOT_ALL_LOOKED_AT if is_compacted else compaction.reason
        how_many = f"For {unverified:,} events of earlier bundles, no" if unverified else "No"
        remedy = _AUDIT if is_compacted else compaction.message
        return ConditionUpdate(None, reason, f"{how_many} record shows any more whether they arrived. {remedy}{more}")
    if not listed and is_partial:
        return ConditionUpdate(
            None,
            Reason.NOT_ALL_LOOKED_AT,
            f"{bundle[0].upper()}{bundle[1:]} lists nothing, but this scan could not check everything, and what "
            f"earlier bundles listed may be among the rest.{more}",
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
            f"{counts.open:,} of {events} of {bundle} {are} still missing.{_left(counts)}{more}",
        )
    if counts.unknown:
        return ConditionUpdate(
            None,
            Reason.NOT_ALL_LOOKED_AT,
            f"{counts.unknown:,} of {events} of {bundle} could not be checked; none of the others is missing.{more}",
        )
    never = f" Unavailable for good: {counts.unavailable:,}." if counts.unavailable else ""
    return ConditionUpdate(True, Reason.ALL_CLOSED, f"Nothing of {events} of {bundle} is still missing.{never}{more}")


def _left(counts: Comparison) -> str:
    return f" Not checked: {counts.unknown:,}." if counts.unknown else ""


def _unknown_result(reason: Reason, message: str) -> ComparisonResult:
    return ComparisonResult(ConditionUpdate(None, reason, message), None)
