"""What is true of all work that runs in attempts, whatever it does: one contract for all kinds and both engines."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gapless_operator.common.observed import ObservedNode
from gapless_operator.common.pod_template import PodTemplate, PodTemplates
from kit.story.plans import is_empty

if TYPE_CHECKING:
    from gapless_operator.common.plan import Plan
    from kit.story.memory_cluster import MemoryCluster

    from .conftest import Kind


def running(kind: Kind) -> MemoryCluster:
    """Return a cluster whose first attempt runs."""
    work = kind.cluster()
    work.settle()
    work.run()
    work.settle()
    assert len(work.begun) == 1
    return work


def stopped(plan: Plan) -> list[str]:
    return [ref.name for ref in plan.stop]


def is_given_up(work: MemoryCluster) -> None:
    """Fail unless the first attempt is stopped by the next plan, and gone, whatever follows."""
    first = work.begun[0]
    assert first in stopped(work.step())
    work.settle()
    assert first not in [name for _, name in work.objects]


def test_it_starts_once_and_then_rests(kind: Kind) -> None:
    work = running(kind)
    for _ in range(3):
        work.later(seconds=1)
        work.settle()
    assert len(work.begun) == 1


def test_it_is_looked_at_again_while_it_runs_and_while_it_starts(kind: Kind) -> None:
    work = kind.cluster()
    work.settle()
    assert work.plan().requeue_after_seconds is not None
    assert running(kind).plan().requeue_after_seconds is not None


def test_while_it_is_being_deleted_what_runs_is_stopped_and_nothing_starts(kind: Kind) -> None:
    work = running(kind)
    work.body["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    plan = work.step()
    pods = [f"{work.begun[0]}-pod"] if kind.stops_orphans else []
    assert stopped(plan) == [work.begun[0], *pods]
    assert (plan.apply, plan.create, plan.status) == ((), (), None)
    new = kind.cluster()
    new.body["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    assert is_empty(new.step())


@pytest.mark.only_if("can_be_suspended")
def test_suspend_stops_it_says_so_and_continues_afterwards(kind: Kind) -> None:
    work = running(kind)
    work.change(suspend=True)
    is_given_up(work)
    assert work.status["lastAttempt"]["outcome"] == "Suspended"
    assert work.condition("Stalled")[0] == "False"
    assert "spec.suspend is true" in " ".join(c["message"] for c in work.status["conditions"])
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 1
    work.change(suspend=False)
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 2


@pytest.mark.only_if("can_be_suspended")
def test_what_ended_by_itself_before_it_was_suspended_is_recorded_so(kind: Kind) -> None:
    work = running(kind)
    work.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
    work.change(suspend=True)
    work.settle()
    assert work.status["lastAttempt"]["outcome"] == "SourceUnreachable"
    assert work.status["lastAttempt"]["message"] == "Kafka cannot be reached; check it."
    assert len(work.begun) == 1


@pytest.mark.only_if("can_be_suspended")
def test_suspended_is_said_only_with_what_still_runs(kind: Kind) -> None:
    work = running(kind)
    work.change(suspend=True)
    with work.slow_to_delete():
        work.settle()
        said = " ".join(c["message"] for c in work.status["conditions"])
        assert f"{work.begun[0]}-pod" in said, "its pod has not ended yet"
    work.settle()
    said = " ".join(c["message"] for c in work.status["conditions"])
    assert f"{work.begun[0]}-pod" not in said


@pytest.mark.only_if("kafka")
def test_a_connection_that_goes_stops_it_and_one_that_comes_back_starts_it(kind: Kind) -> None:
    work = running(kind)
    gone = work.kafkas.pop(kind.kafka)
    is_given_up(work)
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 1
    assert kind.kafka in " ".join(c["message"] for c in work.status["conditions"])
    work.kafkas[kind.kafka] = gone
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 2


@pytest.mark.only_if("options")
def test_an_image_that_is_removed_from_the_list_does_not_keep_running_and_runs_again_when_it_is_back(
    kind: Kind,
) -> None:
    work = kind.cluster()
    work.body["spec"].setdefault(kind.options, {})["image"] = "registry.example/spark:2"
    work.settle()
    work.run()
    work.settle()
    allowed = dict(work.programs)
    work.programs = {name: replace(program, allowed_images=frozenset()) for name, program in allowed.items()}
    is_given_up(work)
    refused = f"would be refused now. spec.{kind.options}.image names registry.example/spark:2"
    assert refused in work.status["lastAttempt"]["message"]
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 1
    assert work.condition("Stalled") == ("True", "BadConfiguration")
    assert "names registry.example/spark:2" in work.message("Stalled")
    work.programs = allowed
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 2


def labels_of_pods(work: MemoryCluster) -> list[dict[str, str]]:
    """Return the labels of the pods of the last attempt."""
    kinds = ("Job", "SparkApplication")
    (spec,) = (body["spec"] for key, body in work.objects.items() if key[0] in kinds and key[1] == work.begun[-1])
    parts = [spec["template"]["metadata"]] if "template" in spec else [spec["driver"], spec["executor"]]
    return [part["labels"] for part in parts]


@pytest.mark.only_if("can_name_template")
def test_another_pod_template_replaces_the_pods_and_one_that_is_removed_stops_them(kind: Kind) -> None:
    work = running(kind)
    assert all("pool" not in labels for labels in labels_of_pods(work))
    for name in ("night", "day"):
        work.change(podTemplate=name)
        assert work.begun[-1] in stopped(work.step())
        work.settle()
        assert all(labels["pool"] == name for labels in labels_of_pods(work))
    assert len(work.begun) == 3
    listed = dict(work.programs)
    work.programs = {name: replace(program, pod_templates=PodTemplates()) for name, program in listed.items()}
    assert work.begun[-1] in stopped(work.step())
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 3
    assert work.condition("Stalled") == ("True", "BadConfiguration")
    assert "spec.podTemplate names day, which the platform team has not listed" in work.message("Stalled")
    work.programs = listed
    work.later(hours=1)
    work.settle()
    assert len(work.begun) == 4


@pytest.mark.only_if("can_name_template")
def test_a_pod_template_that_chooses_a_node_is_refused_among_senders(kind: Kind) -> None:
    work = kind.cluster()
    here = frozenset({work.body["metadata"]["namespace"]})
    named = {"night": PodTemplate(labels={"pool": "night"}), "day": PodTemplate(spec={"nodeSelector": {"a": "b"}})}
    templates = PodTemplates(named=named, sender_namespaces=here)
    work.programs = {name: replace(program, pod_templates=templates) for name, program in work.programs.items()}
    work.body["spec"]["podTemplate"] = "day"
    work.settle()
    assert not work.begun
    assert "spec.podTemplate names day, which has nodeSelector; in the namespace" in work.message("Stalled")
    work.change(podTemplate="night")
    work.settle()
    assert len(work.begun) == 1


def test_another_spec_stops_what_runs_and_starts_the_next(kind: Kind) -> None:
    work = running(kind)
    work.change(**kind.other)
    is_given_up(work)
    assert len(work.begun) == 2


def test_a_deleted_attempt_is_started_again(kind: Kind) -> None:
    work = running(kind)
    for name in [key for key in work.objects if key[1] == work.begun[0]]:
        del work.objects[name]
    work.pods.clear()
    work.settle()
    work.later(hours=1)
    work.settle()
    is_repeated = len(work.begun) == 2
    assert is_repeated or kind.name == "KafkaConnection", (
        "a check answers one request, and another value starts another"
    )


def test_on_a_lost_node_another_attempt_takes_over_after_a_minute(kind: Kind) -> None:
    work = running(kind)
    work.nodes["node"] = ObservedNode(name="node", ready=False, since=work.now)
    work.later(seconds=59)
    work.settle()
    assert len(work.begun) == 1
    assert work.names("Job") + work.names("SparkApplication") == work.begun
    work.later(seconds=1)
    work.step()
    ended = work.status["lastAttempt"].get("outcome")
    assert ended == (None if kind.replaces_pods else "NodeLost")


def test_an_attempt_that_does_not_start_ends_at_its_deadline(kind: Kind) -> None:
    work = kind.cluster()
    work.settle()
    work.later(seconds=299)
    work.settle()
    assert work.status["lastAttempt"].get("outcome") is None
    work.later(minutes=30)
    assert work.begun[0] in stopped(work.step())
    assert work.status["lastAttempt"]["outcome"] == "StartDeadlineExceeded"


def test_a_pod_whose_owner_is_gone_is_stopped_where_the_operator_may_delete_pods(kind: Kind) -> None:
    work = running(kind)
    first, pod = work.begun[0], f"{work.begun[0]}-pod"
    left = copy.deepcopy(work.pods[pod])
    for name in [key for key in work.objects if key[1] == first]:
        del work.objects[name]
    work.pods[pod] = left
    assert (pod in stopped(work.plan())) is kind.stops_orphans


def test_an_operator_that_dies_after_any_write_repeats_nothing(kind: Kind) -> None:
    def lived_through(dies: int) -> tuple[MemoryCluster, bool]:
        """Return the end, and whether there were so many writes in one plan."""
        work, has_died = kind.cluster(), False
        for act in (lambda: None, work.run, lambda: work.change(**kind.other), lambda: None):
            act()
            plan = work.plan()
            has_died |= len((*plan.stop, *plan.apply, *plan.delete, plan.status or ())) > dies
            work.step(writes=dies)
            work.settle()
            attempts = {*work.names("Job"), *work.names("SparkApplication")}
            assert {f"{name}-settings" for name in attempts} <= {*work.names("ConfigMap")}, dies
        return work, has_died

    expected, _ = lived_through(100)
    for dies in range(8):
        work, has_died = lived_through(dies)
        assert work.begun == expected.begun, dies
        assert _lasting(work) == _lasting(expected), dies
        if not has_died:
            break


def _lasting(work: MemoryCluster) -> dict[str, Any]:
    """Return what must be the same after a crash: children, and the status without its times."""
    return {
        "children": sorted(work.objects),
        "conditions": sorted((c["type"], c["status"], c["reason"]) for c in work.status["conditions"]),
        "last": work.status["lastAttempt"]["name"],
    }


def test_a_status_that_was_lost_starts_nothing_twice(kind: Kind) -> None:
    work = running(kind)
    del work.body["status"]
    work.settle()
    assert len(work.begun) == 1
    assert work.status["lastAttempt"]["name"] == work.begun[0]


def test_the_same_input_gives_the_same_plan_and_time_alone_writes_little(kind: Kind) -> None:
    work = running(kind)
    assert work.plan() == work.plan()
    writes = 0
    for _ in range(30):
        work.later(seconds=1)
        writes += work.step().status is not None
    assert writes <= 3
