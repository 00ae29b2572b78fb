"""How a worker process is assembled from settings and run; must not know other processes of this host."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import structlog

from gapless_api.base.collector import collect_rarely
from gapless_api.base.errors import ConfigurationError, GaplessError, StoppedError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import choice_from
from gapless_kafka.writing.transactions import batch_bytes
from gapless_mirror.groups.start_group import StartGroup
from gapless_mirror.lanes.setup import LaneSetup, OnDataLoss, OnTargetLoss
from gapless_mirror.lanes.target_claims import lost_targets, see_logs
from gapless_mirror.settings.limits_file import LimitsFile, read_rates
from gapless_mirror.settings.typed import MirrorSettings, lane_setup
from gapless_mirror.topics.assembly import refusals, topic_keeper
from gapless_mirror.topics.originals import ChoiceOfOriginals
from gapless_mirror.topics.preflight import Clusters, LoopWatch, flows_to
from gapless_mirror.topics.router import TopicRouter
from gapless_mirror.watch.heartbeat import prepare_heartbeats
from gapless_mirror.watch.heartbeat_route import ChoiceWithHeartbeats, HeartbeatRoute
from gapless_mirror.workers.group_keeper import group_keeper
from gapless_mirror.workers.source_watch import SourceAccess, SourceWatch
from gapless_mirror.workers.watched import WatchedProcess, has_heartbeats
from gapless_mirror.workers.worker import Worker, WorkerObservation, WorkerTotals

if TYPE_CHECKING:
    from gapless_kafka.reading.cuts import TopicCut
    from gapless_mirror.lanes.sources import Router, SourceView

_M_ARENA_MAX = -8
"""See mallopt(3)."""
_RESTART_SECONDS, _STEP_SECONDS = 5.0, 0.2
"""How long to wait before a worker that failed unexpectedly starts again, and between two looks for a signal."""
log = structlog.get_logger("mirror")


class ProcessSpec(NamedTuple):
    """Which process of a mirror to run."""

    worker: int
    """Its number on this host."""
    workers: int
    lanes: int
    """Of the mirror."""
    epoch: int
    """Of the run."""
    clusters: Clusters
    view: SourceView | None = None
    """The view of the first process of this host; ``None`` to refresh."""


def source_watch(values: Mapping[str, Any], setup: LaneSetup, clusters: Clusters) -> SourceWatch:
    """Return the watch of the source for a process."""
    settings = MirrorSettings.of(values)
    timeout = settings.connect_timeout_seconds
    own = setup.identity.control_topic if clusters.ours.source_id == clusters.ours.target_id else ""
    loops = LoopWatch(clusters, lambda: flows_to(setup.source, own=own, timeout_seconds=timeout))

    def lost(missing: Mapping[str, str]) -> Mapping[str, str]:
        if setup.on_target_loss is OnTargetLoss.COPY_AGAIN:
            return {}
        return lost_targets(setup.target, setup.identity.control_topic, missing, timeout_seconds=timeout)

    router: Router = TopicRouter(
        topic_keeper(values, setup.source, setup.target, lost),
        refuse=refusals(values, loops.refuse),
        follows_recreated=setup.on_data_loss is OnDataLoss.SKIP_AND_RECORD,
    )
    copies_heartbeats = has_heartbeats(settings)
    if copies_heartbeats:
        prepare_heartbeats(setup.source, setup.lanes)
        router = HeartbeatRoute(router, setup.identity, TargetTopics(setup.target, timeout_seconds=timeout))
    access = SourceAccess(connection=setup.source, refresh_seconds=settings.topic_refresh, timeout_seconds=timeout)
    originals = ChoiceOfOriginals(choice_from(values), loops.why_returned)
    choice = ChoiceWithHeartbeats(originals, copies_heartbeats=copies_heartbeats)

    def target(topics: Collection[str], election_seconds: float) -> Mapping[str, TopicCut]:
        return see_logs(setup.target, topics, timeout_seconds=timeout, election_seconds=election_seconds).cuts

    return SourceWatch(access, choice, router, start_group=start_group(settings, setup), target=target)


def start_group(settings: MirrorSettings, setup: LaneSetup) -> StartGroup | None:
    """Return the consumer group that the mirror continues from; ``None`` for none."""
    if settings.start_at_group is None:
        return None
    return StartGroup(setup.source, settings.start_at_group, timeout_seconds=settings.connect_timeout_seconds)


def run_worker(
    values: Mapping[str, Any],
    spec: ProcessSpec,
    is_stopping: Callable[[], bool],
    sources: SourceWatch | None = None,
    *,
    stuck_workers: Callable[[], Mapping[int, float]] = dict,
) -> WorkerTotals:
    """Copy until `is_stopping`, or with ``once`` until everything is copied.

    Args:
        values: of the settings.
        spec: which process this is.
        is_stopping: whether to stop.
        sources: the watch of the source, if it was refreshed already.
        stuck_workers: the processes of this host that hang, with the seconds of their silence, if this one reports it.

    Raises:
        GaplessError: see `Worker`.
    """
    _limit_malloc_arenas()
    collect_rarely()
    setup = lane_setup(values, spec.lanes, spec.epoch, spec.clusters)
    if sources is None:
        sources = source_watch(values, setup, spec.clusters)
        if spec.view is None:
            sources.refresh()
        else:
            sources.begin_with(spec.view)
            sources.refresh_soon()
    settings = MirrorSettings.of(values)
    setup = with_batch_bytes(setup, sources.view, timeout_seconds=settings.connect_timeout_seconds)
    update_limits = limits_updater(settings, setup, spec.workers)
    keeper = group_keeper(values)

    def on_tick(observation: WorkerObservation) -> None:
        update_limits()
        keeper.tick(observation)
        if any(lane.needs_refresh for lane in observation.lanes):
            sources.refresh_soon()

    with keeper, WatchedProcess(settings, setup, spec.worker, on_tick, stuck_workers=stuck_workers) as watched:
        worker = Worker(spec.worker, setup, sources, on_tick=watched.tick)
        sources.start(periodically=not setup.once)
        try:
            if setup.once:
                lanes = range(spec.worker, spec.lanes, spec.workers)
                worker.run_once(lanes, watched.until(lambda: is_stopping() or watched.is_stuck))
            else:
                worker.run_shared(watched.until(is_stopping))
        finally:
            sources.stop()
    return watched.with_stalls(with_problems(worker.totals(), sources))


def run_until_done(
    values: Mapping[str, Any],
    spec: ProcessSpec,
    is_stopping: Callable[[], bool],
    sources: SourceWatch | None = None,
    *,
    stuck_workers: Callable[[], Mapping[int, float]] = dict,
) -> WorkerTotals:
    """Do the same as `run_worker`, and start again after an exception that no rule expects.

    With ``once`` it is not started again: the totals say so, and those of other processes count.
    """
    while True:
        try:
            return run_worker(values, spec, is_stopping, sources, stuck_workers=stuck_workers)
        except GaplessError:
            raise
        except Exception as error:  # noqa: BLE001 -- other processes of the mirror go on
            message = unexpected_sentence(f"Worker {spec.worker} of the mirror has ended", error)
            log_unexpected(log, "worker failed", message, error)
            if MirrorSettings.of(values).once or is_stopping():
                return WorkerTotals(stops=(message,))
        sources = None
        until = time.monotonic() + _RESTART_SECONDS
        while time.monotonic() < until and not is_stopping():
            time.sleep(_STEP_SECONDS)


def with_batch_bytes(setup: LaneSetup, view: SourceView, *, timeout_seconds: float) -> LaneSetup:
    """Return the setup with the batch size that all targets accept. Raises SourceUnreachableError."""
    names = [topic.target for topic in view.topics.values()]
    described = TargetTopics(setup.target, timeout_seconds=timeout_seconds).describe(names)
    return replace(setup, producer=replace(setup.producer, batch_bytes=batch_bytes(described.values())))


def with_problems(totals: WorkerTotals, sources: SourceWatch) -> WorkerTotals:
    """Return the totals with the problems of topics that are not copied."""
    problems = (problem.message for problem in sources.view.problems)
    return replace(totals, stops=tuple(dict.fromkeys((*totals.stops, *problems))))


def _warn(error: ConfigurationError) -> None:
    log.warning("limits file not read", message=str(error))


def limits_updater(settings: MirrorSettings, setup: LaneSetup, processes: int) -> Callable[[], None]:
    """Return a function to call at each tick, which applies changes of the limits file to `setup`.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    limits: LimitsFile | None = None
    if settings.limits_file is not None:
        setup.limits.change(read_rates(settings.limits_file, settings.rates(processes), processes))
        limits = LimitsFile(settings.limits_file, settings.rates(processes), processes, on_error=_warn)

    def update() -> None:
        rates = limits.changed() if limits is not None else None
        if rates is not None:
            setup.limits.change(rates)

    return update


def _limit_malloc_arenas() -> None:
    """Let the threads of this process share two malloc arenas.

    With an arena for each thread, glibc keeps freed memory, which doubles the memory of eight lanes at full speed.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


class StopSignals:
    """Records SIGTERM and SIGINT while its ``with`` block lasts."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._previous: dict[int, Any] = {}
        self.number: int | None = None
        """The first signal that was received."""

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def is_set(self) -> bool:
        """Whether a signal was received."""
        return self._requested.is_set()

    def check(self) -> None:
        """Raise StoppedError if a signal was received before anything was copied."""
        if self.number is not None:
            raise self.stopped(" Nothing was copied.")

    def stopped(self, done: str = "") -> StoppedError:
        """Return the error of a program that a signal has stopped; `done` are sentences about what it has done."""
        number = signal.Signals(self.number or signal.SIGTERM)
        return StoppedError(f"Stopped by {number.name}.{done}", by_terminal=number == signal.SIGINT)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.number = self.number or number
        self._requested.set()
