"""The proof that every example in ``--help`` is a command line that its command accepts, as it is printed.

`integration/test_help_examples.py` executes them.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from pathlib import Path

import pytest

from gapless_api.base.settings import SettingsTable, resolve
from gapless_api.cli.settings_command import SettingsCommand
from unit.docs.command_tree import called, help_examples

SHORT_KEY = "MCowBQYDK2VwAyEA…"
"""The start of every public Ed25519 key; its 32 bytes follow."""
REST = "…"
"""Stands for the options of the example before it."""


EXAMPLES = help_examples()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_help_is_accepted(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line, _, _ = example.replace(SHORT_KEY, SHORT_KEY[:-1] + b64encode(bytes(32)).decode()).partition(" > ")
    command, words = called(shlex.split(line)[1:])
    for word in words:
        if word.endswith((".json", ".properties", ".pem", ".txt", ".yaml")):
            Path(word.partition("=")[2] or word).touch()
    with command.make_context("example", [word for word in words if word != REST]) as context:
        if isinstance(command, SettingsCommand) and command.table is not None:
            options = {setting.name: context.params.get(setting.name) for setting in command.table.settings}
            if REST in words or context.params.get("file") is not None:
                options = required(command.table) | {name: text for name, text in options.items() if text is not None}
            resolve(command.table, file=None, environment={}, options=options)


def required(table: SettingsTable) -> dict[str, str | None]:
    """Values for the required settings, which stand in a file or in the example before."""
    addresses = {"targetIP": "10.0.0.2", "targetPort": "1234"}
    return {setting.name: addresses.get(setting.name, "example") for setting in table.settings if setting.required}


def test_the_commands_have_examples() -> None:
    assert len(EXAMPLES) > 40
    with_examples = {shlex.split(example)[1] for example in EXAMPLES}
    assert with_examples >= {"scan", "create", "audit", "verify", "resend", "inventory", "link", "bundle", "mirror"}
    assert with_examples >= {"archive", "restore", "compact", "segments", "verify-copy", "doctor"}
