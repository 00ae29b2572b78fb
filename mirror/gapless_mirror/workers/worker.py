"""One worker: it starts and stops the threads of its lanes. Must not know why the worker is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from gapless_api.base.errors import GaplessError, SourceStalledError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_mirror.lanes.commits import UnconfirmedCommit
from gapless_mirror.workers.lane_thread import LaneEnd, LaneThread
from gapless_mirror.workers.membership import Membership

if TYPE_CHECKING:
    from gapless_mirror.lanes.observations import LaneObservation, SeenError
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView

_TICK_SECONDS = 0.2
_OBSERVE_SECONDS = 1.0
"""The interval of observations while lanes are shared: with very many partitions each takes milliseconds."""
_RELEASE_SECONDS = 5.0
"""How long a lane may take to commit its transaction when it is released; after that it is aborted."""
_REJOIN_SECONDS = 5.0
"""How long to wait after an exception that no rule expects."""
_MOVED_PAUSE_SECONDS = 3.0
"""How long to wait before reopening a lane that another worker has opened although the group assigns it to this one.
Two heartbeats: a process that was suspended has then heard which lanes it lost."""
log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTotals:
    """What a worker has copied in total."""

    records: int = 0
    bytes: int = 0
    lost: int = 0
    """Offsets that were skipped by request."""
    returned: int = 0
    """Records that came from the target and were not copied back."""
    stops: tuple[str, ...] = ()
    """Why partitions or lanes are no longer copied."""
    stalls: tuple[str, ...] = ()
    """The stalls when the worker ended, each with its reason first."""

    def plus(self, *lanes: LaneObservation) -> WorkerTotals:
        """Return the sum of these totals and those of `lanes`."""
        partitions = [partition for lane in lanes for partition in lane.partitions]
        return WorkerTotals(
            records=self.records + sum(lane.copied.records for lane in lanes),
            bytes=self.bytes + sum(lane.copied.bytes for lane in lanes),
            stalls=self.stalls,
            lost=self.lost + sum(partition.lost_now for partition in partitions),
            returned=self.returned + sum(partition.returned for partition in partitions),
            stops=tuple(dict.fromkeys((*self.stops, *(stop.message for lane in lanes for stop in lane.stops)))),
        )


class Sources(Protocol):
    """The topics to copy; see `SourceWatch`."""

    @property
    def view(self) -> SourceView:
        """As of the last refresh."""

    @property
    def error(self) -> GaplessError | None:
        """Why the last refresh failed; ``None`` if it succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerObservation:
    """The observable state of a worker at a tick."""

    worker: int
    view: SourceView
    source_error: str
    """Why the last refresh of the source failed; empty if it succeeded."""
    lanes: tuple[LaneObservation, ...]
    released: WorkerTotals = WorkerTotals()
    """Of lanes that the worker no longer owns."""
    group_error: SeenError | None = None
    """The last error of the group that shares the lanes; ``None`` without an error, or without a group."""


