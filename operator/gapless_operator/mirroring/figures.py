"""How the progress lines of a Mirror's pods are combined to the figures of its status. No decisions.

Each worker reports the lanes that it owns; the sum is the state of the mirror.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.mirror_status import (
    MAX_STATUS_PROBLEMS,
    MAX_STATUS_TOPICS,
    MirroredTopic,
    MirrorStall,
    MirrorStatus,
)
from gapless_api.wire.mirror_progress import MirroredTopicLine, MirrorLine, MirrorProblem, StallReason
from gapless_operator.common.observed import ObservedPod, moment

WRITE_EVERY = timedelta(seconds=10)
"""The minimum interval of status updates."""
_HEARTBEAT_EVERY = timedelta(seconds=60)
"""The interval of status updates when only the age of the heartbeat has changed."""
_BY_SEVERITY = (
    StallReason.RETENTION_OVERTOOK,
    StallReason.POSITION_MISSING,
    StallReason.POSITION_OUTDATED,
    StallReason.POSITION_UNREADABLE,
    StallReason.TARGET_DELETED,
    StallReason.TARGET_RECREATED,
    StallReason.TARGET_TRUNCATED,
    StallReason.TARGET_DIVERGED,
    StallReason.SOURCE_TRUNCATED,
    StallReason.TOPIC_RECREATED,
    StallReason.AUTHORIZATION_FAILED,
    StallReason.SOURCE_DAMAGED,
    StallReason.COPY_FAILED,
    StallReason.TARGET_REFUSES,
    StallReason.COORDINATOR_UNAVAILABLE,
    StallReason.LEADER_MISSING,
    StallReason.TRANSACTION_OPEN,
    StallReason.WORKER_STUCK,
)
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Progress:
    """The last progress lines of the running pods of a mirror."""

    lines: tuple[MirrorLine, ...]
    """Of the pods that have written one."""

    @property
    def problems(self) -> tuple[MirrorProblem, ...]:
        """What prevents copying, the most severe first, once for each reason and topic."""
        problems: dict[tuple[str, str], MirrorProblem] = {}
        for line in self.lines:
            for problem in line.problems:
                if problem.reason is not StallReason.SOURCE_IDLE:
                    problems.setdefault((problem.reason, problem.topic), problem)
        return tuple(sorted(problems.values(), key=lambda problem: (_BY_SEVERITY.index(problem.reason), problem.topic)))

    @property
    def is_idle(self) -> bool:
        """Whether everything is copied."""
        return bool(self.lines) and all(line.state == "idle" for line in self.lines)

    @property
    def last_commit(self) -> datetime | None:
        """When records were last copied; ``None`` for never."""
        return max((at for line in self.lines if (at := moment(line.last_commit)) is not None), default=None)


def progress_of(pods: Iterable[ObservedPod]) -> Progress:
    """Return the last progress lines of pods."""
    return Progress(tuple(pod.output.mirror for pod in pods if pod.output.mirror is not None))


def figures(before: MirrorStatus, progress: Progress, now: datetime) -> dict[str, Any]:
    """Return the status fields to write; none before `WRITE_EVERY` has passed, or when nothing has changed.

    Args:
        before: the last status.
        progress: of the pods.
        now: the time.
    """
    lines = progress.lines
    age = None if before.updated_at is None else now - before.updated_at
    if not lines or (age is not None and age < WRITE_EVERY):
        return {}
    fields: dict[str, Any] = {
        "workers": len(lines),
        "lanes": max(line.lanes for line in lines),
        "lanes_owned": min(sum(line.lanes_owned for line in lines), _MAX_INT32),
        "records": _count(sum(line.records for line in lines)),
        "partitions": min(sum(line.partitions for line in lines), _MAX_INT32),
        "partitions_with_lag": min(sum(line.partitions_with_lag for line in lines), _MAX_INT32),
        "lag_records": _total_or_unknown(line.lag_records for line in lines),
        "lag_seconds": _max_or_unknown(line.lag_seconds for line in lines),
        "retention_seconds": min(
            (line.retention_seconds for line in lines if line.retention_seconds is not None), default=None
        ),
        "lost_records": _count(sum(line.lost_records for line in lines)),
        "last_commit_time": progress.last_commit or before.last_commit_time,
        "problems": tuple(map(_trouble, progress.problems[:MAX_STATUS_PROBLEMS])),
        **_topics(lines),
    }
    same = all(getattr(before, name) == value for name, value in fields.items())
    ages = [line.heartbeat_age_seconds for line in lines if line.heartbeat_age_seconds is not None]
    fields["heartbeat_age_seconds"] = max(ages, default=None)
    if same and fields["heartbeat_age_seconds"] == before.heartbeat_age_seconds:
        return {}
    if same and age is not None and age < _HEARTBEAT_EVERY:
        return {}
    return {**fields, "updated_at": now.replace(microsecond=0)}


def _max_or_unknown(values: Iterable[float | None]) -> float | None:
    """Return the maximum; ``None`` if one is unknown."""
    every = list(values)
    return None if None in every else max(value for value in every if value is not None)


def _total_or_unknown(values: Iterable[int | None]) -> int | None:
    """Return the sum; ``None`` if one is unknown."""
    every = list(values)
    return None if None in every else _count(sum(value for value in every if value is not None))


def _by_lag(topic: MirroredTopic) -> tuple[bool, int, str]:
    """Order topics: those whose lag is unknown first, then by lag."""
    return topic.lag_records is not None, -(topic.lag_records or 0), topic.topic


def _topics(lines: tuple[MirrorLine, ...]) -> dict[str, Any]:
    shares: dict[str, list[MirroredTopicLine]] = {}
    for line in lines:
        for topic in line.topics:
            shares.setdefault(topic.topic, []).append(topic)
    topics = sorted(map(_topic, shares.values()), key=_by_lag)
    omitted = max((line.topics_omitted for line in lines), default=0)
    return {
        "topics": tuple(topics[:MAX_STATUS_TOPICS]),
        "topics_omitted": _count(omitted + max(len(topics) - MAX_STATUS_TOPICS, 0)),
    }


def _topic(shares: list[MirroredTopicLine]) -> MirroredTopic:
    """Combine the lines of the workers that own partitions of a topic."""
    return MirroredTopic(
        topic=shares[0].topic,
        target=shares[0].target,
        partitions=min(sum(share.partitions for share in shares), _MAX_INT32),
        lag_records=_total_or_unknown(share.lag_records for share in shares),
        lag_seconds=_max_or_unknown(share.lag_seconds for share in shares),
    )


def _trouble(problem: MirrorProblem) -> MirrorStall:
    return MirrorStall(
        reason=str(problem.reason),
        topic=problem.topic,
        partition=problem.partition,
        since=moment(problem.since),
        message=problem.message,
    )


def _count(number: int) -> int:
    return min(number, MAX_OFFSET)
