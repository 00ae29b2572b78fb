"""Owns one worker process: its lanes, and their beginning and end. Must not know who decided that it has to stop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from gapless_api.base.errors import SourceStalledError
from gapless_kafka.mirror.lanes.commits import UnconfirmedCommit
from gapless_kafka.mirror.workers.lane_thread import LaneEnd, LaneThread
from gapless_kafka.mirror.workers.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.mirror.lanes.observations import LaneObservation, SeenError
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceView

_TICK_SECONDS = 0.2
_OBSERVE_SECONDS = 1.0
"""From one observation to the next while lanes are shared: with very many partitions each takes milliseconds."""
_GIVE_BACK_SECONDS = 5.0
"""How long a transaction may take to its end when a lane is given back; after that it is aborted."""
_MOVED_PAUSE_SECONDS = 3.0
"""Before a lane is taken again that somebody else took while Kafka counts it as ours: two heartbeats, so that a process
that was stopped for long has heard what it lost."""
log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTotals:
    """What a worker has copied in all."""

    records: int = 0
    bytes: int = 0
    lost: int = 0
    """Offsets that were skipped by request."""
    returned: int = 0
    """Records that came from the target and were not copied back."""
    stops: tuple[str, ...] = ()
    """Why partitions are not copied any further."""
    stalls: tuple[str, ...] = ()
    """Why the worker stood still when it ended, each with its reason in front."""

    def plus(self, *lanes: LaneObservation) -> WorkerTotals:
        """With further lanes."""
        partitions = [partition for lane in lanes for partition in lane.partitions]
        return WorkerTotals(
            records=self.records + sum(lane.copied.records for lane in lanes),
            bytes=self.bytes + sum(lane.copied.bytes for lane in lanes),
            stalls=self.stalls,
            lost=self.lost + sum(partition.lost_now for partition in partitions),
            returned=self.returned + sum(partition.returned for partition in partitions),
            stops=tuple(
                dict.fromkeys((*self.stops, *(one.stop.message for one in partitions if one.stop is not None)))
            ),
        )


class Sources(Protocol):
    """What is known of the source."""

    @property
    def view(self) -> SourceView:
        """As it was seen last."""

    @property
    def error(self) -> GaplessError | None:
        """Why it could not be looked at since; ``None`` when it could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerObservation:
    """What can be seen of a worker at a tick."""

    worker: int
    view: SourceView
    source_error: str
    """Why the source could not be looked at; empty when it could."""
    lanes: tuple[LaneObservation, ...]
    former: WorkerTotals = WorkerTotals()
    """Of lanes that it does not have any more."""
    group_error: SeenError | None = None
    """Why it is no member of the group that shares the lanes; ``None`` when it is, or no group does."""


