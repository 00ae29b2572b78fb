"""The figures in an Archive's status, from the progress lines of its pods; must not know what they lead to."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.archive_status import MAX_STATUS_TOPICS, ArchivedTopic, ArchiveStatus
from gapless_operator.common.observed import moment

if TYPE_CHECKING:
    from gapless_api.wire.archive_progress import ArchivedTopicLine, ArchiveLine
    from gapless_operator.engines.engine import Attempt

WRITE_EVERY = timedelta(seconds=10)
"""The minimum interval between writes of figures to the status."""


def line_of(attempt: Attempt | None) -> ArchiveLine | None:
    """The last progress line of an attempt; ``None`` while there is none."""
    return attempt.driver.output.archive if attempt is not None and attempt.driver is not None else None


def figures(before: ArchiveStatus, line: ArchiveLine | None, now: datetime, *, at_once: bool = False) -> dict[str, Any]:
    """Return the changed fields of the status; none before the next write is due.

    Args:
        before: the last written status.
        line: the last progress line, if there is one.
        now: the time.
        at_once: whether to write now, because the attempt has ended.
    """
    if line is None:
        return {}
    is_recent = before.updated_at is not None and now - before.updated_at < WRITE_EVERY
    if is_recent and not at_once:
        return {}
    fields: dict[str, Any] = {
        "segments": _count(line.segments),
        "bytes": _count(line.bytes),
        "records": _count(line.records),
        "lag_records": _count(line.lag_records),
        "lag_seconds": line.lag_seconds,
        "retention_seconds": line.retention_seconds,
        "lost_records": _count(line.lost_records),
        "last_commit_time": moment(line.last_commit),
        "topics": tuple(map(_topic, line.topics[:MAX_STATUS_TOPICS])),
        "topics_omitted": _count(line.topics_omitted + max(len(line.topics) - MAX_STATUS_TOPICS, 0)),
        "read_by": line.read_by or before.read_by,
    }
    is_same = all(getattr(before, name) == value for name, value in fields.items())
    return {} if is_same else {**fields, "updated_at": now.replace(microsecond=0)}


def _topic(line: ArchivedTopicLine) -> ArchivedTopic:
    return ArchivedTopic(
        topic=line.topic,
        topic_id=line.topic_id or None,
        partitions=line.partitions,
        segments=_count(line.segments),
        covered_up_to=moment(line.covered_up_to),
        lag_records=_count(line.lag_records),
        lag_seconds=line.lag_seconds,
        lost_records=_count(line.lost_records),
    )


def _count(number: int) -> int:
    return min(number, MAX_OFFSET)
