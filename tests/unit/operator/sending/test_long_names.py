"""A name may have 253 characters and a label 63: what belongs to an object is found by its label all the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_operator.common.children import find_labeled_name, has_label_for, label_value
from gapless_operator.common.observed import DIODE_LABEL, KIND_LABEL, NAME_LABEL
from gapless_operator.shell.cache.relations import diode_of, owner_of
from gapless_operator.shell.cache.store import Cache, Key

World = Any
NAMES = st.text("abc-9", min_size=1, max_size=253).filter(lambda name: name[0] != "-" and name[-1] != "-")
LENGTHS = [62, 63, 64, 253]


@given(st.sets(NAMES, min_size=1, max_size=5))
def test_the_label_of_a_name_leads_back_to_it_and_to_no_other(names: set[str]) -> None:
    for name in names:
        value = label_value(name)
        assert len(value) <= 63
        assert find_labeled_name(value, sorted(names)) == name
        assert [other for other in names if has_label_for({"of": value}, "of", other)] == [name]


def test_a_name_that_looks_like_a_cut_one_is_another_one() -> None:
    long = "a" * 70
    assert label_value(label_value(long)) != label_value(long)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_diode_with_a_long_name_knows_who_sends_over_it(world: World, length: int) -> None:
    name = "d" * length
    world.diode(name)
    world.settle()
    world.looks_at_nodes = True
    world.settle()
    world.resend(diodeRef={"name": name})
    world.settle()
    world.start_pods()
    world.run(f"{world.a_resend().status.job}-0-0", world.progress(400))
    world.settle()
    assert [entry.name for entry in world.a_diode(name).status.active] == ["repeat"]
    world.bodies.pop(("Resend", "repeat"))
    world.reconcile("Diode", name)
    assert [entry.name for entry in world.a_diode(name).status.active] == ["repeat"], "its pod still sends"
    world.diode(name, suspend=True)
    world.reconcile("Diode", name)
    assert world.names("Pod") == []


@pytest.mark.parametrize("length", LENGTHS)
def test_a_pod_wakes_its_owner_and_its_diode_whatever_they_are_called(length: int) -> None:
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
