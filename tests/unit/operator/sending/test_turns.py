"""Turns on a Diode follow from what exists: waiting and running Resends, their pods, and Diodes of its receiver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.resend import Resend
from gapless_operator.common.observed import ROLE_LABEL, UID_LABEL, ObservedPod
from gapless_operator.sending.observed import DiodeObserved
from gapless_operator.sending.queue import assign_turns, lane_mates

NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(minutes=7)
ENCRYPTION = {"certificateSecret": {"name": "receiver"}}


def moment(at: datetime) -> str:
    return f"{at:%FT%TZ}"


def said(kind: str, reason: str, status: str = "True") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "observedGeneration": 1,
        "lastTransitionTime": moment(EARLIER),
    }


def a_diode(
    name: str = "hall",
    *,
    namespace: str = "s",
    active: tuple[str, ...] = (),
    ready: bool = True,
    deleting: bool = False,
    **spec: Any,
) -> Diode:
    """A Diode that has given turns to the Resends `active`, some minutes ago."""
    metadata = {"name": name, "namespace": namespace, "uid": name, "generation": 1}
    if deleting:
        metadata["deletionTimestamp"] = moment(NOW)
    whole = {"nodeSelector": {"diode": "hall"}, "nic": "d0", "target": {"host": "10.0.0.2", "port": 1234}}
    whole |= {"unlimited": True, **spec}
    status = {
        "conditions": [said("Ready", "LinkReady", "True" if ready else "False")],
        "active": [{"name": one, "resendUid": f"uid-{one}", "attempt": 1, "since": moment(EARLIER)} for one in active],
    }
    return Diode.from_resource({"kind": "Diode", "metadata": metadata, "spec": whole, "status": status})


def a_resend(
    name: str, reason: str | None = "Queued", *, diode: str = "hall", age: int = 0, attempt: int = 0, **spec: Any
) -> Resend:
    """A Resend that is `age` minutes old and says with `reason` that it waits or runs."""
    metadata = {"name": name, "namespace": "s", "uid": f"uid-{name}", "generation": 1}
    metadata["creationTimestamp"] = moment(NOW - timedelta(minutes=age))
    whole = {
        "diodeRef": {"name": diode},
        "kafkaRef": {"name": "kafka"},
        "offsets": {"topic": "t", "partition": 0, "from": 0, "to": 9},
        **spec,
    }
    status = {"conditions": [] if reason is None else [said("Reconciling", reason)], "attempt": attempt}
    return Resend.from_resource({"kind": "Resend", "metadata": metadata, "spec": whole, "status": status})


def a_pod(of: str, *, role: str = "send", phase: str = "Running") -> ObservedPod:
    labels = {UID_LABEL: f"uid-{of}", ROLE_LABEL: role}
    return ObservedPod.of({"metadata": {"name": f"{of}-pod", "labels": labels}, "status": {"phase": phase}})


def decided(diode: Diode, *resends: Resend, ready: bool = True, **observed: Any) -> tuple[list[str], int]:
    """Who has a turn, and how many wait."""
    found = assign_turns(diode, DiodeObserved(resends=resends, **observed), ready=ready, now=NOW)
    return [entry.name for entry in found.active], found.queued


def test_a_turn_says_whose_it_is_which_attempt_it_is_and_since_when() -> None:
    diode = a_diode(active=("old",), maxConcurrentResends=2)
    resends = (a_resend("old", "Sending", attempt=3), a_resend("new", attempt=4))
    found = assign_turns(diode, DiodeObserved(resends=resends), ready=True, now=NOW)
    assert [(one.name, one.resend_uid, one.attempt, one.since) for one in found.active] == [
        ("new", "uid-new", 4, NOW),
        ("old", "uid-old", 3, EARLIER),
    ]
    assert found.queued == 0


def test_only_resends_over_this_diode_have_a_turn_on_it_and_wait_for_it() -> None:
    others = (a_resend("b", diode="vault"), a_resend("c", "Sending", diode="vault"))
    assert decided(a_diode(), a_resend("a", None), *others) == ([], 0)
    assert decided(a_diode(), a_resend("d"), *others) == (["d"], 0)


def test_a_turn_that_was_given_and_not_used_is_kept_from_who_comes_later_while_the_link_is_ready() -> None:
    diode = a_diode(active=("given",))
    resends = (a_resend("given"), a_resend("urgent", priority=9))
    assert decided(diode, *resends) == (["given"], 1)
    assert decided(diode, *resends, ready=False) == ([], 2)


def test_a_turn_is_lost_when_its_resend_no_longer_waits() -> None:
    assert decided(a_diode(active=("given",)), a_resend("given", "Retrying"), a_resend("next")) == (["next"], 0)


def test_nothing_starts_while_the_link_is_not_ready_and_running_resends_continue() -> None:
    diode = a_diode(active=("runs",), maxConcurrentResends=3)
    assert decided(diode, a_resend("runs", "Sending"), a_resend("waits"), ready=False) == (["runs"], 1)


def test_a_lower_limit_stops_no_resend_and_starts_none() -> None:
    running = tuple(a_resend(name, "Sending") for name in "abc")
    waiting = (a_resend("d"), a_resend("e"))
    assert decided(a_diode(maxConcurrentResends=1), *running, *waiting) == (["a", "b", "c"], 2)
    assert decided(a_diode(maxConcurrentResends=4), *running, *waiting) == (["a", "b", "c", "d"], 1)


@pytest.mark.parametrize(
    ("pod", "keeps"),
    [
        (a_pod("gone"), True),
        (a_pod("gone", phase="Pending"), True),
        (a_pod("gone", phase="Succeeded"), False),
        (a_pod("gone", phase="Failed"), False),
        (a_pod("gone", role="preflight"), False),
        (a_pod("somebody"), False),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_stopped_resend_keeps_its_turn_while_its_pod_may_send(*, pod: ObservedPod, keeps: bool, exists: bool) -> None:
    diode = a_diode(active=("gone",))
    resends = (a_resend("next"), *((a_resend("gone", "Suspended"),) if exists else ()))
    assert decided(diode, *resends, sender_pods=(pod,)) == ((["gone"], 1) if keeps else (["next"], 0))


def test_a_deleted_resend_keeps_its_turn_unchanged() -> None:
    found = assign_turns(a_diode(active=("gone",)), DiodeObserved(sender_pods=(a_pod("gone"),)), ready=True, now=NOW)
    assert [(one.name, one.attempt, one.since) for one in found.active] == [("gone", 1, EARLIER)]


def test_no_more_turns_are_written_than_a_status_holds() -> None:
    running = tuple(a_resend(f"r{number:02}", "Sending") for number in range(33))
    assert decided(a_diode(maxConcurrentResends=16), *running)[0] == [f"r{number:02}" for number in range(32)]


# ------------------------------------------------------------------------------------------------------- plans


def a_plan(name: str, reason: str | None = "Queued", **spec: Any) -> Resend:
    """A Resend that only asks what would be sent."""
    return a_resend(name, reason, mode="Plan", **spec)


def test_plans_wait_for_one_another_by_the_rules_of_sends() -> None:
    plans = [a_plan(f"p{number:02}", age=60 - number) for number in range(60)]
    assert decided(a_diode(maxConcurrentResends=3), *plans) == (["p00", "p01", "p02"], 57)
    running = [a_plan(f"p{number:02}", "Planning") for number in range(3)]
    assert decided(a_diode(maxConcurrentResends=3), *running, *plans[3:])[1] == 57
    urgent = a_plan("urgent", priority=1)
    assert decided(a_diode(maxConcurrentResends=1), *plans, urgent) == (["urgent"], 60)


def test_plans_neither_take_the_turns_of_sends_nor_wait_for_them_nor_for_the_link() -> None:
    resends = (a_resend("sends", "Sending"), a_resend("waits"), a_plan("asks"), a_plan("later", age=-1))
    assert decided(a_diode(), *resends) == (["asks", "sends"], 2)
    assert decided(a_diode(), *resends, ready=False) == (["asks", "sends"], 2)
    encrypted = a_diode(encryption=ENCRYPTION)
    assert decided(encrypted, *resends) == (["asks", "sends"], 2)
    mate = a_diode("mate", encryption=ENCRYPTION, active=("m",))
    assert decided(encrypted, a_plan("asks"), a_resend("waits"), other_diodes=(mate,)) == (["asks"], 1)


def test_a_planned_resend_waits_again_before_it_sends() -> None:
    diode = a_diode(maxConcurrentResends=1)
    turn = assign_turns(diode, DiodeObserved(resends=(a_plan("p"),)), ready=True, now=NOW)
    assert [(one.name, one.mode) for one in turn.active] == [("p", "Plan")]
    planned = diode.model_copy(update={"status": diode.status.model_copy(update={"active": turn.active})})
    sends = a_resend("sends", "Sending")
    # It was told to send and says still that it plans: that is no turn to send.
    assert decided(planned, a_resend("p", "Planning"), sends) == (["sends"], 0)
    assert decided(planned, a_resend("p", "Queued", priority=9), sends) == (["sends"], 1)


def test_a_plan_keeps_its_turn_while_its_pod_runs() -> None:
    found = assign_turns(
        a_diode(),
        DiodeObserved(resends=(a_plan("p", "Suspended"),), sender_pods=(a_pod("p", role="plan"),)),
        ready=True,
        now=NOW,
    )
    assert [(one.name, one.mode) for one in found.active] == [("p", "Plan")]


def test_turns_are_listed_by_name_and_objects_of_one_name_by_uid() -> None:
    diode = a_diode(active=("b",), maxConcurrentResends=3)
    again = a_resend("b").model_copy(update={"metadata": a_resend("b").metadata.model_copy(update={"uid": "newer"})})
    found = assign_turns(
        diode, DiodeObserved(resends=(again, a_resend("a")), sender_pods=(a_pod("b"),)), ready=True, now=NOW
    )
    assert [(one.name, one.resend_uid) for one in found.active] == [("a", "uid-a"), ("b", "newer"), ("b", "uid-b")]


# ------------------------------------------------------------------------------------------- one receiver, one key


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (ENCRYPTION, {"encryption": ENCRYPTION}, True),
        (None, {"encryption": ENCRYPTION}, False),
        (ENCRYPTION, {}, False),
        (ENCRYPTION, {"encryption": ENCRYPTION, "target": {"host": "10.0.0.2", "port": 99}}, False),
        (ENCRYPTION, {"encryption": {**ENCRYPTION, "lane": "a"}}, True),
        ({**ENCRYPTION, "lane": "a"}, {"encryption": ENCRYPTION, "target": {"host": "x", "port": 1}}, False),
        (
            {**ENCRYPTION, "lane": "a"},
            {"encryption": {**ENCRYPTION, "lane": "a"}, "target": {"host": "x", "port": 1}},
            True,
        ),
        (
            {**ENCRYPTION, "lane": "a"},
            {"encryption": {**ENCRYPTION, "lane": "b"}, "target": {"host": "x", "port": 1}},
            False,
        ),
        (ENCRYPTION, {"encryption": ENCRYPTION, "namespace": "elsewhere"}, False),
        (ENCRYPTION, {"encryption": ENCRYPTION, "name": "hall"}, False),
        (ENCRYPTION, {"encryption": ENCRYPTION, "deleting": True}, False),
    ],
)
def test_diodes_share_a_lane_by_their_target_or_their_lanes_name(
    mine: dict[str, Any] | None, theirs: dict[str, Any], *, same: bool
) -> None:
    diode = a_diode(**({} if mine is None else {"encryption": mine}))
    other = a_diode(**{"name": "vault", **theirs})
    assert [mate.key for mate in lane_mates(diode, [other])] == ([other.key] if same else [])


def test_lane_mates_come_by_name() -> None:
    others = [a_diode(name, encryption=ENCRYPTION) for name in ("c", "a", "b")]
    found = lane_mates(a_diode(encryption=ENCRYPTION), others)
    assert [mate.metadata.name for mate in found] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("vault", "rival", "begins"),
    [
        ({}, a_resend("r", diode="vault", age=9), False),
        ({}, a_resend("r", diode="vault", age=1), True),
        ({}, a_resend("r", diode="vault", priority=1), False),
        ({}, a_resend("r", None, diode="vault", age=9), True),
        ({}, a_resend("r", diode="other", age=9), True),
        ({"ready": False}, a_resend("r", diode="vault", age=9), True),
        ({"active": ("x",)}, a_resend("r", diode="vault", age=1), False),
    ],
)
def test_of_all_that_wait_for_one_receiver_the_first_begins(
    vault: dict[str, Any], rival: Resend, *, begins: bool
) -> None:
    diode = a_diode(encryption=ENCRYPTION)
    others = (a_diode("vault", encryption=ENCRYPTION, **vault),)
    mine = (a_resend("mine", age=5), a_resend("later", age=4))
    assert decided(diode, *mine, rival, other_diodes=others) == ((["mine"], 1) if begins else ([], 2))


def test_an_encrypted_diode_runs_one_at_a_time() -> None:
    diode = a_diode(encryption=ENCRYPTION)
    assert decided(diode, a_resend("a", "Sending"), a_resend("b")) == (["a"], 1)
    assert decided(diode) == ([], 0)
