"""A node that is lost, and logs that cannot be read: what is unknown is called unknown, and everything else goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.common.observed import ObservedNode

World = Any


def lose(world: World, node: str = "node-1") -> None:
    """Let a node be lost, a minute after all that was before."""
    world.later(minutes=1)
    world.nodes[node] = ObservedNode(name=node, ready=False, since=world.now)


def sending(world: World, **spec: Any) -> str:
    """Bring a Resend to where its pod sends; the name of the pod."""
    pod = f"{world.begin(**spec)}-0-0"
    world.run(pod, world.progress(400))
    world.settle()
    return pod


def test_a_log_that_cannot_be_read_is_said_with_since_when_and_the_rest_goes_on(ready: World) -> None:
    pod = sending(ready)
    ready.unreadable[pod] = "Get https://10.1.1.1:10250: i/o timeout"
    ready.later(minutes=1)
    ready.settle()
    writes = ready.writes
    for _ in range(5):
        ready.later(seconds=20)
        ready.settle()
    assert ready.writes == writes, "it is said once"
    assert ready.standing()[0] == "Sending"
    message = ready.said(Type.READY).message
    assert f"The output of pod {pod} has been unreadable since 2026-11-20T10:01:00Z: Get https" in message
    assert ready.a_resend().status.progress.sent == 400
    ready.resend(suspend=True)
    ready.settle()
    assert ready.names("Pod") == [name for name in ready.names("Pod") if "preflight" in name]
    assert ready.standing()[0] == "Suspended"


def test_an_unreadable_report_is_waited_for_while_others_have_their_turn(ready: World) -> None:
    pod = sending(ready)
    ready.resend("next", offsets={"topic": "other", "partition": 0, "from": 0, "to": 9})
    ready.unreadable[pod] = "i/o timeout"
    ready.end(pod, 0, ready.report(1000))
    ready.settle()
    assert ready.standing() == ("LogUnreadable", "False", "True", "False", "Unknown")
    assert ready.standing("next")[0] == "Starting"
    ready.later(minutes=5)
    ready.unreadable.clear()
    ready.settle()
    assert ready.standing() == ("Sent", "True", "False", "False", "True")
    assert ready.a_resend().status.progress.sent == 1000


def test_an_unreadable_report_is_not_waited_for_for_ever(ready: World) -> None:
    pod = sending(ready)
    ready.unreadable[pod] = "i/o timeout"
    ready.end(pod, 0, ready.report(1000))
    ready.settle()
    ready.later(minutes=9)
    ready.settle()
    assert ready.standing()[0] == "LogUnreadable"
    ready.later(minutes=2)
    ready.settle()
    assert ready.standing() == ("Sent", "True", "False", "False", "True")
    assert "can no longer be read" in ready.said(Type.SUCCEEDED).message


def test_a_lost_node_is_said_by_its_resends_and_its_diode_and_nothing_new_begins(ready: World) -> None:
    pod = sending(ready)
    ready.resend("next", offsets={"topic": "other", "partition": 0, "from": 0, "to": 9})
    lose(ready)
    ready.looks_at_nodes = False
    ready.settle()
    assert ready.standing() == ("NodeLost", "False", "True", "False", "Unknown")
    assert f"Node node-1 of pod {pod} has not been ready" in ready.said(Type.READY).message
    assert "2026-11-20T10:01:00Z" in ready.said(Type.READY).message
    link = ready.said(Type.LINK_UP, "hall", of="Diode")
    assert (link.status, link.reason) == ("Unknown", "NodeLost")
    assert ready.standing("next")[0] == "DiodeNotReady"
    assert [entry.name for entry in ready.a_diode().status.active] == ["repeat"], "it may still send"
    ready.nodes["node-1"] = ObservedNode(name="node-1", ready=True)
    ready.run(pod, ready.progress(500))
    ready.settle()
    assert ready.standing()[0] == "Sending"
    assert ready.a_resend().status.progress.sent == 500
    ready.looks_at_nodes = True
    ready.settle()
    assert ready.said(Type.LINK_UP, "hall", of="Diode").reason == "LinkReady"


def test_another_node_takes_over_when_the_pod_is_gone_for_good(ready: World) -> None:
    pod = sending(ready)
    lose(ready)
    ready.node = "node-2"
    ready.settle()
    assert ready.a_diode().status.preflight.node == "node-2"
    assert ready.said(Type.LINK_UP, "hall", of="Diode").reason == "LinkReady"
    assert ready.standing()[0] == "NodeLost", "it may still send from the node that is lost"
    ready.delete("Pod", pod)  # as the out-of-service taint has it
    ready.start_pods()
    ready.run(pod, ready.progress(500))
    ready.later(seconds=10)
    ready.settle()
    assert ready.bodies["Pod", pod]["spec"]["nodeName"] == "node-2"
    assert ready.standing()[0] == "Sending"
    assert ready.a_resend().status.progress.sent == 500


def test_a_preflight_on_a_lost_node_is_deleted_so_that_another_node_is_looked_at(ready: World) -> None:
    ready.looks_at_nodes = False
    ready.later(hours=1)
    ready.settle()
    ready.settle()
    ready.start_pods()
    (job,) = ready.running_jobs()
    ready.run(f"{job}-0-0")
    lose(ready)
    ready.reconcile("Diode", "hall")
    assert ready.running_jobs() == []
    assert ready.said(Type.LINK_UP, "hall", of="Diode").reason == "NodeLost"


def test_nobody_is_told_that_a_pod_has_stopped_before_it_has(ready: World) -> None:
    pod = sending(ready)
    lose(ready)
    for job in ready.running_jobs():
        ready.begin_deletion("Job", job)
    ready.begin_deletion("Pod", pod)
    ready.resend(suspend=True)
    ready.settle()
    assert ready.standing()[0] == "Suspended"
    message = ready.said(Type.READY).message
    assert message.startswith(
        f"spec.suspend is true; pod {pod} is being deleted, and it is unknown whether it has stopped. Node"
    )
    ready.delete("Pod", pod)
    ready.settle()
    assert ready.said(Type.READY).message == "spec.suspend is true; progress is saved."


@pytest.mark.parametrize("knows", [True, False])
def test_a_diode_whose_nodes_may_not_be_read_is_as_ready_as_its_last_look(ready: World, *, knows: bool) -> None:
    if knows:
        ready.nodes["node-1"] = ObservedNode(name="node-1", ready=True, since=ready.now - timedelta(days=1))
    sending(ready)
    assert ready.standing()[0] == "Sending"
    assert ready.said(Type.READY, "hall", of="Diode").status == "True"
