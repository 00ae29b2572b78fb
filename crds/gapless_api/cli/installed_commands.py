"""Owns how a group of commands finds those that installed packages announce; must not know any command."""

from __future__ import annotations

from importlib import metadata

import click


class InstalledCommands(click.Group):
    """A group whose subcommands are entry points as well, loaded only when they are needed."""

    entry_points = "gapless.commands"
    """Group of the entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All announced names, in the alphabet's order."""
        return sorted({*super().list_commands(ctx), *(entry.name for entry in self._announced())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the subcommand `cmd_name`, or ``None``."""
        for entry in self._announced():
            if entry.name == cmd_name:
                command: click.Command = entry.load()
                return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its complete first sentence, which click would cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in found if command])

    def _announced(self) -> metadata.EntryPoints:
        return metadata.entry_points(group=self.entry_points)


def installed_commands(entry_points: str) -> type[InstalledCommands]:
    """The class of a group whose subcommands are the entry points of the group `entry_points`."""
    return type("InstalledCommands", (InstalledCommands,), {"entry_points": entry_points})
