"""A message of another version is not used: it causes no success, no zeros and no ledger entry."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

SenderCluster = Any


@pytest.mark.parametrize("version", [3, 5, 99, "4", None])
@pytest.mark.parametrize("planned", [0, 1000])
def test_a_report_of_another_version_is_no_success(ready: SenderCluster, version: Any, planned: int) -> None:
    job = ready.begin()
    report = {**ready.report(planned, planned=planned), "gaplessReport": version}
    ready.end(f"{job}-0-0", 0, {name: value for name, value in report.items() if value is not None})
    ready.settle()
    assert ready.summary() == ("ReportUnreadable", "False", "False", "True", "False")
    message = ready.condition(Type.SUCCEEDED).message
    found = "no version (gaplessReport)" if version is None else f"version {version!r}".replace("'", '"')
    assert f"the resend report has {found}, and this program reads version 4" in message
    assert ready.ledger() == ()
    assert ready.a_resend().status.report is None


def test_a_report_that_lists_what_is_missing_and_cannot_be_read_is_no_end_either(ready: SenderCluster) -> None:
    job = ready.begin()
    report = ready.report(990, unavailable=10)
    del report["ledger"]["planned"]
    ready.end(f"{job}-0-0", 4, report)
    ready.settle()
    assert ready.summary() == ("ReportUnreadable", "False", "False", "True", "False")
    assert "ledger.planned is missing" in ready.condition(Type.SUCCEEDED).message
    assert ready.ledger() == ()


def test_one_unreadable_report_among_several_is_enough(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.end(f"{job}-0-0", 0, ready.report(500, planned=500))
    ready.end(f"{job}-1-0", 0, {**ready.report(500, planned=500), "gaplessReport": 5})
    ready.settle()
    assert ready.summary()[0] == "ReportUnreadable"
    assert f"pod {job}-1-0" in ready.condition(Type.READY).message
    assert ready.ledger() == ()


def test_what_ended_unreadably_is_tried_again_when_the_spec_changes(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0, {**ready.report(1000), "gaplessReport": 5})
    ready.settle()
    ready.resend(priority=5)
    ready.settle()
    ready.start_pods()
    ready.end("repeat-00000001-send-2-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary()[0] == "Sent"
    assert [entry.sent for entry in ready.ledger()] == [1000]


def test_progress_of_another_version_leaves_the_progress_as_it_was_and_is_said(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.advance(seconds=6)
    ready.run(f"{job}-0-0", {**ready.progress(500), "gaplessProgress": 4})
    ready.settle()
    assert ready.a_resend().status.progress.sent == 400
    assert "the progress line has version 4, and this program reads version 3" in ready.condition(Type.READY).message
    assert ready.summary()[0] == "Sending"


def test_a_plan_of_another_version_is_no_plan(ready: SenderCluster) -> None:
    job = ready.begin(mode="Plan")
    ready.end(f"{job}-0-0", 0, {**ready.plan(990), "gaplessPlan": 6})
    ready.settle()
    assert ready.summary() == ("ReportUnreadable", "False", "False", "True", "False")
    assert "the resend plan has version 6, and this program reads version 5" in ready.condition(Type.READY).message
    assert ready.a_resend().status.plan is None


def test_a_preflight_of_another_version_says_nothing_of_the_link(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.run_preflight(gaplessPreflight=3)
    cluster.settle()
    assert cluster.condition(Type.LINK_UP, "hall", "Diode").status == "Unknown"
    said = cluster.condition(Type.READY, "hall", "Diode")
    assert (said.status, said.reason) == ("False", "PreflightFailed")
    assert "the preflight line has version 3, and this program reads version 2" in said.message
