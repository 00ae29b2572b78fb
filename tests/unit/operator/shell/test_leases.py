"""One operator serves a namespace at a time; the next one waits for its Lease."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gapless_operator.shell.api.errors import ConflictError, RefusedError, UnavailableError
from gapless_operator.shell.leases import LEASE_SECONDS, Leases


class Store:
    """Keeps Leases as the API server does: a version for each write, and no write over another one."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.error: Exception | None = None

    def get(self, _kind: Any, namespace: str, _name: str) -> dict[str, Any] | None:
        self._fail()
        return copy.deepcopy(self.bodies.get(namespace))

    def create_if_absent(self, manifest: Any) -> dict[str, Any] | None:
        self._fail()
        return None if manifest["metadata"]["namespace"] in self.bodies else self._write(manifest)

    def replace(self, manifest: Any) -> dict[str, Any]:
        self._fail()
        known = self.bodies[manifest["metadata"]["namespace"]]["metadata"]
        if known["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise ConflictError("another version")
        return self._write(manifest)

    def _write(self, manifest: Any) -> dict[str, Any]:
        self.writes += 1
        body = copy.deepcopy(manifest)
        body["metadata"]["resourceVersion"] = str(self.writes)
        self.bodies[body["metadata"]["namespace"]] = body
        return copy.deepcopy(body)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def operator(store: Store, clock: Clock, name: str, *namespaces: str) -> Leases:
    return Leases(store, namespaces or ("n",), name, clock=clock)  # type: ignore[arg-type]


def pass_time(clock: Clock, seconds: float, *operators: Leases) -> None:
    for _ in range(int(seconds / 5)):
        clock.now += 5
        for each in operators:
            each.renew()


def test_the_second_operator_waits_and_names_the_first(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    assert not first.held("n")
    assert first.renew()
    assert not second.renew()
    assert (first.held("n"), second.held("n")) == (True, False)
    assert first.waiting_reason() == ""
    assert second.waiting_reason() == "Namespace n is not served by this operator: operator first serves it."
    pass_time(clock, 10 * LEASE_SECONDS, first, second)
    assert (first.held("n"), second.held("n")) == (True, False)


def test_a_lease_costs_three_writes_a_minute(store: Store, clock: Clock) -> None:
    first = operator(store, clock, "first")
    first.renew()
    before = store.writes
    pass_time(clock, 600, first)
    assert store.writes - before == 30
    assert first.held("n")


def test_a_released_lease_is_acquired_at_once(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    second.renew()
    first.release()
    assert not first.held("n")
    assert second.renew()
    assert second.held("n")
    assert store.bodies["n"]["spec"]["leaseTransitions"] == 2


def test_what_is_not_renewed_runs_out_by_the_clock_of_who_waits(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    clock.now += 1_000_000  # how old the Lease is says nothing: the clocks of two nodes may differ
    second.renew()
    assert not second.held("n")
    pass_time(clock, LEASE_SECONDS, second)
    assert not second.held("n")
    pass_time(clock, 5, second)
    assert second.held("n")


def test_a_holder_that_cannot_renew_stops_before_the_next_begins(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    second.renew()
    store.error = UnavailableError("The API server cannot be reached.")
    stopped = next(second_ for second_ in range(0, 120, 5) if not _held_after(first, clock, 5))
    store.error = None
    assert stopped < LEASE_SECONDS - 5
    assert "cannot be reached" in first.waiting_reason()
    assert not second.held("n")


def _held_after(leases: Leases, clock: Clock, seconds: float) -> bool:
    pass_time(clock, seconds, leases)
    return leases.held("n")


def test_an_operator_that_was_paused_beyond_its_lease_does_not_write(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    pass_time(clock, LEASE_SECONDS + 10, second)
    assert second.held("n")
    assert not first.held("n")
    first.renew()
    first.renew()
    assert not first.held("n")
    assert "operator second serves it" in first.waiting_reason()


def test_a_restart_with_the_same_identity_need_not_wait(store: Store, clock: Clock) -> None:
    operator(store, clock, "pod-1").renew()
    assert operator(store, clock, "pod-1").renew()


def test_two_operators_that_start_together_do_not_both_serve(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    seen = store.get

    def both_see_nothing(kind: Any, namespace: str, name: str) -> dict[str, Any] | None:
        found = seen(kind, namespace, name)
        store.get = seen  # type: ignore[method-assign]
        second.renew()
        return found

    store.get = both_see_nothing  # type: ignore[method-assign, assignment]
    first.renew()
    assert [first.held("n"), second.held("n")] == [False, True]


def test_each_namespace_has_a_lease_of_its_own(store: Store, clock: Clock) -> None:
    first, second = operator(store, clock, "first", "a", "shared"), operator(store, clock, "second", "b", "shared")
    first.renew()
    second.renew()
    assert [second.held("b"), second.held("shared")] == [True, False]
    assert second.waiting_reason().startswith("Namespace shared is not served by this operator")


def test_without_the_right_to_leases_nothing_is_served_and_it_says_so(store: Store, clock: Clock) -> None:
    store.error = RefusedError("leases is forbidden.")
    first = operator(store, clock, "first")
    first.renew()
    assert not first.held("n")
    assert "leases is forbidden" in first.waiting_reason()
