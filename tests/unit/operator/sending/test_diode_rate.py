"""A Diode says how fast Resends send: by a budget, a measured link profile, or that there is no limit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_api.wire.link_profile import LINK_PROFILE
from kit.story.messages import PROFILE

if TYPE_CHECKING:
    from conftest import SenderCluster

REFERENCE = {"profileRef": {"name": "north"}}


def write(cluster: SenderCluster, **changes: Any) -> None:
    text = json.dumps(LINK_PROFILE.to_json(replace(PROFILE, **changes)))
    cluster.config_map("north", **{"link-profile.json": text})


def rates(cluster: SenderCluster, job: str) -> dict[str, str]:
    lines = cluster.bodies["ConfigMap", job]["data"]["rates.properties"].splitlines()
    return dict(line.split("=") for line in lines)


def test_the_rates_of_a_link_profile_are_the_budget_of_the_diode(ready: SenderCluster) -> None:
    write(ready)
    ready.diode(**REFERENCE)
    ready.settle()
    job = ready.begin(eps=7.0)
    assert rates(ready, job) == {"eps": "7.0", "budgetEps": "800.0", "budgetBitsPerSecond": "9000000"}
    assert ready.property_of(job, "budgetFile") == "budgetFile=/var/lib/gapless/budget"
    write(ready, datagrams_per_second=500.0)
    ready.settle()
    assert rates(ready, job)["budgetEps"] == "500.0", "running senders follow a new measurement"
    assert [name for name in ready.created_jobs if "send" in name] == [job]


def test_a_datagram_that_is_sent_twice_needs_twice_the_rate(ready: SenderCluster) -> None:
    write(ready)
    ready.diode(**REFERENCE, copies=2)
    ready.settle()
    assert rates(ready, ready.begin())["budgetEps"] == "400.0"
    ready.resend(copies=4)
    ready.settle()
    assert rates(ready, str(ready.a_resend().status.job))["budgetEps"] == "200.0", "of a Resend with more copies"


def test_without_its_link_profile_nothing_is_sent_and_it_is_looked_for_again(ready: SenderCluster) -> None:
    ready.diode(**REFERENCE)
    ready.settle()
    ready.resend()
    ready.settle()
    where = "the entry link-profile.json of ConfigMap north in the namespace gapless-sender"
    for of, name in (("Diode", "hall"), ("Resend", "repeat")):
        said = ready.condition(Type.READY, name, of)
        assert (said.status, said.reason) == ("False", "LinkProfileNotFound"), of
        assert f"Diode hall needs {where}, which does not exist" in said.message
    assert not ready.running_jobs()
    plan = ready.next_plan("Diode", "hall")
    assert plan.requeue_after_seconds is not None
    assert plan.requeue_after_seconds <= 30, "its ConfigMap is not watched"
    write(ready)
    ready.settle()
    assert ready.condition(Type.READY, "hall", "Diode").reason == "LinkReady"
    assert ready.summary()[0] == "Starting"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "it is not a link profile, or is truncated"),
        (json.dumps({**LINK_PROFILE.to_json(PROFILE), "gaplessLinkProfile": 2}), "has version 2"),
        (json.dumps({**LINK_PROFILE.to_json(PROFILE), "bitsPerSecond": 1e9}), "above the measured 11,424,000"),
    ],
)
def test_senders_are_stopped_when_the_link_profile_becomes_invalid(ready: SenderCluster, text: str, says: str) -> None:
    write(ready)
    ready.diode(**REFERENCE)
    ready.settle()
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert ready.running_jobs() == [job]
    ready.config_map("north", **{"link-profile.json": text})
    ready.settle()
    assert ready.running_jobs() == []
    for of, name in (("Diode", "hall"), ("Resend", "repeat")):
        said = ready.condition(Type.READY, name, of)
        assert said.status == "False"
        assert says in said.message
    write(ready)
    ready.settle()
    assert [name for name in ready.running_jobs() if "send" in name], "it continues"


@pytest.mark.parametrize(
    ("changes", "spec", "says"),
    [
        ({}, {}, ""),
        ({"measured_at": "2026-01-01T00:00:00Z"}, {}, "it was measured 323 days ago"),
        ({"target": "10.0.0.9"}, {}, "it was measured to 10.0.0.9, and this sender sends to 10.0.0.2"),
        ({}, {"payloadSize": 1000}, "payloads of 1,400 bytes, and payloadSize is 1,000"),
        ({"copies": 2}, {}, "the link lost some of the probes, and copies is 1; set it to 2"),
    ],
)
def test_a_doubtful_link_profile_is_named_while_the_diode_stays_ready(
    ready: SenderCluster, changes: dict[str, Any], spec: dict[str, Any], says: str
) -> None:
    write(ready, **changes)
    ready.diode(**REFERENCE, **spec)
    ready.settle()
    said = ready.condition(Type.READY, "hall", "Diode")
    assert (said.status, said.reason) == ("True", "LinkReady")
    assert ("The link profile may not hold" in said.message) == bool(says)
    assert says in said.message


@pytest.mark.parametrize("rate", [{}, {"budget": {"eventsPerSecond": 0, "bitsPerSecond": 0}}])
def test_a_stored_diode_without_a_rate_sends_nothing_and_says_what_to_write(
    ready: SenderCluster, rate: dict[str, Any]
) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.diode(**rate, unlimited=False)  # as an API server stores it without the rule
    ready.settle()
    assert ready.running_jobs() == []
    assert ready.summary()[0] == "DiodeInvalid"
    assert "say in exactly one way how fast Resends may send" in ready.condition(Type.READY).message
    found = {each["type"]: each for each in ready.bodies["Diode", "hall"]["status"]["conditions"]}
    assert (found["Stalled"]["status"], found["Stalled"]["reason"]) == ("True", "BadConfiguration")
    assert "unlimited: true" in found["Stalled"]["message"]
