"""Owns how ``gapless mirror`` is a command and a group as well: ``gapless mirror [FILE] …`` and ``mirror status``.

Must not know any subcommand: those are entry points of the group ``gapless.mirror_commands``.
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
    """A command with settings; when its first argument is the name of a subcommand, that one runs instead."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `args`, or keep them for the subcommand."""
        below = self.below(ctx, args[0]) if args else None
        if below is None:
            return super().parse_args(ctx, args)
        ctx.meta[__name__] = (below, args[0], args[1:])
        return []

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or the subcommand."""
        if __name__ not in ctx.meta:
            return super().invoke(ctx)
        below, name, args = ctx.meta[__name__]
        with below.make_context(f"{ctx.info_name} {name}", list(args), parent=ctx.parent) as inner:
            return below.invoke(inner)

    def below(self, ctx: click.Context, name: str) -> click.Command | None:
        """The subcommand `name`, if there is one."""
        return _INSTALLED.get_command(ctx, name) if _NAME.fullmatch(name) else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands before the options."""
        _INSTALLED.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def mirror_command_with(settings_table: SettingsTable) -> type[MirrorCommand]:
    """The class of the command with the settings of a table, for ``@click.command(cls=…)``."""
    return type("MirrorCommandWithSettings", (MirrorCommand,), {"table": settings_table})
