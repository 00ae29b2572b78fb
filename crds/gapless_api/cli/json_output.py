"""Results for programs: ``-o json`` prints one document, ``-o jsonl`` a line for each entry, ``--report`` a file.

The only place that chooses the form. Must not know what is printed or written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gapless_api.base.files import write_atomically

FORMS = ("text", "json", "jsonl")
_FORM = "gapless.output"
"""The key of a context's form, as given with -o."""


def _choose(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    ctx.meta[_FORM] = value


_OPTION: dict[str, Any] = {
    "type": click.Choice(FORMS),
    "expose_value": False,
    "callback": _choose,
    "help": "Form of what is printed; -o json is --json, and -o jsonl a line for each entry.",
}
with_output = click.option("-o", "--output", **_OPTION)
"""Adds the option to a command."""


def output_option() -> click.Option:
    """Return the option, for a command that makes its options itself."""
    return click.Option(["-o", "--output"], **_OPTION)


def chosen_form() -> str | None:
    """The form that was given with -o to the command that runs; ``None`` for none."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_FORM) if context is not None else None


def is_json(*, as_json: bool = False) -> bool:
    """Whether the result is printed for programs: by ``-o``, or by ``--json``."""
    return as_json or chosen_form() in {"json", "jsonl"}


def print_json(document: Any, entries: str = "") -> None:
    """Print a document that JSON can hold.

    Args:
        document: an object, or a list of entries.
        entries: the name of the list that the object is about, for ``-o jsonl``; empty for none: then it is one line.
    """
    if chosen_form() != "jsonl":
        click.echo(_document(document))
        return
    listed = document if isinstance(document, list) else document[entries] if entries else [document]
    for entry in listed:
        click.echo(json.dumps(entry, ensure_ascii=False))


def write_report(path: Path | None, report: Mapping[str, Any]) -> None:
    """Write `report` to `path`, if there is one, completely or not at all. Raises LocalStorageError."""
    if path is not None:
        write_atomically(path, _document(report).encode() + b"\n", what="report")


def _document(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
