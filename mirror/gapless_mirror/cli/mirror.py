"""``gapless mirror [FILE]``, which is a command and a group, and ``gapless mirror status``.

Further subcommands are entry points of the group ``gapless.mirror_commands``. Must not know how workers copy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapless_api.cli.installed_commands import InstalledCommands
from gapless_api.cli.settings_command import SettingsCommand, command_with, resolve_settings, with_settings
from gapless_mirror.settings.peer_settings import resolved_with_peer_files
from gapless_mirror.settings.table import MIRROR, STATUS

if TYPE_CHECKING:
    from gapless_api.base.settings import SettingsTable


_INSTALLED = InstalledCommands()
_INSTALLED.entry_points = "gapless.mirror_commands"
_NAME = re.compile(r"[a-z]+")


class MirrorCommand(SettingsCommand):
    """A command with settings that runs a subcommand instead when its first argument names one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `args`, or keep them for the subcommand."""
        subcommand = self.subcommand(ctx, args[0]) if args else None
        if subcommand is None:
            return super().parse_args(ctx, args)
        ctx.meta[__name__] = (subcommand, args[0], args[1:])
        return []

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or the subcommand."""
        if __name__ not in ctx.meta:
            return super().invoke(ctx)
        subcommand, name, args = ctx.meta[__name__]
        with subcommand.make_context(f"{ctx.info_name} {name}", list(args), parent=ctx.parent) as inner:
            return subcommand.invoke(inner)

    def subcommand(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the subcommand `name`, if it exists."""
        return _INSTALLED.get_command(ctx, name) if _NAME.fullmatch(name) else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands, then the options."""
        _INSTALLED.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def mirror_command_with(settings_table: SettingsTable) -> type[MirrorCommand]:
    """Return the class of a command with the settings of a table, for ``@click.command(cls=…)``."""
    return type("MirrorCommandWithSettings", (MirrorCommand,), {"table": settings_table})


@click.command(cls=mirror_command_with(MIRROR), context_settings={"max_content_width": 110})
@with_settings(MIRROR)
def mirror(file: Path | None, **options: str | None) -> int:
    """Copy topics live to another Kafka cluster, exactly once, with their partitions, keys, headers and timestamps.

    Records and the source position after them are written in one transaction on the target cluster, so no record is
    lost or duplicated, even if a worker is killed. Workers of the same name share the partitions by Kafka's group
    protocol; when one dies, the others take over within 10 seconds. Missing topics are created with the settings and
    the partition count of the source. FILE holds settings as key=value lines, or is mm2.properties of MirrorMaker 2;
    give files of MirrorMaker 1 with --consumer-config and --producer-config.

    \b
      gapless mirror --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092 --topics=orders
      gapless mirror … --topic-prefix=log- --workers=4 --max-bytes-per-second=50MiB
      gapless mirror … --topics=orders --once --report=mirror.json
      gapless mirror … --topics=orders --rename={source}.{topic} --source-name=east
      gapless mirror mm2.properties --flow='A->B'

    With --once it copies the current records and exits, which suits a schedule; no workers of the same name may run at
    the same time. Otherwise it runs until it is stopped, and finds new topics and partitions within a minute.

    Ends with 0 done, 2 bad configuration, no such topic or another engine has taken over, 3 Kafka unreachable or
    stalled, 4 done but some partitions could not be copied completely (they are listed), 130/143 stopped by a signal
    with progress saved.
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolved_with_peer_files(MIRROR, file, options)
    from gapless_mirror.workers.command import run  # noqa: PLC0415 -- Kafka's client loads only when needed

    return run(settings)


@click.command(cls=command_with(STATUS), context_settings={"max_content_width": 110})
@with_settings(STATUS)
def status(file: Path | None, **options: str | None) -> int:
    """Show the progress of a mirror: the position, lag and losses of each source partition, and its engine.

    Reads the control topic on the target cluster and the end offsets of the source; changes nothing. FILE may be that
    of gapless mirror.

    \b
      gapless mirror status --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092
      gapless mirror status mirror.properties --json

    Ends with 0 done, 2 bad configuration or no such mirror, 3 Kafka unreachable or stalled.
    """  # noqa: D301
    settings = resolve_settings(STATUS, file, options)
    from gapless_mirror.workers.status_command import run  # noqa: PLC0415

    return run(settings)
