"""One switch stops everything in a namespace, whatever is invalid or away, and the status says what still runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gapless_operator.common.observed import DIODE_LABEL, UID_LABEL, ObservedNode
from gapless_operator.common.settings import OperatorSettings, read_settings
from gapless_operator.shell.api.errors import RefusedError, UnavailableError
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.cache.suspensions import Suspensions
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.planning import MODELS, plan_for

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
SUSPENDED = "The namespace n has the annotation gapless.dev/suspend=true, so nothing runs in it."
BATCH, SPARK = "batch/v1", "sparkoperator.k8s.io/v1beta2"


class Server:
    """An API server with Namespaces, which may refuse or not answer."""

    def __init__(self, **annotations: str | None) -> None:
        self.annotations = annotations
        self.problem: Exception | None = None
        self.asked: list[str] = []

    def get(self, _kind: Any, _namespace: None, name: str) -> dict[str, Any] | None:
        self.asked.append(name)
        if self.problem is not None:
            raise self.problem
        if name not in self.annotations:
            return None
        value = self.annotations[name]
        return {"metadata": {"name": name, "annotations": {} if value is None else {"gapless.dev/suspend": value}}}

    def log(self, *_: Any, **__: Any) -> None:
        raise AssertionError


def suspensions(server: Server, **more: Any) -> Suspensions:
    api: ClusterApi = server  # type: ignore[assignment]
    return Suspensions(api, **more)


def an_object(kind: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": "o", "namespace": "n", "uid": "owner", "resourceVersion": "1", "generation": 2}
    return {
        "apiVersion": "gapless.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata | {"creationTimestamp": "2026-11-20T09:00:00Z"},
        "spec": {"nothing": "is valid here"},
        "status": status,
    }


def child(version: str, kind: str, name: str, status: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"nodeName": "node-1"}, "status": status}


def observer(cache: Cache, server: Server, *, lost: bool = False) -> Observer:
    node = ObservedNode(name="node-1", ready=not lost, since=NOW)
    made = Observer(cache, server, PodLogs(server, start=lambda _: None), lambda _: node)  # type: ignore[arg-type]
    made.suspension = suspensions(server).reason
    return made


def running() -> Cache:
    cache = Cache()
    cache.store(child(SPARK, "SparkApplication", "application", {}, **{UID_LABEL: "owner"}))
    cache.store(
        child(SPARK, "SparkApplication", "ended", {"applicationState": {"state": "COMPLETED"}}, **{UID_LABEL: "owner"})
    )
    cache.store(child(BATCH, "Job", "job", {}, **{UID_LABEL: "owner"}))
    cache.store(child("v1", "Pod", "pod", {"phase": "Running"}, **{UID_LABEL: "owner"}))
    cache.store(child("v1", "Pod", "other", {"phase": "Running"}, **{UID_LABEL: "another"}))
    return cache


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_everything_of_an_invalid_object_is_stopped_also_what_has_no_pod_yet(kind: str) -> None:
    plan = plan_for(an_object(kind), observer(running(), Server(n="true")), NOW, OperatorSettings())
    assert [ref.name for ref in plan.stop] == ["application", "job", "pod"]
    assert not plan.apply
    assert not plan.create
    assert plan.status is not None
    conditions = {each["type"]: each for each in plan.status["conditions"]}
    assert {each["reason"] for name, each in conditions.items() if name != "Stalled"} == {"Suspended"}
    assert conditions["Reconciling"]["message"] == f"{SUSPENDED} Pod pod is being stopped."
    assert conditions["Stalled"]["status"] == "False"
    assert ("Ready" in conditions) == (kind not in {"GapScan", "KafkaConnection"})
    assert [event.message for event in plan.events] == [f"{SUSPENDED} Pod pod is being stopped."]


@pytest.mark.parametrize("kind", ["Archive", "Mirror"])
def test_a_suspended_object_shows_no_lag_because_nothing_looks_at_it(kind: str) -> None:
    body = an_object(kind)
    topics = [{"topic": "orders", "partitions": 3, "lagRecords": 0, "lagSeconds": 0.0}]
    body["status"] = {"lagRecords": 0, "lagSeconds": 0.0, "retentionSeconds": 9.0, "records": 7, "topics": topics}
    plan = plan_for(body, observer(Cache(), Server(n="true")), NOW, OperatorSettings())
    assert plan.status is not None
    kept = {name: plan.status[name] for name in plan.status.keys() - {"conditions", "observedGeneration"}}
    assert kept == {"records": 7, "topics": [{"topic": "orders", "partitions": 3}]}


def test_a_diode_stops_what_uses_its_link_whoever_owns_it() -> None:
    cache = running()
    cache.store(child("v1", "Pod", "sender", {"phase": "Running"}, **{UID_LABEL: "resend", DIODE_LABEL: "o"}))
    plan = plan_for(an_object("Diode"), observer(cache, Server(n="true")), NOW, OperatorSettings())
    assert [ref.name for ref in plan.stop] == ["application", "job", "pod", "sender"]


def test_a_pod_on_a_lost_node_is_not_said_to_have_stopped() -> None:
    plan = plan_for(an_object("Mirror"), observer(running(), Server(n="true"), lost=True), NOW, OperatorSettings())
    assert plan.status is not None
    messages = {each["message"] for each in plan.status["conditions"] if each["type"] == "Ready"}
    lost = "Node node-1 of pod pod has not been ready since 2026-11-20T10:00:00Z, so it is unknown whether the pod has "
    assert messages == {f"{SUSPENDED} {lost}stopped; look at the node itself."}


def test_what_has_finished_keeps_its_status_and_nothing_is_written_twice() -> None:
    looks = observer(Cache(), Server(n="true"))
    assert (
        plan_for(an_object("Resend", finishedAt="2026-11-20T09:30:00Z"), looks, NOW, OperatorSettings()).status is None
    )
    first = plan_for(an_object("Resend"), looks, NOW, OperatorSettings())
    assert first.status is not None
    assert first.status["phase"] == "Suspended"
    assert {each["message"] for each in first.status["conditions"] if each["type"] == "Ready"} == {
        f"{SUSPENDED} Progress is kept."
    }
    again = plan_for(an_object("Resend", **first.status), looks, NOW, OperatorSettings())
    assert (again.status, again.events) == (None, ())


@pytest.mark.parametrize(
    ("value", "stops"),
    [("true", True), ("True", True), ("yes", True), ("1", True), ("false", False), ("False ", False), ("", False)],
)
def test_any_value_but_false_stops(value: str, *, stops: bool) -> None:
    assert bool(suspensions(Server(n=value)).reason("n")) == stops


def test_what_was_read_stays_in_force_while_nobody_answers() -> None:
    server = Server(n="true", m=None)
    known = suspensions(server)
    assert known.read(["n", "m", "gone"]) == {"n"}
    for problem in (UnavailableError("The API server is away."), RefusedError("Forbidden.")):
        server.problem = problem
        if isinstance(problem, UnavailableError):
            with pytest.raises(UnavailableError):
                known.read(["n"])
        else:
            assert known.read(["n"]) == set()
        assert known.reason("n")
        assert not known.reason("m")
    server.problem, server.annotations["n"] = None, "false"
    assert known.read(["n", "m"]) == {"n"}
    assert not known.reason("n")


def test_a_namespace_that_was_never_read_is_read_before_anything_starts_in_it() -> None:
    server = Server(n="true")
    known = suspensions(server)
    server.problem = UnavailableError("The API server is away.")
    with pytest.raises(UnavailableError):
        known.reason("n")
    server.problem = None
    assert known.reason("n")
    assert server.asked == ["n", "n"]


def test_the_whole_installation_can_be_suspended() -> None:
    settings = read_settings(["--suspend-all"], {})
    assert settings.suspend_all
    assert not read_settings([], {}).suspend_all
    server = Server()
    assert "--suspend-all" in suspensions(server, everything=settings.suspend_all).reason("n")
    assert server.asked == []
