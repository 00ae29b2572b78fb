"""Which run of the mirror a process belongs to, and when a later run takes over; pure."""

from __future__ import annotations

from collections.abc import Iterable

from gapless_kafka.writing.faults import TakenOverError
from gapless_mirror.lanes.records import RunRecord


def run_to_join(runs: Iterable[RunRecord | None], engine: str, *, shares: bool) -> RunRecord:
    """Return the run that a process of `engine` belongs to.

    Args:
        runs: the last run of each lane.
        engine: of the process.
        shares: whether processes of this engine share the lanes; otherwise each process starts a new run.
    """
    last = max((run for run in runs if run is not None), key=lambda run: run.epoch, default=None)
    if last is None:
        return RunRecord(engine=engine, epoch=1)
    if shares and last.engine == engine:
        return last
    return RunRecord(engine=engine, epoch=last.epoch + 1)


def check_run(recorded: RunRecord | None, own: RunRecord) -> bool:
    """Return whether the run `own` must be recorded in the lane.

    Args:
        recorded: the run in the lane's records; ``None`` for none.
        own: of this process.

    Raises:
        TakenOverError: a later run has taken over the lane.
    """
    if recorded is None or recorded.epoch < own.epoch:
        return True
    if recorded != own:
        raise TakenOverError(
            f"A later run of the same mirror (engine {recorded.engine}, run {recorded.epoch}) has taken over; this "
            f"run has ended."
        )
    return False
