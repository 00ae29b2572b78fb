"""One switch stops all that runs in a namespace, also with an invalid object, and after the operator was restarted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.wire.totals import Totals
from kit.cluster.kubelet import Runs, as_lines
from kit.story import messages

pytestmark = pytest.mark.integration

SENDING = as_lines(messages.progress(Totals(planned=7, sent=3, remaining=4)))
WITHIN = 15.0
"""Seconds within which everything must have ended."""


def without_end(place: Any) -> Callable[[dict[str, Any]], Any]:
    def behave(pod: dict[str, Any]) -> Any:
        role = pod["metadata"]["labels"].get("gapless.dev/role")
        return Runs(SENDING, seconds=-1) if role in {"send", "scan", "mirror-workers"} else usual(pod)

    usual = place.behave
    return behave


def running_pods(place: Any) -> list[str]:
    return [pod["metadata"]["name"] for pod in place.objects("/api/v1 pods") if pod["status"]["phase"] == "Running"]


def annotate(place: Any, value: str | None) -> None:
    patch = json.dumps({"metadata": {"annotations": {"gapless.dev/suspend": value}}})
    place.api.kubectl("patch", "namespace", place.name, "--type=merge", "-p", patch)


def start_work(place: Any) -> None:
    """Let a Resend send, a GapScan scan and a Mirror copy, without end."""
    place.behave = without_end(place)
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    place.resend()
    place.gap_scan()
    place.kafka("up", access=["Read", "Write"])
    spec = {"sourceRef": {"name": "kafka"}, "targetRef": {"name": "up"}, "topics": ["transfer"]}
    place.apply("Mirror", "copies", **spec)
    place.until("Resend", "again", "Ready", "False", "Sending")
    place.api.eventually(lambda: len(running_pods(place)) >= 3, what="three running pods")


def test_the_annotation_stops_everything_within_seconds_and_work_goes_on_without_it(
    place: Any, operator: Callable[..., Any]
) -> None:
    first = operator()
    start_work(place)
    annotate(place, "true")
    place.api.eventually(lambda: not running_pods(place), timeout_seconds=WITHIN, what="the end of all pods")
    place.until("Resend", "again", "Ready", "False", "Suspended")
    place.until("Mirror", "copies", "Progressing", "False", "Suspended")
    place.until("GapScan", "night", "Reconciling", "False", "Suspended")
    first.stop()
    operator()
    place.resend("another")
    place.until("Resend", "another", "Ready", "False", "Suspended")
    assert running_pods(place) == []
    annotate(place, None)
    place.until("Resend", "again", "Ready", "False", "Sending", seconds=60)
    place.api.eventually(lambda: len(running_pods(place)) >= 3, timeout_seconds=60, what="the same work again")


def test_a_disruption_budget_that_somebody_deleted_comes_back_with_the_next_workers(
    place: Any, operator: Callable[..., Any]
) -> None:
    """Budgets are not watched, so the operator looks at the one that is there."""
    budgets = "/apis/policy/v1 poddisruptionbudgets"
    operator()
    place.behave = without_end(place)
    for name in ("kafka", "up"):
        place.kafka(name, access=["Read", "Write"])
    spec = {"sourceRef": {"name": "kafka"}, "targetRef": {"name": "up"}, "topics": ["transfer"]}
    place.apply("Mirror", "copies", **spec)
    place.api.eventually(lambda: running_pods(place), what="running workers")
    (name,) = place.names(budgets)
    annotate(place, "true")
    place.until("Mirror", "copies", "Progressing", "False", "Suspended")
    place.api.kubectl("-n", place.name, "delete", "poddisruptionbudget", name)
    annotate(place, None)
    place.api.eventually(lambda: place.names(budgets) == [name], timeout_seconds=60, what="the budget again")
    place.api.eventually(lambda: running_pods(place), what="running workers again")


def test_without_an_operator_one_command_stops_everything(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    start_work(place)
    running.kill()
    place.api.kubectl("-n", place.name, "delete", "jobs,pods", "-l", "gapless.dev/kind")
    place.api.eventually(lambda: not running_pods(place), timeout_seconds=WITHIN, what="the end of all pods")


def test_a_suspended_scan_is_stopped(place: Any, operator: Callable[..., Any]) -> None:
    place.behave = without_end(place)
    operator()
    place.gap_scan()
    place.api.eventually(lambda: running_pods(place), what="a running scan")
    place.gap_scan(suspend=True)
    place.api.eventually(lambda: not running_pods(place), timeout_seconds=WITHIN, what="the end of the scan")
    place.until("GapScan", "night", "Reconciling", "False", "Suspended")
    place.gap_scan(suspend=False)
    place.api.eventually(lambda: running_pods(place), what="the scan again")
