"""The status of a worker after a check: totals, lag, and stalls. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from gapless_api.wire.mirror_progress import MAX_PROBLEMS, MAX_TOPICS, MirroredTopicLine, MirrorLine, MirrorProblem
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.watch.facts import MirrorFacts, reached_offset

if TYPE_CHECKING:
    from gapless_kafka.reading.lag import Observations
    from gapless_mirror.watch.tracker import Stall


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The lag of a partition."""

    topic: str
    partition: int
    target: str
    lag_records: int | None
    """``None`` while unknown: the source log ends before what was copied."""
    lag_seconds: float | None
    seconds_left: float | None
    """Until the source deletes a record that is not copied; ``None`` if there is no such risk."""
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """The status of a worker after a check."""

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
    """The offsets of a partition that are not copied, for `gapless_kafka.reading.lag`."""

    topic: str
    partition: int
    first: int
    log_start: int
    offsets: int


def partition_statuses(facts: MirrorFacts, observations: Observations, now: float) -> Iterator[PartitionStatus]:
    """Return the status of each partition, without those of heartbeats.

    Args:
        facts: of this check.
        observations: of earlier checks; this one is added.
        now: seconds since 1970.
    """
    for lane in facts.lanes:
        for observed in lane.partitions:
            if observed.topic == HEARTBEAT_TOPIC:
                continue
            partition, topic = (
                facts.source.partition(observed.topic, observed.partition),
                facts.source.topics.get(observed.topic),
            )
            if partition is None or partition.ends is None or topic is None:
                # Without an answer, report the last known lag as a minimum.
                waiting = max((observed.end_seen or 0) - observed.position, 0)
                yield PartitionStatus(
                    topic=observed.topic,
                    partition=observed.partition,
                    target=observed.target,
                    lag_records=waiting,
                    lag_seconds=None,
                    seconds_left=None,
                    lost=observed.lost,
                )
                continue
            if (observed.topic, observed.partition) in facts.beyond_end:
                yield PartitionStatus(
                    topic=observed.topic,
                    partition=observed.partition,
                    target=observed.target,
                    lag_records=None,
                    lag_seconds=None,
                    seconds_left=None,
                    lost=observed.lost,
                )
                continue
            first = max(reached_offset(observed, lane), partition.ends.log_start)
            uncopied = _Uncopied(
                observed.topic,
                observed.partition,
                first,
                partition.ends.log_start,
                max(partition.ends.high_watermark - first, 0),
            )
            observations.note([uncopied], now)
            lag = observations.lag_seconds(uncopied, observed.newest_ms, now)
            yield PartitionStatus(
                topic=observed.topic,
                partition=observed.partition,
                target=observed.target,
                lag_records=uncopied.offsets,
                lag_seconds=lag,
                seconds_left=observations.seconds_left(uncopied, lag, topic.retention_seconds, now),
                lost=observed.lost,
            )


def line_of(status: MirrorStatus) -> MirrorLine:
    """Return the progress line for the operator."""
    by_topic: dict[str, list[PartitionStatus]] = {}
    for partition in status.partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    topics = [_topic_line(topic, partitions) for topic, partitions in by_topic.items()]
    topics.sort(key=lambda topic: (topic.lag_records is not None, -(topic.lag_records or 0), topic.topic))
    problems = [_problem(stall) for stall in status.stalls]
    remaining = [partition.seconds_left for partition in status.partitions if partition.seconds_left is not None]
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
        partitions_with_lag=sum(partition.lag_records != 0 for partition in status.partitions),
        lag_records=_total(partition.lag_records for partition in status.partitions),
        lag_seconds=_worst(partition.lag_seconds for partition in status.partitions),
        retention_seconds=round(min(remaining), 1) if remaining else None,
        heartbeat_age_seconds=round(max(status.heartbeat_ages.values()), 1) if status.heartbeat_ages else None,
        last_commit=None if status.committed_at is None else _moment(status.committed_at),
        lost_records=sum(partition.lost for partition in status.partitions),
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
        lag_records=_total(partition.lag_records for partition in partitions),
        lag_seconds=_worst(partition.lag_seconds for partition in partitions),
    )


def _problem(stall: Stall) -> MirrorProblem:
    return MirrorProblem(
        reason=stall.reason,
        topic=stall.topic,
        partition=stall.partitions[0] if len(stall.partitions) == 1 else None,
        since=_moment(stall.since),
        message=stall.sentence,
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; ``None`` if one is unknown."""
    values = list(counts)
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _worst(seconds: Iterable[float | None]) -> float | None:
    """Return the longest; ``None`` if one is unknown."""
    values = list(seconds)
    known = [value for value in values if value is not None]
    return round(max(known, default=0.0), 1) if len(known) == len(values) else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
