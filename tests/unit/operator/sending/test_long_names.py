"""A name may have 253 characters and a label 63: children are found by their labels nevertheless."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_operator.common.children import find_labeled_name, has_label_for, label_value
from gapless_operator.common.observed import DIODE_LABEL, KIND_LABEL, NAME_LABEL
from gapless_operator.common.settings import OperatorSettings
from gapless_operator.shell.cache.relations import diode_of, owner_of
from gapless_operator.shell.cache.store import Cache, Key
from gapless_operator.shell.controller import Controller
from gapless_operator.shell.metrics import Metrics

SenderCluster = Any
NAMES = st.text("abc-9", min_size=1, max_size=253).filter(lambda name: name[0] != "-" and name[-1] != "-")
LENGTHS = [62, 63, 64, 253]


@given(st.sets(NAMES, min_size=1, max_size=5))
def test_a_label_value_identifies_one_name(names: set[str]) -> None:
    for name in names:
        value = label_value(name)
        assert len(value) <= 63
        assert find_labeled_name(value, sorted(names)) == name
        assert [other for other in names if has_label_for({"of": value}, "of", other)] == [name]


def test_a_name_that_looks_like_a_shortened_one_has_another_label() -> None:
    long = "a" * 70
    assert label_value(label_value(long)) != label_value(long)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_diode_with_a_long_name_finds_its_sender_pods(cluster: SenderCluster, length: int) -> None:
    name = "d" * length
    cluster.diode(name)
    cluster.settle()
    cluster.runs_preflights = True
    cluster.settle()
    cluster.resend(diodeRef={"name": name})
    cluster.settle()
    cluster.start_pods()
    cluster.run(f"{cluster.a_resend().status.job}-0-0", cluster.progress(400))
    cluster.settle()
    assert [entry.name for entry in cluster.a_diode(name).status.active] == ["repeat"]
    cluster.bodies.pop(("Resend", "repeat"))
    cluster.reconcile("Diode", name)
    assert [entry.name for entry in cluster.a_diode(name).status.active] == ["repeat"], "its pod still sends"
    cluster.diode(name, suspend=True)
    cluster.reconcile("Diode", name)
    assert cluster.names("Pod") == []


@pytest.mark.parametrize("length", LENGTHS)
def test_a_pod_enqueues_its_owner_and_its_diode_with_any_names(length: int) -> None:
    cache, resend, diode = Cache(), "r" * length, "d" * length
    for number, (kind, name) in enumerate((("Resend", resend), ("Diode", diode), ("Diode", "other")), 1):
        head = {"name": name, "namespace": "n", "uid": str(number), "resourceVersion": str(number)}
        cache.store({"apiVersion": "gapless.dev/v1alpha1", "kind": kind, "metadata": head})
    labels = {KIND_LABEL: "Resend", NAME_LABEL: label_value(resend), DIODE_LABEL: label_value(diode)}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "p", "labels": labels}}
    assert owner_of(pod, cache) == Key("Resend", "n", resend)
    assert diode_of(pod, cache) == Key("Diode", "n", diode)
    elsewhere = {**pod, "metadata": {**pod["metadata"], "namespace": "other"}}
    assert owner_of(elsewhere, cache) is None
    assert diode_of(elsewhere, cache) is None


class Api:
    """Accepts every write and keeps the names of events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def apply_status(self, body: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        return {**body, "status": status}

    def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "u", "resourceVersion": "1"}}

    def get(self, *_: Any) -> None:
        return None

    def post_event(self, manifest: dict[str, Any]) -> None:
        self.events.append(manifest["metadata"]["name"])


@pytest.mark.parametrize("name", ["a" * 253, "a" * 199 + "." + "b" * 53, "a" * 199 + "-" + "b" * 53])
def test_the_name_of_an_event_is_valid_wherever_the_name_of_its_object_is_cut(
    cluster: SenderCluster, name: str
) -> None:
    cluster.resend(name)
    cache, observer = cluster.cache_and_observer()
    api: Any = Api()
    metrics = Metrics(queue_length=lambda: 0)
    Controller(OperatorSettings(), api, cache, observer, metrics, lambda: cluster.now).reconcile(
        next(key for key in cluster.owner_keys() if key.name == name)
    )
    (event,) = api.events
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert re.fullmatch(rf"{label}(\.{label})*", event)
    assert len(event) <= 253
