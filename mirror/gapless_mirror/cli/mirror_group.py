"""Owns how ``gapless mirror`` is both a command and a group: ``gapless mirror [FILE] …`` and ``gapless mirror status``.

Must not know any subcommand: subcommands are entry points of the group ``gapless.mirror_commands``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gapless_api.cli.installed_commands import InstalledCommands
from gapless_api.cli.main import SettingsCommand

if TYPE_CHECKING:
    import click

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