class Worker:
    """The lanes of a process; all calls are made by one thread."""

    def __init__(
        self,
        number: int,
        setup: LaneSetup,
        sources: Sources,
        *,
        on_tick: Callable[[WorkerObservation], None] = lambda _seen: None,
    ) -> None:
        """Nothing is copied yet.

        Args:
            number: of the worker on its host, for messages.
            setup: what all lanes have in common.
            sources: the topics to copy, refreshed at least once.
            on_tick: called at least once a second with what can be seen; it must not take long.
        """
        self._number = number
        self._setup = setup
        self._sources = sources
        self._on_tick = on_tick
        self._threads: dict[int, LaneThread] = {}
        self._owned: set[int] = set()
        self._former = WorkerTotals()
        """Of lanes that we do not have any more."""
        self._leaving: list[LaneThread] = []
        """Threads of such lanes that have not ended yet."""
        self._unconfirmed: dict[int, UnconfirmedCommit] = {}
        """By lane."""
        self._observe_at = 0.0
        self._membership: Membership | None = None

    def run_shared(self, is_stopping: Callable[[], bool]) -> None:
        """Share the lanes with the other workers of the mirror until `is_stopping`.

        Raises:
            GaplessError: a lane cannot go on, such as because another run has taken over.
        """
        self._membership = membership = Membership(self._setup.target, self._setup.identity, self)
        try:
            while not is_stopping():
                membership.poll(_TICK_SECONDS)
                self._tick(observes_every=_OBSERVE_SECONDS)
        finally:
            self.give_back(list(self._owned))
            membership.close()

    def run_once(self, lanes: Collection[int], is_stopping: Callable[[], bool]) -> None:
        """Copy what there is now in some lanes. Raises like `run_shared`."""
        self.take(lanes)
        try:
            while not is_stopping() and any(thread.end is None for thread in self._threads.values()):
                time.sleep(_TICK_SECONDS / 4)
                self._tick(retakes=False)
        finally:
            self._stop(list(self._owned))
        self._tick(retakes=False)
        moved = [lane for lane, thread in self._threads.items() if thread.end is LaneEnd.MOVED]
        if moved:
            raise SourceStalledError(
                f"Another worker of the mirror {self._setup.identity.name} has taken {len(moved)} lanes and continues "
                f"them; do not run --once beside workers."
            )

    def take(self, lanes: Collection[int]) -> None:
        """These lanes are ours from now on."""
        for lane in lanes:
            self._owned.add(lane)
            self._start(lane)
        if lanes:
            log.info("lanes taken", worker=self._number, lanes=sorted(lanes))

    def give_back(self, lanes: Collection[int]) -> None:
        """These lanes are another's as soon as this returns: their transactions are committed or aborted."""
        owned = sorted(self._owned.intersection(lanes))
        self._stop(lanes)
        self._forget(lanes)
        if owned:
            log.info("lanes given back", worker=self._number, lanes=owned)

    def lose(self, lanes: Collection[int]) -> None:
        """These lanes are another's already."""
        for lane in lanes:
            if lane in self._threads:
                self._threads[lane].abandon()
        self._forget(lanes)
        log.warning("lanes lost", worker=self._number, lanes=sorted(lanes))

    def observation(self) -> WorkerObservation:
        """What can be seen now."""
        error = self._sources.error
        return WorkerObservation(
            worker=self._number,
            view=self._sources.view,
            source_error=str(error) if error is not None else "",
            lanes=tuple(thread.observation() for _, thread in sorted(self._threads.items())),
            former=self._account_of_former(),
            group_error=self._membership.error if self._membership is not None else None,
        )

    def account(self) -> WorkerTotals:
        """What was copied so far."""
        return self._account_of_former().plus(*(thread.observation() for thread in self._threads.values()))

    def _account_of_former(self) -> WorkerTotals:
        return self._former.plus(*(thread.observation() for thread in self._leaving))

    def _tick(self, *, retakes: bool = True, observes_every: float = 0.0) -> None:
        for lane, thread in list(self._threads.items()):
            if thread.end is LaneEnd.FAILED and thread.failure is not None:
                raise thread.failure
            late = time.monotonic() - thread.ended_at > _MOVED_PAUSE_SECONDS
            if thread.end is LaneEnd.MOVED and retakes and late and lane in self._owned:
                log.warning("lane taken again", worker=self._number, lane=lane)
                self._count(thread)
                self._start(lane)
        leaving, self._leaving = self._leaving, []
        for thread in leaving:
            self._count(thread)
        now = time.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + observes_every
            self._on_tick(self.observation())

    def _start(self, lane: int) -> None:
        unconfirmed = self._unconfirmed.setdefault(lane, UnconfirmedCommit())
        self._threads[lane] = LaneThread(lane, self._setup, lambda: self._sources.view, unconfirmed)
        self._threads[lane].start()

    def _stop(self, lanes: Collection[int]) -> None:
        threads = [self._threads[lane] for lane in lanes if lane in self._threads]
        for thread in threads:
            thread.stop()
        deadline = time.monotonic() + _GIVE_BACK_SECONDS
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
                self._count(thread)

    def _count(self, thread: LaneThread) -> None:
        if thread.end is None:
            self._leaving.append(thread)
        else:
            self._former = self._former.plus(thread.observation())
