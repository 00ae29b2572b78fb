"""Builders for the messages of our programs, as JSON lines of a pod's log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from gapless_api.wire.link_profile import LinkProfile, ProfileMeasurement
from gapless_api.wire.preflight import PREFLIGHT_LINE, PreflightLine
from gapless_api.wire.progress import PROGRESS_LINE, ProgressLine
from gapless_api.wire.resend_plan import SHORT_PLAN, Estimate, ResendPlan, Retention, ShortPlan
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
    from gapless_api.wire.form import Form
    from gapless_api.wire.totals import Totals

STARTED = "2026-11-20T10:00:00+00:00"
PROFILE = LinkProfile(
    measured_at="2026-11-19T10:00:00Z",
    measured_by="gapless link receive 0.1.0",
    target="10.0.0.2",
    receiver_nic="",
    port=24117,
    payload_size=1400,
    header_bytes=28,
    copies=1,
    datagrams_per_second=800.0,
    bits_per_second=9_000_000.5,
    measurement=ProfileMeasurement(
        run="000000000000abcd",
        step=4,
        probes=5_000,
        missing=0,
        datagrams_per_second=1_000.0,
        bits_per_second=11_424_000.0,
        margin=0.2,
        accepted_loss=0.0,
        is_limit_known=True,
    ),
)


def line(form: Form[Any], message: Any) -> dict[str, Any]:
    """Return the content of a message's JSON line."""
    content: dict[str, Any] = json.loads(form.to_line(message))
    return content


def progress(ledger: Totals, **more: Any) -> dict[str, Any]:
    """Return a progress line; `more` are fields of the model."""
    message = ProgressLine(
        time=STARTED,
        shard=0,
        shards=1,
        percent=50.0,
        ledger=ledger,
        datagrams=ledger.sent,
        left_interface=ledger.sent,
        events_per_second=100.0,
        eta_seconds=None,
    )
    return line(PROGRESS_LINE, replace(message, **more))


def report(ledger: Totals, **more: Any) -> dict[str, Any]:
    """Return the line of a final report; `more` are fields of the model or of its head."""
    unavailable = ledger.unavailable
    head = ReportHead(
        outcome=Outcome.INCOMPLETE if unavailable else Outcome.DONE,
        exit_code=4 if unavailable else 0,
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
        unavailable={"Expired": unavailable} if unavailable else {},
        from_archive=0,
        damaged=(),
        link=LinkTraffic(
            datagrams=ledger.sent,
            payload_bytes=0,
            system_calls=0,
            refused=0,
            retries=0,
            left_interface=ledger.sent,
            interface_drops=0,
        ),
        keys_announced=0,
        skipped=(),
    )
    head_fields = {field.name for field in fields(ReportHead)}
    message = ShortReport(
        head=replace(head, **{name: value for name, value in more.items() if name in head_fields}),
        skipped_omitted=0,
        partitions=(),
        partitions_omitted=0,
        unavailable_ranges=(
            (UnavailableRange(topic="transfer", partition=0, first=0, last=unavailable - 1, reason="Expired"),)
            if unavailable
            else ()
        ),
        unavailable_ranges_omitted=0,
    )
    return line(SHORT_REPORT, replace(message, **{n: value for n, value in more.items() if n not in head_fields}))


def plan(
    events: int, *, unavailable: int | Mapping[str, int] = 0, seconds: float | None = None, **more: Any
) -> dict[str, Any]:
    """Return the line of a plan; a number of `unavailable` events is expired; `more` are fields of the model."""
    lost = {"Expired": unavailable} if isinstance(unavailable, int) else unavailable
    message = replace(
        resend_plan(events, seconds=seconds),
        unavailable={reason: count for reason, count in lost.items() if count},
        **more,
    )
    return line(SHORT_PLAN, ShortPlan(plan=message, skipped_omitted=0, partitions_omitted=0))


def resend_plan(events: int, *, seconds: float | None = None) -> ResendPlan:
    """Return the plan of a resend of `events` by offsets, all of which Kafka has and keeps."""
    return ResendPlan(
        shard=0,
        shards=1,
        mode="offsets",
        bundle=None,
        events=events,
        from_kafka=events,
        from_archive=0,
        ranges=1,
        sent_before=0,
        unavailable={},
        outside_time_range=0,
        first_event_ms=None,
        expires_from_ms=None,
        retention=Retention.UNLIMITED,
        estimate=Estimate(mean_event_bytes=10.0, datagrams=events, payload_bytes=10 * events, seconds=seconds),
        note="",
        skipped=(),
        partitions=(),
    )


def read_bundle(sha256: str, bundle_id: str | None) -> ReadBundle:
    """Return the reference to a bundle in a report or plan."""
    return ReadBundle(file="/bundle.json", type="all", id=bundle_id, sha256=sha256)


def preflight(**found: Any) -> dict[str, Any]:
    """Return the line of a preflight check of a link that is up; `found` replaces fields."""
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
    """Return the report file of a scan that found `gaps`; `named` is its bundle."""
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
