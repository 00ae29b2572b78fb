from __future__ import annotations

import pytest

from kit.network.loss import Chances, Fate, LossPlan


def test_the_same_seed_decides_the_same_however_the_datagrams_are_batched() -> None:
    chances = Chances(drop=0.1, duplicate=0.1, reorder=0.1, burst=0.01)
    whole = LossPlan(7, chances).decide(1000)
    plan = LossPlan(7, chances)
    pieces = [fate for _ in range(100) for fate in plan.decide(10)]
    assert pieces == whole
    assert LossPlan(8, chances).decide(1000) != whole


@pytest.mark.parametrize(("name", "fate"), [("drop", Fate.DROP), ("duplicate", Fate.DUPLICATE), ("reorder", 3)])
def test_each_chance_comes_true_as_often_as_it_says(name: str, fate: int) -> None:
    fates = LossPlan(1, Chances(**{name: 0.03})).decide(100_000)
    assert fates.count(fate) == pytest.approx(3000, rel=0.1)
    assert fates.count(Fate.PASS) + fates.count(fate) == 100_000


def test_a_change_of_chances_does_not_change_the_luck_of_later_datagrams() -> None:
    steady, changing = LossPlan(3, Chances(drop=0.2)), LossPlan(3, Chances(drop=0.9, duplicate=0.5))
    steady.decide(500)
    changing.decide(500)
    changing.chances = changing.chances.but(drop=0.2, duplicate=0.0)
    assert steady.decide(500) == changing.decide(500)


def test_a_burst_loses_as_many_in_a_row_as_it_says() -> None:
    fates = LossPlan(5, Chances(burst=0.001, burst_length=30)).decide(20_000)
    runs = [len(run) for run in "".join(map(str, fates)).replace("0", " ").split()]
    assert runs
    assert all(run >= 30 for run in runs)


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_probability_is_from_0_to_1(value: float) -> None:
    with pytest.raises(ValueError, match="drop is a probability"):
        Chances(drop=value)