class Worker:
    """The lanes of a process. Not thread-safe."""

    def __init__(
        self,
        number: int,
        setup: LaneSetup,
        sources: Sources,
        *,
        on_tick: Callable[[WorkerObservation], None] = lambda _seen: None,
    ) -> None:
        """Start nothing yet.

        Args:
            number: of the worker on its host, for messages.
            setup: what all lanes have in common.
            sources: the topics to copy, refreshed at least once.
            on_tick: called at least once a second with an observation; it must not block.
        """
        self._number = number
        self._setup = setup
        self._sources = sources
        self._on_tick = on_tick
        self._threads: dict[int, LaneThread] = {}
        self._owned: set[int] = set()
        self._released = WorkerTotals()
        """Of lanes that the worker no longer owns."""
        self._ending: list[LaneThread] = []
        """Threads of such lanes that have not ended yet."""
        self._unconfirmed: dict[int, UnconfirmedCommit] = {}
        """Of the last thread of each lane."""
        self._observe_at = 0.0
        self._membership: Membership | None = None

    def run_shared(self, is_stopping: Callable[[], bool]) -> None:
        """Share the lanes with the other workers of the mirror until `is_stopping`.

        Raises:
            GaplessError: a lane has failed, for example because a later run has taken over.
        """
        while not is_stopping():
            try:
                self._run_member(is_stopping)
            except GaplessError:
                raise
            except Exception as error:  # noqa: BLE001 -- another member of the group, or this one, continues its lanes
                message = unexpected_sentence(f"Worker {self._number} has left the group of the mirror", error)
                log_unexpected(log, "worker failed", message, error, again_in_seconds=_REJOIN_SECONDS)
                until = time.monotonic() + _REJOIN_SECONDS
                while time.monotonic() < until and not is_stopping():
                    time.sleep(_TICK_SECONDS)

    def _run_member(self, is_stopping: Callable[[], bool]) -> None:
        """Join the group, and copy the lanes that it assigns until `is_stopping`."""
        self._membership = membership = Membership(self._setup.target, self._setup.identity, self)
        try:
            while not is_stopping():
                membership.poll(_TICK_SECONDS)
                self._tick(observes_every=_OBSERVE_SECONDS)
        finally:
            self.release(list(self._owned))
            membership.close()

    def run_once(self, lanes: Collection[int], is_stopping: Callable[[], bool]) -> None:
        """Copy what the source has now in `lanes`. Raises like `run_shared`."""
        self.acquire(lanes)
        try:
            while not is_stopping() and any(thread.end is None for thread in self._threads.values()):
                time.sleep(_TICK_SECONDS / 4)
                self._tick(reopens=False)
        finally:
            self._stop(list(self._owned))
        self._tick(reopens=False)
        moved = [lane for lane, thread in self._threads.items() if thread.end is LaneEnd.MOVED]
        if moved:
            raise SourceStalledError(
                f"Another worker of the mirror {self._setup.identity.name} has taken {len(moved)} lanes and continues "
                f"them; do not run --once while workers of the mirror run."
            )

    def acquire(self, lanes: Collection[int]) -> None:
        """Start to copy these lanes."""
        used = [lane for lane in lanes if lane < self._setup.lanes]  # the others are added partitions
        for lane in used:
            self._owned.add(lane)
            self._start(lane)
        if used:
            log.info("lanes acquired", worker=self._number, lanes=sorted(used))

    def release(self, lanes: Collection[int]) -> None:
        """Commit or abort the transactions of these lanes; another worker may own them when this returns."""
        owned = sorted(self._owned.intersection(lanes))
        self._stop(lanes)
        self._forget(lanes)
        if owned:
            log.info("lanes released", worker=self._number, lanes=owned)

    def lose(self, lanes: Collection[int]) -> None:
        """Abort these lanes at once: another worker already owns them."""
        for lane in lanes:
            if lane in self._threads:
                self._threads[lane].abandon()
        self._forget(lanes)
        log.warning("lanes lost", worker=self._number, lanes=sorted(lanes))

    def observation(self) -> WorkerObservation:
        """Return the current state."""
        error = self._sources.error
        return WorkerObservation(
            worker=self._number,
            view=self._sources.view,
            source_error=str(error) if error is not None else "",
            lanes=tuple(thread.observation() for _, thread in sorted(self._threads.items())),
            released=self._released_totals(),
            group_error=self._membership.error if self._membership is not None else None,
        )

    def totals(self) -> WorkerTotals:
        """Return what was copied so far."""
        return self._released_totals().plus(*(thread.observation() for thread in self._threads.values()))

    def _released_totals(self) -> WorkerTotals:
        return self._released.plus(*(thread.observation() for thread in self._ending))

    def _tick(self, *, reopens: bool = True, observes_every: float = 0.0) -> None:
        for lane, thread in list(self._threads.items()):
            if thread.end is LaneEnd.FAILED and thread.failure is not None:
                raise thread.failure
            is_due = time.monotonic() - thread.ended_at > _MOVED_PAUSE_SECONDS
            if thread.end is LaneEnd.MOVED and reopens and is_due and lane in self._owned:
                log.warning("lane reopened", worker=self._number, lane=lane)
                self._add_released(thread)
                self._start(lane)
        ending, self._ending = self._ending, []
        for thread in ending:
            self._add_released(thread)
        now = time.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + observes_every
            self._on_tick(self.observation())

    def _start(self, lane: int) -> None:
        self._unconfirmed[lane] = unconfirmed = UnconfirmedCommit(self._unconfirmed.get(lane))
        self._threads[lane] = LaneThread(lane, self._setup, lambda: self._sources.view, unconfirmed)
        self._threads[lane].start()

    def _stop(self, lanes: Collection[int]) -> None:
        threads = [self._threads[lane] for lane in lanes if lane in self._threads]
        for thread in threads:
            thread.stop()
        deadline = time.monotonic() + _RELEASE_SECONDS
        slow = [thread for thread in threads if not thread.join(max(deadline - time.monotonic(), 0.01))]
        for thread in slow:
            thread.abandon()
        for thread in slow:
            thread.join(2.0)

    def _forget(self, lanes: Collection[int]) -> None:
        for lane in lanes:
            self._owned.discard(lane)
            thread = self._threads.pop(lane, None)
            if thread is not None:
                self._add_released(thread)

    def _add_released(self, thread: LaneThread) -> None:
        if thread.end is None:
            self._ending.append(thread)
        else:
            self._released = self._released.plus(thread.observation())
