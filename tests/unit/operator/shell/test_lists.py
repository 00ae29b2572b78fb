"""A kind that cannot be listed is not taken as absent: only a 404 means that it does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gapless_operator.shell.api.client import Page
from gapless_operator.shell.api.errors import ApiError, ExpiredError, NotFoundError, RefusedError, UnavailableError
from gapless_operator.shell.api.kinds import (
    DEPENDENCIES,
    DIODE,
    GAP_SCAN,
    JOB,
    OWNERS,
    RESEND,
    SPARK_APPLICATION,
    WATCHED,
    Kind,
)
from gapless_operator.shell.cache.lists import Lists, RestoredClusterError
from gapless_operator.shell.cache.store import Cache

EVERYTHING = WATCHED


class Server:
    """Lists one object of each kind, unless it has something else to say."""

    def __init__(self) -> None:
        self.errors: dict[Kind, list[ApiError]] = {}
        self.kinds = set(EVERYTHING)
        self.names = ["a"]
        self.version = "9"

    def pages(self, kind: Kind, _namespace: str | None, *, is_known: Any = None) -> Iterator[Page]:
        del is_known
        for name in self.names:
            metadata = {"name": name, "namespace": "n", "uid": f"{kind.name}-{name}", "resourceVersion": "1"}
            body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
            yield Page(frozenset({metadata["uid"]}), [body], self.version)
            if self.errors.get(kind):
                raise self.errors[kind].pop(0)
        if self.errors.get(kind):
            raise self.errors[kind].pop(0)

    def serves(self, kind: Kind) -> bool:
        return kind in self.kinds


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def changed() -> list[str]:
    return []


@pytest.fixture
def lists(server: Server, changed: list[str]) -> Lists:
    def note(body: dict[str, Any]) -> None:
        changed.append(body["metadata"]["uid"])

    return Lists(server, Cache(), ["n"], on_change=note, on_list=lambda _: None)  # type: ignore[arg-type]


def forever(error: ApiError) -> list[ApiError]:
    return [error] * 100


def test_every_kind_that_is_served_is_listed_and_told_once(lists: Lists, changed: list[str]) -> None:
    lists.list_all()
    assert lists.served == {(kind, "n") for kind in EVERYTHING}
    assert sorted(changed) == sorted(f"{kind.name}-a" for kind in EVERYTHING)
    lists.list_all()
    assert len(changed) == len(EVERYTHING)


def test_404_means_that_there_is_no_such_kind_and_nobody_waits_for_it(server: Server, lists: Lists) -> None:
    server.errors[SPARK_APPLICATION] = forever(NotFoundError("no such kind"))
    lists.list_all()
    assert not lists.serves(SPARK_APPLICATION)
    assert not lists.missing(GAP_SCAN, "n")
    server.errors.clear()
    lists.list_all()
    assert lists.serves(SPARK_APPLICATION)


@pytest.mark.parametrize("error", [RefusedError("403: forbidden"), RefusedError("400: bad"), UnavailableError("500")])
def test_any_other_error_leaves_a_kind_as_it_was(server: Server, lists: Lists, error: ApiError) -> None:
    lists.list_all()
    server.errors[SPARK_APPLICATION] = forever(error)
    lists.list_all()
    assert lists.serves(SPARK_APPLICATION), "Spark jobs would be begun a second time as plain Jobs"
    assert not lists.missing(GAP_SCAN, "n")


def test_what_was_never_listed_has_those_wait_who_look_at_it_and_no_others(server: Server, lists: Lists) -> None:
    server.errors[SPARK_APPLICATION] = forever(RefusedError("403: sparkapplications is forbidden"))
    lists.list_all()
    assert "GapScans wait, because sparkapplications could not be listed: 403" in lists.missing(GAP_SCAN, "n")
    assert not lists.missing(RESEND, "n")
    assert not lists.missing(DIODE, "n")
    server.errors.clear()
    lists.list_all()
    assert not lists.missing(GAP_SCAN, "n")


def test_a_refusal_of_a_kind_that_does_not_exist_is_no_refusal(server: Server, lists: Lists) -> None:
    """Kubernetes looks at rights before kinds."""
    server.errors[SPARK_APPLICATION] = forever(RefusedError("403: sparkapplications is forbidden"))
    server.kinds.discard(SPARK_APPLICATION)
    lists.list_all()
    assert not lists.missing(GAP_SCAN, "n")
    assert not lists.serves(SPARK_APPLICATION)


def test_a_kind_that_cannot_be_listed_now_keeps_no_other_from_being_listed(
    server: Server, lists: Lists, changed: list[str]
) -> None:
    server.errors[JOB] = forever(UnavailableError("503: away"))
    with pytest.raises(UnavailableError):
        lists.list_all()
    assert {kind for kind, _ in lists.served} == set(EVERYTHING) - {JOB}
    assert f"{GAP_SCAN.name}-a" in changed
    for kind in (DIODE, GAP_SCAN, RESEND):
        assert "jobs could not be listed: 503" in lists.missing(kind, "n")


def test_a_list_whose_rest_is_gone_is_begun_again_and_nothing_of_it_is_taken_for_deleted(
    server: Server, lists: Lists, changed: list[str]
) -> None:
    server.names = ["a", "b"]
    lists.list_all()
    changed.clear()
    server.errors[RESEND] = [ExpiredError("410: the list is too old")]
    lists.list_all()
    assert changed == []
    server.names = ["a"]
    lists.list_all()
    assert sorted(changed) == sorted(f"{kind.name}-b" for kind in EVERYTHING)


def test_every_reconciled_kind_has_dependencies() -> None:
    assert set(DEPENDENCIES) == set(OWNERS)


def test_a_list_that_is_older_than_what_was_seen_before_ends_the_process(server: Server, lists: Lists) -> None:
    lists.list_all()
    server.version = "11"
    lists.list_all()
    body = {"kind": JOB.name, "metadata": {"name": "b", "namespace": "n", "uid": "b", "resourceVersion": "11"}}
    assert lists._cache.store(body)
    server.version = "10"
    with pytest.raises(RestoredClusterError, match="list of jobs has resource version 10, but version 11 was seen"):
        lists.list_all()
