"""The alerts, dashboards and runbooks belong together; the definitions in the chart are those of the models."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from gapless_api.wire.mirror_progress import StallReason
from gapless_mirror.lanes.claims import PositionState
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.metrics import Metrics
from kit.story.lease_store import held_leases

ROOT = Path(__file__).parents[3]
FILES = ROOT / "charts" / "gapless" / "files"
RUNBOOKS = ROOT / "docs" / "runbooks"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
QUERIES = [
    *(pytest.param(rule["expr"], id=name) for name, rule in ALERTS.items()),
    *(
        pytest.param(target["expr"], id=f"{path.stem}-{panel['id']}")
        for path in DASHBOARDS
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
        for target in panel["targets"]
    ),
]


# Exported only while there is such an object, or after the first of its kind: what a full cache makes of them all.
CACHE_OBJECTS = [
    ("Diode", {"active": [{"name": "night"}], "queued": 2}),
    (
        "GapScan",
        {
            "missingEvents": 5,
            "missingRanges": 1,
            "closedEventsTotal": 3,
            "oldestGapSince": "2026-11-20T10:00:00Z",
            "nextScheduleTime": "2026-11-20T10:00:00Z",
        },
    ),
    ("Resend", {"progress": {"planned": 5, "sent": 1, "percent": 20, "eventsPerSecond": 1.5}}),
    (
        "Archive",
        {
            "segments": 1,
            "bytes": 1,
            "lagRecords": 1,
            "lagSeconds": 1.0,
            "retentionSeconds": 1.0,
            "lostRecords": 1,
            "lastCommitTime": "2026-11-20T10:00:00Z",
            "topics": [{"topic": "t", "lagRecords": 1}],
        },
    ),
    ("Restore", {"progress": {"planned": 5}}),
    (
        "Mirror",
        {
            "lagRecords": 1,
            "lagSeconds": 1.0,
            "retentionSeconds": 1.0,
            "heartbeatAgeSeconds": 1.0,
            "lostRecords": 1,
            "workers": 1,
            "lastCommitTime": "2026-11-20T10:00:00Z",
            "topics": [{"topic": "t", "lagRecords": 1}],
        },
    ),
    ("KafkaConnection", {"doctor": {"checkedAt": "2026-11-20T10:00:00Z", "errors": 2}}),
]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Return all series that the operator can export, with their labels."""
    cache = Cache()
    condition = {"type": "Ready", "status": "True", "reason": "Settled"}
    for number, (kind, status) in enumerate(CACHE_OBJECTS, 1):
        head = {"namespace": "n", "name": "o", "uid": str(number), "resourceVersion": str(number)}
        body = {"apiVersion": "gapless.dev/v1alpha1", "kind": kind, "metadata": head}
        cache.store({**body, "status": {**status, "conditions": [condition]}})
    metrics = Metrics(queue_length=lambda: 0)
    metrics.export(cache, held_leases("n"))
    metrics.record_event("Diode")
    metrics.reconciles.labels("Diode", "ok").inc()
    metrics.reconcile_seconds.labels("Diode").observe(1)
    metrics.writes.labels("Job", "apply").inc()
    metrics.errors.labels("Conflict").inc()
    series: dict[str, set[str]] = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            series.setdefault(sample.name, set()).update(sample.labels)
    return series


def test_every_loss_of_a_mirror_is_critical_and_no_mere_stall() -> None:
    lost, others = (
        re.findall(r'reason[=!]~"([^"]+)"', ALERTS[name]["expr"])[0]
        for name in ("GaplessMirrorDataLoss", "GaplessMirrorStalled")
    )
    losses = set(PositionState) - {PositionState.HOLDS, PositionState.UNKNOWN}
    assert {reason for reason in StallReason if re.fullmatch(lost, reason)} == losses
    assert losses <= {reason for reason in StallReason if re.fullmatch(others, reason)}


FROM_SCRAPING = {"pod", "instance", "job"}


@pytest.mark.parametrize("query", QUERIES)
def test_every_expression_uses_exported_series_and_labels(exported: dict[str, set[str]], query: str) -> None:
    names = set(re.findall(r"\b(?:gapless|process)_\w+", query))
    assert names, "nothing of ours"
    assert names <= set(exported)
    labels = set().union(*(exported[name] for name in names)) | FROM_SCRAPING
    used = {name for group in re.findall(r"(?:by|on) \(([^)]*)\)", query) for name in re.split(r", *", group)}
    used |= set(re.findall(r"(\w+)(?:=~|!=|=)\"", query))
    assert used - {"namespace"} <= labels  # every series gets a namespace: the object's, or by scraping the pod's


@pytest.mark.parametrize("query", QUERIES)
def test_every_expression_is_valid_promql(query: str) -> None:
    promql_parser.parse(query)


def test_no_alert_depends_on_growth_within_the_series_of_one_operator_pod() -> None:
    """Records that are lost during a restart of the operator are in the first sample of the new pod."""
    growing = re.compile(r"\bdelta\(gapless_\w+\[\w+\]\)+ > ")
    assert [name for name, rule in ALERTS.items() if growing.search(rule["expr"])] == []


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("Gapless*.md")} == set(ALERTS)
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\(\w+\.md\)", index, re.MULTILINE) == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_a_runbook_has_the_required_sections(name: str) -> None:
    page = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["What it means", "What to look at", "What to do"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_a_delay_and_two_sentences(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert re.fullmatch(r"[0-9]+[mh]", rule["for"])
    assert all(rule["annotations"][key].endswith(".") for key in ("summary", "description"))
    # A label that the expression does not keep would be empty in the sentence.
    kept = re.findall(r"by \(([^)]*)\)", rule["expr"])
    used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert used <= {label.strip() for label in (kept[0] if kept else "").split(",")}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_complete(path: Path) -> None:
    board = json.loads(path.read_text(encoding="utf-8"))
    assert board["uid"] == f"gapless-{path.stem}"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for panel in board["panels"]:
        assert panel["title"]
        for target in panel["targets"]:
            assert set(re.findall(r"\$\{?(\w+)", target["expr"])) <= variables
    places = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places)), "panels overlap"
    assert {x for x, _ in places} == set(range(24))


def test_the_chart_contains_the_checked_in_definitions() -> None:
    made = {path.name: path.read_bytes() for path in (ROOT / "crds" / "manifests").glob("*.yaml")}
    assert {path.name: path.read_bytes() for path in (FILES / "crds").glob("*.yaml")} == made, "run make crds"
