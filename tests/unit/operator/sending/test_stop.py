"""Stopping comes before validation, and outcomes are recorded even if the spec is invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

SenderCluster = Any
OUTSIDE = {"partitionWindow": {"start": 100, "count": 4}}
"""A window in which partition 0 of the Resend is not."""
ENCRYPTED = {"encryption": {"certificateSecret": {"name": "receiver"}}}
SHARED = {"encryption": {"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True}}


def senders(cluster: SenderCluster) -> list[str]:
    """Names of the Jobs and pods that send."""
    pods = [
        name
        for name in cluster.names("Pod")
        if cluster.bodies["Pod", name]["status"]["phase"] in {"Pending", "Running"}
    ]
    return [name for name in (*cluster.running_jobs(), *pods) if "send" in name or "plan" in name]


def sending(cluster: SenderCluster, **spec: Any) -> str:
    """Bring a Resend to where its pod sends; the name of the Job."""
    job: str = cluster.begin(**spec)
    cluster.run(f"{job}-0-0", cluster.progress(400))
    cluster.settle()
    assert senders(cluster)
    return job


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda cluster: cluster.delete("Diode", "hall"), "DiodeNotFound"),
        (lambda cluster: cluster.begin_deletion("Diode", "hall"), "DiodeNotFound"),
        (lambda cluster: cluster.diode(suspend=True), "DiodeSuspended"),
        (lambda cluster: cluster.diode(**OUTSIDE), "BadConfiguration"),
        (lambda cluster: cluster.diode(**SHARED), "SharedKeyLane"),
        (lambda cluster: cluster.diode(nic="no such / name"), "DiodeInvalid"),
    ],
    ids=["diode deleted", "diode on its way out", "diode suspended", "window corrected", "key shared", "diode invalid"],
)
def test_what_must_not_run_any_more_is_stopped_and_goes_on_when_it_may_again(
    ready: SenderCluster, break_it: Callable[[SenderCluster], None], reason: str
) -> None:
    ready.diode(**ENCRYPTED)
    ready.settle()
    sending(ready)
    break_it(ready)
    ready.settle()
    assert senders(ready) == []
    assert ready.summary()[0] == reason
    assert ready.a_resend().status.progress.sent == 400
    ready.resend(suspend=True)
    ready.settle()
    assert ready.summary()[0] == "Suspended", "it can be suspended, whatever else is wrong"
    ready.resend()
    ready.settle()
    assert ready.summary()[0] == reason
    if reason == "DiodeNotFound":
        ready.bodies.pop(("Diode", "hall"), None)
    ready.diode(**ENCRYPTED)
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.progress.sent == 400


@pytest.mark.parametrize("wrong", [OUTSIDE, SHARED, {"suspend": True}, None])
@pytest.mark.parametrize("suspend", [False, True])
def test_what_has_ended_reaches_the_ledger_whatever_is_wrong_by_then(
    ready: SenderCluster, wrong: dict[str, Any] | None, *, suspend: bool
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
    assert ready.summary() == ("Sent", "True", "False", "False", "True")
    assert ready.a_resend().status.identity == identity
    if wrong is None:
        ready.diode()
        ready.settle()
    assert [(entry.resend, entry.sent, entry.identity) for entry in ready.ledger()] == [("repeat", 1000, identity)]


def test_a_failed_attempt_is_retried_only_when_nothing_stops_the_resend(ready: SenderCluster) -> None:
    job = sending(ready)
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.diode(suspend=True)
    ready.settle()
    assert ready.summary()[0] == "DiodeSuspended"
    ready.advance(hours=1)
    ready.settle()
    assert senders(ready) == []
    ready.diode()
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


def test_a_resend_that_is_being_deleted_does_not_send(ready: SenderCluster) -> None:
    sending(ready)
    ready.begin_deletion("Resend", "repeat")
    ready.settle()
    assert senders(ready) == []


def test_a_resend_that_is_over_or_failed_has_nothing_that_runs(ready: SenderCluster) -> None:
    job = sending(ready)
    pod = ready.bodies["Pod", f"{job}-0-0"]
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    ready.bodies["Pod", "a-pod-that-came-too-late"] = {
        **pod,
        "metadata": {**pod["metadata"], "name": "a-pod-that-came-too-late", "uid": "late"},
    }
    ready.settle()
    assert ("Pod", "a-pod-that-came-too-late") not in ready.bodies


@pytest.mark.parametrize("suspend", [False, True])
def test_an_invalid_resend_is_stopped(ready: SenderCluster, *, suspend: bool) -> None:
    job = sending(ready)
    spec = {**ready.bodies["Resend", "repeat"]["spec"], "unavailable": "Ignore", "suspend": suspend}
    ready.bodies["Resend", "repeat"] = {**ready.bodies["Resend", "repeat"], "spec": spec}
    ready.settle()
    assert senders(ready) == []
    said = ready.bodies["Resend", "repeat"]["status"]["conditions"]
    assert [one["status"] for one in said if one["type"] == "Stalled"] == ["True"]
    assert job not in ready.names("Job")


def test_an_invalid_suspended_diode_stops_its_senders(ready: SenderCluster) -> None:
    sending(ready)
    del ready.bodies["Resend", "repeat"]
    ready.diode(nic="no such / name", suspend=True)
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_a_forbidden_bundle_does_not_prevent_stopping(ready: SenderCluster) -> None:
    job = sending(ready)
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}}, suspend=True)
    ready.refuses_to_read = "forbidden"
    ready.settle()
    assert job not in ready.names("Job")
    assert ready.summary()[0] == "Suspended"
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}})
    ready.settle()
    assert ready.summary()[0] == "BundleNotFound"
    assert "forbidden" in ready.condition(Type.READY).message


# ------------------------------------------------------------------------------------------------ Diode.spec.suspend


def test_a_suspended_diode_says_so_and_nothing_is_stalled(ready: SenderCluster) -> None:
    sending(ready)
    ready.diode(suspend=True)
    ready.settle()
    said = [ready.condition(kind, "hall", of="Diode") for kind in (Type.READY, Type.RECONCILING, Type.STALLED)]
    assert [(one.status, one.reason) for one in said] == [
        ("False", "Suspended"),
        ("False", "Settled"),
        ("False", "NotStalled"),
    ]
    assert ready.summary() == ("DiodeSuspended", "False", "False", "False", "Unknown")
    assert ready.a_diode().status.active == ()
    assert "hall" in ready.condition(Type.READY).message


def test_a_suspended_diode_stops_also_what_no_resend_is_there_for_any_more(ready: SenderCluster) -> None:
    sending(ready)
    del ready.bodies["Resend", "repeat"]  # as with --cascade=orphan
    ready.diode(suspend=True)
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_a_suspended_diode_stops_a_pod_without_its_job(ready: SenderCluster) -> None:
    job = sending(ready)
    del ready.bodies["Job", job]
    ready.diode(suspend=True)
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_no_job_begins_beside_a_pod_whose_job_was_deleted(ready: SenderCluster) -> None:
    job = sending(ready)
    del ready.bodies["Job", job]
    ready.begin_deletion("Pod", f"{job}-0-0")
    ready.settle()
    assert ready.running_jobs() == []
    assert ready.summary()[0] == "Stopped"
    assert [entry.name for entry in ready.a_diode().status.active] == ["repeat"]
    ready.delete("Pod", f"{job}-0-0")
    ready.settle()
    assert ready.running_jobs() == [job]


def test_a_suspended_diode_is_not_checked_until_it_continues(ready: SenderCluster) -> None:
    ready.diode(suspend=True)
    ready.settle()
    ready.advance(hours=1)
    ready.settle()
    assert ready.running_jobs() == []
    assert ready.next_plan("Diode", "hall").requeue_after_seconds is None
    ready.resend()
    ready.settle()
    ready.runs_preflights = False
    ready.diode()
    ready.settle()
    assert ready.summary()[0] == "DiodeNotReady", "nothing is sent before the node was looked at"
    assert [name for name in ready.running_jobs() if "preflight" in name]
    ready.runs_preflights = True
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_a_diode_that_is_being_deleted_stops_its_senders(ready: SenderCluster) -> None:
    sending(ready)
    del ready.bodies["Resend", "repeat"]
    ready.begin_deletion("Diode", "hall")
    ready.reconcile("Diode", "hall")
    assert senders(ready) == []


def test_only_what_sends_over_the_suspended_diode_is_stopped(ready: SenderCluster) -> None:
    ready.diode("vault")
    ready.settle()
    sending(ready)
    ready.resend("other", diodeRef={"name": "vault"})
    ready.settle()
    ready.start_pods()
    ready.diode(suspend=True)
    ready.settle()
    assert senders(ready) == ["other-00000001-send-1", "other-00000001-send-1-0-0"]


def test_stops_before_it_writes_anything_that_may_be_refused(ready: SenderCluster) -> None:
    sending(ready)
    ready.diode(suspend=True)
    plan = ready.next_plan("Resend", "repeat")
    assert [ref.kind for ref in plan.stop] == ["Job", "Pod"]
    assert (plan.create, plan.apply) == ((), ())
