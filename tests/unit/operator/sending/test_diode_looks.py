"""When a Diode's node is checked, what is reported about it, and when it is reconciled again: to the second."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.common.plan import EventType, Ref
from kit.story.plans import is_empty

SenderCluster = Any
JOB = "hall-00000001-preflight-1"


def asks_again_after(cluster: SenderCluster) -> float | None:
    """In how many seconds a Diode without news is reconciled again."""
    plan = cluster.next_plan("Diode", "hall")
    assert is_empty(plan)
    seconds: float | None = plan.requeue_after_seconds
    return seconds


def link(cluster: SenderCluster) -> tuple[str, str]:
    found = cluster.condition(Type.LINK_UP, "hall", "Diode")
    return found.status, found.reason


def looked_at(cluster: SenderCluster, **found: Any) -> None:
    cluster.diode()
    cluster.settle()
    cluster.run_preflight(**found)
    cluster.settle()


def test_a_new_diode_is_checked_at_once(cluster: SenderCluster) -> None:
    cluster.diode()
    plan = cluster.next_plan("Diode", "hall")
    assert [manifest["kind"] for manifest in plan.apply] == ["PersistentVolumeClaim", "Job"]
    assert plan.requeue_after_seconds == 1
    assert plan.status["observedGeneration"] == 1
    assert cluster.reconcile("Diode", "hall") == plan
    assert cluster.condition(Type.LINK_UP, "hall", "Diode").message


def test_a_good_link_is_checked_an_hour_after_the_last_check_ended(cluster: SenderCluster) -> None:
    looked_at(cluster)
    assert asks_again_after(cluster) == 3600
    cluster.advance(seconds=3599)
    assert asks_again_after(cluster) == 1
    cluster.advance(seconds=1)
    plan = cluster.reconcile("Diode", "hall")
    assert plan.delete == (Ref("batch/v1", "Job", JOB, plan.delete[0].uid),)
    assert plan.delete[0].uid
    assert plan.requeue_after_seconds == 1
    assert [manifest["metadata"]["name"] for manifest in cluster.next_plan("Diode", "hall").apply] == [JOB]


def test_a_check_older_than_five_minutes_is_repeated_before_a_resend_starts(ready: SenderCluster) -> None:
    ready.runs_preflights = False
    ready.advance(minutes=6)
    ready.resend()
    ready.settle()
    assert ready.summary()[0] == "Queued"
    assert ready.a_diode().status.active == ()
    assert ready.condition(Type.READY, "hall", "Diode").status == "True", "nothing bad was found"
    ready.run_preflight()
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_a_link_that_went_down_since_the_last_check_is_noticed_before_a_resend_starts(ready: SenderCluster) -> None:
    ready.runs_preflights = False
    ready.advance(minutes=30)
    ready.resend()
    ready.settle()
    ready.run_preflight(carrier=False)
    ready.settle()
    assert ready.summary()[0] == "DiodeNotReady"
    assert not [name for name in ready.created_jobs if "-send-" in name]


def test_no_check_runs_while_senders_check_the_link(ready: SenderCluster) -> None:
    ready.run(f"{ready.begin()}-0-0", ready.progress(10))
    ready.resend("waits")
    ready.settle()
    made = len(ready.created_jobs)
    ready.advance(minutes=59)
    ready.settle()
    assert len(ready.created_jobs) == made
    ready.advance(minutes=2)
    ready.settle()
    assert ready.created_jobs[made:] == [JOB]


def test_a_bad_link_is_checked_again_after_half_a_minute(cluster: SenderCluster) -> None:
    looked_at(cluster, carrier=False)
    assert asks_again_after(cluster) == 30
    cluster.advance(seconds=29, milliseconds=900)
    assert asks_again_after(cluster) == 1
    cluster.advance(milliseconds=100)
    assert cluster.next_plan("Diode", "hall").delete


@pytest.mark.parametrize(("found", "every"), [({}, 3600), ({"up": False}, 30)])
def test_a_check_is_not_repeated_early_when_its_job_was_deleted(
    cluster: SenderCluster, found: dict[str, Any], every: int
) -> None:
    looked_at(cluster, **found)
    before = link(cluster)
    cluster.delete("Job", JOB)
    cluster.advance(seconds=10)
    assert asks_again_after(cluster) == every - 10
    cluster.advance(seconds=every - 11)
    assert asks_again_after(cluster) == 1
    cluster.advance(seconds=1)
    assert cluster.next_plan("Diode", "hall").apply
    assert link(cluster) == before


@pytest.mark.parametrize(("found", "every"), [({}, 3600), ({"up": False}, 30)])
def test_a_running_check_does_not_shorten_the_requeue(
    cluster: SenderCluster, found: dict[str, Any], every: int
) -> None:
    looked_at(cluster, **found)
    cluster.advance(seconds=every)
    cluster.settle()
    cluster.start_pods()
    cluster.advance(seconds=20)
    assert asks_again_after(cluster) == every


def test_fractions_of_a_second_change_nothing(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.advance(milliseconds=999)
    assert asks_again_after(cluster) == 3600


def test_findings_have_the_time_at_which_the_check_ended(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.run_preflight()
    ended = cluster.now
    cluster.advance(seconds=40)
    cluster.settle()
    assert cluster.a_diode().status.preflight.checked_at == ended
    assert asks_again_after(cluster) == 3560


def test_a_job_without_an_end_time_counts_from_its_creation(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    began = cluster.now
    cluster.advance(seconds=10)
    cluster.run_preflight()
    del cluster.bodies["Job", JOB]["status"]["conditions"][0]["lastTransitionTime"]
    cluster.settle()
    assert cluster.a_diode().status.preflight.checked_at == began
    assert asks_again_after(cluster) == 3590


def test_findings_stay_when_the_log_is_no_longer_available(cluster: SenderCluster) -> None:
    looked_at(cluster)
    found = cluster.a_diode().status.preflight
    cluster.delete("Pod", f"{JOB}-0-0")
    cluster.settle()
    assert link(cluster) == ("True", "LinkReady")
    assert cluster.a_diode().status.preflight == found


def test_older_findings_are_shown_until_newer_ones_exist(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.diode(nic="diode1")
    cluster.settle()
    assert cluster.a_diode().status.preflight.nic == "diode0"
    assert link(cluster) == ("Unknown", "PreflightPending")
    cluster.run_preflight()
    cluster.settle()
    assert cluster.a_diode().status.preflight.nic == "diode1"
    assert link(cluster) == ("True", "LinkReady")


def test_the_check_of_an_older_spec_is_deleted_once(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    job = cluster.bodies["Job", JOB]["metadata"]
    cluster.diode(nic="diode1")
    assert cluster.next_plan("Diode", "hall").delete == (Ref("batch/v1", "Job", JOB, job["uid"]),)
    cluster.begin_deletion("Job", JOB)
    assert cluster.next_plan("Diode", "hall").delete == ()
    cluster.reconcile("Diode", "hall")
    assert cluster.next_plan("Diode", "hall").delete == ()


def test_a_check_that_is_being_deleted_is_not_deleted_again(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.advance(hours=1)
    cluster.begin_deletion("Job", JOB)
    assert is_empty(cluster.next_plan("Diode", "hall"))


def test_a_pod_that_does_not_start_is_reported_after_a_minute_before_the_job_deadline(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.start_pods()
    cluster.advance(seconds=59)
    cluster.settle()
    assert link(cluster) == ("Unknown", "PreflightPending")
    cluster.advance(seconds=1)
    cluster.settle()
    assert link(cluster) == ("Unknown", "PodSlow")
    cluster.end_job(JOB, "DeadlineExceeded")
    cluster.settle()
    assert link(cluster) == ("Unknown", "PodSlow")


def test_the_reason_of_a_failed_check_is_shown_until_the_spec_changes(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.end_job(JOB, "DeadlineExceeded", "Job was active longer than specified deadline")
    cluster.settle()
    assert link(cluster) == ("Unknown", "PreflightFailed")
    assert "(Job was active longer than specified deadline)" in cluster.condition(Type.LINK_UP, "hall", "Diode").message
    cluster.advance(seconds=10)
    cluster.settle()
    assert link(cluster) == ("Unknown", "PreflightFailed"), "it is still so"
    cluster.diode(nic="diode1")
    cluster.settle()
    assert link(cluster) == ("Unknown", "PreflightPending")


def test_a_check_that_fails_without_output_is_reported(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    assert cluster.condition(Type.LINK_UP, "hall", "Diode").message == "The preflight check has not run yet."
    cluster.end_job(JOB, "BackoffLimitExceeded")
    cluster.settle()
    message = cluster.condition(Type.LINK_UP, "hall", "Diode").message
    assert message == f"The preflight Job {JOB} ended without a result; it is retried."


def test_a_failed_check_replaces_an_earlier_good_result(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.advance(hours=1)
    cluster.settle()
    cluster.end_job(JOB, "BackoffLimitExceeded")
    cluster.settle()
    assert link(cluster) == ("Unknown", "PreflightFailed")
    assert cluster.condition(Type.READY, "hall", "Diode").status == "False"
    assert asks_again_after(cluster) == 30


def test_a_stalled_diode_waits_for_a_person_and_says_so_everywhere(cluster: SenderCluster) -> None:
    cluster.runs_preflights = True
    cluster.diode(encryption={"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True})
    cluster.settle()
    found = {kind: cluster.condition(kind, "hall", "Diode") for kind in (Type.READY, Type.STALLED, Type.RECONCILING)}
    assert {kind: one.status for kind, one in found.items()} == {
        Type.READY: "False",
        Type.STALLED: "True",
        Type.RECONCILING: "False",
    }
    assert found[Type.READY].message == found[Type.STALLED].message
    assert found[Type.STALLED].message


def test_a_bad_link_is_reported_by_ready_and_reconciling(cluster: SenderCluster) -> None:
    looked_at(cluster, exists=False)
    why = cluster.condition(Type.LINK_UP, "hall", "Diode").message
    for kind in (Type.READY, Type.RECONCILING):
        found = cluster.condition(kind, "hall", "Diode")
        assert (found.reason, found.message) == ("NicMissing", why)


def test_only_bad_news_are_warnings(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.advance(hours=1)
    cluster.settle()
    cluster.run_preflight(up=False)
    cluster.settle()
    told = [(event.reason, event.type) for _, event in cluster.events]
    assert told == [
        ("PreflightPending", EventType.NORMAL),
        ("LinkReady", EventType.NORMAL),
        ("NicDown", EventType.WARNING),
    ]


@pytest.mark.parametrize(("mtu", "recorded"), [(2**31 - 1, 2**31 - 1), (2**31, None)])
def test_an_mtu_that_the_status_cannot_hold_is_left_out(cluster: SenderCluster, mtu: int, recorded: int | None) -> None:
    looked_at(cluster, mtu=mtu)
    assert cluster.a_diode().status.preflight.mtu == recorded
    assert link(cluster) == ("True", "LinkReady")


@pytest.mark.parametrize(("spec", "mtu"), [({}, 28), ({}, 27), ({"target": {"host": "fd00::2", "port": 1}}, 47)])
def test_an_mtu_that_has_no_room_for_a_payload_leaves_none(
    cluster: SenderCluster, spec: dict[str, Any], mtu: int
) -> None:
    cluster.diode(**spec)
    cluster.settle()
    cluster.run_preflight(mtu=mtu)
    cluster.settle()
    assert "set payloadSize to 0 or 0" in cluster.condition(Type.LINK_UP, "hall", "Diode").message


def test_a_neighbour_state_is_recorded_in_capital_letters_and_cut_where_the_status_ends(cluster: SenderCluster) -> None:
    looked_at(cluster, neighbour="x" * 33)
    assert cluster.a_diode().status.preflight.neighbour == "X" * 32


def test_a_neighbour_entry_that_is_not_needed_is_recorded_as_it_is(cluster: SenderCluster) -> None:
    looked_at(cluster, neighbour="stale", needs_neighbour=False)
    assert cluster.a_diode().status.preflight.neighbour == "STALE"


def test_a_check_of_a_node_whose_name_is_not_known_is_about_the_node(cluster: SenderCluster) -> None:
    cluster.node = ""
    looked_at(cluster, exists=False)
    message = cluster.condition(Type.LINK_UP, "hall", "Diode").message
    assert message.startswith("There is no network interface diode0 on the node; ")


def test_what_the_check_itself_complains_about_is_recorded_unless_it_found_a_reason(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.start_pods()
    complaint = "gapless: The address 10.0.0.2 is this machine's; correct it."
    cluster.run(f"{JOB}-0-0", complaint)
    cluster.run_preflight()
    cluster.settle()
    assert link(cluster) == ("False", "PreflightFailed")
    assert cluster.a_diode().status.preflight.message == complaint.removeprefix("gapless: ")
    cluster.advance(seconds=30)
    cluster.settle()
    cluster.start_pods()
    cluster.run(f"{JOB}-0-0", complaint)
    cluster.run_preflight(message="There is no route to 10.0.0.2; add one.")
    cluster.settle()
    assert cluster.a_diode().status.preflight.message == "There is no route to 10.0.0.2; add one."


def test_a_diode_that_is_being_deleted_is_not_changed(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.begin_deletion("Diode", "hall")
    plan = cluster.next_plan("Diode", "hall")
    assert is_empty(plan)
    assert plan.requeue_after_seconds is None


def test_the_volume_claim_is_recreated_and_not_written_while_it_exists(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.delete("PersistentVolumeClaim", "hall-state")
    assert [manifest["kind"] for manifest in cluster.next_plan("Diode", "hall").apply] == ["PersistentVolumeClaim"]


# ------------------------------------------------------------------------------------------------------ windows


def test_the_first_of_several_overlapping_windows_is_named(cluster: SenderCluster) -> None:
    cluster.diode("hall", partitionWindow={"start": 0, "count": 100})
    for name in ("c", "b"):
        cluster.diode(name, partitionWindow={"start": 99, "count": 5})
    cluster.settle()
    message = cluster.condition(Type.STALLED, "hall", "Diode").message
    assert "gapless-sender/b" in message
    assert "gapless-sender/c" not in message


def test_the_window_of_a_diode_that_is_being_deleted_does_not_overlap(cluster: SenderCluster) -> None:
    cluster.runs_preflights = True
    cluster.diode("hall", partitionWindow={"start": 0})
    cluster.diode("vault", partitionWindow={"start": 100})
    cluster.begin_deletion("Diode", "vault")
    cluster.settle()
    assert cluster.condition(Type.READY, "hall", "Diode").reason == "LinkReady"


def test_an_equal_window_hides_no_overlap_with_the_next(cluster: SenderCluster) -> None:
    cluster.diode("hall", partitionWindow={"start": 0, "count": 10})
    cluster.diode("a", partitionWindow={"start": 0, "count": 10})
    cluster.diode("b", partitionWindow={"start": 5, "count": 10})
    cluster.settle()
    assert "gapless-sender/b" in cluster.condition(Type.STALLED, "hall", "Diode").message


def test_of_the_same_name_the_first_namespace_is_named(cluster: SenderCluster) -> None:
    cluster.diode("hall", partitionWindow={"start": 0})
    cluster.diode("vault", partitionWindow={"start": 7})
    for namespace in ("z", "b"):
        cluster.bodies["Diode", f"twin-{namespace}"] = {
            **cluster.bodies["Diode", "vault"],
            "metadata": {**cluster.bodies["Diode", "vault"]["metadata"], "namespace": namespace},
        }
    cluster.reconcile("Diode", "hall")
    assert "gapless-sender/hall" in cluster.condition(Type.STALLED, "hall", "Diode").message
    assert "Diode b/vault" in cluster.condition(Type.STALLED, "hall", "Diode").message


def test_what_the_operator_wrote_is_up_to_date_with_the_spec(cluster: SenderCluster) -> None:
    looked_at(cluster)
    cluster.diode(maxConcurrentResends=2)
    cluster.settle()
    assert cluster.a_diode().status.observed_generation == 2
    cluster.advance(seconds=1)
    assert cluster.now - timedelta(seconds=1) == cluster.condition(Type.LINK_UP, "hall", "Diode").last_transition_time
