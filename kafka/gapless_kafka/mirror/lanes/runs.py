"""Owns the rule of which run of an engine a process belongs to, and when it must end; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.mirror.lanes.records import RunRecord
from gapless_kafka.writing.faults import TakenOverError

if TYPE_CHECKING:
    from collections.abc import Iterable


def run_to_join(found: Iterable[RunRecord | None], engine: str, *, shares: bool) -> RunRecord:
    """The run that a process of `engine` belongs to.

    Args:
        found: the last run of each lane.
        engine: of the process.
        shares: whether processes of this engine share the lanes; otherwise each one begins a run of its own.
    """
    last = max((run for run in found if run is not None), key=lambda run: run.epoch, default=None)
    if last is None:
        return RunRecord(engine=engine, epoch=1)
    if shares and last.engine == engine:
        return last
    return RunRecord(engine=engine, epoch=last.epoch + 1)


def check_run(found: RunRecord | None, own: RunRecord) -> bool:
    """Whether a lane must be told that the run `own` has it.

    Raises:
        TakenOverError: a later run has it.
    """
    if found is None or found.epoch < own.epoch:
        return True
    if found != own:
        raise TakenOverError(
            f"A later run of the same mirror (engine {found.engine}, run {found.epoch}) has taken over and continues "
            f"it; this one has ended."
        )
    return False
