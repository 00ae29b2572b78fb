"""A Resend that changes while it runs: suspended, with another rate, or with another force."""

from __future__ import annotations

from typing import Any

import pytest

SenderCluster = Any


def test_suspends_and_continues(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.resend(suspend=True)
    ready.settle()
    assert ready.summary() == ("Suspended", "False", "False", "False", "Unknown")
    assert "repeat-00000001-send-1" not in ready.names("Job")
    assert ready.a_diode().status.active == ()
    assert ready.a_resend().status.progress.sent == 400
    ready.resend(suspend=False)
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.progress.sent == 400


def _rates(cluster: SenderCluster, settings: str) -> dict[str, str]:
    lines = cluster.bodies["ConfigMap", settings]["data"]["rates.properties"].splitlines()
    return dict(line.split("=") for line in lines)


def test_running_senders_follow_a_new_rate(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert _rates(ready, job) == {"eps": "0", "unlimited": "true"}
    for eps, written in ((2.5, "2.5"), (5000, "5000.0"), (0, "0"), (None, "0")):
        ready.resend(**({} if eps is None else {"eps": eps}))
        ready.settle()
        assert float(_rates(ready, job)["eps"]) == float(written)
        assert ("unlimited" in _rates(ready, job)) is (not eps), "the sender sends without a rate only if it is told so"
    assert [name for name in ready.created_jobs if "send" in name] == [job], "no pod was stopped for it"
    assert ready.summary()[0] == "Sending"


@pytest.mark.parametrize(
    ("before", "after", "jobs"),
    [
        ({"eventsPerSecond": 100}, {"eventsPerSecond": 7}, 1),
        ({"eventsPerSecond": 100}, {"bitsPerSecond": 5_000_000}, 1),
        ({}, {"eventsPerSecond": 7}, 2),
        ({"eventsPerSecond": 100}, {}, 2),
    ],
)
def test_running_senders_follow_a_new_budget_and_are_replaced_when_it_is_added_or_removed(
    ready: SenderCluster, before: dict[str, int], after: dict[str, int], jobs: int
) -> None:
    ready.diode(budget=before)
    ready.settle()
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.diode(budget=after)
    ready.settle()
    made = [name for name in ready.created_jobs if "send" in name]
    assert len(made) == jobs
    written = _rates(ready, made[-1])
    assert written.pop("unlimited", None) == (None if after else "true")
    found = {name: float(rate) for name, rate in written.items()}
    names = {"eventsPerSecond": "budgetEps", "bitsPerSecond": "budgetBitsPerSecond"}
    assert found == {"eps": 0.0} | (
        {ours: float(after.get(theirs, 0)) for theirs, ours in names.items()} if after else {}
    )


def test_another_force_stops_the_job_and_starts_from_the_beginning(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    checkpoint = ready.property_of(job, "checkpoint")
    ready.resend(force="all over")
    ready.settle()
    assert [name for name in ready.names("Job") if "send" in name] == ["repeat-00000001-send-2"]
    assert ready.property_of("repeat-00000001-send-2", "checkpoint") != checkpoint
    assert ready.a_resend().status.progress is None
