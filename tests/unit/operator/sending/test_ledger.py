"""A Diode's ledger remembers what was sent, within its bound: what is gone is forgotten before what exists."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.diode import LONGEST_LEDGER, LedgerEntry
from gapless_api.v1alpha1.resend import Resend
from gapless_operator.diode.ledger import has_recorded, recorded, same_work

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def a_resend(number: int, *, ended: int | None = None, diode: str = "hall") -> Resend:
    """A Resend that exists; it was carried through in the minute `ended`."""
    status: dict[str, Any] = {}
    if ended is not None:
        said: dict[str, Any] = {"type": "Succeeded", "status": "True", "reason": "Sent", "observedGeneration": 1}
        said["lastTransitionTime"] = f"{at(ended):%FT%TZ}"
        status = {"identity": f"{number:064x}", "finishedAt": f"{at(ended):%FT%TZ}", "conditions": [said]}
    metadata = {"name": f"r{number}", "namespace": "s", "uid": f"uid-{number}", "generation": 1}
    spec = {
        "diodeRef": {"name": diode},
        "kafkaRef": {"name": "kafka"},
        "offsets": {"topic": "t", "partition": 0, "from": number, "to": 999},
    }
    return Resend.from_resource({"kind": "Resend", "metadata": metadata, "spec": spec, "status": status})


def an_entry(number: int, *, ended: int) -> LedgerEntry:
    return LedgerEntry(
        identity=f"{number:064x}", resend=f"r{number}", resend_uid=f"uid-{number}", finished_at=at(ended)
    )


def numbers(ledger: tuple[LedgerEntry, ...]) -> list[int]:
    return [int(entry.resend_uid.removeprefix("uid-")) for entry in ledger]


FULL = range(LONGEST_LEDGER)


@pytest.mark.parametrize(
    ("existing", "ending", "forgotten"),
    [
        ((), 1, {0}),
        ((), 3, {0, 1, 2}),
        ((0,), 1, {1}),
        ((0, 1, 3), 2, {2, 4}),
        (range(99), 1, {99}),
        (range(1, 100), 1, {0}),
        (range(98), 3, {98, 99, 0}),
        (FULL, 1, {0}),
        (FULL, 2, {0, 1}),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_gone_is_forgotten_first_and_of_those_the_oldest(
    existing: tuple[int, ...], ending: int, forgotten: set[int], seed: int
) -> None:
    ledger = tuple(an_entry(number, ended=number) for number in FULL)
    new = [a_resend(number, ended=number) for number in range(100, 100 + ending)]
    resends = [*(a_resend(number, ended=number) for number in existing), *new]
    random.Random(seed).shuffle(resends)
    after = recorded(ledger, resends, diode_name="hall")
    assert numbers(after) == [number for number in range(100 + ending) if number not in forgotten]
    assert recorded(after, resends, diode_name="hall") == after, "nothing goes to and fro"


def test_whatever_ends_and_is_deleted_nothing_that_exists_leaves_while_something_gone_is_left() -> None:
    chance = random.Random(7)
    ledger: tuple[LedgerEntry, ...] = ()
    existing: dict[int, Resend] = {}
    for number in range(600):
        existing[number] = a_resend(number, ended=number)
        before = set(numbers(ledger)) | {number}
        ledger = recorded(ledger, existing.values(), diode_name="hall")
        left = before - set(numbers(ledger))
        assert len(ledger) <= LONGEST_LEDGER
        if left & existing.keys():
            assert set(numbers(ledger)) <= existing.keys()
        assert has_recorded(ledger, uid=f"uid-{number}", force=None, finished_at=at(number))
        for gone in [n for n in existing if chance.random() < (0.002 if number < 300 else 0.02)]:
            del existing[gone]
    assert len(existing) < LONGEST_LEDGER == len(ledger)
    assert existing.keys() <= set(numbers(ledger))


def test_what_has_not_ended_or_goes_over_another_diode_is_not_recorded() -> None:
    resends = [a_resend(1), a_resend(2, ended=2, diode="vault"), a_resend(3, ended=3)]
    assert numbers(recorded((), resends, diode_name="hall")) == [3]


def ended(reason: str = "Sent", **status: Any) -> Resend:
    """A Resend that ended with `reason` and has more in its status."""
    resend = a_resend(1, ended=5).model_dump(by_alias=True, mode="json")
    resend["status"]["conditions"][0]["reason"] = reason
    resend["status"] |= status
    return Resend.from_resource({"kind": "Resend", **resend})


def test_an_entry_says_what_became_of_which_events() -> None:
    progress = {"planned": 10, "sent": 1, "filtered": 2, "filled": 3, "unavailable": 4}
    resend = ended("Incomplete", progress=progress, bundleId="b-1", force="again")
    assert recorded((), [resend], diode_name="hall") == (
        LedgerEntry(
            identity=f"{1:064x}",
            resend="r1",
            resend_uid="uid-1",
            bundle_id="b-1",
            force="again",
            finished_at=at(5),
            sent=1,
            filtered=2,
            filled=3,
            unavailable=4,
        ),
    )


def test_what_ended_without_any_figures_is_recorded_with_none() -> None:
    assert recorded((), [ended()], diode_name="hall") == (an_entry(1, ended=5),)


@pytest.mark.parametrize(
    "resend",
    [ended("AlreadySent"), ended("BadBundle"), ended(identity=None), ended(finishedAt=None)],
    ids=["sent before", "failed", "of no known work", "not ended"],
)
def test_only_work_that_was_carried_through_is_recorded(resend: Resend) -> None:
    assert recorded((), [resend], diode_name="hall") == ()


def test_an_entry_is_not_changed_by_what_its_resend_says_later() -> None:
    before = an_entry(1, ended=3)
    assert recorded((before,), [ended()], diode_name="hall") == (before,)


@pytest.mark.parametrize("more", [{"force": "again"}, {"identity": "f" * 64}])
def test_other_work_of_the_same_resend_is_an_entry_of_its_own(more: dict[str, str]) -> None:
    before = an_entry(1, ended=3)
    assert len(recorded((before,), [ended(**more)], diode_name="hall")) == 2


def test_entries_of_one_moment_are_in_the_order_of_their_names_and_uids() -> None:
    entries = [
        an_entry(number, ended=1).model_copy(update={"resend": name}) for number, name in ((3, "a"), (2, "b"), (1, "b"))
    ]
    assert numbers(recorded(reversed(entries), [], diode_name="hall")) == [3, 1, 2]


def test_the_same_work_is_the_latest_with_that_identity_and_force() -> None:
    early, late = an_entry(1, ended=1), an_entry(1, ended=9)
    forced, other = late.model_copy(update={"force": "again", "finished_at": at(20)}), an_entry(2, ended=30)
    ledger = (early, late, forced, other)
    for order in (ledger, tuple(reversed(ledger))):
        assert same_work(order, identity=f"{1:064x}", force=None) == late
        assert same_work(order, identity=f"{1:064x}", force="again") == forced
    assert same_work(ledger, identity=f"{2:064x}", force="again") is None


@pytest.mark.parametrize(
    ("entries", "uid", "force", "finished", "known"),
    [
        (1, "uid-0", None, 0, True),
        (1, "uid-0", "again", 0, False),
        (1, "uid-1", None, 0, False),
        (LONGEST_LEDGER, "uid-x", None, 0, True),
        (LONGEST_LEDGER, "uid-x", None, -1, True),
        (LONGEST_LEDGER, "uid-x", None, 1, False),
        (LONGEST_LEDGER - 1, "uid-x", None, 0, False),
    ],
)
def test_a_full_ledger_of_later_ends_has_forgotten_what_it_does_not_list(
    *, entries: int, uid: str, force: str | None, finished: int, known: bool
) -> None:
    ledger = [an_entry(number, ended=number) for number in range(entries)]
    assert has_recorded(ledger, uid=uid, force=force, finished_at=at(finished)) is known
