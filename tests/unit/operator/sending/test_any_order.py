"""Whatever happens in whatever order, and wherever the operator dies: no plan is repeated, and nothing runs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gapless_api.v1alpha1.conditions import ConditionType as Type
from kit.machine.examples import examples
from kit.story.plans import is_empty

if TYPE_CHECKING:
    from collections.abc import Callable

World = Any
MOST_EXAMPLES = examples(60)
NAMES = ("a", "b", "c")


def _spec(name: str, **more: Any) -> dict[str, Any]:
    return {"offsets": {"topic": "t", "partition": 0, "from": NAMES.index(name), "to": 999}, **more}


def _apply(world: World, name: str, number: int) -> None:
    world.resend(name, **_spec(name, suspend=number == 1, priority=number, eps=float(number)))


def _force(world: World, name: str, number: int) -> None:
    if ("Resend", name) in world.bodies:
        world.resend(name, **_spec(name, force=f"word-{number}"))


def _delete(world: World, name: str, _: int) -> None:
    if ("Resend", name) in world.bodies:
        world.delete("Resend", name)


def _lose_jobs(world: World, name: str, _: int) -> None:
    for job in [job for job in world.names("Job") if job.startswith(f"{name}-")]:
        world.delete("Job", job)


def _say(world: World, name: str, number: int) -> None:
    for pod in _living(world, name):
        world.run(pod, world.progress(100 * number))


def _end(world: World, name: str, number: int) -> None:
    for pod in _living(world, name):
        world.end(pod, (0, 2, 3, 4, 5)[number], world.report(990, unavailable=10 if number == 3 else 0))


def _living(world: World, name: str) -> list[str]:
    world.start_pods()
    pods = [pod for pod in world.names("Pod") if pod.startswith(f"{name}-")]
    return [pod for pod in pods if world.bodies["Pod", pod]["status"]["phase"] in {"Pending", "Running"}]


HAPPENINGS_BY_NAME: dict[str, Callable[[World, str, int], None]] = {
    "apply": _apply,
    "say": _say,
    "end": _end,
    "time": lambda world, _, number: world.later(seconds=(1, 7, 40, 400, 4000)[number]),
    "delete": _delete,
    "force": _force,
    "lose jobs": _lose_jobs,
    "diode": lambda world, _, number: world.diode(maxConcurrentResends=1 + number % 2, nic=f"nic{number % 2}"),
}
HAPPENINGS = st.lists(
    st.tuples(st.sampled_from(sorted(HAPPENINGS_BY_NAME)), st.sampled_from(NAMES), st.integers(0, 4)),
    min_size=5,
    max_size=40,
)


@settings(max_examples=MOST_EXAMPLES, deadline=None)
@given(happenings=HAPPENINGS)
def test_reconciling_again_without_news_changes_nothing(new_world: Any, happenings: list[tuple[str, str, int]]) -> None:
    world = new_world()
    world.looks_at_nodes = True
    world.diode()
    for name in NAMES:
        world.resend(name, **_spec(name))
    world.settle()
    for what, name, number in happenings:
        HAPPENINGS_BY_NAME[what](world, name, number)
        world.settle(40)  # proves that it comes to an end
        for owner in world.owners():
            assert is_empty(world.planned(*owner))
            if owner[0] == "Resend":
                event(world.said(Type.READY, owner[1]).reason)
        most = world.a_diode().spec.max_concurrent_resends
        assert len(world.a_diode().status.active) <= max(most, 2)
        for resend in NAMES:
            running = [j for j in world.running_jobs() if j.startswith(f"{resend}-00000001-send")]
            assert len(running) <= 1, "one Resend never has two Jobs that send"


@pytest.mark.parametrize("crash_at", range(1, 40))
def test_a_death_after_any_write_ends_in_the_same_state(new_world: Any, crash_at: int) -> None:
    def story(world: World) -> World:
        world.looks_at_nodes = True
        world.diode(encryption={"certificateSecret": {"name": "receiver"}})
        world.settle_in_spite_of_crashes()
        world.resend(parallelism=2)
        world.settle_in_spite_of_crashes()
        for attempt, code in ((1, 3), (2, 0)):
            world.start_pods()
            key = keys_of(world, f"repeat-00000001-send-{attempt}")
            for index in (0, 1):
                world.run(f"repeat-00000001-send-{attempt}-{index}-0", world.progress(500))
            world.settle_in_spite_of_crashes()
            for index in (0, 1):
                world.end(f"repeat-00000001-send-{attempt}-{index}-0", code, world.report(500, planned=500))
            world.settle_in_spite_of_crashes()
            assert keys_of(world, f"repeat-00000001-send-{attempt}") == key
            world.later(seconds=10)
            world.settle_in_spite_of_crashes()
        return world

    undisturbed = story(new_world())
    assert undisturbed.writes < 40
    disturbed = new_world()
    disturbed.crash_at = crash_at
    story(disturbed)
    assert disturbed.jobs_made == undisturbed.jobs_made
    for owner in undisturbed.owners():
        ends = [world.bodies[owner]["status"] for world in (undisturbed, disturbed)]
        for end in ends:
            end.pop("sessionKeySecret", None)  # its name is random
        assert ends[0] == ends[1]


def keys_of(world: World, job: str) -> dict[str, str]:
    """The content of the Secret with the key that all pods of a Job use."""
    status = world.a_resend().status
    assert world.bodies["Job", job]["metadata"]["annotations"]["gapless.dev/session-key"] == status.session_key_secret
    content: dict[str, str] = world.bodies["Secret", str(status.session_key_secret)]["data"]
    return content
