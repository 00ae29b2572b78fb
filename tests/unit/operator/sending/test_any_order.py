"""Events in any order and crashes at any write: no plan is repeated, and nothing runs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gapless_api.v1alpha1.conditions import ConditionType as Type
from kit.machine.examples import examples
from kit.story.plans import is_empty

SenderCluster = Any
MOST_EXAMPLES = examples(60)
NAMES = ("a", "b", "c")


def _spec(name: str, **more: Any) -> dict[str, Any]:
    return {"offsets": {"topic": "t", "partition": 0, "from": NAMES.index(name), "to": 999}, **more}


def _apply(cluster: SenderCluster, name: str, number: int) -> None:
    cluster.resend(name, **_spec(name, suspend=number == 1, priority=number, eps=float(number)))


def _force(cluster: SenderCluster, name: str, number: int) -> None:
    if ("Resend", name) in cluster.bodies:
        cluster.resend(name, **_spec(name, force=f"word-{number}"))


def _delete(cluster: SenderCluster, name: str, _: int) -> None:
    if ("Resend", name) in cluster.bodies:
        cluster.delete("Resend", name)


def _lose_jobs(cluster: SenderCluster, name: str, _: int) -> None:
    for job in [job for job in cluster.names("Job") if job.startswith(f"{name}-")]:
        cluster.delete("Job", job)


def _say(cluster: SenderCluster, name: str, number: int) -> None:
    for pod in _living(cluster, name):
        cluster.run(pod, cluster.progress(100 * number))


def _end(cluster: SenderCluster, name: str, number: int) -> None:
    for pod in _living(cluster, name):
        cluster.end(pod, (0, 2, 3, 4, 5)[number], cluster.report(990, unavailable=10 if number == 3 else 0))


def _living(cluster: SenderCluster, name: str) -> list[str]:
    cluster.start_pods()
    pods = [pod for pod in cluster.names("Pod") if pod.startswith(f"{name}-")]
    return [pod for pod in pods if cluster.bodies["Pod", pod]["status"]["phase"] in {"Pending", "Running"}]


HAPPENINGS_BY_NAME: dict[str, Callable[[SenderCluster, str, int], None]] = {
    "apply": _apply,
    "say": _say,
    "end": _end,
    "time": lambda cluster, _, number: cluster.advance(seconds=(1, 7, 40, 400, 4000)[number]),
    "delete": _delete,
    "force": _force,
    "lose jobs": _lose_jobs,
    "diode": lambda cluster, _, number: cluster.diode(maxConcurrentResends=1 + number % 2, nic=f"nic{number % 2}"),
}
HAPPENINGS = st.lists(
    st.tuples(st.sampled_from(sorted(HAPPENINGS_BY_NAME)), st.sampled_from(NAMES), st.integers(0, 4)),
    min_size=5,
    max_size=40,
)


@settings(max_examples=MOST_EXAMPLES, deadline=None)
@given(happenings=HAPPENINGS)
def test_reconciling_again_without_news_changes_nothing(
    new_cluster: Any, happenings: list[tuple[str, str, int]]
) -> None:
    cluster = new_cluster()
    cluster.runs_preflights = True
    cluster.diode()
    for name in NAMES:
        cluster.resend(name, **_spec(name))
    cluster.settle()
    for what, name, number in happenings:
        HAPPENINGS_BY_NAME[what](cluster, name, number)
        cluster.settle(40)  # proves that it comes to an end
        for owner in cluster.owners():
            assert is_empty(cluster.next_plan(*owner))
            if owner[0] == "Resend":
                event(cluster.condition(Type.READY, owner[1]).reason)
        most = cluster.a_diode().spec.max_concurrent_resends
        assert len(cluster.a_diode().status.active) <= max(most, 2)
        for resend in NAMES:
            running = [j for j in cluster.running_jobs() if j.startswith(f"{resend}-00000001-send")]
            assert len(running) <= 1, "one Resend never has two Jobs that send"


@pytest.mark.parametrize("crash_at", range(1, 40))
def test_a_death_after_any_write_ends_in_the_same_state(new_cluster: Any, crash_at: int) -> None:
    def story(cluster: SenderCluster) -> SenderCluster:
        cluster.runs_preflights = True
        cluster.diode(encryption={"certificateSecret": {"name": "receiver"}})
        cluster.settle_despite_crashes()
        cluster.resend(parallelism=2)
        cluster.settle_despite_crashes()
        for attempt, code in ((1, 3), (2, 0)):
            cluster.start_pods()
            key = keys_of(cluster, f"repeat-00000001-send-{attempt}")
            for index in (0, 1):
                cluster.run(f"repeat-00000001-send-{attempt}-{index}-0", cluster.progress(500))
            cluster.settle_despite_crashes()
            for index in (0, 1):
                cluster.end(f"repeat-00000001-send-{attempt}-{index}-0", code, cluster.report(500, planned=500))
            cluster.settle_despite_crashes()
            assert keys_of(cluster, f"repeat-00000001-send-{attempt}") == key
            cluster.advance(seconds=10)
            cluster.settle_despite_crashes()
        return cluster

    undisturbed = story(new_cluster())
    assert undisturbed.writes < 40
    disturbed = new_cluster()
    disturbed.crash_at = crash_at
    story(disturbed)
    assert disturbed.created_jobs == undisturbed.created_jobs
    for owner in undisturbed.owners():
        ends = [cluster.bodies[owner]["status"] for cluster in (undisturbed, disturbed)]
        for end in ends:
            end.pop("sessionKeySecret", None)  # its name is random
        assert ends[0] == ends[1]


def keys_of(cluster: SenderCluster, job: str) -> dict[str, str]:
    """The content of the Secret with the key that all pods of a Job use."""
    status = cluster.a_resend().status
    assert cluster.bodies["Job", job]["metadata"]["annotations"]["gapless.dev/session-key"] == status.session_key_secret
    content: dict[str, str] = cluster.bodies["Secret", str(status.session_key_secret)]["data"]
    return content
