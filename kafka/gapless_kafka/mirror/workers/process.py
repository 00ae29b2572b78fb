"""Owns what a worker process consists of, from settings to an account; must not know other processes of this host."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import structlog

from gapless_api.base.collector import collect_rarely
from gapless_kafka.mirror.groups.start_group import StartGroup
from gapless_kafka.mirror.lanes.setup import OnDataLoss
from gapless_kafka.mirror.settings.limits_file import LimitsFile, read_rates
from gapless_kafka.mirror.settings.typed import MirrorSettings, lane_setup
from gapless_kafka.mirror.topics.assembly import refusals, topic_keeper
from gapless_kafka.mirror.topics.preflight import LoopWatch, flows_to
from gapless_kafka.mirror.topics.router import TopicRouter
from gapless_kafka.mirror.watch.heartbeat import prepare_heartbeats
from gapless_kafka.mirror.watch.heartbeat_route import ChoiceWithHeartbeats, HeartbeatRoute
from gapless_kafka.mirror.workers.group_keeper import group_keeper
from gapless_kafka.mirror.workers.source_watch import SourceAccess, SourceWatch
from gapless_kafka.mirror.workers.watched import Watched, has_heartbeats
from gapless_kafka.mirror.workers.worker import Worker
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import choice_from
from gapless_kafka.writing.batches import batch_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_api.base.errors import ConfigurationError
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import Router, SourceView
    from gapless_kafka.mirror.topics.preflight import Clusters
    from gapless_kafka.mirror.workers.worker import WorkerObservation, WorkerTotals

_M_ARENA_MAX = -8
"""See mallopt(3)."""
log = structlog.get_logger("mirror")


class Part(NamedTuple):
    """Which process of a mirror this is."""

    worker: int
    """Its number on this host."""
    workers: int
    lanes: int
    """Of the mirror."""
    epoch: int
    """Of the run."""
    clusters: Clusters
    view: SourceView | None = None
    """The source as the first process of this host has seen it; ``None`` to look at it."""


def source_watch(values: Mapping[str, Any], setup: LaneSetup, clusters: Clusters) -> SourceWatch:
    """What looks at the source for a process."""
    told = MirrorSettings.of(values)
    timeout = told.connect_timeout_seconds
    own = setup.identity.control_topic if clusters.ours.source_id == clusters.ours.target_id else ""
    loops = LoopWatch(clusters, lambda: flows_to(setup.source, own=own, timeout_seconds=timeout))
    router: Router = TopicRouter(
        topic_keeper(values, setup.source, setup.target),
        refuse=refusals(values, loops.refuse),
        follows_recreated=setup.on_data_loss is OnDataLoss.SKIP_AND_RECORD,
    )
    beats = has_heartbeats(told)
    if beats:
        prepare_heartbeats(setup.source, setup.lanes)
        router = HeartbeatRoute(router, setup.identity, TargetTopics(setup.target, timeout_seconds=timeout))
    access = SourceAccess(connection=setup.source, refresh_seconds=told.topic_refresh, timeout_seconds=timeout)
    choice = ChoiceWithHeartbeats(choice_from(values), copies_heartbeats=beats)
    return SourceWatch(access, choice, router, start_group=start_group(told, setup))


def start_group(told: MirrorSettings, setup: LaneSetup) -> StartGroup | None:
    """Whose work the mirror continues; ``None`` for nobody's."""
    if told.start_at_group is None:
        return None
    return StartGroup(setup.source, told.start_at_group, timeout_seconds=told.connect_timeout_seconds)


def run_worker(
    values: Mapping[str, Any],
    part: Part,
    is_stopping: Callable[[], bool],
    sources: SourceWatch | None = None,
    *,
    stuck_workers: Callable[[], Mapping[int, float]] = dict,
) -> WorkerTotals:
    """Copy until `is_stopping`, or until all is copied with ``once``.

    Args:
        values: of the settings.
        part: which process this is.
        is_stopping: whether to end.
        sources: what looks at the source, if it was refreshed already.
        stuck_workers: the processes of this host that hang, with the seconds of their silence, if this one tells it.

    Raises:
        GaplessError: see `Worker`.
    """
    bound_memory()
    collect_rarely()
    setup = lane_setup(values, part.lanes, part.epoch, part.clusters)
    if sources is None:
        sources = source_watch(values, setup, part.clusters)
        if part.view is None:
            sources.refresh()
        else:
            sources.begin_with(part.view)
            sources.refresh_soon()
    told = MirrorSettings.of(values)
    setup = fitted(setup, sources.view, timeout_seconds=told.connect_timeout_seconds)
    follow_limits = limits_tick(told, setup, part.workers)
    keeper = group_keeper(values)

    def on_tick(seen: WorkerObservation) -> None:
        follow_limits(seen)
        keeper.tick(seen)
        if any(lane.needs_refresh for lane in seen.lanes):
            sources.refresh_soon()

    with keeper, Watched(told, setup, part.worker, on_tick, stuck_workers=stuck_workers) as watched:
        worker = Worker(part.worker, setup, sources, on_tick=watched.tick)
        if setup.once:
            lanes = range(part.worker, part.lanes, part.workers)
            worker.run_once(lanes, watched.until(lambda: is_stopping() or watched.is_hopeless))
        else:
            sources.start()
            try:
                worker.run_shared(watched.until(is_stopping))
            finally:
                sources.stop()
    return watched.account(with_refusals(worker.account(), sources))


def fitted(setup: LaneSetup, view: SourceView, *, timeout_seconds: float) -> LaneSetup:
    """The setup with batches that the targets take. Raises SourceUnreachableError when the target does not answer."""
    names = [topic.target for topic in view.topics.values()]
    described = TargetTopics(setup.target, timeout_seconds=timeout_seconds).described(names)
    return replace(setup, producer=replace(setup.producer, batch_bytes=batch_bytes(described.values())))


def with_refusals(account: WorkerTotals, sources: SourceWatch) -> WorkerTotals:
    """An account with the topics that could not be copied at all."""
    refused = (problem.message for problem in sources.view.problems)
    return replace(account, stops=tuple(dict.fromkeys((*account.stops, *refused))))


def _warn(error: ConfigurationError) -> None:
    log.warning("limits file not read", message=str(error))


def limits_tick(told: MirrorSettings, setup: LaneSetup, processes: int) -> Callable[[WorkerObservation], None]:
    """What is to be done at each tick so that the limits of `setup` follow the file of limits, if there is one.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    limits: LimitsFile | None = None
    if told.limits_file is not None:
        setup.limits.change(read_rates(told.limits_file, told.rates(processes), processes))
        limits = LimitsFile(told.limits_file, told.rates(processes), processes, failed=_warn)

    def on_tick(_seen: WorkerObservation) -> None:
        rates = limits.changed() if limits is not None else None
        if rates is not None:
            setup.limits.change(rates)

    return on_tick


def bound_memory() -> None:
    """Let this process return memory that its many threads free.

    glibc would keep it in an arena for each thread, which doubles what eight lanes take at full speed.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


class StopSignals:
    """Takes note of SIGTERM and SIGINT while its ``with`` block lasts."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._previous: dict[int, Any] = {}
        self.number: int | None = None
        """The first signal that came."""

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def is_set(self) -> bool:
        """Whether one came."""
        return self._requested.is_set()

    def _take(self, number: int, _frame: object) -> None:
        self.number = self.number or number
        self._requested.set()
