"""All commands of the installed program, with the words that call them, and the examples in their help."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import metadata

import click

from gapless_api.cli.main import gapless
from gapless_mirror.cli.mirror import MirrorCommand


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands below one, with the words that call them."""
    yield path, command
    context = click.Context(command)
    if isinstance(command, click.Group):
        below = {name: command.get_command(context, name) for name in command.list_commands(context)}
    elif isinstance(command, MirrorCommand):
        names = sorted(metadata.entry_points(group="gapless.mirror_commands").names)
        below = {name: command.subcommand(context, name) for name in names}
    else:
        below = {}
    for name, each in below.items():
        assert each is not None, name
        yield from commands(each, *path, name)


COMMANDS = dict(commands(gapless))


def called(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """The command of the longest path that `words` begin with, and the other words."""
    length = max(count for count in range(len(words) + 1) if tuple(words[:count]) in COMMANDS)
    return COMMANDS[tuple(words[:length])], list(words[length:])


def help_examples() -> list[str]:
    """The examples of all commands, as printed; continued lines are joined, and what they do is left out."""
    found = []
    for command in COMMANDS.values():
        blocks = re.findall(r"\x08\n((?:.+\n?)+)", re.sub(r"\\\n\s*", "", command.help or ""))
        lines = [re.split(" {2,}", line.strip())[0] for block in blocks for line in block.splitlines()]
        found += [line for line in lines if line.startswith("gapless ") and tuple(line.split()[1:]) not in COMMANDS]
    return list(dict.fromkeys(found))
