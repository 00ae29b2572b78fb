"""Owns the proof that a run which gets more tasks begins anew, unless another one has taken over."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gapless_kafka.writing.faults import TakenOverError
from gapless_kafka.writing.takeover import Takeover
from gapless_spark.archiving.restore import restorer as under_test
from gapless_spark.archiving.restore.plan import Limits, Source
from gapless_spark.archiving.restore.restorer import Restorer

if TYPE_CHECKING:
    from gapless_kafka.writing.positions import RunOfWork


class Control:
    """Stands for the control topic, of which only the last run of the work matters."""

    def __init__(self) -> None:
        self.last: RunOfWork | None = None
        self.begun: list[int] = []
        """The slots of each run."""

    def begin(self, _work: str, run: RunOfWork) -> RunOfWork:
        self.begun.append(run.slots)
        self.last = replace(run, epoch=1 + (self.last.epoch if self.last is not None else 0))
        return self.last

    def run(self, _work: str) -> RunOfWork | None:
        return self.last

    def state(self) -> None:
        return None


def following(control: Control) -> Restorer:
    made: Any = Restorer.__new__(Restorer)
    restore = SimpleNamespace(
        work="w", source=Source("r", "t", "i"), target="t", target_id="j", limits=Limits(), plans=[]
    )
    made.restores, made.control, made.settings = [restore], control, None
    made._epochs, made._slots = {}, {}
    made._takeover = lambda: SimpleNamespace(begin=control.begin, check=Takeover.check)
    made._described = dict
    return made


def test_a_run_that_gets_more_tasks_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "plan_restores", lambda *_: None)
    control = Control()
    run = following(control)
    for slots in (1, 1, 8, 2, 8):
        run.take_over(slots)
    assert control.begun == [1, 8], "who takes over fences as many"
    assert run._epochs == {"w": 2}


def test_a_run_that_was_taken_over_does_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "plan_restores", lambda *_: None)
    control = Control()
    run = following(control)
    run.take_over(1)
    following(control).take_over(1)
    with pytest.raises(TakenOverError):
        run.take_over(8)
    assert control.begun == [1, 1]
