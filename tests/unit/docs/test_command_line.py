"""The grammar that `docs/reference/command-line.md` describes holds for every command."""

from __future__ import annotations

from typing import Any

import click
import pytest

from gapless_api.cli.json_output import FORMS
from gapless_api.cli.settings_command import SettingsCommand
from kit.story.commands import GAPLESS
from unit.docs.command_tree import COMMANDS

_PLURALS = ("topic", "group")
_LINES = 120
"""Of a help text: two pages of a terminal."""
TABLES = {" ".join(path): command for path, command in COMMANDS.items() if isinstance(command, SettingsCommand)}


def options_of(command: click.Command) -> set[str]:
    context = click.Context(command)
    return {option for param in command.get_params(context) for option in param.opts}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_names_of_one_thing_are_accepted_everywhere(path: tuple[str, ...]) -> None:
    options = options_of(COMMANDS[path])
    for word in _PLURALS:
        both = {f"--{word}", f"--{word}s"}
        assert not options & both or both <= options, f"{options & both} alone"
    assert ("--plan" in options) == ("--dry-run" in options)
    assert ("--json" not in options) or {"-o", "--output"} <= options
    for param in COMMANDS[path].get_params(click.Context(COMMANDS[path])):
        if "-o" in param.opts and isinstance(param.type, click.Choice):
            assert tuple(param.type.choices) == FORMS


@pytest.mark.parametrize("name", TABLES)
def test_help_fits_on_two_pages_and_has_what_is_required(name: str) -> None:
    command = TABLES[name]
    assert command.table is not None
    table, context = command.table, click.Context(command, info_name=name)
    assert len(table.common) <= 12
    assert {setting.name for setting in table.settings if setting.required} <= set(table.common or table_names(table))
    assert set(table.common) <= table_names(table)
    assert command.get_help(context).count("\n") <= _LINES
    if table.common:
        context.meta["gapless.help-all"] = True
        shown = command.get_help(context)
        assert [each.options[0] for each in table.settings if f"  {each.options[0]}" not in shown] == []


def table_names(table: Any) -> set[str]:
    return {setting.name for setting in table.settings}


def test_help_all_shows_what_help_does_not() -> None:
    short, all_ = (GAPLESS.run("resend", option).stdout for option in ("--help", "--help-all"))
    assert "--payload-size" not in short
    assert "gapless resend --help-all shows all" in short
    assert "--payload-size" in all_
    assert "Where settings come from" in all_


@pytest.mark.parametrize("form", ["json", "jsonl", "text"])
def test_a_form_that_contradicts_another_one_is_refused(form: str) -> None:
    ended = GAPLESS.run("segments", "list", "--archive=/nowhere", "-o", form, "--json")
    assert ended.returncode == 2
    assert ("contradict each other" in ended.stderr) == (form == "text")
