"""Owns ``gapless mirror groups``: positions of consumer groups are translated now, or only shown."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.wire.mirror_groups import GROUPS_REPORT
from gapless_kafka.mirror.groups.choice import group_choice_from
from gapless_kafka.mirror.groups.output import groups_table
from gapless_kafka.mirror.groups.translation import GroupTranslation
from gapless_kafka.mirror.lanes.identity import MirrorIdentity
from gapless_kafka.mirror.settings.typed import cluster_connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.base.settings import Resolved


def group_translation(values: Mapping[str, Any]) -> GroupTranslation | None:
    """What translates the groups that settings choose; ``None`` for none."""
    choice = group_choice_from(values)
    if not choice:
        return None
    source, target = cluster_connection(values, "source"), cluster_connection(values, "target")
    identity = MirrorIdentity(values["name"])
    return GroupTranslation(source, target, identity, choice, timeout_seconds=values["connectTimeout"])


def run(settings: Resolved) -> int:
    """Translate, print, and return the exit code. Raises GaplessError."""
    values = settings.values
    translation = group_translation(values)
    if translation is None:
        raise ConfigurationError("No consumer groups are chosen; give groups, groupPrefix or groupPattern.")
    report = translation.run(writes=not values["plan"])
    text = json.dumps(GROUPS_REPORT.to_json(report), indent=2) if values["json"] else groups_table(report)
    sys.stdout.write(text + "\n")
    return ExitCode.INCOMPLETE if any(finding.is_problem for finding in report.findings) else ExitCode.DONE
