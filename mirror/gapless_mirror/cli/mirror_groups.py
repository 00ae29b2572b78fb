"""The command ``gapless mirror groups``; must not know how offsets are translated."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, with_settings
from gapless_mirror.settings.peer_settings import resolved_with_peer_files
from gapless_mirror.settings.subcommands import GROUPS


@click.command(cls=command_with(GROUPS), context_settings={"max_content_width": 110})
@with_settings(GROUPS)
def groups(file: Path | None, **options: str | None) -> int:
    """Translate committed offsets of consumer groups to the target of a mirror, each to exactly the same record.

    The metadata of offsets is carried over. An offset that cannot be translated exactly is reported and not committed;
    topics of the groups that the mirror has not copied are reported, too. Groups with members at the target are not
    changed, and no offset moves backwards. Each committed offset is read back. FILE may be that of gapless mirror.

    \b
      gapless mirror groups --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092 --groups=billing --plan
      gapless mirror groups mirror.properties --group-prefix=app- --json

    Ends with 0 done, 2 bad configuration or no such mirror, 3 Kafka unreachable or stalled, 4 some offsets were not
    translated (they are listed).
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolved_with_peer_files(GROUPS, file, options)
    from gapless_mirror.workers.groups_command import run  # noqa: PLC0415 -- Kafka's client loads only when needed

    return run(settings)
