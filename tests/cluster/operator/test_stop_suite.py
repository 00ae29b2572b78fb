"""Each kind of work ends within seconds, by the switch of its namespace and by its own, whatever state it is in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from cluster.operator.test_suspended_namespace import annotate as switch_namespace
from kit.cluster.kubelet import Kubelet, Runs, Waits

pytestmark = pytest.mark.integration

WITHIN = 15.0
"""Seconds within which everything must have ended."""
SWITCHED = {"Resend": "again", "GapScan": "night", "Archive": "site", "Restore": "outage", "Mirror": "copies"}
"""The objects with a switch of their own, one of each kind."""
ROLES = {"send", "scan", "archive", "restore-plan", "mirror-workers", "doctor"}
"""The roles of their pods, with that of the check of a KafkaConnection."""
UNSWITCHED = frozenset({"doctor"})
"""A check has no switch of its own."""


def start_work(place: Any, behaviour: Runs | Waits) -> None:
    """Let a pod of each kind behave so; wait until all exist."""
    usual = place.as_usual
    place.behave = lambda pod: behaviour if role_of(pod) in ROLES else usual(pod)
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    place.kafka("up", access=["Read", "Write"])
    place.apply("StorageLocation", "store", persistentVolumeClaim={"claimName": "archive"})
    place.gap_scan()
    place.resend()
    archived = {"kafkaRef": {"name": "kafka"}, "storageRef": {"name": "store"}, "region": "a", "topics": ["orders"]}
    place.apply("Archive", "site", **archived)
    restored = {"archiveRef": {"name": "site"}, "kafkaRef": {"name": "up"}, "topics": [{"name": "orders"}]}
    place.apply("Restore", "outage", **restored)
    copied = {"sourceRef": {"name": "kafka"}, "targetRef": {"name": "up"}, "topics": ["orders"]}
    place.apply("Mirror", "copies", **copied)
    place.api.kubectl("annotate", "kafkaconnection", "kafka", "gapless.dev/doctor=today", "-n", place.name)
    until_all_exist(place)


def role_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get("gapless.dev/role"))


def switch_each(place: Any, *, suspend: bool) -> None:
    for kind, name in SWITCHED.items():
        path = place.path(kind, name)
        place.api.request("PATCH", path, {"spec": {"suspend": suspend}}, content="application/merge-patch+json")


def left(place: Any) -> list[str]:
    """Return the roles of pods that have not ended."""
    pods = place.objects("/api/v1 pods")
    return [role_of(pod) for pod in pods if pod["status"]["phase"] in {"Pending", "Running"} and role_of(pod) in ROLES]


def until_all_exist(place: Any, *, but: frozenset[str] = frozenset()) -> None:
    place.api.eventually(lambda: set(left(place)) >= ROLES - but, timeout_seconds=60, what="a pod of each kind")


def until_none_is_left(place: Any, *, but: frozenset[str] = frozenset()) -> None:
    place.api.eventually(lambda: set(left(place)) <= but, timeout_seconds=WITHIN, what="the end of all pods")


def said(place: Any) -> dict[str, set[str]]:
    """Return the reasons of the conditions of each object."""
    return {
        kind: {condition["reason"] for condition in place.read(kind, name)["status"]["conditions"]}
        for kind, name in SWITCHED.items()
    }


def until_all_say_suspended(place: Any) -> None:
    place.api.eventually(
        lambda: all("Suspended" in reasons for reasons in said(place).values()),
        timeout_seconds=WITHIN,
        what=f"the reason Suspended of each object, not {json.dumps({k: sorted(v) for k, v in said(place).items()})}",
    )


@pytest.fixture
def lost_node(kubelet: Kubelet) -> Iterator[Callable[[], None]]:
    """Lets the node stop to answer; it answers again after the test."""
    yield lambda: kubelet.is_ready(ready=False)
    kubelet.is_ready(ready=True)


@pytest.mark.parametrize(
    "behaviour",
    [Runs(seconds=-1), Waits("ContainerCreating"), Waits("ImagePullBackOff", "no such image")],
    ids=["running", "being created", "waiting for an image"],
)
def test_both_switches_stop_all_kinds_and_they_continue_afterwards(
    place: Any, operator: Callable[..., Any], behaviour: Runs | Waits
) -> None:
    operator()
    start_work(place, behaviour)
    switch_namespace(place, "true")
    until_none_is_left(place)
    until_all_say_suspended(place)
    switch_namespace(place, None)
    until_all_exist(place)
    switch_each(place, suspend=True)
    until_none_is_left(place, but=UNSWITCHED)
    until_all_say_suspended(place)


def test_both_switches_stop_what_runs_on_a_lost_node(
    place: Any, operator: Callable[..., Any], lost_node: Callable[[], None]
) -> None:
    operator()
    start_work(place, Runs(seconds=-1))
    lost_node()
    switch_each(place, suspend=True)
    until_none_is_left(place, but=UNSWITCHED)
    switch_namespace(place, "true")
    until_none_is_left(place)


@pytest.fixture
def newer_field(place: Any) -> str:
    """A field of the spec that the API server stores, as after an upgrade, and the operator does not know."""
    for kind in SWITCHED:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.lower()}s.gapless.dev"
        at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fieldOfANewerOperator"
        addition = [{"op": "add", "path": at, "value": {"type": "integer"}}]
        place.api.request("PATCH", path, addition, content="application/json-patch+json")
    return "fieldOfANewerOperator"


def store_invalid(place: Any, field: str) -> None:
    """Give every object a spec that the operator cannot read."""

    def is_stored(kind: str, name: str) -> bool:
        path = place.path(kind, name)
        place.api.request("PATCH", path, {"spec": {field: 1}}, content="application/merge-patch+json")
        return field in place.read(kind, name)["spec"]

    for kind, name in SWITCHED.items():
        place.api.eventually(partial(is_stored, kind, name), timeout_seconds=60, what=f"the new field of {kind}")


@pytest.mark.parametrize("switch", ["namespace", "each"])
@pytest.mark.parametrize("lost", ["connections", "valid specs"])
def test_an_operator_that_starts_again_stops_what_was_switched_off_and_lost_what_it_needs_meanwhile(
    place: Any, operator: Callable[..., Any], newer_field: str, lost: str, switch: str
) -> None:
    first = operator()
    start_work(place, Runs(seconds=-1))
    first.kill()
    if lost == "valid specs":
        store_invalid(place, newer_field)
    for kafka in ("kafka", "up") if lost == "connections" else ():
        place.api.request("DELETE", place.path("KafkaConnection", kafka))
    if switch == "namespace":
        switch_namespace(place, "true")
    else:
        switch_each(place, suspend=True)
    assert set(left(place)) >= ROLES - UNSWITCHED, "nothing stops without an operator"
    operator()
    is_checked = switch == "each" and lost == "valid specs"
    until_none_is_left(place, but=UNSWITCHED if is_checked else frozenset())


def test_a_spec_that_cannot_be_read_stops_what_runs(place: Any, operator: Callable[..., Any], newer_field: str) -> None:
    operator()
    start_work(place, Runs(seconds=-1))
    store_invalid(place, newer_field)
    until_none_is_left(place, but=UNSWITCHED)
    switch_each(place, suspend=True)
    assert all("BadConfiguration" in reasons for reasons in said(place).values())
    switch_namespace(place, "true")
    until_none_is_left(place)
    until_all_say_suspended(place)


def test_the_command_of_the_runbook_stops_all_kinds_while_there_is_no_operator(
    place: Any, operator: Callable[..., Any]
) -> None:
    first = operator()
    start_work(place, Runs(seconds=-1))
    switch_namespace(place, "true")
    first.kill()
    place.api.kubectl("-n", place.name, "delete", "jobs,pods", "-l", "gapless.dev/kind", "--wait=false")
    until_none_is_left(place)


def test_what_is_queued_does_not_start_when_the_way_is_free(place: Any, operator: Callable[..., Any]) -> None:
    operator()
    start_work(place, Runs(seconds=-1))
    place.resend("queued")
    place.until("Resend", "queued", "Ready", "False", "Queued")
    patch = {"spec": {"suspend": True}}
    for name in ("queued", "again"):
        place.api.request("PATCH", place.path("Resend", name), patch, content="application/merge-patch+json")
    place.until("Resend", "queued", "Ready", "False", "Suspended")
    place.api.eventually(lambda: "send" not in left(place), timeout_seconds=WITHIN, what="the end of the sender")
    place.until("Resend", "again", "Ready", "False", "Suspended")
    assert "send" not in left(place)
