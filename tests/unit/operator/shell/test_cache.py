"""The cache has the newest version of every object, in whatever order versions arrive."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gapless_operator.shell.api.kinds import JOB, POD
from gapless_operator.shell.cache.store import Cache


def body(name: str = "a", version: int = 1, uid: str = "", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
    }


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 10))))
def test_the_newest_version_stays_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    cache = Cache()
    for version in order:
        cache.store(body(version=version))
    found = cache.get(JOB, "n", "a")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "10"


def test_storing_tells_whether_anything_is_new() -> None:
    cache = Cache()
    assert cache.store(body(version=2))
    assert not cache.store(body(version=2))
    assert not cache.store(body(version=1))
    assert cache.store(body(version=3))


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    cache = Cache()
    cache.store(body(version=1))
    assert cache.remove(body(version=3))
    assert not cache.store(body(version=2))
    assert cache.get(JOB, "n", "a") is None


def test_the_deletion_of_an_older_object_of_the_name_leaves_the_newer_alone() -> None:
    cache = Cache()
    cache.store(body(uid="old", version=1))
    cache.store(body(uid="new", version=5))
    assert not cache.remove(body(uid="old", version=4))
    found = cache.get(JOB, "n", "a")
    assert found is not None
    assert found["metadata"]["uid"] == "new"


def test_children_are_found_by_owner_and_by_label_and_only_while_they_are() -> None:
    cache = Cache()
    cache.store(body("one", ownerReferences=[{"uid": "scan", "kind": "GapScan"}]))
    pod = body("two", labels={"gapless.dev/uid": "scan"}) | {"kind": "Pod"}
    cache.store(pod)
    cache.store(body("three", ownerReferences=[{"uid": "other", "kind": "GapScan"}]))
    assert [found["metadata"]["name"] for found in cache.owned(JOB, "scan")] == ["one"]
    assert [found["metadata"]["name"] for found in cache.owned(POD, "scan")] == ["two"]
    cache.store(body("one", version=2))
    cache.remove(pod)
    assert cache.owned(JOB, "scan") == cache.owned(POD, "scan") == []


def test_a_list_reveals_what_a_silent_watch_missed() -> None:
    cache = Cache()
    for name in ("stays", "changes", "goes"):
        cache.store(body(name, version=5))
    cache.store(body("written-after-the-list", version=12))
    listed = [body("stays", version=5), body("changes", version=8), body("comes", version=9)]
    assert [cache.knows(found) for found in listed] == [True, False, False]
    assert [cache.store(found) for found in listed] == [False, True, True]
    gone = cache.prune(JOB, "n", {found["metadata"]["uid"] for found in listed}, "10")
    assert [found["metadata"]["name"] for found in gone] == ["goes"]
    names = [found["metadata"]["name"] for found in cache.all(JOB, "n")]
    assert names == ["changes", "comes", "stays", "written-after-the-list"]


def test_a_list_of_one_namespace_says_nothing_about_others() -> None:
    cache = Cache()
    cache.store(body("a", namespace="elsewhere"))
    assert cache.prune(JOB, "n", set(), "100") == []
    assert cache.all(JOB, "elsewhere")
    assert [found["metadata"]["name"] for found in cache.prune(JOB, None, set(), "100")] == ["a"]
