"""Owns how a process of a mirror is watched, whatever its engine: what its ticks show goes to a `MirrorWatch`."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from gapless_kafka.mirror.settings.engines import WORKERS
from gapless_kafka.mirror.watch.mirror_watch import MirrorWatch, Noted, WatchSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.settings.typed import MirrorSettings
    from gapless_kafka.mirror.workers.worker import WorkerObservation, WorkerTotals


class Watched:
    """A process that is watched while the ``with`` block lasts."""

    def __init__(
        self,
        told: MirrorSettings,
        setup: LaneSetup,
        worker: int,
        on_tick: Callable[[WorkerObservation], None],
        *,
        stuck_workers: Callable[[], Mapping[int, float]] = dict,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            told: the settings.
            setup: of all lanes.
            worker: number of the process on its host.
            on_tick: what else is to be done at each tick.
            stuck_workers: the processes of this host that hang, with the seconds of their silence.

        Raises:
            ConfigurationError: the port of the metrics cannot be used.
        """
        engine: Literal["workers", "spark"] = "workers" if told.engine == WORKERS else "spark"
        self._on_tick = on_tick
        self._stuck_workers = stuck_workers
        self._is_once = setup.once
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
                heartbeat=has_heartbeats(told),
                look_seconds=told.look_interval,
                progress_seconds=told.progress_interval,
                metrics_port=None if told.metrics_port is None else told.metrics_port + worker,
            )
        )

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__()

    @property
    def is_hopeless(self) -> bool:
        """Whether a run that ends when all is copied stands still for too long."""
        return self._is_once and self._watch.is_hopeless

    def tick(self, seen: WorkerObservation) -> None:
        """Take in what can be seen of the process."""
        self._watch.note(
            Noted(
                lanes=seen.lanes,
                problems=seen.view.problems,
                records=seen.former.records + sum(lane.copied.records for lane in seen.lanes),
                bytes=seen.former.bytes + sum(lane.copied.bytes for lane in seen.lanes),
                refresh_error=seen.source_error,
                stuck_workers=self._stuck_workers(),
                group_error=seen.group_error,
            )
        )
        self._on_tick(seen)

    def until(self, is_stopping: Callable[[], bool]) -> Callable[[], bool]:
        """`is_stopping`, which also ends the watch: lanes that are given back at the end do not stand still."""

        def is_ending() -> bool:
            if not is_stopping():
                return False
            self._watch.end()
            return True

        return is_ending

    def account(self, copied: WorkerTotals) -> WorkerTotals:
        """What was copied, with why it stands still."""
        stalls = tuple(f"{stall.reason.value}: {stall.sentence}" for stall in self._watch.stalls)
        return replace(copied, stalls=stalls)


def has_heartbeats(told: MirrorSettings) -> bool:
    """Whether the mirror writes heartbeats to the source, and copies them."""
    return told.heartbeat and not told.once
