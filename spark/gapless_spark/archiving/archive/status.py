"""Owns what is told of all topics while they are archived: totals, lag, and what needs a person. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from gapless_api.wire.archive_progress import ArchivedTopicLine, ArchiveLine, ArchiveProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gapless_kafka.reading.lag import Observations
    from gapless_spark.archiving.archive.account import TopicAccount
    from gapless_spark.archiving.archive.chains import TopicChain
    from gapless_spark.archiving.archive.planning import Pending

_MOST_TOPICS, _MOST_PROBLEMS = 100, 20
_OVERTAKING_SHARE = 0.2
"""Of the time for which Kafka keeps records: with less left, records are in danger."""
_NO_PROGRESS_SECONDS = 900.0
"""Beyond the age at which records are archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How far a partition is archived."""

    topic: str
    partition: int
    next_offset: int
    lag_records: int
    lag_seconds: float | None
    seconds_left: float | None
    """Until Kafka deletes a record that is not archived; ``None`` when none is in danger."""
    retention_seconds: float | None
    newest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """What is known of a run after a look at Kafka."""

    region: str
    now: float
    """Seconds since 1970."""
    partitions: tuple[PartitionStatus, ...]
    chains: Mapping[str, TopicChain]
    accounts: Mapping[str, TopicAccount]
    oldest_seconds: float
    """The longest time for which a record waits by the settings."""
    read_by: Literal["spark", "local"] | None


def partition_status(
    one: Pending, chain: TopicChain, observations: Observations, retention: float | None, now: float
) -> PartitionStatus:
    """How far a partition is archived, as a look at Kafka and earlier ones show it."""
    newest = chain.newest_timestamp(one.partition)
    lag = observations.lag_seconds(one, newest, now)
    return PartitionStatus(
        topic=one.topic,
        partition=one.partition,
        next_offset=one.first,
        lag_records=max(one.high_watermark - one.first, 0),
        lag_seconds=lag,
        seconds_left=observations.seconds_left(one, lag, retention, now),
        retention_seconds=retention,
        newest_ms=newest,
    )


def line_of(status: RunStatus) -> ArchiveLine:
    """The line for the operator."""
    by_topic: dict[str, list[PartitionStatus]] = {topic: [] for topic in status.chains}
    for one in status.partitions:
        by_topic[one.topic].append(one)
    topics = [_topic_line(status, topic, partitions) for topic, partitions in by_topic.items()]
    topics.sort(key=lambda topic: (-topic.lag_records, topic.topic))
    totals = [chain.totals for chain in status.chains.values()]
    left = [one.seconds_left for one in status.partitions if one.seconds_left is not None]
    return ArchiveLine(
        time=_moment(status.now),
        region=status.region,
        segments=sum(total.segments for total in totals),
        bytes=sum(total.stored_bytes for total in totals),
        records=sum(total.records for total in totals),
        lag_records=sum(one.lag_records for one in status.partitions),
        lag_seconds=_worst(one.lag_seconds for one in status.partitions),
        retention_seconds=round(min(left), 1) if left else None,
        lost_records=sum(topic.lost_records for topic in topics),
        last_commit=max((chain.state.archived_at for chain in status.chains.values()), default="") or None,
        read_by=status.read_by,
        topics=tuple(topics[:_MOST_TOPICS]),
        topics_omitted=max(len(topics) - _MOST_TOPICS, 0),
        problems=tuple(_problems(status, by_topic))[:_MOST_PROBLEMS],
    )


def _topic_line(status: RunStatus, topic: str, partitions: Iterable[PartitionStatus]) -> ArchivedTopicLine:
    found = list(partitions)
    chain = status.chains[topic]
    lag_seconds = _worst(one.lag_seconds for one in found)
    return ArchivedTopicLine(
        topic=topic,
        topic_id=chain.topic_id,
        partitions=len(found),
        segments=chain.totals.segments,
        covered_up_to=None if lag_seconds is None else _moment(status.now - lag_seconds),
        lag_records=sum(one.lag_records for one in found),
        lag_seconds=lag_seconds,
        lost_records=sum(lost.end - lost.first for lost in chain.state.lost),
    )


def _problems(status: RunStatus, by_topic: Mapping[str, Iterable[PartitionStatus]]) -> Iterator[ArchiveProblem]:
    for topic, partitions in by_topic.items():
        for one in partitions:
            if one.seconds_left is not None and one.seconds_left < _OVERTAKING_SHARE * (one.retention_seconds or 3600):
                yield ArchiveProblem(
                    reason="RetentionOvertaking",
                    topic=topic,
                    message=f"Kafka deletes records of {topic}/{one.partition} that are not archived in about "
                    f"{one.seconds_left:,.0f} s; keep records longer, or give the archive more cores.",
                )
                break
    for topic, account in status.accounts.items():
        if account.lost:
            yield ArchiveProblem(
                reason="RecordsLost",
                topic=topic,
                message=f"Kafka deleted {account.lost_offsets:,} offsets of {topic} before they were archived; keep "
                f"records longer, or archive more often.",
            )
        if account.recreated_from:
            yield ArchiveProblem(
                reason="TopicRecreated",
                topic=topic,
                message=f"{topic} was deleted and recreated (topic ID {account.recreated_from} -> {account.topic_id}); "
                f"the archive of the earlier topic stays, and the new one has its own.",
            )
    yield from _standstill(status, by_topic)


def _standstill(status: RunStatus, by_topic: Mapping[str, Iterable[PartitionStatus]]) -> Iterator[ArchiveProblem]:
    for topic, partitions in by_topic.items():
        lag = _worst(one.lag_seconds for one in partitions) or 0.0
        archived_at = status.chains[topic].archived_at_seconds
        age = status.now - archived_at if archived_at else lag
        if min(lag, age) > status.oldest_seconds + _NO_PROGRESS_SECONDS:
            yield ArchiveProblem(
                reason="NoProgress",
                topic=topic,
                message=f"Records of {topic} have waited for {lag:,.0f} s and nothing was archived for {age:,.0f} s; "
                f"look for the reason in the log.",
            )


def _worst(seconds: Iterable[float | None]) -> float | None:
    """The longest; ``None`` if one is unknown."""
    found = list(seconds)
    known = [one for one in found if one is not None]
    return round(max(known, default=0.0), 1) if len(known) == len(found) else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
