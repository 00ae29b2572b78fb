"""Unknown reasons in a status, written by a newer operator, are kept and cause no crash."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

SenderCluster = Any


def rewrite(cluster: SenderCluster, kind: str, name: str, **reasons: str) -> None:
    """Let the conditions of an object have reasons that nobody knows."""
    body = cluster.bodies[kind, name]
    conditions = [{**one, "reason": reasons.get(one["type"], one["reason"])} for one in body["status"]["conditions"]]
    cluster.bodies[kind, name] = {**body, "status": {**body["status"], "conditions": conditions}}


def test_an_unknown_reason_of_a_resend_that_waits_for_its_next_attempt_is_kept(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    message = ready.condition(Type.RECONCILING).message
    rewrite(ready, "Resend", "repeat", Reconciling="BrokerOnFire", Ready="BrokerOnFire", Succeeded="BrokerOnFire")
    ready.settle()
    said = ready.condition(Type.RECONCILING)
    assert (said.reason, said.message, said.status) == ("BrokerOnFire", message, "True")
    ready.advance(minutes=1)
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_an_unknown_reason_of_a_link_that_is_not_known_is_kept(ready: SenderCluster) -> None:
    body = ready.bodies["Diode", "hall"]
    link = {"status": "Unknown", "reason": "CableOnFire", "message": "The cable burns."}
    conditions = [{**one, **(link if one["type"] == "LinkUp" else {})} for one in body["status"]["conditions"]]
    ready.bodies["Diode", "hall"] = {**body, "status": {**body["status"], "conditions": conditions}}
    ready.reconcile("Diode", "hall")
    said = ready.condition(Type.LINK_UP, "hall", of="Diode")
    assert (said.reason, said.message) == ("CableOnFire", "The cable burns.")


@pytest.mark.parametrize("when", ["queued", "sending", "suspended", "failed", "sent"])
def test_no_unknown_reason_is_a_crash(ready: SenderCluster, when: str) -> None:
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
    ready.advance(hours=2)
    ready.settle()
