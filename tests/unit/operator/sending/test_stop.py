"""What must not run is stopped before anything is validated, and what has ended is written down whatever is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

if TYPE_CHECKING:
    from collections.abc import Callable

World = Any
OUTSIDE = {"partitionWindow": {"start": 100, "count": 4}}
"""A window in which partition 0 of the Resend is not."""
ENCRYPTED = {"encryption": {"certificateSecret": {"name": "receiver"}}}
SHARED = {"encryption": {"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True}}


def senders(world: World) -> list[str]:
    """Names of the Jobs and pods that send."""
    pods = [
        name for name in world.names("Pod") if world.bodies["Pod", name]["status"]["phase"] in {"Pending", "Running"}
    ]
    return [name for name in (*world.running_jobs(), *pods) if "send" in name or "plan" in name]


def sending(world: World, **spec: Any) -> str:
    """Bring a Resend to where its pod sends; the name of the Job."""
    job: str = world.begin(**spec)
    world.run(f"{job}-0-0", world.progress(400))
    world.settle()
    assert senders(world)
    return job


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda world: world.delete("Diode", "hall"), "DiodeNotFound"),
        (lambda world: world.begin_deletion("Diode", "hall"), "DiodeNotFound"),
        (lambda world: world.diode(suspend=True), "DiodeSuspended"),
        (lambda world: world.diode(**OUTSIDE), "BadConfiguration"),
        (lambda world: world.diode(**SHARED), "SharedKeyLane"),
        (lambda world: world.diode(nic="no such / name"), "DiodeInvalid"),
    ],
    ids=["diode deleted", "diode on its way out", "diode suspended", "window corrected", "key shared", "diode invalid"],
)
def test_what_must_not_run_any_more_is_stopped_and_goes_on_when_it_may_again(
    ready: World, break_it: Callable[[World], None], reason: str
) -> None:
    ready.diode(**ENCRYPTED)
    ready.settle()
    sending(ready)
    break_it(ready)
    ready.settle()
    assert senders(ready) == []
    assert ready.standing()[0] == reason
    assert ready.a_resend().status.progress.sent == 400
    ready.resend(suspend=True)
    ready.settle()
    assert ready.standing()[0] == "Suspended", "it can be suspended, whatever else is wrong"
    ready.resend()
    ready.settle()
    assert ready.standing()[0] == reason
    if reason == "DiodeNotFound":
        ready.bodies.pop(("Diode", "hall"), None)
    ready.diode(**ENCRYPTED)
    ready.settle()
    assert ready.standing()[0] == "Starting"
    assert ready.a_resend().status.progress.sent == 400


@pytest.mark.parametrize("wrong", [OUTSIDE, SHARED, {"suspend": True}, None])
@pytest.mark.parametrize("suspend", [False, True])
def test_what_has_ended_reaches_the_ledger_whatever_is_wrong_by_then(
    ready: World, wrong: dict[str, Any] | None, *, suspend: bool
) -> None:
    job = sending(ready)
    identity = ready.a_resend().status.identity
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    if wrong is None:
        ready.delete("Diode", "hall")
    else:
        ready.diode(**wrong)
    if suspend:
        ready.resend(suspend=True)
    ready.settle()
    assert ready.standing() == ("Sent", "True", "False", "False", "True")
    assert ready.a_resend().status.identity == identity
    if wrong is None:
        ready.diode()
        ready.settle()
    assert [(entry.resend, entry.sent, entry.identity) for entry in ready.ledger()] == [("repeat", 1000, identity)]


def test_what_failed_is_tried_again_only_when_nothing_stops_it_any_more(ready: World) -> None:
    job = sending(ready)
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.diode(suspend=True)
    ready.settle()
    assert ready.standing()[0] == "DiodeSuspended"
    ready.later(hours=1)
    ready.settle()
    assert senders(ready) == []
    ready.diode()
    ready.settle()
    assert ready.standing()[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


def test_a_resend_on_its_way_out_does_not_send(ready: World) -> None:
    sending(ready)
    ready.begin_deletion("Resend", "repeat")
    ready.settle()
    assert senders(ready) == []


def test_a_resend_that_is_over_or_failed_has_nothing_that_runs(ready: World) -> None:
    job = sending(ready)
    pod = ready.bodies["Pod", f"{job}-0-0"]
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    assert ready.standing()[0] == "BadConfiguration"
    ready.bodies["Pod", "a-pod-that-came-too-late"] = {
        **pod,
        "metadata": {**pod["metadata"], "name": "a-pod-that-came-too-late", "uid": "late"},
    }
    ready.settle()
    assert ("Pod", "a-pod-that-came-too-late") not in ready.bodies


@pytest.mark.parametrize("suspend", [False, True])
def test_what_sends_is_stopped_when_the_resend_itself_cannot_be_read_any_more(ready: World, *, suspend: bool) -> None:
    job = sending(ready)
    spec = {**ready.bodies["Resend", "repeat"]["spec"], "unavailable": "Ignore", "suspend": suspend}
    ready.bodies["Resend", "repeat"] = {**ready.bodies["Resend", "repeat"], "spec": spec}
    ready.settle()
    assert senders(ready) == []
    said = ready.bodies["Resend", "repeat"]["status"]["conditions"]
    assert [one["status"] for one in said if one["type"] == "Stalled"] == ["True"]
    assert job not in ready.names("Job")


def test_a_suspended_diode_that_cannot_be_read_stops_what_sends_over_it(ready: World) -> None:
    sending(ready)
    del ready.bodies["Resend", "repeat"]
    ready.diode(nic="no such / name", suspend=True)
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_a_bundle_that_may_not_be_read_keeps_nobody_from_stopping(ready: World) -> None:
    job = sending(ready)
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}}, suspend=True)
    ready.refuses_to_read = "forbidden"
    ready.settle()
    assert job not in ready.names("Job")
    assert ready.standing()[0] == "Suspended"
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}})
    ready.settle()
    assert ready.standing()[0] == "BundleNotFound"
    assert "forbidden" in ready.said(Type.READY).message


# ------------------------------------------------------------------------------------------------ Diode.spec.suspend


def test_a_suspended_diode_says_so_and_nothing_is_stalled(ready: World) -> None:
    sending(ready)
    ready.diode(suspend=True)
    ready.settle()
    said = [ready.said(kind, "hall", of="Diode") for kind in (Type.READY, Type.RECONCILING, Type.STALLED)]
    assert [(one.status, one.reason) for one in said] == [
        ("False", "Suspended"),
        ("False", "Settled"),
        ("False", "NotStalled"),
    ]
    assert ready.standing() == ("DiodeSuspended", "False", "False", "False", "Unknown")
    assert ready.a_diode().status.active == ()
    assert "hall" in ready.said(Type.READY).message


def test_a_suspended_diode_stops_also_what_no_resend_is_there_for_any_more(ready: World) -> None:
    sending(ready)
    del ready.bodies["Resend", "repeat"]  # as with --cascade=orphan
    ready.diode(suspend=True)
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_a_suspended_diode_stops_a_pod_without_its_job(ready: World) -> None:
    job = sending(ready)
    del ready.bodies["Job", job]
    ready.diode(suspend=True)
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_no_job_begins_beside_a_pod_whose_job_was_deleted(ready: World) -> None:
    job = sending(ready)
    del ready.bodies["Job", job]
    ready.begin_deletion("Pod", f"{job}-0-0")
    ready.settle()
    assert ready.running_jobs() == []
    assert ready.standing()[0] == "Stopped"
    assert [entry.name for entry in ready.a_diode().status.active] == ["repeat"]
    ready.delete("Pod", f"{job}-0-0")
    ready.settle()
    assert ready.running_jobs() == [job]


def test_a_suspended_diode_does_not_look_at_its_node_and_looks_before_it_goes_on(ready: World) -> None:
    ready.diode(suspend=True)
    ready.settle()
    ready.later(hours=1)
    ready.settle()
    assert ready.running_jobs() == []
    assert ready.planned("Diode", "hall").requeue_after_seconds is None
    ready.resend()
    ready.settle()
    ready.looks_at_nodes = False
    ready.diode()
    ready.settle()
    assert ready.standing()[0] == "DiodeNotReady", "nothing is sent before the node was looked at"
    assert [name for name in ready.running_jobs() if "preflight" in name]
    ready.looks_at_nodes = True
    ready.settle()
    assert ready.standing()[0] == "Starting"


def test_a_diode_on_its_way_out_stops_what_sends_over_it(ready: World) -> None:
    sending(ready)
    del ready.bodies["Resend", "repeat"]
    ready.begin_deletion("Diode", "hall")
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_only_what_sends_over_the_suspended_diode_is_stopped(ready: World) -> None:
    ready.diode("vault")
    ready.settle()
    sending(ready)
    ready.resend("other", diodeRef={"name": "vault"})
    ready.settle()
    ready.start_pods()
    ready.diode(suspend=True)
    ready.settle()
    assert senders(ready) == ["other-00000001-send-1", "other-00000001-send-1-0-0"]


def test_stops_before_it_writes_anything_that_may_be_refused(ready: World) -> None:
    sending(ready)
    ready.diode(suspend=True)
    plan = ready.planned("Resend", "repeat")
    assert [ref.kind for ref in plan.stop] == ["Job", "Pod"]
    assert (plan.create, plan.apply) == ((), ())
