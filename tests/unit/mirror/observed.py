"""Facts of a small mirror that does well, and what is different in a test."""

from __future__ import annotations

from typing import Any

from gapless_mirror.lanes.observations import LaneObservation, LanePhase, PartitionObservation
from gapless_mirror.watch.facts import (
    ClusterSnapshot,
    MirrorFacts,
    PartitionEnds,
    PartitionSnapshot,
    TopicSnapshot,
)

NOW = 1000.0
UP_TO_DATE = PartitionEnds(0, 100, 100)
ALL = frozenset({"READ", "WRITE", "DESCRIBE"})


def partition(number: int = 0, **changes: Any) -> PartitionObservation:
    given: dict[str, Any] = {
        "topic": "orders",
        "partition": number,
        "target": "copy",
        "source_id": "id-1",
        "position": 100,
        "end_seen": 100,
        "progressed_at": NOW - 1,
        "records": 100,
        "bytes": 1000,
        "lost": 0,
    }
    return PartitionObservation(**(given | changes))


def lane(*partitions: PartitionObservation, **changes: Any) -> LaneObservation:
    given: dict[str, Any] = {
        "lane": 3,
        "phase": LanePhase.COPYING,
        "tick_at": NOW,
        "transaction_since": None,
        "committed_at": NOW - 1,
        "records": 100,
        "bytes": 1000,
        "error": None,
        "partitions": partitions or (partition(),),
    }
    return LaneObservation(**(given | changes))


def source(ends: PartitionEnds | None = UP_TO_DATE, leader: int | None = 1, **changes: Any) -> ClusterSnapshot:
    topic: dict[str, Any] = {
        "id": "id-1",
        "partitions": {0: PartitionSnapshot(leader, ends, (1, 2))},
        "operations": ALL,
    }
    return ClusterSnapshot(
        side="source", brokers=frozenset({1, 2}), topics={"orders": TopicSnapshot(**(topic | changes))}
    )


def target(leader: int | None = 1, **changes: Any) -> ClusterSnapshot:
    topic: dict[str, Any] = {"id": "id-2", "partitions": {0: PartitionSnapshot(leader, None, (7,))}, "operations": ALL}
    return ClusterSnapshot(
        side="target", brokers=frozenset({1, 2}), topics={"copy": TopicSnapshot(**(topic | changes))}
    )


def facts(
    *lanes: LaneObservation,
    of_source: ClusterSnapshot | None = None,
    of_target: ClusterSnapshot | None = None,
    **changes: Any,
) -> MirrorFacts:
    return MirrorFacts(
        now=NOW, source=of_source or source(), target=of_target or target(), lanes=lanes or (lane(),), **changes
    )
