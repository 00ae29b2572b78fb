"""The manual pages and the completion scripts of a release, made from the help of the installed commands.

Must not know any command.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from release.steps import run

SHELLS = {
    "bash": "bash-completion/completions/gapless",
    "zsh": "zsh/site-functions/_gapless",
    "fish": "fish/vendor_completions.d/gapless.fish",
}
"""Where each shell looks for completions, below /usr/share."""

_HELP = """
import json, sys
import click
from click.testing import CliRunner
from gapless_api.cli.main import gapless

def helps(command, path):
    context = click.Context(command, info_name=" ".join(path))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from helps(inner, [*path, name])
    for option in ("--help-all", "--help"):
        shown = CliRunner().invoke(gapless, [*path[1:], option], prog_name="gapless", terminal_width=80)
        if shown.exit_code == 0:
            yield "-".join(path), command.get_short_help_str(200), shown.output
            return
    raise SystemExit(f"{' '.join(path)} --help: {shown.output}")

json.dump(list(helps(gapless, ["gapless"])), sys.stdout)
"""


def write_manual(site: Path, version: str, time: int, share: Path) -> None:
    """Write a manual page for each command, and a completion script for each shell.

    Args:
        site: the folder of the installed packages, for the Python that runs this.
        version: of the release.
        time: of the release, in seconds since 1970.
        share: the folder for ``man`` and for what `SHELLS` names.

    Raises:
        ReleaseError: a command has no help.
    """
    variables = {"PYTHONPATH": str(site)}
    pages = share / "man" / "man1"
    pages.mkdir(parents=True)
    date = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")
    for name, summary, text in json.loads(run(sys.executable, "-c", _HELP, variables=variables)):
        (pages / f"{name}.1").write_text(manual_page(name, summary, text, version, date), encoding="utf-8")
    for shell, place in SHELLS.items():
        file = share / place
        file.parent.mkdir(parents=True)
        command = "from gapless_api.cli.main import main; main()"
        file.write_text(run(sys.executable, "-c", command, "completion", shell, variables=variables), encoding="utf-8")


def manual_page(name: str, summary: str, text: str, version: str, date: str) -> str:
    """Return the manual page of a command in roff: its help, line by line.

    Args:
        name: as in the name of the file, with dashes between the words of the command.
        summary: one sentence.
        text: its complete help.
        version: of the release.
        date: of the release.
    """
    head = [
        f'.TH "{name.upper()}" 1 "{date}" "Gapless {version}"',
        ".SH NAME",
        _line(f"{name} - {summary.rstrip('.')}"),
    ]
    usage, _, rest = text.partition("\n")
    synopsis = [".SH SYNOPSIS", _line(usage.removeprefix("Usage: "))]
    return "\n".join([*head, *synopsis, ".SH DESCRIPTION", ".nf", *map(_line, rest.strip("\n").split("\n")), ".fi", ""])


def _line(text: str) -> str:
    """Return a line of text, of which nothing is a request or an escape of roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
