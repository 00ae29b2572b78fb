"""One operator serves a namespace at a time; the next one waits for its Lease."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_operator.shell.api.errors import RefusedError, UnavailableError
from gapless_operator.shell.leases import LEASE_SECONDS, Leases
from kit.story.lease_store import LeaseStore


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> LeaseStore:
    return LeaseStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def operator(store: LeaseStore, clock: Clock, name: str, *namespaces: str) -> Leases:
    return Leases(store, namespaces or ("n",), name, clock=clock)  # type: ignore[arg-type]


def pass_time(clock: Clock, seconds: float, *operators: Leases) -> None:
    for _ in range(int(seconds / 5)):
        clock.now += 5
        for each in operators:
            each.renew()


def test_the_second_operator_waits_and_names_the_first(store: LeaseStore, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    assert not first.held("n")
    assert first.renew()
    assert not second.renew()
    assert (first.held("n"), second.held("n")) == (True, False)
    assert first.waiting_reason() == ""
    assert second.waiting_reason() == "Namespace n is not served by this operator: operator first serves it."
    pass_time(clock, 10 * LEASE_SECONDS, first, second)
    assert (first.held("n"), second.held("n")) == (True, False)


def test_a_lease_costs_three_writes_a_minute(store: LeaseStore, clock: Clock) -> None:
    first = operator(store, clock, "first")
    first.renew()
    before = store.writes
    pass_time(clock, 600, first)
    assert store.writes - before == 30
    assert first.held("n")


def test_a_released_lease_is_acquired_at_once(store: LeaseStore, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    second.renew()
    first.release()
    assert not first.held("n")
    assert second.renew()
    assert second.held("n")
    assert store.bodies["n"]["spec"]["leaseTransitions"] == 2


def test_what_is_not_renewed_runs_out_by_the_clock_of_who_waits(store: LeaseStore, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    clock.now += 1_000_000  # how old the Lease is says nothing: the clocks of two nodes may differ
    second.renew()
    assert not second.held("n")
    pass_time(clock, LEASE_SECONDS, second)
    assert not second.held("n")
    pass_time(clock, 5, second)
    assert second.held("n")


def test_a_holder_that_cannot_renew_stops_before_the_next_begins(store: LeaseStore, clock: Clock) -> None:
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


def test_an_operator_that_was_paused_beyond_its_lease_does_not_write(store: LeaseStore, clock: Clock) -> None:
    first, second = operator(store, clock, "first"), operator(store, clock, "second")
    first.renew()
    pass_time(clock, LEASE_SECONDS + 10, second)
    assert second.held("n")
    assert not first.held("n")
    first.renew()
    first.renew()
    assert not first.held("n")
    assert "operator second serves it" in first.waiting_reason()


def test_a_restart_with_the_same_identity_need_not_wait(store: LeaseStore, clock: Clock) -> None:
    operator(store, clock, "pod-1").renew()
    assert operator(store, clock, "pod-1").renew()


def test_two_operators_that_start_together_do_not_both_serve(store: LeaseStore, clock: Clock) -> None:
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


def test_each_namespace_has_a_lease_of_its_own(store: LeaseStore, clock: Clock) -> None:
    first, second = operator(store, clock, "first", "a", "shared"), operator(store, clock, "second", "b", "shared")
    first.renew()
    second.renew()
    assert [second.held("b"), second.held("shared")] == [True, False]
    assert second.waiting_reason().startswith("Namespace shared is not served by this operator")


def test_without_the_right_to_leases_nothing_is_served_and_it_says_so(store: LeaseStore, clock: Clock) -> None:
    store.error = RefusedError("leases is forbidden.")
    first = operator(store, clock, "first")
    first.renew()
    assert not first.held("n")
    assert "leases is forbidden" in first.waiting_reason()


def of_release(store: LeaseStore, clock: Clock, name: str, release: str) -> Leases:
    return Leases(store, ("n",), name, release=release, clock=clock)  # type: ignore[arg-type]


def test_an_operator_of_the_same_release_is_a_standby(store: LeaseStore, clock: Clock) -> None:
    first, second = (of_release(store, clock, name, "gapless/north") for name in ("first", "second"))
    assert first.renew()
    assert not second.renew()
    assert second.waiting_reason() == ""
    assert second.standby_reason() == "Namespace n is not served by this operator: operator first serves it."
    assert (first.served(), second.served()) == ({"n": True}, {"n": False})
    first.release()
    pass_time(clock, 5, second)
    assert (second.held("n"), second.standby_reason()) == (True, "")


@pytest.mark.parametrize(("holder", "own"), [("other/north", "gapless/north"), ("", "gapless/north"), ("", "")])
def test_an_operator_of_another_release_is_no_peer(store: LeaseStore, clock: Clock, holder: str, own: str) -> None:
    first, second = of_release(store, clock, "first", holder), of_release(store, clock, "second", own)
    assert first.renew()
    assert not second.renew()
    assert "operator first serves it" in second.waiting_reason()
    assert second.standby_reason() == ""


def test_a_standby_that_cannot_read_the_lease_says_so(store: LeaseStore, clock: Clock) -> None:
    first, second = (of_release(store, clock, name, "gapless/north") for name in ("first", "second"))
    first.renew()
    second.renew()
    store.error = UnavailableError("The API server does not answer.")
    pass_time(clock, 5, second)
    assert "does not answer" in second.waiting_reason()


def test_the_release_of_the_holder_is_in_the_lease_after_each_change(store: LeaseStore, clock: Clock) -> None:
    first, second = of_release(store, clock, "first", "gapless/old"), of_release(store, clock, "second", "gapless/new")
    first.renew()
    first.release()
    second.renew()
    assert store.bodies["n"]["metadata"]["annotations"] == {"gapless.dev/release": "gapless/new"}
