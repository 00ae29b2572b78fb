"""Owns the watch of a worker: a thread that looks at both clusters now and then, and tells what it finds.

It writes heartbeats, logs when a stall begins and ends, writes progress lines and serves metrics. It never waits for
the lanes, and they never wait for it. Must not know the engine: lanes are noted by whoever runs them.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self

import structlog

from gapless_api.wire.mirror_progress import MIRROR_LINE
from gapless_kafka.mirror.watch.coordinators import GROUPS, TRANSACTIONS, coordinators
from gapless_kafka.mirror.watch.facts import ClusterLook, MirrorFacts, reached
from gapless_kafka.mirror.watch.heartbeat import Heartbeats, partitions_of
from gapless_kafka.mirror.watch.looking import END_SECONDS, ClusterWatch
from gapless_kafka.mirror.watch.stall import causes, is_idle
from gapless_kafka.mirror.watch.status import MirrorStatus, line_of, partition_statuses
from gapless_kafka.mirror.watch.tracker import StallTracker
from gapless_kafka.reading.lag import Observations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.lanes.identity import MirrorIdentity
    from gapless_kafka.mirror.lanes.observations import LaneObservation, SeenError
    from gapless_kafka.mirror.lanes.sources import TopicProblem
    from gapless_kafka.mirror.watch.metrics import MirrorMetrics
    from gapless_kafka.mirror.watch.tracker import Changes, Stall

LOOKS_OF_STALL = 6
"""A cause is a stall when it has lasted for so many intervals: 30 s by default, so that its name comes within 60 s."""
_MAX_LISTED = 10
_PAUSE_PER_LOOK = 40
"""With very many partitions the watch takes a fortieth of a core."""
log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSetup:
    """What a watch watches."""

    identity: MirrorIdentity
    engine: Literal["workers", "spark"]
    worker: str
    """Who this is, for the progress line."""
    lanes: int
    """Of the mirror."""
    source: KafkaConnection
    target: KafkaConnection
    transactional: bool = True
    shared: bool = True
    """Whether a consumer group shares the lanes."""
    heartbeat: bool = True
    look_seconds: float = 5.0
    progress_seconds: float = 10.0
    """From one progress line to the next; 0 for none. A terminal gets none."""
    metrics_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What the engine knows."""

    lanes: Sequence[LaneObservation] = ()
    problems: Sequence[TopicProblem] = ()
    records: int = 0
    """Copied since the worker started, also in lanes that it does not have any more."""
    bytes: int = 0
    refresh_error: str = ""
    """Why new topics cannot be looked for; empty when they can."""
    stuck_workers: Mapping[int, float] = field(default_factory=dict)
    """By number, the processes of this host that hang, with the seconds of their silence."""
    group_error: SeenError | None = None
    """Why the process is no member of the group that shares the lanes."""


