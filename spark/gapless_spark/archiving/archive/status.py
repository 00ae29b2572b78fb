"""The status of all topics while they are archived: totals, lag, and problems. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from gapless_api.wire.archive_progress import ArchivedTopicLine, ArchiveLine, ArchiveProblem
from gapless_spark.archiving.archive.account import TopicAccount, stop_sentence, truncation_sentence

if TYPE_CHECKING:
    from gapless_kafka.reading.lag import Observations
    from gapless_spark.archiving.archive.chains import TopicChain
    from gapless_spark.archiving.archive.planning import Pending

_MAX_TOPICS, _MAX_PROBLEMS = 100, 20
_OVERTAKING_SHARE = 0.2
"""A warning is due when less than this share of the retention time remains."""
_NO_PROGRESS_SECONDS = 900.0
"""In addition to the age at which records are archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How far a partition is archived."""

    topic: str
    partition: int
    next_offset: int
    lag_records: int
    lag_seconds: float | None
    seconds_left: float | None
    """Until Kafka deletes a record that is not archived; ``None`` when there is no such record."""
    retention_seconds: float | None
    newest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The status of a run after a snapshot of Kafka."""

    region: str
    now: float
    """Seconds since 1970."""
    partitions: tuple[PartitionStatus, ...]
    chains: Mapping[str, TopicChain]
    accounts: Mapping[str, TopicAccount]
    oldest_seconds: float
    """The longest time that a record may wait by the settings."""
    read_by: Literal["spark", "local"] | None


def partition_status(
    partition: Pending, chain: TopicChain, observations: Observations, retention: float | None, now: float
) -> PartitionStatus:
    """Return the status of a partition from the last snapshot and earlier ones."""
    newest = chain.newest_timestamp(partition.partition)
    is_intact = partition.truncated_at is None
    lag = observations.lag_seconds(partition, newest, now) if is_intact else None
    return PartitionStatus(
        topic=partition.topic,
        partition=partition.partition,
        next_offset=partition.first,
        lag_records=max(partition.high_watermark - (partition.first if is_intact else partition.truncated_at or 0), 0),
        lag_seconds=lag,
        seconds_left=observations.seconds_left(partition, lag, retention, now),
        retention_seconds=retention,
        newest_ms=newest,
    )


def status_line(status: RunStatus) -> ArchiveLine:
    """Return the status line for the operator."""
    by_topic: dict[str, list[PartitionStatus]] = {topic: [] for topic in status.chains}
    for partition in status.partitions:
        by_topic[partition.topic].append(partition)
    topics = [_topic_line(status, topic, partitions) for topic, partitions in by_topic.items()]
    topics.sort(key=lambda topic: (-topic.lag_records, topic.topic))
    totals = [chain.totals for chain in status.chains.values()]
    seconds_left = [partition.seconds_left for partition in status.partitions if partition.seconds_left is not None]
    return ArchiveLine(
        time=_moment(status.now),
        region=status.region,
        segments=sum(total.segments for total in totals),
        bytes=sum(total.stored_bytes for total in totals),
        records=sum(total.records for total in totals),
        lag_records=sum(partition.lag_records for partition in status.partitions),
        lag_seconds=_longest(partition.lag_seconds for partition in status.partitions),
        retention_seconds=round(min(seconds_left), 1) if seconds_left else None,
        lost_records=sum(topic.lost_records for topic in topics),
        last_commit=max((chain.state.archived_at for chain in status.chains.values()), default="") or None,
        read_by=status.read_by,
        topics=tuple(topics[:_MAX_TOPICS]),
        topics_omitted=max(len(topics) - _MAX_TOPICS, 0),
        problems=tuple(_problems(status, by_topic))[:_MAX_PROBLEMS],
    )


def _topic_line(status: RunStatus, topic: str, partitions: Sequence[PartitionStatus]) -> ArchivedTopicLine:
    chain = status.chains[topic]
    lag_seconds = _longest(partition.lag_seconds for partition in partitions)
    return ArchivedTopicLine(
        topic=topic,
        topic_id=chain.topic_id,
        partitions=len(partitions),
        segments=chain.totals.segments,
        covered_up_to=None if lag_seconds is None else _moment(status.now - lag_seconds),
        lag_records=sum(partition.lag_records for partition in partitions),
        lag_seconds=lag_seconds,
        lost_records=sum(lost.end - lost.first for lost in chain.state.lost),
    )


def _problems(status: RunStatus, by_topic: Mapping[str, Iterable[PartitionStatus]]) -> Iterator[ArchiveProblem]:
    for topic, partitions in by_topic.items():
        for partition in partitions:
            if partition.seconds_left is not None and partition.seconds_left < _OVERTAKING_SHARE * (
                partition.retention_seconds or 3600
            ):
                yield ArchiveProblem(
                    reason="RetentionOvertaking",
                    topic=topic,
                    message=f"Kafka deletes records of {topic}/{partition.partition} that are not archived in about "
                    f"{partition.seconds_left:,.0f} s; keep records longer, or give the archive more cores.",
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
        if account.truncated:
            yield ArchiveProblem(reason="LogTruncated", topic=topic, message=truncation_sentence(topic, account))
        if account.stopped:
            yield ArchiveProblem(reason="NoProgress", topic=topic, message=stop_sentence(topic, account))
        if account.recreated_from:
            yield ArchiveProblem(
                reason="TopicRecreated",
                topic=topic,
                message=f"{topic} was deleted and recreated (topic ID {account.recreated_from} -> {account.topic_id}); "
                f"the archive of the old topic is kept, and the new topic is archived separately.",
            )
    yield from _no_progress(status, by_topic)


def _no_progress(status: RunStatus, by_topic: Mapping[str, Iterable[PartitionStatus]]) -> Iterator[ArchiveProblem]:
    for topic, partitions in by_topic.items():
        lag = _longest(partition.lag_seconds for partition in partitions) or 0.0
        archived_at = status.chains[topic].archived_at_seconds
        age = status.now - archived_at if archived_at else lag
        if min(lag, age) > status.oldest_seconds + _NO_PROGRESS_SECONDS:
            yield ArchiveProblem(
                reason="NoProgress",
                topic=topic,
                message=f"Records of {topic} have waited for {lag:,.0f} s and nothing was archived for {age:,.0f} s; "
                f"check the log for the reason.",
            )


def _longest(seconds: Iterable[float | None]) -> float | None:
    """Return the longest time; ``None`` if any is unknown."""
    values = list(seconds)
    known = [value for value in values if value is not None]
    return round(max(known, default=0.0), 1) if len(known) == len(values) else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
