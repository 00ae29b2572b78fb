"""``gapless mirror groups``: it translates consumer group offsets once, or only shows them, and prints a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.quantities import quantity
from gapless_api.cli.json_output import print_json
from gapless_api.wire.mirror_groups import GROUPS_REPORT, GroupsReport
from gapless_mirror.groups.choice import group_choice_from
from gapless_mirror.groups.translation import GroupTranslation
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.settings.subcommands import SubcommandSettings, list_unknown
from gapless_mirror.settings.typed import cluster_connection

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved

_HEADINGS = ("GROUP", "TOPIC", "PARTITION", "SOURCE OFFSET", "TARGET", "TARGET OFFSET", "STATE")


def group_translation(values: Mapping[str, Any]) -> GroupTranslation | None:
    """Return the translation of the groups that the settings select; ``None`` for none."""
    choice = group_choice_from(values)
    if not choice:
        return None
    source, target = cluster_connection(values, "source"), cluster_connection(values, "target")
    identity = MirrorIdentity(values["name"])
    return GroupTranslation(source, target, identity, choice, timeout_seconds=values["connectTimeout"])


def run(settings: Resolved) -> int:
    """Translate, print, and return the exit code. Raises GaplessError."""
    options = SubcommandSettings.of(settings.values)
    list_unknown(settings)
    translation = group_translation(settings.values)
    if translation is None:
        raise ConfigurationError("No consumer groups are chosen; give groups, groupPrefix or groupPattern.")
    report = translation.run(writes=not options.plan)
    if options.json:
        print_json(GROUPS_REPORT.to_json(report), "moves")
    else:
        sys.stdout.write(groups_table(report) + "\n")
    return ExitCode.INCOMPLETE if any(finding.is_problem for finding in report.findings) else ExitCode.DONE


def groups_table(report: GroupsReport) -> str:
    """Format the offsets as a table, followed by the findings and the totals."""
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
    totals = ", ".join(f"{count:,} {state}" for count, state in counts if count) or "none can be translated"
    lines.append(f"Positions of {quantity(len(report.groups), 'group')}: {totals}.")
    return "\n".join(lines)
