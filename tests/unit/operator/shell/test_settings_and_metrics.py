"""Settings of an installation are parsed or refused, and metrics follow the statuses of resources."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.utils import floatToGoString

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.settings import PodLimits, read_settings
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.leases import Leases
from gapless_operator.shell.metrics import MAX_RESENDS, Metrics
from gapless_operator.shell.refusal import refusal_status
from kit.story.lease_store import LeaseStore, held_leases

CHART = Path(__file__).parents[4] / "charts" / "gapless"
NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


def test_namespaces_may_be_repeated_or_listed() -> None:
    found = read_settings(["--namespace=a,b", "--namespace=b", "--namespace= c "], {})
    assert found.namespaces == ("a", "b", "c")
    assert read_settings([], {}).namespaces == ()


def test_every_option_that_the_chart_gives_is_understood(tmp_path: Path) -> None:
    text = (CHART / "templates" / "deployment.yaml").read_text(encoding="utf-8")
    options = set(re.findall(r"^\s+- (--[a-z-]+)=", text, re.MULTILINE))
    values = {"--image-pull-policy": "Never", "--log-level": "debug", "--metrics-authentication": "none"}
    values |= {"--max-pod-cores": "16", "--max-pod-memory": "64Gi", "--max-pods": "32"}
    values["--user-ids"] = "assigned"
    template = tmp_path / "template.json"
    template.write_text('{"env": {"A": "b"}}')
    named = tmp_path / "templates.json"
    named.write_text('{"big": {"labels": {"pool": "big"}}}')
    values |= {"--pod-template": str(template), "--pod-templates": str(named), "--sender-pod-template": str(template)}
    found = read_settings([f"{option}={values.get(option, 'x')}" for option in options], {"POD_NAMESPACE": "own"})
    assert "--spark-image" in options
    assert found.spark.pod_limits == found.workers.pod_limits == PodLimits(cores=16, memory="64Gi", pods=32)
    assert found.spark.pod_templates.has_assigned_ids
    assert found.spark.pod_templates.default.env == found.workers.pod_templates.default.env == {"A": "b"}
    assert found.spark.pod_templates == found.workers.pod_templates
    assert found.spark.pod_templates.named["big"].labels == {"pool": "big"}
    assert found.sender.pod_templates.senders.env == {"A": "b"}
    assert (found.spark.pull_policy, found.sender.image, found.own_namespace) == ("Never", "x", "own")


def resource(kind: str, name: str, status: dict[str, Any], version: int = 1) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": f"{kind}-{name}", "resourceVersion": str(version)}
    metadata["creationTimestamp"] = "2026-11-20T10:00:00Z"
    return {"apiVersion": "gapless.dev/v1alpha1", "kind": kind, "metadata": metadata, "status": status}


def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-20T10:00:00Z",
    }


def exposed(cache: Cache, leases: Leases | None = None) -> str:
    metrics = Metrics(queue_length=lambda: 3)
    metrics.export(cache, leases or held_leases("n"))
    metrics.record_event("Diode")
    metrics.reconciles.labels("Diode", "error").inc()
    metrics.reconcile_seconds.labels("Diode").observe(0.1)
    metrics.writes.labels("Job", "apply").inc()
    metrics.errors.labels("UnavailableError").inc()
    return generate_latest(metrics.registry).decode()


def test_metrics_follow_the_statuses_and_end_with_the_resources() -> None:
    cache = Cache()
    scan = resource(
        "GapScan",
        "night",
        {
            "missingEvents": 7,
            "missingRanges": 3,
            "closedEventsTotal": 12,
            "nextScheduleTime": "2026-11-21T01:30:00Z",
            "conditions": [condition("Ready", "Unknown", "NeverScanned")],
        },
    )
    cache.store(scan)
    progress = {"planned": 10, "sent": 4, "filtered": 1, "filled": 0, "unavailable": 2, "eventsPerSecond": 2.5}
    cache.store(resource("Resend", "again", {"progress": progress}))
    cache.store(resource("Diode", "north", {"active": [{"name": "again"}], "queued": 5}))
    text = exposed(cache)
    at = datetime(2026, 11, 21, 1, 30, tzinfo=UTC).timestamp()
    for line in (
        'gapless_missing_events{name="night",namespace="n"} 7.0',
        'gapless_missing_ranges{name="night",namespace="n"} 3.0',
        'gapless_closed_events_total{name="night",namespace="n"} 12.0',
        f'gapless_next_scan_timestamp_seconds{{name="night",namespace="n"}} {floatToGoString(at)}',
        'gapless_condition{kind="GapScan",name="night",namespace="n",reason="NeverScanned",type="Ready"} -1.0',
        'gapless_resend_events{name="again",namespace="n",outcome="unavailable"} 2.0',
        'gapless_resend_remaining_events{name="again",namespace="n"} 3.0',
        'gapless_resend_events_per_second{name="again",namespace="n"} 2.5',
        'gapless_diode_active_resends{name="north",namespace="n"} 1.0',
        'gapless_diode_queued_resends{name="north",namespace="n"} 5.0',
        "gapless_queue_length 3.0",
    ):
        assert line in text
    cache.remove(scan)
    assert "night" not in exposed(cache)


def test_a_standby_exports_no_resources() -> None:
    """Sums over both operators would count them twice."""
    cache, store = Cache(), LeaseStore()
    cache.store(resource("Diode", "north", {"active": [{"name": "again"}], "queued": 5}))
    first, second = (Leases(store, ["n"], name) for name in ("first", "second"))  # type: ignore[arg-type]
    for each in (first, second):
        each.renew()
    for leases, serving, diodes in ((first, "1.0", 1), (second, "0.0", 0)):
        text = exposed(cache, leases)
        assert f'gapless_serving{{namespace="n"}} {serving}' in text
        assert text.count('gapless_diode_active_resends{name="north",namespace="n"}') == diodes


AGO = "2026-11-20T10:00:00Z"
ARCHIVED = {
    "segments": 4,
    "bytes": 4000,
    "lagRecords": 12,
    "lagSeconds": 3.5,
    "retentionSeconds": 7200.0,
    "lostRecords": 2,
    "lastCommitTime": AGO,
    "topics": [{"topic": "transfer", "partitions": 1, "segments": 4, "lagRecords": 12}],
}


def test_archives_and_restores_are_measured() -> None:
    cache = Cache()
    cache.store(resource("Archive", "kept", ARCHIVED))
    cache.store(resource("Restore", "back", {"progress": {"planned": 9, "restored": 4, "remaining": 5, "lost": 1}}))
    text = exposed(cache)
    at = datetime.fromisoformat(AGO).timestamp()
    for line in (
        'gapless_archive_segments{name="kept",namespace="n"} 4.0',
        'gapless_archive_bytes{name="kept",namespace="n"} 4000.0',
        'gapless_archive_lag_records{name="kept",namespace="n"} 12.0',
        'gapless_archive_lag_seconds{name="kept",namespace="n"} 3.5',
        'gapless_archive_retention_seconds{name="kept",namespace="n"} 7200.0',
        'gapless_archive_lost_records{name="kept",namespace="n"} 2.0',
        f'gapless_archive_last_commit_timestamp_seconds{{name="kept",namespace="n"}} {floatToGoString(at)}',
        'gapless_archive_topic_lag_records{name="kept",namespace="n",topic="transfer"} 12.0',
        'gapless_restore_records{name="back",namespace="n",outcome="restored"} 4.0',
        'gapless_restore_records{name="back",namespace="n",outcome="lost"} 1.0',
    ):
        assert line in text


MIRRORED = {
    "lagRecords": 12,
    "lagSeconds": 3.5,
    "retentionSeconds": 7200.0,
    "heartbeatAgeSeconds": 2.0,
    "lostRecords": 2,
    "workers": 3,
    "lastCommitTime": AGO,
    "topics": [{"topic": "orders", "lagRecords": 12}],
}


def test_mirrors_and_checks_are_measured() -> None:
    cache = Cache()
    cache.store(resource("Mirror", "copy", MIRRORED))
    cache.store(resource("KafkaConnection", "hall", {"doctor": {"checkedAt": AGO, "errors": 2, "warnings": 1}}))
    cache.store(resource("KafkaConnection", "north", {"doctor": {"request": "now"}}))
    text = exposed(cache)
    at = datetime.fromisoformat(AGO).timestamp()
    for line in (
        'gapless_mirror_status_lag_records{name="copy",namespace="n"} 12.0',
        'gapless_mirror_status_lag_seconds{name="copy",namespace="n"} 3.5',
        'gapless_mirror_status_retention_seconds{name="copy",namespace="n"} 7200.0',
        'gapless_mirror_status_heartbeat_age_seconds{name="copy",namespace="n"} 2.0',
        'gapless_mirror_status_lost_records{name="copy",namespace="n"} 2.0',
        'gapless_mirror_status_workers{name="copy",namespace="n"} 3.0',
        f'gapless_mirror_status_last_commit_timestamp_seconds{{name="copy",namespace="n"}} {floatToGoString(at)}',
        'gapless_mirror_status_topic_lag_records{name="copy",namespace="n",topic="orders"} 12.0',
        'gapless_doctor_findings{name="hall",namespace="n",severity="error"} 2.0',
        'gapless_doctor_findings{name="hall",namespace="n",severity="note"} 0.0',
    ):
        assert line in text
    assert 'gapless_doctor_findings{name="north"' not in text, "no check has ended"


@pytest.mark.parametrize(
    ("status", "known"),
    [
        ({}, False),
        ({"missingEvents": 7, "oldestGapSince": AGO}, True),
        ({"missingEvents": 7, "lastScanTime": AGO}, False),
        ({"missingEvents": 7, "oldestGapSince": AGO, "lastScanTime": "2026-11-20T11:00:00Z"}, True),
    ],
)
def test_the_oldest_gap_has_the_age_that_the_status_knows(status: dict[str, Any], *, known: bool) -> None:
    cache = Cache()
    cache.store(resource("GapScan", "night", status))
    before = datetime.now(UTC) - datetime.fromisoformat(AGO)
    found = re.search(r'gapless_oldest_gap_seconds\{name="night",namespace="n"\} (\S+)', exposed(cache))
    after = datetime.now(UTC) - datetime.fromisoformat(AGO)
    assert (found is not None) is known
    if found is not None:
        assert before.total_seconds() - 1 <= max(float(found[1]), 0.0)
        assert float(found[1]) <= max(after.total_seconds(), 0.0) + 1


def test_no_gap_has_no_age() -> None:
    cache = Cache()
    cache.store(resource("GapScan", "night", {"missingEvents": 0, "lastScanTime": AGO}))
    assert 'gapless_oldest_gap_seconds{name="night",namespace="n"} 0.0' in exposed(cache)


def test_every_metric_of_alerts_and_dashboards_exists() -> None:
    cache = Cache()
    status = {"missingEvents": 1, "missingRanges": 1, "nextScheduleTime": "2026-11-21T01:30:00Z"}
    status |= {"closedEventsTotal": 1, "oldestGapSince": AGO}
    cache.store(resource("GapScan", "a", {**status, "conditions": [condition("Ready", "True", "GapsFound")]}))
    cache.store(resource("Resend", "a", {"progress": {"planned": 1}}))
    cache.store(resource("Diode", "a", {}))
    cache.store(resource("Archive", "a", ARCHIVED))
    cache.store(resource("Restore", "a", {"progress": {"planned": 1}}))
    cache.store(resource("Mirror", "a", MIRRORED))
    text = exposed(cache)
    files = [CHART / "files" / "alerts.yaml", *(CHART / "files" / "dashboards").glob("*.json")]
    wanted = {name for file in files for name in re.findall(r"gapless_[a-z_]+\b", file.read_text(encoding="utf-8"))}
    missing = {name for name in wanted if f"\n{name}{{" not in text and f"\n{name} " not in text}
    assert not missing


def test_the_number_of_series_is_bounded() -> None:
    cache = Cache()
    for number in range(MAX_RESENDS + 500):
        cache.store(resource("Resend", f"r{number}", {"progress": {"planned": 1}}))
    assert exposed(cache).count("\ngapless_resend_remaining_events{") == MAX_RESENDS


def test_a_refusal_has_one_event_and_stays_while_it_lasts() -> None:
    body = resource("GapScan", "night", {"missingEvents": 7})
    body["metadata"]["generation"] = 4
    status, events = refusal_status(body, Reason.WRITE_REFUSED, "No.", now=NOW, final=False)
    assert status is not None
    assert status["missingEvents"] == 7
    assert status["observedGeneration"] == 4
    assert {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]} == {
        "Ready": ("False", "WriteRefused"),
        "Reconciling": ("True", "WriteRefused"),
        "Stalled": ("True", "WriteRefused"),
    }
    assert len(events) == 1
    assert refusal_status({**body, "status": status}, Reason.WRITE_REFUSED, "No.", now=NOW, final=False) == (None, ())
