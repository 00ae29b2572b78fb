"""The watch of a worker: a thread that periodically checks both clusters, and reports the status of the mirror.

It writes heartbeats, logs when a stall begins and ends, writes progress lines and serves metrics. It never waits for
the lanes, and they never wait for it. Must not know the engine, which calls `update`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self

import structlog

from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_api.wire.mirror_progress import MIRROR_LINE
from gapless_kafka.reading.lag import Observations
from gapless_mirror.watch.cluster_watch import END_SECONDS, ClusterWatch
from gapless_mirror.watch.coordinators import GROUPS, TRANSACTIONS, coordinators
from gapless_mirror.watch.facts import ClusterSnapshot, MirrorFacts, ended_before, reached_offset
from gapless_mirror.watch.heartbeat import Heartbeats, partitions_of
from gapless_mirror.watch.stall import causes, is_idle
from gapless_mirror.watch.status import MirrorStatus, line_of, partition_statuses
from gapless_mirror.watch.tracker import Changes, Stall, StallTracker

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.identity import MirrorIdentity
    from gapless_mirror.lanes.observations import LaneObservation, SeenError
    from gapless_mirror.lanes.sources import TopicProblem
    from gapless_mirror.watch.metrics import MirrorMetrics

CHECKS_PER_STALL = 6
"""A cause is a stall when it lasts for this many intervals: 30 s by default, so it is reported within 60 s."""
_MAX_LISTED = 10
_PAUSE_FACTOR = 40
"""The pause after a check is at least 40 times its CPU time, so the watch never uses more than 2.5 % of a core."""
log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSetup:
    """The configuration of a watch."""

    identity: MirrorIdentity
    engine: Literal["workers", "spark"]
    worker: str
    """The name of this worker, for the progress line."""
    lanes: int
    """Of the mirror."""
    source: KafkaConnection
    target: KafkaConnection
    transactional: bool = True
    shared: bool = True
    """Whether a consumer group shares the lanes."""
    heartbeat: bool = True
    check_seconds: float = 5.0
    progress_seconds: float = 10.0
    """The interval of progress lines; 0 for none. They are not written to a terminal."""
    metrics_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """The state that the engine reports to the watch."""

    lanes: Sequence[LaneObservation] = ()
    problems: Sequence[TopicProblem] = ()
    records: int = 0
    """Copied since the worker started, including lanes that it no longer owns."""
    bytes: int = 0
    refresh_error: str = ""
    """Why the topics of the source could not be refreshed; empty if they could."""
    stuck_workers: Mapping[int, float] = field(default_factory=dict)
    """The processes of this host that hang, by number, with the seconds of their silence."""
    group_error: SeenError | None = None
    """The last error of the group that shares the lanes."""


class MirrorWatch:
    """Checks and reports periodically while its ``with`` block lasts."""

    def __init__(self, setup: WatchSetup) -> None:
        """Open the port of the metrics, if requested. Raises ConfigurationError."""
        self._setup = setup
        self._state = EngineState()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._source = ClusterWatch("source", setup.source)
        self._target = ClusterWatch("target", setup.target)
        self._tracker = StallTracker(
            CHECKS_PER_STALL * setup.check_seconds, max_interval_seconds=max(4 * setup.check_seconds, 15.0)
        )
        self._observations = Observations()
        self._heartbeats: Heartbeats | None = None
        if setup.heartbeat:
            self._heartbeats = Heartbeats(
                setup.source,
                setup.identity.name,
                setup.lanes,
                on_error=lambda text: log.warning("no heartbeats", message=text),
            )
        self._metrics: MirrorMetrics | None = None
        if setup.metrics_port is not None:
            from gapless_mirror.watch.metrics import MirrorMetrics  # noqa: PLC0415 -- rarely needed

            self._metrics = MirrorMetrics(setup.metrics_port)
        self._line_due = float("-inf")
        self._status: MirrorStatus | None = None
        self._progressed = (time.monotonic(), 0)
        """When the number of copied records last changed, and that number."""
        self._refresh_error = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._thread.join(END_SECONDS)
        state = self._state
        if self._status is None:
            sides = ClusterSnapshot(side="source"), ClusterSnapshot(side="target")
            facts = MirrorFacts(now=time.monotonic(), source=sides[0], target=sides[1], lanes=tuple(state.lanes))
            self._status = self._status_of(state, facts, time.time())
        self._write_line(replace(self._status, records=state.records, bytes=state.bytes), is_urgent=True)
        if self._heartbeats is not None and not self._thread.is_alive():
            self._heartbeats.close()
        if self._metrics is not None:
            self._metrics.close()

    def update(self, state: EngineState) -> None:
        """Set the current state of the engine."""
        self._state = state

    def end(self) -> None:
        """Stop checking and writing heartbeats, because the lanes are about to be released."""
        self._stopped.set()

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """The stalls, as of the last check."""
        return self._tracker.stalls

    def check(self) -> MirrorStatus:
        """Check both clusters, and report the status."""
        state = self._state
        if self._heartbeats is not None:
            self._heartbeats.beat([lane.lane for lane in state.lanes])
        facts = self._facts(state)
        now = time.time()
        changes = self._tracker.update(causes(facts), now=facts.now, wall_clock=now)
        _log(changes, now)
        self._note_progress(state.records)
        if state.refresh_error and state.refresh_error != self._refresh_error:
            log.warning("topics not refreshed", message=state.refresh_error)
        self._refresh_error = state.refresh_error
        status = self._status_of(state, facts, now)
        self._status = status
        if self._metrics is not None:
            self._metrics.show(status)
        self._write_line(status, is_urgent=bool(changes.begun or changes.ended))
        return status

    @property
    def is_stuck(self) -> bool:
        """Whether there is a stall, and nothing was copied for twice the time that a stall takes to be reported."""
        limit = 2 * CHECKS_PER_STALL * self._setup.check_seconds
        return bool(self.stalls) and time.monotonic() - self._progressed[0] > limit

    def _note_progress(self, records: int) -> None:
        if records != self._progressed[1]:
            self._progressed = (time.monotonic(), records)

    def _status_of(self, state: EngineState, facts: MirrorFacts, now: float) -> MirrorStatus:
        setup = self._setup
        own = {lane.lane for lane in state.lanes}
        committed = [lane.committed_at for lane in state.lanes if lane.committed_at is not None]
        return MirrorStatus(
            name=setup.identity.name,
            engine=setup.engine,
            worker=setup.worker,
            now=now,
            lanes=setup.lanes,
            lanes_owned=len(own),
            records=state.records,
            bytes=state.bytes,
            committed_at=now - (time.monotonic() - max(committed)) if committed else None,
            is_idle=is_idle(facts),
            partitions=tuple(partition_statuses(facts, self._observations, now)),
            heartbeat_ages={lane: age for lane, age in facts.heartbeat_ages.items() if lane in own},
            stalls=self._tracker.stalls,
        )

    def _facts(self, state: EngineState) -> MirrorFacts:
        setup = self._setup
        partitions = [partition for lane in state.lanes for partition in lane.partitions]
        copied = {
            (partition.topic, partition.partition): reached_offset(partition, lane)
            for lane in state.lanes
            for partition in lane.partitions
        }
        source = self._source.snapshot({partition.topic for partition in partitions}, copied=copied)
        heartbeat_copy = setup.identity.heartbeat_copy
        groups = {GROUPS} if setup.shared else set()
        internal = groups | ({TRANSACTIONS} if setup.transactional else set())
        heartbeats = {heartbeat_copy} if setup.heartbeat else set()
        target = self._target.snapshot({partition.target for partition in partitions} | internal | heartbeats)
        transactional_ids = {lane.lane: setup.identity.transactional_id(lane.lane) for lane in state.lanes}
        group = setup.identity.group if groups else ""
        ages = {}
        if setup.heartbeat:
            newest, now = self._target.newest_timestamps(heartbeat_copy), time.time()
            ages = {
                lane: max(now - newest[number], 0.0)
                for lane, number in partitions_of(setup.lanes).items()
                if number in newest
            }
        latest = self._state  # records copied during the check are no lag
        return MirrorFacts(
            now=time.monotonic(),
            source=source,
            target=replace(target, coordinators=tuple(coordinators(target.topics, group, transactional_ids))),
            lanes=tuple(latest.lanes),
            problems=tuple(latest.problems),
            heartbeat_ages=ages,
            beyond_end=ended_before(source, copied),
            stuck_workers=latest.stuck_workers,
            group_error=latest.group_error,
        )

    def _run(self) -> None:
        pause = self._setup.check_seconds
        while not self._stopped.wait(pause):
            started = time.thread_time()
            try:
                self.check()
            except Exception as error:  # noqa: BLE001 -- copying must continue without its watch
                message = unexpected_sentence("The state of the clusters was not checked", error)
                log_unexpected(log, "the watch failed", message, error)
            pause = max(self._setup.check_seconds, (time.thread_time() - started) * _PAUSE_FACTOR)

    def _write_line(self, status: MirrorStatus, *, is_urgent: bool) -> None:
        now = time.monotonic()
        if not self._setup.progress_seconds or sys.stderr.isatty() or (now < self._line_due and not is_urgent):
            return
        self._line_due = now + self._setup.progress_seconds
        sys.stderr.write(MIRROR_LINE.to_line(line_of(status)) + "\n")
        sys.stderr.flush()


def _log(changes: Changes, now: float) -> None:
    for stall in changes.begun:
        log.warning("stall begins", **_log_fields(stall), message=stall.sentence)
    for stall in changes.ended:
        log.info("stall ends", **_log_fields(stall), seconds=round(now - stall.since, 1))


def _log_fields(stall: Stall) -> dict[str, object]:
    fields: dict[str, object] = {"reason": stall.reason.value}
    if stall.topic:
        fields["topic"] = stall.topic
    if stall.partitions:
        fields["partitions"] = list(stall.partitions[:_MAX_LISTED])
    elif stall.lanes:
        fields["lanes"] = list(stall.lanes[:_MAX_LISTED])
    return fields
