"""Words that a newer operator has written into a status are kept by an older one, and are no crash."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

World = Any


def rewrite(world: World, kind: str, name: str, **reasons: str) -> None:
    """Let the conditions of an object have reasons that nobody knows."""
    body = world.bodies[kind, name]
    conditions = [{**one, "reason": reasons.get(one["type"], one["reason"])} for one in body["status"]["conditions"]]
    world.bodies[kind, name] = {**body, "status": {**body["status"], "conditions": conditions}}


def test_an_unknown_reason_of_a_resend_that_waits_for_its_next_attempt_is_kept(ready: World) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    message = ready.said(Type.RECONCILING).message
    rewrite(ready, "Resend", "repeat", Reconciling="BrokerOnFire", Ready="BrokerOnFire", Succeeded="BrokerOnFire")
    ready.settle()
    said = ready.said(Type.RECONCILING)
    assert (said.reason, said.message, said.status) == ("BrokerOnFire", message, "True")
    ready.later(minutes=1)
    ready.settle()
    assert ready.standing()[0] == "Starting"


def test_an_unknown_reason_of_a_link_that_is_not_known_is_kept(ready: World) -> None:
    body = ready.bodies["Diode", "hall"]
    link = {"status": "Unknown", "reason": "CableOnFire", "message": "The cable burns."}
    conditions = [{**one, **(link if one["type"] == "LinkUp" else {})} for one in body["status"]["conditions"]]
    ready.bodies["Diode", "hall"] = {**body, "status": {**body["status"], "conditions": conditions}}
    ready.reconcile("Diode", "hall")
    said = ready.said(Type.LINK_UP, "hall", of="Diode")
    assert (said.reason, said.message) == ("CableOnFire", "The cable burns.")


@pytest.mark.parametrize("when", ["queued", "sending", "suspended", "failed", "sent"])
def test_no_unknown_reason_is_a_crash(ready: World, when: str) -> None:
    if when == "queued":
        ready.resend(mode="Send")
        ready.diode(maxConcurrentResends=1)
        ready.resend("before", priority=9)
        ready.settle()
    elif when == "sent":
        ready.finished()
    else:
        job = ready.begin()
        ready.run(f"{job}-0-0", ready.progress(400))
        ready.settle()
        if when == "suspended":
            ready.resend(suspend=True)
            ready.settle()
        elif when == "failed":
            ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
            ready.settle()
    unknown = dict.fromkeys(map(str, Type), "FromTheFuture")
    rewrite(ready, "Resend", "repeat", **unknown)
    rewrite(ready, "Diode", "hall", **unknown)
    ready.settle()
    ready.later(hours=2)
    ready.settle()
