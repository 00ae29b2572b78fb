"""Messages of our programs, as lines of a pod's log, written by the one writer of each."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from gapless_api.wire.preflight import PREFLIGHT_LINE, PreflightLine
from gapless_api.wire.progress import PROGRESS_LINE, ProgressLine
from gapless_api.wire.resend_plan import SHORT_PLAN, Estimate, ResendPlan, ShortPlan
from gapless_api.wire.resend_report import (
    SHORT_REPORT,
    LinkTraffic,
    Outcome,
    ReadBundle,
    ReportHead,
    ShortReport,
    UnavailableRange,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.wire.form import Form
    from gapless_api.wire.totals import Totals

STARTED = "2026-11-20T10:00:00+00:00"


def line(form: Form[Any], message: Any) -> dict[str, Any]:
    """A message as what its line of JSON holds."""
    found: dict[str, Any] = json.loads(form.to_line(message))
    return found


def progress(ledger: Totals, **more: Any) -> dict[str, Any]:
    """A line of progress; `more` are fields of the model."""
    message = ProgressLine(
        time=STARTED,
        shard=0,
        shards=1,
        percent=50.0,
        ledger=ledger,
        datagrams=ledger.sent,
        events_per_second=100.0,
        eta_seconds=None,
    )
    return line(PROGRESS_LINE, replace(message, **more))


def report(ledger: Totals, **more: Any) -> dict[str, Any]:
    """The line of a final report; `more` are fields of the model or of its head."""
    gone = ledger.unavailable
    head = ReportHead(
        outcome=Outcome.INCOMPLETE if gone else Outcome.DONE,
        exit_code=4 if gone else 0,
        reason=None,
        message="",
        shard=0,
        shards=1,
        mode="offsets",
        bundle=None,
        started=STARTED,
        seconds=10.0,
        events_per_second=100.0,
        ledger=ledger,
        unavailable={"Expired": gone} if gone else {},
        from_archive=0,
        damaged=(),
        link=LinkTraffic(datagrams=ledger.sent, payload_bytes=0, system_calls=0, refused=0, retries=0),
        keys_announced=0,
        skipped=(),
    )
    of_head = {field.name for field in fields(ReportHead)}
    message = ShortReport(
        head=replace(head, **{name: value for name, value in more.items() if name in of_head}),
        skipped_omitted=0,
        partitions=(),
        partitions_omitted=0,
        unavailable_ranges=(
            (UnavailableRange(topic="transfer", partition=0, first=0, last=gone - 1, reason="Expired"),) if gone else ()
        ),
        unavailable_ranges_omitted=0,
    )
    return line(SHORT_REPORT, replace(message, **{n: value for n, value in more.items() if n not in of_head}))


def plan(
    events: int, *, unavailable: int | Mapping[str, int] = 0, seconds: float | None = None, **more: Any
) -> dict[str, Any]:
    """The line of a plan; `unavailable` are expired unless they are told by reason; `more` are fields of the model."""
    lost = {"Expired": unavailable} if isinstance(unavailable, int) else unavailable
    message = ResendPlan(
        shard=0,
        shards=1,
        mode="offsets",
        bundle=None,
        events=events,
        from_kafka=events,
        from_archive=0,
        ranges=1,
        sent_before=0,
        unavailable={reason: count for reason, count in lost.items() if count},
        estimate=Estimate(mean_event_bytes=10.0, datagrams=events, payload_bytes=10 * events, seconds=seconds),
        note="",
        skipped=(),
        partitions=(),
    )
    return line(SHORT_PLAN, ShortPlan(plan=replace(message, **more), skipped_omitted=0, partitions_omitted=0))


def read_bundle(sha256: str, bundle_id: str | None) -> ReadBundle:
    """Which bundle a report or plan says was read."""
    return ReadBundle(file="/bundle.json", type="all", id=bundle_id, sha256=sha256)


def preflight(**found: Any) -> dict[str, Any]:
    """The line of a preflight of a link that is up, but for the fields `found`."""
    message = PreflightLine(
        nic="diode0",
        exists=True,
        up=True,
        carrier=True,
        mtu=1500,
        largest_payload=1472,
        target="10.0.0.2",
        port=1234,
        address="10.0.0.2",
        route=None,
        needs_neighbour=True,
        neighbour="PERMANENT",
        hardware_address=None,
        message=None,
    )
    return line(PREFLIGHT_LINE, replace(message, **found))


def scan_report(gaps: Mapping[tuple[str, int], Sequence[tuple[int, int]]], named: dict[str, Any], **more: Any) -> Any:
    """The report of a scan that found `gaps`, as its file holds it; `named` is its bundle."""
    missing = sum(last - first + 1 for pairs in gaps.values() for first, last in pairs)
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "missing": sum(last - first + 1 for first, last in pairs),
            "inferred_events": 0,
            "ranges": len(pairs),
            "first_missing": pairs[0][0] if pairs else None,
            "last_missing": pairs[-1][1] if pairs else None,
            "looked_up_to": 9999,
        }
        for (topic, partition), pairs in gaps.items()
    ]
    return {
        "command": "scan",
        "created": "2026-11-20T10:00:00Z",
        "topics": ["gaps"],
        "outcome": "gaps-found" if missing else "nothing-missing",
        "exit_code": 0,
        "message": f"{missing} events are missing.",
        "seconds": 1.5,
        "missing": missing,
        "cleanup_policy": "compact",
        "infer": False,
        "inferred_events": 0,
        "partitions": partitions,
        **more,
        "bundle": {"file": None, "missing": missing, **more.get("bundle", named)},
    }
