"""Command groups whose subcommands installed packages register; must not know any command."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import metadata

import click

from gapless_api.cli.optional_packages import missing_command


class InstalledCommands(click.Group):
    """A group that also has the commands of an entry point group, which are loaded on demand."""

    entry_points = "gapless.commands"
    """The entry point group."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands, sorted."""
        return sorted({*super().list_commands(ctx), *(entry.name for entry in self._registered())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load and return the subcommand `cmd_name`; ``None`` if there is none."""
        for entry in self._registered():
            if entry.name == cmd_name:
                command: click.Command = entry.load()
                return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand of `args`. Raises ConfigurationError if its package is not installed."""
        missing = missing_command(self.entry_points, ctx.command_path, args[0]) if args else None
        if missing is not None and self.get_command(ctx, args[0]) is None:
            raise missing
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            similar = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not similar:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {similar[0]!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its complete first sentence, which click would truncate."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in commands if command])

    def _registered(self) -> metadata.EntryPoints:
        return metadata.entry_points(group=self.entry_points)


def installed_commands(entry_points: str) -> type[InstalledCommands]:
    """Return the class of a group with the commands of the entry point group `entry_points`."""
    return type("InstalledCommands", (InstalledCommands,), {"entry_points": entry_points})
