"""The command ``gapless mirror diff``; must not know how topics are compared."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, with_settings
from gapless_mirror.settings.peer_settings import resolved_with_peer_files
from gapless_mirror.settings.subcommands import DIFF


@click.command(cls=command_with(DIFF), context_settings={"max_content_width": 110})
@with_settings(DIFF)
def diff(file: Path | None, **options: str | None) -> int:
    """Show how topics of the target differ from the source: settings, partition counts, missing topics.

    Settings that a mirror does not copy, such as min.insync.replicas, are not compared. Changes nothing. FILE may be
    that of gapless mirror.

    \b
      gapless mirror diff --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092 --topics=orders
      gapless mirror diff mirror.properties --json

    Ends with 0 no difference, 2 bad configuration or no such topic, 3 Kafka unreachable or stalled, 4 differences were
    found. With --exit-code it ends with 10 if only topics differ, and with 4 if a position does not hold.
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolved_with_peer_files(DIFF, file, options)
    from gapless_mirror.workers.diff_command import run  # noqa: PLC0415 -- Kafka's client loads only when needed

    return run(settings)
