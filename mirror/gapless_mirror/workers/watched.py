"""The connection of a mirror process, of any engine, to its `MirrorWatch`, which gets the state of each tick."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

import structlog

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_mirror.settings.engines import WORKERS
from gapless_mirror.watch.mirror_watch import EngineState, MirrorWatch, WatchSetup

if TYPE_CHECKING:
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.settings.typed import MirrorSettings
    from gapless_mirror.workers.worker import WorkerObservation, WorkerTotals

log = structlog.get_logger("mirror")


class WatchedProcess:
    """A process whose watch runs while the ``with`` block lasts."""

    def __init__(
        self,
        settings: MirrorSettings,
        setup: LaneSetup,
        worker: int,
        on_tick: Callable[[WorkerObservation], None],
        *,
        stuck_workers: Callable[[], Mapping[int, float]] = dict,
    ) -> None:
        """Open the port of the metrics.

        Args:
            settings: of the mirror.
            setup: what all lanes have in common.
            worker: number of the process on its host.
            on_tick: also called at each tick.
            stuck_workers: returns the processes of this host that hang, with the seconds of their silence.

        Raises:
            ConfigurationError: the port of the metrics cannot be used.
        """
        engine: Literal["workers", "spark"] = "workers" if settings.engine == WORKERS else "spark"
        self._on_tick = on_tick
        self._stuck_workers = stuck_workers
        self._is_once = setup.once
        self._failure = ""
        """The last unexpected error of a tick, which is logged once."""
        self._watch = MirrorWatch(
            WatchSetup(
                identity=setup.identity,
                engine=engine,
                worker=f"{socket.gethostname()}/{worker}",
                lanes=setup.lanes,
                source=setup.source,
                target=setup.target,
                transactional=setup.transactional,
                shared=engine == "workers" and not setup.once,
                heartbeat=has_heartbeats(settings),
                check_seconds=settings.look_interval,
                progress_seconds=settings.progress_interval,
                metrics_port=None if settings.metrics_port is None else settings.metrics_port + worker,
            )
        )

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__()

    @property
    def is_stuck(self) -> bool:
        """Whether a run with ``once`` has been stalled for too long."""
        return self._is_once and self._watch.is_stuck

    def tick(self, worker: WorkerObservation) -> None:
        """Update the watch with the state of the process. An exception that no rule expects does not end the copy."""
        try:
            self._tick(worker)
        except GaplessError:
            raise
        except Exception as error:  # noqa: BLE001 -- lanes are copied on
            message = unexpected_sentence("The state of the mirror was not updated", error)
            if message != self._failure:
                log_unexpected(log, "tick failed", message, error)
            self._failure = message

    def _tick(self, worker: WorkerObservation) -> None:
        self._watch.update(
            EngineState(
                lanes=worker.lanes,
                problems=worker.view.problems,
                records=worker.released.records + sum(lane.copied.records for lane in worker.lanes),
                bytes=worker.released.bytes + sum(lane.copied.bytes for lane in worker.lanes),
                refresh_error=worker.source_error,
                stuck_workers=self._stuck_workers(),
                group_error=worker.group_error,
            )
        )
        self._on_tick(worker)

    def until(self, is_stopping: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function like `is_stopping` that also ends the watch, so that released lanes are no stalls."""

        def is_ending() -> bool:
            if not is_stopping():
                return False
            self._watch.end()
            return True

        return is_ending

    def with_stalls(self, totals: WorkerTotals) -> WorkerTotals:
        """Return the totals with the current stalls."""
        stalls = tuple(f"{stall.reason.value}: {stall.sentence}" for stall in self._watch.stalls)
        return replace(totals, stalls=stalls)


def has_heartbeats(settings: MirrorSettings) -> bool:
    """Whether the mirror writes heartbeats to the source, and copies them."""
    return settings.heartbeat and not settings.once
