"""The JSON lines for other programs about the plan and the progress of a restore; not written to a terminal."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from gapless_api.wire.restore_progress import (
    RESTORE_LINE,
    RESTORE_PLAN_LINE,
    LostRangeLine,
    PlannedTopicLine,
    RestoreLine,
    RestorePlanLine,
)

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.account import Account

_MAX_TOPICS, _MAX_FINDINGS, _MAX_RANGES = 100, 50, 100


class RestoreLines:
    """Writes lines to standard error unless that is a terminal."""

    def __init__(self, account: Account, *, interval_seconds: float) -> None:
        """`interval_seconds` is the minimum time between two lines of progress; 0 for no lines."""
        self._account = account
        self._interval_seconds = interval_seconds
        self._is_silent = not interval_seconds or sys.stderr.isatty()
        self._due = 0.0

    def plan(self) -> None:
        """Write the plan."""
        self._write(RESTORE_PLAN_LINE.to_line(plan_line(self._account, now=_now())))

    def progress(self, state: Literal["restoring", "following", "done"], *, at_once: bool = True) -> None:
        """Write the progress; without `at_once` only if the last line is old enough."""
        if at_once or time.monotonic() >= self._due:
            self._due = time.monotonic() + self._interval_seconds
            self._write(RESTORE_LINE.to_line(progress_line(self._account, state, now=_now())))

    def _write(self, line: str) -> None:
        if not self._is_silent:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def plan_line(account: Account, *, now: str) -> RestorePlanLine:
    """Return the line about the plan."""
    new = {topic.topic for topic in account.new_topics}
    largest = sorted(account.restores, key=lambda restore: (-restore.records, str(restore.source)))
    return RestorePlanLine(
        time=now,
        records=sum(restore.records for restore in account.restores),
        bytes=sum(plan.bytes for restore in account.restores for plan in restore.plans),
        segments=sum(plan.segments for restore in account.restores for plan in restore.plans),
        restored_before=account.restored_before,
        topics=tuple(
            PlannedTopicLine(
                topic=restore.source.topic,
                to_topic=restore.target,
                topic_id=restore.source.topic_id,
                partitions=restore.partition_count,
                records=restore.records,
                create=restore.target in new,
            )
            for restore in largest[:_MAX_TOPICS]
        ),
        topics_omitted=max(len(largest) - _MAX_TOPICS, 0),
        findings=tuple(finding.sentence for finding in account.findings[:_MAX_FINDINGS]),
    )


def progress_line(account: Account, state: Literal["restoring", "following", "done"], *, now: str) -> RestoreLine:
    """Return the line about the progress, including earlier runs."""
    restored = account.restored_before + account.records
    remaining = 0 if state == "done" and account.is_finished else account.remaining
    seconds = max(time.monotonic() - account.started, 1e-6)
    speed = account.records / seconds
    lost = [
        LostRangeLine(topic=loss.topic, partition=loss.partition, first=loss.first, last=loss.last, reason=loss.reason)
        for loss in account.losses()
    ]
    return RestoreLine(
        time=now,
        state=state,
        planned=restored + remaining,
        restored=restored,
        remaining=remaining,
        lost=sum(line.last - line.first + 1 for line in lost),
        lost_ranges=tuple(lost[:_MAX_RANGES]),
        records_per_second=round(speed, 1),
        eta_seconds=round(remaining / speed, 1) if remaining and speed else None,
        last_write=account.last_write,
        waits_for=account.waits_for[:_MAX_TOPICS],
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
