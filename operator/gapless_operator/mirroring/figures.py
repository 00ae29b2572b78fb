"""Owns the figures of a Mirror's status, out of what its pods log; must not know what follows from them.

Each worker tells of the lanes that it owns; together they tell of the mirror.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.mirror_status import MAX_STATUS_PROBLEMS, MAX_STATUS_TOPICS, MirroredTopic, MirrorStall
from gapless_api.wire.mirror_progress import StallReason
from gapless_operator.common.observed import moment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.mirror_status import MirrorStatus
    from gapless_api.wire.mirror_progress import MirroredTopicLine, MirrorLine, MirrorProblem
    from gapless_operator.common.observed import ObservedPod

WRITE_EVERY = timedelta(seconds=10)
"""How often figures are written into the status at most."""
_BEAT_EVERY = timedelta(seconds=60)
"""How often they are written when only the age of the heartbeat is another one."""
_GRAVEST_FIRST = (
    StallReason.RETENTION_OVERTOOK,
    StallReason.TOPIC_RECREATED,
    StallReason.AUTHORIZATION_FAILED,
    StallReason.TARGET_REFUSES,
    StallReason.COORDINATOR_UNAVAILABLE,
    StallReason.LEADER_MISSING,
    StallReason.TRANSACTION_OPEN,
    StallReason.WORKER_STUCK,
)
_MOST_WORKERS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Told:
    """What the pods of a mirror that run now have logged last."""

    lines: tuple[MirrorLine, ...]
    """Of those that have logged any."""

    @property
    def problems(self) -> tuple[MirrorProblem, ...]:
        """What keeps topics from being copied, the gravest first, each reason and topic once."""
        found: dict[tuple[str, str], MirrorProblem] = {}
        for line in self.lines:
            for problem in line.problems:
                if problem.reason is not StallReason.SOURCE_IDLE:
                    found.setdefault((problem.reason, problem.topic), problem)
        return tuple(sorted(found.values(), key=lambda one: (_GRAVEST_FIRST.index(one.reason), one.topic)))

    @property
    def is_idle(self) -> bool:
        """Whether everything is copied and nothing new comes."""
        return bool(self.lines) and all(line.state == "idle" for line in self.lines)

    @property
    def last_commit(self) -> datetime | None:
        """When records were copied last; ``None`` before."""
        return max((at for line in self.lines if (at := moment(line.last_commit)) is not None), default=None)


def told_by(pods: Iterable[ObservedPod]) -> Told:
    """What these pods have logged last."""
    return Told(tuple(pod.output.mirror for pod in pods if pod.output.mirror is not None))


def figures(before: MirrorStatus, told: Told, now: datetime) -> dict[str, Any]:
    """The fields of the status that change; none while they must not, or need not.

    Args:
        before: the status as it was written last.
        told: what the pods say.
        now: the time.
    """
    lines = told.lines
    age = None if before.updated_at is None else now - before.updated_at
    if not lines or (age is not None and age < WRITE_EVERY):
        return {}
    found: dict[str, Any] = {
        "workers": len(lines),
        "lanes": max(line.lanes for line in lines),
        "lanes_owned": min(sum(line.lanes_owned for line in lines), _MOST_WORKERS),
        "records": _count(sum(line.records for line in lines)),
        "partitions": min(sum(line.partitions for line in lines), _MOST_WORKERS),
        "partitions_with_lag": min(sum(line.partitions_with_lag for line in lines), _MOST_WORKERS),
        "lag_records": _count(sum(line.lag_records for line in lines)),
        "lag_seconds": _greatest(line.lag_seconds for line in lines),
        "retention_seconds": min(
            (line.retention_seconds for line in lines if line.retention_seconds is not None), default=None
        ),
        "lost_records": _count(sum(line.lost_records for line in lines)),
        "last_commit_time": told.last_commit or before.last_commit_time,
        "problems": tuple(map(_trouble, told.problems[:MAX_STATUS_PROBLEMS])),
        **_topics(lines),
    }
    same = all(getattr(before, name) == value for name, value in found.items())
    ages = [line.heartbeat_age_seconds for line in lines if line.heartbeat_age_seconds is not None]
    found["heartbeat_age_seconds"] = max(ages, default=None)
    if same and found["heartbeat_age_seconds"] == before.heartbeat_age_seconds:
        return {}
    if same and age is not None and age < _BEAT_EVERY:
        return {}
    return {**found, "updated_at": now.replace(microsecond=0)}


def _greatest(values: Iterable[float | None]) -> float | None:
    """The greatest of all; unknown as soon as one is."""
    known = list(values)
    return None if None in known else max(value for value in known if value is not None)


def _topics(lines: tuple[MirrorLine, ...]) -> dict[str, Any]:
    shares: dict[str, list[MirroredTopicLine]] = {}
    for line in lines:
        for topic in line.topics:
            shares.setdefault(topic.topic, []).append(topic)
    found = sorted((_topic(parts) for parts in shares.values()), key=lambda one: (-one.lag_records, one.topic))
    omitted = max((line.topics_omitted for line in lines), default=0)
    return {
        "topics": tuple(found[:MAX_STATUS_TOPICS]),
        "topics_omitted": _count(omitted + max(len(found) - MAX_STATUS_TOPICS, 0)),
    }


def _topic(shares: list[MirroredTopicLine]) -> MirroredTopic:
    """A topic out of what the workers that own partitions of it say."""
    return MirroredTopic(
        topic=shares[0].topic,
        target=shares[0].target,
        partitions=min(sum(share.partitions for share in shares), _MOST_WORKERS),
        lag_records=_count(sum(share.lag_records for share in shares)),
        lag_seconds=_greatest(share.lag_seconds for share in shares),
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
