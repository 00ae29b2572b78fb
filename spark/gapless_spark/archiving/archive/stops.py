"""The partitions of which a record cannot be archived: from which offset on, why, and when to try again.

A stop ends before the record, so that everything before it, and all other partitions, are archived.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.backoff import backoff

if TYPE_CHECKING:
    from gapless_kafka.access.errors import PartitionUnreadableError
    from gapless_spark.archiving.archive.planning import Pending, TopicPending

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 600.0


class Stop(NamedTuple):
    """Where a partition stops."""

    offset: int
    reason: str
    failures: int = 1
    again_at: float = float("inf")
    """On the monotonic clock."""


class Stops:
    """The stopped partitions of a run, by topic, topic ID and partition."""

    def __init__(self, *, retries: bool) -> None:
        """A run that ends by itself does not retry."""
        self._retries = retries
        self._stops: dict[tuple[str, str, int], Stop] = {}

    def add(self, error: PartitionUnreadableError, topic_id: str, chosen: Sequence[Pending]) -> None:
        """Stop a partition at the offset of `error`, or where its reading began if that is not known."""
        (read,) = (each for each in chosen if (each.topic, each.partition) == (error.topic, error.partition))
        offset = error.offset if read.first <= error.offset < read.end else read.first
        place = (error.topic, topic_id, error.partition)
        before = self._stops.get(place)
        failures = before.failures + 1 if before is not None and before.offset == offset else 1
        pause = backoff(failures - 1, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS)
        again_at = time.monotonic() + pause if self._retries else float("inf")
        self._stops[place] = Stop(offset, error.reason, failures, again_at)
        where = {"topic": error.topic, "partition": error.partition, "offset": offset}
        _log().error("partition stops", **where, reason=error.reason)

    def apply(self, topic: str, topic_id: str, pending: TopicPending) -> tuple[TopicPending, dict[int, Stop]]:
        """Take what is stopped from the pending offsets of a topic; return also its stops, by partition.

        A stop that is to be tried again takes nothing; one whose offset was archived or deleted is over.
        """
        stops: dict[int, Stop] = {}
        partitions = []
        for partition in pending.partitions:
            place = (topic, topic_id, partition.partition)
            stop = self._stops.get(place)
            if stop is not None and partition.first > stop.offset:
                del self._stops[place]
                stop = None
            if stop is not None:
                stops[partition.partition] = stop
                if time.monotonic() < stop.again_at:
                    partition = replace(partition, end=min(partition.end, stop.offset))  # noqa: PLW2901 -- the same
            partitions.append(partition)
        return replace(pending, partitions=tuple(partitions)), stops


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
