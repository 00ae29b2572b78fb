"""Lost nodes and unreadable logs: what is unknown is reported as unknown, and everything else continues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.common.observed import ObservedNode

SenderCluster = Any


def lose(cluster: SenderCluster, node: str = "node-1") -> None:
    """Let a node be lost, a minute after all that was before."""
    cluster.advance(minutes=1)
    cluster.nodes[node] = ObservedNode(name=node, ready=False, since=cluster.now)


def sending(cluster: SenderCluster, **spec: Any) -> str:
    """Bring a Resend to where its pod sends; the name of the pod."""
    pod = f"{cluster.begin(**spec)}-0-0"
    cluster.run(pod, cluster.progress(400))
    cluster.settle()
    return pod


def test_a_log_that_cannot_be_read_is_said_with_since_when_and_the_rest_goes_on(ready: SenderCluster) -> None:
    pod = sending(ready)
    ready.unreadable[pod] = "Get https://10.1.1.1:10250: i/o timeout"
    ready.advance(minutes=1)
    ready.settle()
    writes = ready.writes
    assert ready.a_resend().status.progress.events_per_second is not None
    for _ in range(5):
        ready.advance(seconds=20)
        ready.settle()
    assert ready.writes == writes + 1, "it is said once, and that the rate is unknown"
    assert ready.a_resend().status.progress.events_per_second is None
    assert ready.a_resend().status.progress.eta_seconds is None
    assert ready.summary()[0] == "Sending"
    message = ready.condition(Type.READY).message
    assert f"The output of pod {pod} has been unreadable since 2026-11-20T10:01:00Z: Get https" in message
    assert ready.a_resend().status.progress.sent == 400
    ready.resend(suspend=True)
    ready.settle()
    assert ready.names("Pod") == [name for name in ready.names("Pod") if "preflight" in name]
    assert ready.summary()[0] == "Suspended"


def test_an_unreadable_report_is_waited_for_while_others_have_their_turn(ready: SenderCluster) -> None:
    pod = sending(ready)
    ready.resend("next", offsets={"topic": "other", "partition": 0, "from": 0, "to": 9})
    ready.unreadable[pod] = "i/o timeout"
    ready.end(pod, 0, ready.report(1000))
    ready.settle()
    assert ready.summary() == ("LogUnreadable", "False", "True", "False", "Unknown")
    assert ready.summary("next")[0] == "Starting"
    ready.advance(minutes=5)
    ready.unreadable.clear()
    ready.settle()
    assert ready.summary() == ("Sent", "True", "False", "False", "True")
    assert ready.a_resend().status.progress.sent == 1000


def test_waiting_for_an_unreadable_report_ends(ready: SenderCluster) -> None:
    pod = sending(ready)
    ready.unreadable[pod] = "i/o timeout"
    ready.end(pod, 0, ready.report(1000))
    ready.settle()
    ready.advance(minutes=9)
    ready.settle()
    assert ready.summary()[0] == "LogUnreadable"
    ready.advance(minutes=2)
    ready.settle()
    assert ready.summary() == ("Sent", "True", "False", "False", "True")
    assert "can no longer be read" in ready.condition(Type.SUCCEEDED).message


def test_a_lost_node_is_said_by_its_resends_and_its_diode_and_nothing_new_begins(ready: SenderCluster) -> None:
    pod = sending(ready)
    ready.resend("next", offsets={"topic": "other", "partition": 0, "from": 0, "to": 9})
    lose(ready)
    ready.runs_preflights = False
    ready.settle()
    assert ready.summary() == ("NodeLost", "False", "True", "False", "Unknown")
    assert f"Node node-1 of pod {pod} has not been ready" in ready.condition(Type.READY).message
    assert "2026-11-20T10:01:00Z" in ready.condition(Type.READY).message
    link = ready.condition(Type.LINK_UP, "hall", of="Diode")
    assert (link.status, link.reason) == ("Unknown", "NodeLost")
    assert ready.summary("next")[0] == "DiodeNotReady"
    assert [entry.name for entry in ready.a_diode().status.active] == ["repeat"], "it may still send"
    ready.nodes["node-1"] = ObservedNode(name="node-1", ready=True)
    ready.run(pod, ready.progress(500))
    ready.settle()
    assert ready.summary()[0] == "Sending"
    assert ready.a_resend().status.progress.sent == 500
    ready.runs_preflights = True
    ready.settle()
    assert ready.condition(Type.LINK_UP, "hall", of="Diode").reason == "LinkReady"


def test_another_node_takes_over_when_the_pod_is_gone_for_good(ready: SenderCluster) -> None:
    pod = sending(ready)
    lose(ready)
    ready.node = "node-2"
    ready.settle()
    assert ready.a_diode().status.preflight.node == "node-2"
    assert ready.condition(Type.LINK_UP, "hall", of="Diode").reason == "LinkReady"
    assert ready.summary()[0] == "NodeLost", "it may still send from the node that is lost"
    ready.delete("Pod", pod)  # as the out-of-service taint has it
    ready.start_pods()
    ready.run(pod, ready.progress(500))
    ready.advance(seconds=10)
    ready.settle()
    assert ready.bodies["Pod", pod]["spec"]["nodeName"] == "node-2"
    assert ready.summary()[0] == "Sending"
    assert ready.a_resend().status.progress.sent == 500


def test_a_preflight_on_a_lost_node_is_deleted_so_that_another_node_is_looked_at(ready: SenderCluster) -> None:
    ready.runs_preflights = False
    ready.advance(hours=1)
    ready.settle()
    ready.settle()
    ready.start_pods()
    (job,) = ready.running_jobs()
    ready.run(f"{job}-0-0")
    lose(ready)
    ready.reconcile("Diode", "hall")
    assert ready.running_jobs() == []
    assert ready.condition(Type.LINK_UP, "hall", of="Diode").reason == "NodeLost"


def test_a_pod_is_reported_as_stopped_only_after_it_has(ready: SenderCluster) -> None:
    pod = sending(ready)
    lose(ready)
    for job in ready.running_jobs():
        ready.begin_deletion("Job", job)
    ready.begin_deletion("Pod", pod)
    ready.resend(suspend=True)
    ready.settle()
    assert ready.summary()[0] == "Suspended"
    message = ready.condition(Type.READY).message
    assert message.startswith(
        f"spec.suspend is true. Pod {pod} is being deleted, and it is unknown whether it has stopped. Node"
    )
    ready.delete("Pod", pod)
    ready.settle()
    assert ready.condition(Type.READY).message == "spec.suspend is true. Progress is saved."


@pytest.mark.parametrize("knows", [True, False])
def test_without_permission_to_read_nodes_the_last_check_counts(ready: SenderCluster, *, knows: bool) -> None:
    if knows:
        ready.nodes["node-1"] = ObservedNode(name="node-1", ready=True, since=ready.now - timedelta(days=1))
    sending(ready)
    assert ready.summary()[0] == "Sending"
    assert ready.condition(Type.READY, "hall", of="Diode").status == "True"
