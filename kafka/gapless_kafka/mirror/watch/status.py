"""Owns what a worker tells of a mirror after a look: totals, lag, and what stands still. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from gapless_api.wire.mirror_progress import MAX_PROBLEMS, MAX_TOPICS, MirroredTopicLine, MirrorLine, MirrorProblem
from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.watch.facts import reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gapless_kafka.mirror.watch.facts import MirrorFacts
    from gapless_kafka.mirror.watch.tracker import Stall
    from gapless_kafka.reading.lag import Observations


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How far a partition is copied."""

    topic: str
    partition: int
    target: str
    lag_records: int
    lag_seconds: float | None
    seconds_left: float | None
    """Until the source deletes a record that is not copied; ``None`` when none is in danger."""
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """What is known of a worker's share after a look."""

    name: str
    engine: Literal["workers", "spark"]
    worker: str
    now: float
    """Seconds since 1970."""
    lanes: int
    """Of the mirror."""
    lanes_owned: int
    records: int
    bytes: int
    committed_at: float | None
    """Seconds since 1970."""
    is_idle: bool
    partitions: tuple[PartitionStatus, ...]
    heartbeat_ages: Mapping[int, float]
    """By lane, of this worker's lanes."""
    stalls: tuple[Stall, ...]


@dataclass(frozen=True, slots=True)
class _Uncopied:
    """What of a partition is in the source and not copied, for `gapless_kafka.reading.lag`."""

    topic: str
    partition: int
    first: int
    log_start: int
    offsets: int


def partition_statuses(facts: MirrorFacts, observations: Observations, now: float) -> Iterator[PartitionStatus]:
    """How far each partition is copied, without those of heartbeats.

    Args:
        facts: of a look.
        observations: what earlier looks have shown; the look is added.
        now: seconds since 1970.
    """
    for lane in facts.lanes:
        for one in lane.partitions:
            if one.topic == HEARTBEAT_TOPIC:
                continue
            look, topic = facts.source.partition(one.topic, one.partition), facts.source.topics.get(one.topic)
            if look is None or look.ends is None or topic is None:
                # Without an answer the lag is what was seen last; it cannot be less.
                waiting = max((one.end_seen or 0) - one.position, 0)
                yield PartitionStatus(
                    topic=one.topic,
                    partition=one.partition,
                    target=one.target,
                    lag_records=waiting,
                    lag_seconds=None,
                    seconds_left=None,
                    lost=one.lost,
                )
                continue
            first = max(reached(one, lane), look.ends.log_start)
            uncopied = _Uncopied(
                one.topic, one.partition, first, look.ends.log_start, max(look.ends.high_watermark - first, 0)
            )
            observations.note([uncopied], now)
            lag = observations.lag_seconds(uncopied, one.newest_ms, now)
            yield PartitionStatus(
                topic=one.topic,
                partition=one.partition,
                target=one.target,
                lag_records=uncopied.offsets,
                lag_seconds=lag,
                seconds_left=observations.seconds_left(uncopied, lag, topic.retention_seconds, now),
                lost=one.lost,
            )


def line_of(status: MirrorStatus) -> MirrorLine:
    """The line for the operator."""
    by_topic: dict[str, list[PartitionStatus]] = {}
    for one in status.partitions:
        by_topic.setdefault(one.topic, []).append(one)
    topics = [_topic_line(topic, partitions) for topic, partitions in by_topic.items()]
    topics.sort(key=lambda topic: (-topic.lag_records, topic.topic))
    problems = [_problem(stall) for stall in status.stalls]
    left = [one.seconds_left for one in status.partitions if one.seconds_left is not None]
    return MirrorLine(
        time=_moment(status.now),
        name=status.name,
        engine=status.engine,
        worker=status.worker,
        state="stalled" if problems else "idle" if status.is_idle else "copying",
        lanes=status.lanes,
        lanes_owned=status.lanes_owned,
        records=status.records,
        bytes=status.bytes,
        partitions=len(status.partitions),
        partitions_with_lag=sum(one.lag_records > 0 for one in status.partitions),
        lag_records=sum(one.lag_records for one in status.partitions),
        lag_seconds=_worst(one.lag_seconds for one in status.partitions),
        retention_seconds=round(min(left), 1) if left else None,
        heartbeat_age_seconds=round(max(status.heartbeat_ages.values()), 1) if status.heartbeat_ages else None,
        last_commit=None if status.committed_at is None else _moment(status.committed_at),
        lost_records=sum(one.lost for one in status.partitions),
        topics=tuple(topics[:MAX_TOPICS]),
        topics_omitted=max(len(topics) - MAX_TOPICS, 0),
        problems=tuple(problems[:MAX_PROBLEMS]),
        problems_omitted=max(len(problems) - MAX_PROBLEMS, 0),
    )


def _topic_line(topic: str, partitions: list[PartitionStatus]) -> MirroredTopicLine:
    return MirroredTopicLine(
        topic=topic,
        target=partitions[0].target,
        partitions=len(partitions),
        lag_records=sum(one.lag_records for one in partitions),
        lag_seconds=_worst(one.lag_seconds for one in partitions),
    )


def _problem(stall: Stall) -> MirrorProblem:
    return MirrorProblem(
        reason=stall.reason,
        topic=stall.topic,
        partition=stall.partitions[0] if len(stall.partitions) == 1 else None,
        since=_moment(stall.since),
        message=stall.sentence,
    )


def _worst(seconds: Iterable[float | None]) -> float | None:
    """The longest; ``None`` if one is unknown."""
    found = list(seconds)
    known = [one for one in found if one is not None]
    return round(max(known, default=0.0), 1) if len(known) == len(found) else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
