"""The proof of how a run of a restore begins: with all its tasks, behind others, at topics that are known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError, SourceStalledError, SourceUnreachableError
from gapless_kafka.writing.faults import TakenOverError
from gapless_kafka.writing.positions import RunOfWork
from gapless_kafka.writing.takeover import Takeover
from gapless_spark.archiving.restore import restorer as under_test
from gapless_spark.archiving.restore.plan import Limits, Source
from gapless_spark.archiving.restore.preflight import Finding
from gapless_spark.archiving.restore.restorer import Restorer

RUN = RunOfWork(epoch=0, slots=1, source="r/t", source_id="i", topic="t", topic_id="j")


class Control:
    """Stands for the control topic, of which only the last run of the work matters."""

    def __init__(self) -> None:
        self.last: RunOfWork | None = None
        self.begun: list[int] = []
        """The slots of each run."""
        self.outdated: list[RunOfWork | None] = []
        """What a broker answers first that is not the leader any more, the last first."""

    def begin(self, _work: str, run: RunOfWork) -> RunOfWork:
        self.begun.append(run.slots)
        self.last = replace(run, epoch=1 + (self.last.epoch if self.last is not None else 0))
        return self.last

    def state(self) -> SimpleNamespace:
        return SimpleNamespace(run=lambda _work: self.outdated.pop() if self.outdated else self.last)

    def outdated_error(self) -> SourceStalledError:
        return SourceStalledError("outdated")


def takeover_of(control: Any) -> Takeover:
    """A takeover that only reads the control topic."""
    nothing: Any = None
    return Takeover(nothing, control, nothing, "restore")


def following(control: Control) -> Restorer:
    made: Any = Restorer.__new__(Restorer)
    restore = SimpleNamespace(
        work="w", source=Source("r", "t", "i"), target="t", target_id="j", limits=Limits(), plans=[]
    )
    made.restores, made.control, made.settings = [restore], control, None
    made._epochs, made._slots = {}, {}
    made._takeover = lambda: SimpleNamespace(begin=control.begin, state_of_run=takeover_of(control).state_of_run)
    made._describe_targets = lambda: {"t": None}
    return made


def test_a_run_that_gets_more_tasks_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "plan_restores", lambda *_: None)
    control = Control()
    run = following(control)
    for slots in (1, 1, 8, 2, 8):
        run.fence_earlier_runs(slots)
    assert control.begun == [1, 8], "who takes over fences as many"
    assert run._epochs == {"w": 2}


def test_a_run_that_was_taken_over_does_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "plan_restores", lambda *_: None)
    control = Control()
    run = following(control)
    run.fence_earlier_runs(1)
    following(control).fence_earlier_runs(1)
    with pytest.raises(TakenOverError):
        run.fence_earlier_runs(8)
    assert control.begun == [1, 1]


def test_what_a_former_leader_answers_is_neither_an_end_nor_a_takeover() -> None:
    control = Control()
    first = control.begin("w", RUN)
    second = control.begin("w", RUN)
    control.outdated = [first, None]
    found = takeover_of(control).state_of_run("w", second.epoch)
    assert (control.outdated, found.run("w")) == ([], second)


def test_a_run_that_is_never_found_again_is_no_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless_kafka.writing.takeover.ELECTION_SECONDS", 0)
    with pytest.raises(SourceStalledError):
        takeover_of(Control()).state_of_run("w", 1)


def test_a_new_topic_that_one_broker_does_not_know_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []
    monkeypatch.setattr(under_test, "plan_restores", lambda _, described, *__: planned.append(described))
    run, answers = following(Control()), [{}, {}, {"t": "described"}]
    monkeypatch.setattr(run, "_describe_targets", lambda: answers.pop(0))
    run.fence_earlier_runs(1)
    assert planned == [{"t": "described"}]


def test_a_topic_that_no_broker_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_KNOWN_SECONDS", 0)
    run = following(Control())
    monkeypatch.setattr(run, "_describe_targets", dict)
    with pytest.raises(SourceUnreachableError, match="The topic t was created, but a broker does not know it yet"):
        run.fence_earlier_runs(1)


@pytest.mark.parametrize(("passes", "error"), [(True, SourceUnreachableError), (False, ConfigurationError)])
def test_a_refusal_that_passes_is_no_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, *, passes: bool, error: type[Exception]
) -> None:
    finding = Finding(refuses=True, sentence="Partition 2 of t has no leader; start the brokers.", is_transient=passes)
    monkeypatch.setattr(under_test, "target_findings", lambda _: [finding])
    monkeypatch.setattr(under_test, "layout_findings", lambda _: [])
    monkeypatch.setattr(under_test, "generation_findings", lambda *_: [])
    run: Any = following(Control())
    run.settings, run.account = SimpleNamespace(follow=True, plan=False, on_lost="fail"), SimpleNamespace()
    monkeypatch.setattr(run, "plan", list)
    with pytest.raises(error, match="has no leader"):
        run.plan_and_check()
