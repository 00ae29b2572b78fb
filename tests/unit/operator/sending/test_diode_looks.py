"""When a Diode's node is looked at, what is told about it, and when the operator asks again: to the second."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.common.plan import EventType, Ref
from kit.story.plans import is_empty

World = Any
JOB = "hall-00000001-preflight-1"


def asks_again_after(world: World) -> float | None:
    """In how many seconds a Diode without news is reconciled again."""
    plan = world.planned("Diode", "hall")
    assert is_empty(plan)
    seconds: float | None = plan.requeue_after_seconds
    return seconds


def link(world: World) -> tuple[str, str]:
    found = world.said(Type.LINK_UP, "hall", "Diode")
    return found.status, found.reason


def looked_at(world: World, **found: Any) -> None:
    world.diode()
    world.settle()
    world.look_at_node(**found)
    world.settle()


def test_a_new_diode_is_looked_at_at_once(world: World) -> None:
    world.diode()
    plan = world.planned("Diode", "hall")
    assert [manifest["kind"] for manifest in plan.apply] == ["PersistentVolumeClaim", "Job"]
    assert plan.requeue_after_seconds == 1
    assert plan.status["observedGeneration"] == 1
    assert world.reconcile("Diode", "hall") == plan
    assert world.said(Type.LINK_UP, "hall", "Diode").message


def test_a_good_link_is_looked_at_an_hour_after_the_last_look_ended(world: World) -> None:
    looked_at(world)
    assert asks_again_after(world) == 3600
    world.later(seconds=3599)
    assert asks_again_after(world) == 1
    world.later(seconds=1)
    plan = world.reconcile("Diode", "hall")
    assert plan.delete == (Ref("batch/v1", "Job", JOB, plan.delete[0].uid),)
    assert plan.delete[0].uid
    assert plan.requeue_after_seconds == 1
    assert [manifest["metadata"]["name"] for manifest in world.planned("Diode", "hall").apply] == [JOB]


def test_a_look_that_is_older_than_five_minutes_is_repeated_before_somebody_sends(ready: World) -> None:
    ready.looks_at_nodes = False
    ready.later(minutes=6)
    ready.resend()
    ready.settle()
    assert ready.standing()[0] == "Queued"
    assert ready.a_diode().status.active == ()
    assert ready.said(Type.READY, "hall", "Diode").status == "True", "nothing bad was found"
    ready.look_at_node()
    ready.settle()
    assert ready.standing()[0] == "Starting"


def test_a_link_that_went_down_since_the_last_look_is_noticed_before_somebody_sends(ready: World) -> None:
    ready.looks_at_nodes = False
    ready.later(minutes=30)
    ready.resend()
    ready.settle()
    ready.look_at_node(carrier=False)
    ready.settle()
    assert ready.standing()[0] == "DiodeNotReady"
    assert not [name for name in ready.jobs_made if "-send-" in name]


def test_while_somebody_sends_its_senders_look(ready: World) -> None:
    ready.run(f"{ready.begin()}-0-0", ready.progress(10))
    ready.resend("waits")
    ready.settle()
    made = len(ready.jobs_made)
    ready.later(minutes=59)
    ready.settle()
    assert len(ready.jobs_made) == made
    ready.later(minutes=2)
    ready.settle()
    assert ready.jobs_made[made:] == [JOB]


def test_a_bad_link_is_looked_at_again_after_half_a_minute(world: World) -> None:
    looked_at(world, carrier=False)
    assert asks_again_after(world) == 30
    world.later(seconds=29, milliseconds=900)
    assert asks_again_after(world) == 1
    world.later(milliseconds=100)
    assert world.planned("Diode", "hall").delete


@pytest.mark.parametrize(("found", "every"), [({}, 3600), ({"up": False}, 30)])
def test_a_look_is_not_repeated_early_when_its_job_is_gone(world: World, found: dict[str, Any], every: int) -> None:
    looked_at(world, **found)
    before = link(world)
    world.delete("Job", JOB)
    world.later(seconds=10)
    assert asks_again_after(world) == every - 10
    world.later(seconds=every - 11)
    assert asks_again_after(world) == 1
    world.later(seconds=1)
    assert world.planned("Diode", "hall").apply
    assert link(world) == before


@pytest.mark.parametrize(("found", "every"), [({}, 3600), ({"up": False}, 30)])
def test_while_a_look_goes_on_nobody_asks_sooner_than_for_the_next(
    world: World, found: dict[str, Any], every: int
) -> None:
    looked_at(world, **found)
    world.later(seconds=every)
    world.settle()
    world.start_pods()
    world.later(seconds=20)
    assert asks_again_after(world) == every


def test_fractions_of_a_second_change_nothing(world: World) -> None:
    looked_at(world)
    world.later(milliseconds=999)
    assert asks_again_after(world) == 3600


def test_what_was_found_is_as_old_as_the_end_of_the_look(world: World) -> None:
    world.diode()
    world.settle()
    world.look_at_node()
    ended = world.now
    world.later(seconds=40)
    world.settle()
    assert world.a_diode().status.preflight.checked_at == ended
    assert asks_again_after(world) == 3560


def test_a_job_that_does_not_say_when_it_ended_is_as_old_as_its_beginning(world: World) -> None:
    world.diode()
    world.settle()
    began = world.now
    world.later(seconds=10)
    world.look_at_node()
    del world.bodies["Job", JOB]["status"]["conditions"][0]["lastTransitionTime"]
    world.settle()
    assert world.a_diode().status.preflight.checked_at == began
    assert asks_again_after(world) == 3590


def test_what_was_found_stays_when_the_pods_log_is_gone(world: World) -> None:
    looked_at(world)
    found = world.a_diode().status.preflight
    world.delete("Pod", f"{JOB}-0-0")
    world.settle()
    assert link(world) == ("True", "LinkReady")
    assert world.a_diode().status.preflight == found


def test_a_newer_look_counts_and_an_older_one_is_shown_until_then(world: World) -> None:
    looked_at(world)
    world.diode(nic="diode1")
    world.settle()
    assert world.a_diode().status.preflight.nic == "diode0"
    assert link(world) == ("Unknown", "PreflightPending")
    world.look_at_node()
    world.settle()
    assert world.a_diode().status.preflight.nic == "diode1"
    assert link(world) == ("True", "LinkReady")


def test_the_look_at_an_older_spec_is_ended_once(world: World) -> None:
    world.diode()
    world.settle()
    job = world.bodies["Job", JOB]["metadata"]
    world.diode(nic="diode1")
    assert world.planned("Diode", "hall").delete == (Ref("batch/v1", "Job", JOB, job["uid"]),)
    world.begin_deletion("Job", JOB)
    assert world.planned("Diode", "hall").delete == ()
    world.reconcile("Diode", "hall")
    assert world.planned("Diode", "hall").delete == ()


def test_a_look_that_is_being_deleted_is_not_deleted_again(world: World) -> None:
    looked_at(world)
    world.later(hours=1)
    world.begin_deletion("Job", JOB)
    assert is_empty(world.planned("Diode", "hall"))


def test_a_pod_that_does_not_start_is_said_after_a_minute_before_its_job_is_ended(world: World) -> None:
    world.diode()
    world.settle()
    world.start_pods()
    world.later(seconds=59)
    world.settle()
    assert link(world) == ("Unknown", "PreflightPending")
    world.later(seconds=1)
    world.settle()
    assert link(world) == ("Unknown", "PodSlow")
    world.end_job(JOB, "DeadlineExceeded")
    world.settle()
    assert link(world) == ("Unknown", "PodSlow")


def test_why_a_look_failed_is_said_and_forgotten_with_the_spec_that_it_was_about(world: World) -> None:
    world.diode()
    world.settle()
    world.end_job(JOB, "DeadlineExceeded", "Job was active longer than specified deadline")
    world.settle()
    assert link(world) == ("Unknown", "PreflightFailed")
    assert "(Job was active longer than specified deadline)" in world.said(Type.LINK_UP, "hall", "Diode").message
    world.later(seconds=10)
    world.settle()
    assert link(world) == ("Unknown", "PreflightFailed"), "it is still so"
    world.diode(nic="diode1")
    world.settle()
    assert link(world) == ("Unknown", "PreflightPending")


def test_a_look_that_fails_without_a_word_is_said_as_such(world: World) -> None:
    world.diode()
    world.settle()
    assert world.said(Type.LINK_UP, "hall", "Diode").message == "The preflight check has not run yet."
    world.end_job(JOB, "BackoffLimitExceeded")
    world.settle()
    message = world.said(Type.LINK_UP, "hall", "Diode").message
    assert message == f"The preflight Job {JOB} ended without a result; it is retried."


def test_a_look_that_fails_after_a_good_one_leaves_nothing_good_said(world: World) -> None:
    looked_at(world)
    world.later(hours=1)
    world.settle()
    world.end_job(JOB, "BackoffLimitExceeded")
    world.settle()
    assert link(world) == ("Unknown", "PreflightFailed")
    assert world.said(Type.READY, "hall", "Diode").status == "False"
    assert asks_again_after(world) == 30


def test_a_stalled_diode_waits_for_a_person_and_says_so_everywhere(world: World) -> None:
    world.looks_at_nodes = True
    world.diode(encryption={"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True})
    world.settle()
    found = {kind: world.said(kind, "hall", "Diode") for kind in (Type.READY, Type.STALLED, Type.RECONCILING)}
    assert {kind: one.status for kind, one in found.items()} == {
        Type.READY: "False",
        Type.STALLED: "True",
        Type.RECONCILING: "False",
    }
    assert found[Type.READY].message == found[Type.STALLED].message
    assert found[Type.STALLED].message


def test_a_bad_link_is_said_by_ready_and_by_what_goes_on(world: World) -> None:
    looked_at(world, exists=False)
    why = world.said(Type.LINK_UP, "hall", "Diode").message
    for kind in (Type.READY, Type.RECONCILING):
        found = world.said(kind, "hall", "Diode")
        assert (found.reason, found.message) == ("NicMissing", why)


def test_only_bad_news_are_warnings(world: World) -> None:
    looked_at(world)
    world.later(hours=1)
    world.settle()
    world.look_at_node(up=False)
    world.settle()
    told = [(event.reason, event.type) for _, event in world.events]
    assert told == [
        ("PreflightPending", EventType.NORMAL),
        ("LinkReady", EventType.NORMAL),
        ("NicDown", EventType.WARNING),
    ]


@pytest.mark.parametrize(("mtu", "recorded"), [(2**31 - 1, 2**31 - 1), (2**31, None)])
def test_an_mtu_that_the_status_cannot_hold_is_left_out(world: World, mtu: int, recorded: int | None) -> None:
    looked_at(world, mtu=mtu)
    assert world.a_diode().status.preflight.mtu == recorded
    assert link(world) == ("True", "LinkReady")


@pytest.mark.parametrize(("spec", "mtu"), [({}, 28), ({}, 27), ({"target": {"host": "fd00::2", "port": 1}}, 47)])
def test_an_mtu_that_has_no_room_for_a_payload_leaves_none(world: World, spec: dict[str, Any], mtu: int) -> None:
    world.diode(**spec)
    world.settle()
    world.look_at_node(mtu=mtu)
    world.settle()
    assert "set payloadSize to 0 or 0" in world.said(Type.LINK_UP, "hall", "Diode").message


def test_a_neighbour_state_is_recorded_in_capital_letters_and_cut_where_the_status_ends(world: World) -> None:
    looked_at(world, neighbour="x" * 33)
    assert world.a_diode().status.preflight.neighbour == "X" * 32


def test_a_neighbour_entry_that_is_not_needed_is_recorded_as_it_is(world: World) -> None:
    looked_at(world, neighbour="stale", needs_neighbour=False)
    assert world.a_diode().status.preflight.neighbour == "STALE"


def test_a_check_of_a_node_whose_name_is_not_known_is_about_the_node(world: World) -> None:
    world.node = ""
    looked_at(world, exists=False)
    message = world.said(Type.LINK_UP, "hall", "Diode").message
    assert message.startswith("There is no network interface diode0 on the node; ")


def test_what_the_check_itself_complains_about_is_recorded_unless_it_found_a_reason(world: World) -> None:
    world.diode()
    world.settle()
    world.start_pods()
    complaint = "gapless: The address 10.0.0.2 is this machine's; correct it."
    world.run(f"{JOB}-0-0", complaint)
    world.look_at_node()
    world.settle()
    assert link(world) == ("False", "PreflightFailed")
    assert world.a_diode().status.preflight.message == complaint.removeprefix("gapless: ")
    world.later(seconds=30)
    world.settle()
    world.start_pods()
    world.run(f"{JOB}-0-0", complaint)
    world.look_at_node(message="There is no route to 10.0.0.2; add one.")
    world.settle()
    assert world.a_diode().status.preflight.message == "There is no route to 10.0.0.2; add one."


def test_a_diode_on_its_way_out_is_left_alone(world: World) -> None:
    world.diode()
    world.begin_deletion("Diode", "hall")
    plan = world.planned("Diode", "hall")
    assert is_empty(plan)
    assert plan.requeue_after_seconds is None


def test_the_volume_is_made_again_and_not_written_while_it_is_there(world: World) -> None:
    looked_at(world)
    world.delete("PersistentVolumeClaim", "hall-state")
    assert [manifest["kind"] for manifest in world.planned("Diode", "hall").apply] == ["PersistentVolumeClaim"]


# ------------------------------------------------------------------------------------------------------ windows


def test_the_first_of_several_overlapping_windows_is_named(world: World) -> None:
    world.diode("hall", partitionWindow={"start": 0, "count": 100})
    for name in ("c", "b"):
        world.diode(name, partitionWindow={"start": 99, "count": 5})
    world.settle()
    message = world.said(Type.STALLED, "hall", "Diode").message
    assert "gapless-sender/b" in message
    assert "gapless-sender/c" not in message


def test_the_window_of_a_diode_on_its_way_out_is_no_overlap(world: World) -> None:
    world.looks_at_nodes = True
    world.diode("hall", partitionWindow={"start": 0})
    world.diode("vault", partitionWindow={"start": 100})
    world.begin_deletion("Diode", "vault")
    world.settle()
    assert world.said(Type.READY, "hall", "Diode").reason == "LinkReady"


def test_an_equal_window_hides_no_overlap_with_the_next(world: World) -> None:
    world.diode("hall", partitionWindow={"start": 0, "count": 10})
    world.diode("a", partitionWindow={"start": 0, "count": 10})
    world.diode("b", partitionWindow={"start": 5, "count": 10})
    world.settle()
    assert "gapless-sender/b" in world.said(Type.STALLED, "hall", "Diode").message


def test_of_the_same_name_the_first_namespace_is_named(world: World) -> None:
    world.diode("hall", partitionWindow={"start": 0})
    world.diode("vault", partitionWindow={"start": 7})
    for namespace in ("z", "b"):
        world.bodies["Diode", f"twin-{namespace}"] = {
            **world.bodies["Diode", "vault"],
            "metadata": {**world.bodies["Diode", "vault"]["metadata"], "namespace": namespace},
        }
    world.reconcile("Diode", "hall")
    assert "gapless-sender/hall" in world.said(Type.STALLED, "hall", "Diode").message
    assert "Diode b/vault" in world.said(Type.STALLED, "hall", "Diode").message


def test_what_the_operator_wrote_is_up_to_date_with_the_spec(world: World) -> None:
    looked_at(world)
    world.diode(maxConcurrentResends=2)
    world.settle()
    assert world.a_diode().status.observed_generation == 2
    world.later(seconds=1)
    assert world.now - timedelta(seconds=1) == world.said(Type.LINK_UP, "hall", "Diode").last_transition_time
