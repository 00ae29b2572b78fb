"""A Diode's ledger remembers what was sent, within its bound: what is gone is forgotten before what exists."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.diode import LONGEST_LEDGER, LedgerEntry
from gapless_api.v1alpha1.resend import Resend
from gapless_operator.diode.ledger import has_recorded, recorded

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
        "kafka": {"bootstrapServers": "kafka:9092"},
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
