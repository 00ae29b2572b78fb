"""Owns how translated positions are shown as a table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.wire.mirror_groups import GroupsReport

_HEADINGS = ("GROUP", "TOPIC", "PARTITION", "SOURCE OFFSET", "TARGET", "TARGET OFFSET", "STATE")


def groups_table(report: GroupsReport) -> str:
    """The positions in columns, then a sentence for each finding, and the totals."""
    rows = [_HEADINGS]
    rows += [
        (
            move.group,
            move.topic,
            str(move.partition),
            f"{move.source_offset:,}",
            move.target,
            f"{move.target_offset:,}",
            move.state,
        )
        for move in report.moves
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines = lines if report.moves else []
    lines += [finding.message for finding in report.findings]
    counts = [(sum(move.state == state for move in report.moves), state) for state in ("moved", "planned", "unchanged")]
    told = ", ".join(f"{count:,} {state}" for count, state in counts if count) or "none can be translated"
    lines.append(f"Positions of {len(report.groups):,} groups: {told}.")
    return "\n".join(lines)
