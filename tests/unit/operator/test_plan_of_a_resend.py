"""What `gapless cluster plan` takes for a plan of the present Resend."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_operator.cli.cluster_page import plan_of, plan_text

PLAN = {"events": 1200, "ranges": 3, "datagrams": 2400, "bytes": 1_500_000, "estimatedSeconds": 90.0}


def resend(mode: str, reason: str, *, seen: int = 2, stalled: bool = False) -> dict[str, Any]:
    kind = "Stalled" if stalled else "Ready"
    conditions = [{"type": kind, "status": "True", "reason": reason, "message": f"{reason}."}]
    status = {"observedGeneration": seen, "conditions": conditions, "plan": PLAN}
    metadata = {"name": "again", "namespace": "n", "generation": 2}
    return {"kind": "Resend", "metadata": metadata, "spec": {"mode": mode}, "status": status}


@pytest.mark.parametrize(
    ("body", "has_plan", "is_final"),
    [
        (resend("Plan", "Planned"), True, True),
        (resend("Plan", "Planned", seen=1), False, False),
        (resend("Plan", "Planning"), False, False),
        (resend("Plan", "BadBundle", stalled=True), False, True),
        (resend("Plan", "BadBundle", seen=1, stalled=True), False, False),
        (resend("Send", "Sending"), True, True),
    ],
)
def test_a_plan_of_an_earlier_spec_is_none(body: dict[str, Any], *, has_plan: bool, is_final: bool) -> None:
    found = plan_of(body)
    assert (found.plan is not None, found.is_final) == (has_plan, is_final)


def test_an_object_that_no_operator_has_seen_has_none() -> None:
    body = resend("Plan", "Planned")
    del body["status"]
    assert plan_of(body) == (None, "", False)


def test_figures_stand_one_in_each_line() -> None:
    times = {"expiresFrom": "2026-11-29T00:00:00Z", "oldestEvent": "2026-11-20T10:00:00Z"}
    assert plan_text({**PLAN, **times}).splitlines() == [
        "events:       1,200 in 3 ranges",
        "unavailable:  0",
        "traffic:      about 2,400 datagrams, 1.5 MB",
        "duration:     about 90 s",
        "oldest event: 2026-11-20T10:00:00Z",
        "expires from: 2026-11-29T00:00:00Z",
    ]
    assert "duration:     not known\n" in plan_text({"events": 5, "unavailable": 5})


def test_an_unknown_size_is_not_shown_as_none() -> None:
    for name in ("datagrams", "bytes"):
        figures = {key: value for key, value in PLAN.items() if key != name}
        assert "traffic:      not known\n" in plan_text(figures)