class MirrorWatch:
    """Watches while its ``with`` block lasts."""

    def __init__(self, setup: WatchSetup) -> None:
        """Open the port of the metrics, if there is one. Raises ConfigurationError."""
        self._setup = setup
        self._noted = Noted()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._source = ClusterWatch("source", setup.source)
        self._target = ClusterWatch("target", setup.target)
        self._tracker = StallTracker(
            LOOKS_OF_STALL * setup.look_seconds, longest_gap_seconds=max(4 * setup.look_seconds, 15.0)
        )
        self._observations = Observations()
        self._heartbeats: Heartbeats | None = None
        if setup.heartbeat:
            self._heartbeats = Heartbeats(
                setup.source,
                setup.identity.name,
                setup.lanes,
                complain=lambda text: log.warning("no heartbeats", message=text),
            )
        self._metrics: MirrorMetrics | None = None
        if setup.metrics_port is not None:
            from gapless_kafka.mirror.watch.metrics import MirrorMetrics  # noqa: PLC0415 -- rarely needed

            self._metrics = MirrorMetrics(setup.metrics_port)
        self._line_due = float("-inf")
        self._status: MirrorStatus | None = None
        self._progressed = (time.monotonic(), 0)
        """When so many records were copied."""
        self._refresh_error = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._thread.join(END_SECONDS)
        noted = self._noted
        if self._status is None:
            sides = ClusterLook(side="source"), ClusterLook(side="target")
            facts = MirrorFacts(now=time.monotonic(), source=sides[0], target=sides[1], lanes=tuple(noted.lanes))
            self._status = self._status_of(noted, facts, time.time())
        self._tell(replace(self._status, records=noted.records, bytes=noted.bytes), is_urgent=True)
        if self._heartbeats is not None and not self._thread.is_alive():
            self._heartbeats.close()
        if self._metrics is not None:
            self._metrics.close()

    def note(self, noted: Noted) -> None:
        """Take in what the engine knows now; it may be called as often as one likes."""
        self._noted = noted

    def end(self) -> None:
        """Look no more, and write no more heartbeats: the lanes are about to be given back."""
        self._stopped.set()

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """What stands still, as of the last look."""
        return self._tracker.stalls

    def look(self) -> MirrorStatus:
        """Look at both clusters, and log what has changed."""
        noted = self._noted
        if self._heartbeats is not None:
            self._heartbeats.beat([lane.lane for lane in noted.lanes])
        facts = self._facts(noted)
        now = time.time()
        changes = self._tracker.update(causes(facts), now=facts.now, wall_clock=now)
        _log(changes, now)
        self._note_progress(noted.records)
        if noted.refresh_error and noted.refresh_error != self._refresh_error:
            log.warning("new topics cannot be looked for", message=noted.refresh_error)
        self._refresh_error = noted.refresh_error
        status = self._status_of(noted, facts, now)
        self._status = status
        if self._metrics is not None:
            self._metrics.show(status)
        self._tell(status, is_urgent=bool(changes.begun or changes.ended))
        return status

    @property
    def is_hopeless(self) -> bool:
        """Whether something stands still, and nothing was copied for twice the time that makes a stall."""
        patience = 2 * LOOKS_OF_STALL * self._setup.look_seconds
        return bool(self.stalls) and time.monotonic() - self._progressed[0] > patience

    def _note_progress(self, records: int) -> None:
        if records != self._progressed[1]:
            self._progressed = (time.monotonic(), records)

    def _status_of(self, noted: Noted, facts: MirrorFacts, now: float) -> MirrorStatus:
        setup = self._setup
        own = {lane.lane for lane in noted.lanes}
        committed = [lane.committed_at for lane in noted.lanes if lane.committed_at is not None]
        return MirrorStatus(
            name=setup.identity.name,
            engine=setup.engine,
            worker=setup.worker,
            now=now,
            lanes=setup.lanes,
            lanes_owned=len(own),
            records=noted.records,
            bytes=noted.bytes,
            committed_at=now - (time.monotonic() - max(committed)) if committed else None,
            is_idle=is_idle(facts),
            partitions=tuple(partition_statuses(facts, self._observations, now)),
            heartbeat_ages={lane: age for lane, age in facts.heartbeat_ages.items() if lane in own},
            stalls=self._tracker.stalls,
        )

    def _facts(self, noted: Noted) -> MirrorFacts:
        setup = self._setup
        copies = [one for lane in noted.lanes for one in lane.partitions]
        source = self._source.look(
            {one.topic for one in copies},
            ends={(one.topic, one.partition): reached(one, lane) for lane in noted.lanes for one in lane.partitions},
        )
        beats = setup.identity.heartbeat_copy
        groups = {GROUPS} if setup.shared else set()
        internal = groups | ({TRANSACTIONS} if setup.transactional else set())
        target = self._target.look({*(one.target for one in copies), *internal, *([beats] if setup.heartbeat else [])})
        needed = {lane.lane: setup.identity.transactional_id(lane.lane) for lane in noted.lanes}
        group = setup.identity.group if groups else ""
        ages = {}
        if setup.heartbeat and target.fault is None:
            newest, now = self._target.newest_timestamps(beats), time.time()
            ages = {
                lane: max(now - newest[number], 0.0)
                for lane, number in partitions_of(setup.lanes).items()
                if number in newest
            }
        later = self._noted  # what was copied while we looked is no lag
        return MirrorFacts(
            now=time.monotonic(),
            source=source,
            target=replace(target, coordinators=tuple(coordinators(target.topics, group, needed))),
            lanes=tuple(later.lanes),
            problems=tuple(later.problems),
            heartbeat_ages=ages,
            stuck_workers=later.stuck_workers,
            group_error=later.group_error,
        )

    def _run(self) -> None:
        pause = self._setup.look_seconds
        while not self._stopped.wait(pause):
            began = time.thread_time()
            try:
                self.look()
            except Exception:  # the copying must not end with its watch
                log.exception("the watch failed")
            pause = max(self._setup.look_seconds, (time.thread_time() - began) * _PAUSE_PER_LOOK)

    def _tell(self, status: MirrorStatus, *, is_urgent: bool) -> None:
        now = time.monotonic()
        if not self._setup.progress_seconds or sys.stderr.isatty() or (now < self._line_due and not is_urgent):
            return
        self._line_due = now + self._setup.progress_seconds
        sys.stderr.write(MIRROR_LINE.to_line(line_of(status)) + "\n")
        sys.stderr.flush()


def _log(changes: Changes, now: float) -> None:
    for stall in changes.begun:
        log.warning("stall begins", **_described(stall), message=stall.sentence)
    for stall in changes.ended:
        log.info("stall ends", **_described(stall), seconds=round(now - stall.since, 1))


def _described(stall: Stall) -> dict[str, object]:
    found: dict[str, object] = {"reason": stall.reason.value}
    if stall.topic:
        found["topic"] = stall.topic
    if stall.partitions:
        found["partitions"] = list(stall.partitions[:_MAX_LISTED])
    elif stall.lanes:
        found["lanes"] = list(stall.lanes[:_MAX_LISTED])
    return found
