"""Owns what is recorded when an attempt of a GapScan has ended: what it found, how it ended, the bundle, the event.

Must not know when an attempt has ended, nor what comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.scan_status import Change
from gapless_operator.common.plan import Event, EventType
from gapless_operator.scanning.comparison import closing_events, compared, comparison_fields
from gapless_operator.scanning.conditions import judged
from gapless_operator.scanning.gap_topic import compaction_conditions
from gapless_operator.scanning.manifests import BundlePlace
from gapless_operator.scanning.outcome import ANSWERED, PARTIAL, Ending
from gapless_operator.scanning.plan_builder import answer
from gapless_operator.scanning.result import ResultError, findings_of
from gapless_operator.scanning.scheduling import acted_upon

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.scan_status import GapScanStatus, LastAttempt
    from gapless_api.wire.scan_result import ScanReport
    from gapless_operator.common.conditions import Said
    from gapless_operator.common.plan import Manifest, Plan
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.scanning.context import Situation
    from gapless_operator.scanning.result import Findings


def concluded(situation: Situation, last: LastAttempt, ending: Ending, attempt: Attempt | None = None) -> Plan:
    """Record how an attempt ended; what it leaves behind is tidied up in the next step.

    Args:
        situation: what is known.
        last: the attempt as the status has it.
        ending: how it ended.
        attempt: as its engine describes it; ``None`` when it is gone.
    """
    updates: dict[str, Any] = {}
    apply: tuple[Manifest, ...] = ()
    more_said: dict[ConditionType, Said] = {}
    more_events: tuple[Event, ...] = ()
    result = ending.result
    if result is not None:
        before = situation.scan.status
        asked = attempt.question if attempt is not None else ""
        place = BundlePlace.read(attempt.output if attempt is not None else "", last.name)
        try:
            found = findings_of(situation.scan, last.name, result, place=place, question=asked)
        except ResultError as error:
            ending = Ending(error.reason, str(error))
        else:
            apply = () if found.bundle_map is None else (found.bundle_map,)
            at = (attempt.finished if attempt is not None else None) or situation.now
            policy, topic = found.reported.cleanup_policy, _gap_topic(result.report)
            outcome = compared(before, asked, found.reported, topic=topic)
            of_topic, warnings = compaction_conditions(before.conditions, policy, topic)
            updates = _of_findings(found, before, at) | comparison_fields(
                before,
                outcome,
                asked=asked,
                missing_events=found.missing_events,
                is_partial=ending.reason in PARTIAL,
                policy=policy,
                at=at,
            )
            more_said = {ConditionType.GAPS_CLOSED: outcome.said, **of_topic}
            more_events = (*closing_events(before.conditions, outcome.said, now=situation.now), *warnings)
    finished = (attempt.finished if attempt is not None and attempt.ended else None) or situation.now
    ended = last.model_copy(update={"finished": finished, "outcome": str(ending.reason), "message": ending.message})
    updates |= {"last_attempt": ended, "progress": None}
    if attempt is not None:
        updates["last_schedule_time"] = acted_upon(situation, attempt)
    kind = EventType.NORMAL if ending.reason in ANSWERED - PARTIAL else EventType.WARNING
    return answer(
        situation,
        updates,
        {**judged(situation, ended), **more_said},
        apply=apply,
        events=(Event(kind, ending.reason, ending.message), *more_events),
        soon=True,
    )


def _gap_topic(report: ScanReport) -> str:
    return report.topics[0] if report.topics else "of the gaps"


def _of_findings(found: Findings, before: GapScanStatus, at: datetime) -> dict[str, Any]:
    """The fields of the status that say what was found."""
    change = None
    if before.missing_events is not None:
        change = Change(
            events=found.missing_events - before.missing_events,
            ranges=found.missing_ranges - (before.missing_ranges or 0),
        )
    return {
        "last_scan_time": at,
        "read_by": found.read_by,
        "missing_events": found.missing_events,
        "missing_ranges": found.missing_ranges,
        "inferred_events": found.inferred_events,
        "unknown_events": found.unknown_events,
        "partitions": found.partitions,
        "change": change,
        "bundle": found.bundle,
        "resend_manifest": found.resend,
    }
