"""Owns the output of ``gapless compact`` for people and for the operator."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.wire.compaction_result import COMPACTION_LINE, CompactionLine
from gapless_archive.cli.texts import size_text
from gapless_spark.model.outcome import outcome_of

if TYPE_CHECKING:
    from gapless_api.base.errors import GaplessError
    from gapless_archive.compaction.compactor import CompactionResult


def write_status_line(result: CompactionResult) -> None:
    """Write the status line for the operator, unless the output is a terminal."""
    if sys.stderr.isatty():
        return
    line = CompactionLine(
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        segments_before=result.inputs,
        segments_after=result.outputs,
        records=result.records,
        bytes=result.content_bytes,
        deleted_objects=result.deleted + result.orphans,
    )
    sys.stderr.write(COMPACTION_LINE.to_line(line) + "\n")


def outcome_word(failure: GaplessError | None, result: CompactionResult) -> str:
    """Return the outcome of a run for the report."""
    if result.damaged:
        return "damaged-segments"
    if failure is not None:
        return outcome_of(failure)
    return "compacted" if result.outputs or result.expired or result.deleted or result.orphans else "nothing-to-do"


def summary_sentence(result: CompactionResult) -> str:
    """Summarize what a run has done."""
    parts = []
    if result.outputs:
        parts.append(
            f"Joined {result.inputs:,} segments into {result.outputs:,} ({result.records:,} records, "
            f"{size_text(result.input_bytes)} became {size_text(result.output_bytes)})."
        )
    else:
        parts.append("No segments to join.")
    if result.skipped:
        parts.append(f"Skipped {result.skipped:,} joins, because another program changed the segments.")
    if result.expired:
        parts.append(f"Removed {result.expired:,} old segments.")
    if result.deleted or result.orphans:
        parts.append(f"Deleted {result.deleted + result.orphans:,} objects.")
    if result.waiting:
        parts.append(f"{result.waiting:,} objects will be deleted after the grace period.")
    if result.held:
        parts.append(f"On hold, nothing is deleted: {', '.join(result.held)}.")
    return " ".join(parts)
