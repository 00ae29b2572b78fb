"""The pages of docs/reference that are made from the code, so that the two cannot say different things.

Must not know any command, setting or field: it reads the installed ones. ``make docs`` writes the pages; a test runs
``--check``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import sys
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from guarded_fields import guarded_fields_page
from messages_page import messages_page

from gapless_api.base.exit_codes import ExitCode
from gapless_api.cli.main import gapless
from gapless_api.cli.settings_command import SettingsCommand
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.kinds import KINDS
from gapless_api.v1alpha1.reason_meanings import MEANINGS
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resource import API_VERSION
from gapless_api.v1alpha1.schema import root_schema
from gapless_mirror.doctor.kinds import KINDS as DOCTOR_KINDS
from gapless_mirror.doctor.kinds import FindingId
from gapless_spark.mirror.transform_functions import FUNCTIONS, MAX_PADDING

if TYPE_CHECKING:
    from enum import Enum

    from gapless_api.base.settings import SettingsTable

HERE = Path(__file__).parent / "reference"
MADE = "<!-- Made by `make docs` from the code; do not edit. -->\n"
HOW_SETTINGS_ARE_FOUND = (
    "Later wins: the default; the properties file; the environment; the command line. Options may be written in "
    "kebab-case or camelCase; files use either. ★ marks what air-gap does not have.\n"
)
HOW_VARIABLES_ARE_FOUND = (
    "Variables with other prefixes are accepted too: {}. `GAPLESS_` takes precedence over `AIRGAP_`, and an unknown "
    "variable with one of the prefixes `GAPLESS_` is an error."
)
HOW_FINDINGS_ARE_READ = (
    "Each finding says what is wrong, where, and what to do. `error`: something does not work, or data is lost. "
    "`warning`: it may come to that. `note`: good to know, or not checked. Errors give exit code 4.\n"
)
HOW_FUNCTIONS_ARE_BOUNDED = (
    "`--transform` and `Mirror.spec.transform` may call these functions of Spark SQL, by these names only, and no "
    "others. Literal arguments are texts between quotes, or numbers. Regular expressions must take linear time: "
    "repetitions without limit (`*`, `+`) only at the end, or once in an expression that begins with `^`; no "
    f"backreferences, lookarounds or flags other than `(?i)`. `lpad` and `rpad` make at most {MAX_PADDING:,} "
    "characters.\n"
)
OPERATORS = (
    "Operators: `=`, `<=>`, `<>`, `<`, `<=`, `>`, `>=`, `+`, `-`, `*`, `/`, `%`, `DIV`, `&`, `^`, `||`, `AND`, `OR`, "
    "`NOT`, `IN` with a list, `BETWEEN`, `IS NULL`, `IS DISTINCT FROM`, `LIKE`, `ILIKE`, `RLIKE`, `CASE`, `CAST`, "
    "`try_cast`, and `headers[0].value`.\n"
)
HOW_CONDITIONS_ARE_READ = (
    "Every kind but StorageLocation has conditions in its status. "
    "`kubectl wait --for=condition=Succeeded resend/NAME` waits for one, and `kubectl describe` shows them with a "
    "sentence that says what to do. Each carries the generation of the spec that it is about.\n"
)
HOW_RESOURCES_ARE_CHECKED = (
    f"All kinds are `{API_VERSION}`, namespaced, and in the category `gapless` (`kubectl get gapless`). `kubectl "
    "explain` says the same in the terminal. Everything has bounds, and the API server (Kubernetes 1.31 or newer) "
    "checks the rules below when an object is applied. Examples: [examples/](../../examples).\n"
)


def settings_page(name: str, command: SettingsCommand, *, others: str = "air-gap's other programs") -> str:
    """The page of one command: every setting with its spellings, its variable and its default."""
    table = command.table
    if table is None:
        raise TypeError(name)
    lines = [
        MADE,
        f"# Settings of `gapless {name}`\n",
        f"{command.get_short_help_str(200)}\n",
        HOW_SETTINGS_ARE_FOUND,
    ]
    groups: dict[str, list[str]] = {}
    for setting in table.settings:
        names = ", ".join(f"`{alias}`" for alias in setting.aliases)
        cells = (
            f"`{setting.name}`{'' if setting.peer else ' ★'}{f' (also {names})' if names else ''}",
            f"`{setting.options[0]}`",
            f"`{table.prefix}{setting.variable}`",
            setting.default_text or ("required" if setting.required else ""),
            setting.help,
        )
        row = " | ".join(cell.replace("|", "\\|") for cell in cells)
        groups.setdefault(setting.group or "Other", []).append(f"| {row} |")
    for group, rows in groups.items():
        lines += [f"## {group}\n", "| setting | option | variable | default | what it does |", "|---|---|---|---|---|"]
        lines += [*rows, ""]
    lines += [f"{HOW_VARIABLES_ARE_FOUND.format(table.other_prefixes_text)}\n"]
    if table.foreign:
        lines += ["## Known and not used\n", f"Settings of {others} may stand in the same file:\n"]
        lines += [f"- `{key}`: {reason}" for key, reason in sorted(table.foreign.items())]
        lines.append("")
    return "\n".join(lines)


def group_page(name: str, group: click.Group) -> str:
    """The page of a group: every subcommand with its text and its options."""
    lines = [MADE, f"# `gapless {name}`\n", f"{group.get_short_help_str(200)}\n"]
    parent = click.Context(group, info_name=f"gapless {name}")
    for below in group.list_commands(parent):
        command = group.get_command(parent, below)
        if command is None:
            continue
        context = click.Context(command, info_name=below, parent=parent)
        usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
        lines += [f"## {below}\n", f"```\n{usage}\n```\n", f"{_paragraphs(command.help or '')}\n"]
        options = [param for param in command.params if isinstance(param, click.Option)]
        rows = [f"| `{_names(option, context)}` | {_cell(option.help or '')} |" for option in options]
        lines += ["| option | what it does |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def _names(option: click.Option, context: click.Context) -> str:
    """The names that ``--help`` shows, without the placeholder of the value."""
    shown = option.get_help_record(context)
    return ", ".join(name for name in option.opts if shown is None or name in shown[0].replace(",", " ").split())


def _paragraphs(text: str) -> str:
    """The text of a command, with its examples set apart as click would."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        "```\n" + "\n".join(line.strip() for line in part.splitlines()[1:]) + "\n```" if part[0] == "\b" else part
        for part in parts
    )


def exit_codes_page() -> str:
    """The table of exit codes, with the sentences that stand in the code."""
    source = Path(sys.modules[ExitCode.__module__].__file__ or "").read_text(encoding="utf-8").splitlines()
    lines = [MADE, "# Exit codes\n", "| code | name | meaning |", "|---|---|---|"]
    for code in ExitCode:
        at = next(i for i, line in enumerate(source) if line.strip() == f"{code.name} = {code.value}")
        meaning = source[at + 1].strip().strip('"')
        lines.append(f"| {code.value} | {code.name} | {meaning} |")
    lines += ["", "1 is a defect of Gapless itself: please report it with what was printed.", ""]
    return "\n".join(lines)


def conditions_page() -> str:
    """The types of conditions, with the sentences that stand in the code, and every reason by kind."""
    lines = [
        MADE,
        "# Conditions\n",
        HOW_CONDITIONS_ARE_READ,
        "| condition | meaning when True |",
        "|---|---|",
    ]
    sentences = _docstrings_of_members(ConditionType)
    lines += [f"| {kind} | {_cell(sentences[kind.name])} |" for kind in ConditionType]
    for kind in (kind for kind in KINDS if "status" in kind.model_fields):
        lines += [
            f"\n## Reasons of {'an' if kind.KIND[0] in 'AEIOU' else 'a'} {kind.KIND}\n",
            "| reason | meaning | what to do |",
            "|---|---|---|",
        ]
        lines += [
            f"| {reason} | {_cell(MEANINGS[reason].meaning)} | {_cell(MEANINGS[reason].action)} |"
            for reason in Reason
            if kind.KIND in MEANINGS[reason].kinds
        ]
    return "\n".join([*lines, ""])


def doctor_findings_page() -> str:
    """All findings of the doctor, as its table has them."""
    lines = [
        MADE,
        "# Findings of `gapless doctor`\n",
        HOW_FINDINGS_ARE_READ,
        "| finding | severity | meaning | what to do | danger |",
        "|---|---|---|---|---|",
    ]
    for kind in FindingId:
        known = DOCTOR_KINDS[kind]
        cells = (f"`{kind}`", known.severity, known.meaning, known.action, known.danger)
        lines.append(f"| {' | '.join(map(_cell, cells))} |".replace("  |", " |"))
    return "\n".join([*lines, ""])


def api_page() -> str:
    """Every field of every kind, as the definitions have it."""
    lines = [
        MADE,
        "# Resources\n",
        HOW_RESOURCES_ARE_CHECKED,
    ]
    for kind in KINDS:
        schema = root_schema(kind)
        short = ", ".join(f"`{name}`" for name in kind.SHORT_NAMES)
        lines += [f"## {kind.KIND}\n", f"{schema['description']} Short: {short}.\n"]
        for part in (name for name in ("spec", "status") if name in kind.model_fields):
            lines += [f"### {kind.KIND} {part}\n", "| field | type | default | what it is |", "|---|---|---|---|"]
            rules: list[str] = []
            _add_fields(schema["properties"][part], part, lines, rules)
            if rules:
                lines += ["\nRules:\n", *rules]
            lines.append("")
    return "\n".join(lines)


def _add_fields(schema: dict[str, Any], path: str, lines: list[str], rules: list[str]) -> None:
    """Add the rows of all fields below `schema`, and the rules that bind them."""
    rules += [f"- `{path}`: {rule['message']}." for rule in schema.get("x-kubernetes-validations", ())]
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if part["description"].startswith("Removed:"):
            continue
        required = name in schema.get("required", ())
        default = "required" if required else _default(part)
        lines.append(f"| `{where}` | {_type(part)} | {default} | {_cell(part['description'])} |")
        items = part.get("items", {})
        _add_fields(items if "properties" in items else part, f"{where}[]" if items else where, lines, rules)


def _type(schema: dict[str, Any]) -> str:
    """What may be written, in few words."""
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"up to {schema['maxItems']} times {_type(schema['items'])}"
    if schema.get("format") == "date-time":
        return "time"
    bounds = ""
    if "additionalProperties" in schema:
        bounds = f", up to {schema['maxProperties']} entries"
    elif "maxLength" in schema:
        bounds = f", up to {schema['maxLength']} characters"
    elif "minimum" in schema or "maximum" in schema:
        bounds = f", {schema.get('minimum', '')}…{schema.get('maximum', '')}"
    return f"{schema['type']}{bounds}"


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema or isinstance(schema["default"], dict):
        return ""
    return f"`{json.dumps(schema['default'])}`".replace('"', "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def transform_functions_page() -> str:
    """Every function that the SQL of a mirror may call, by group."""
    lines = [
        MADE,
        "# Functions in the SQL of a mirror\n",
        HOW_FUNCTIONS_ARE_BOUNDED,
        OPERATORS,
        "| group | function | arguments | literal arguments | size of the result |",
        "|---|---|---|---|---|",
    ]
    for name, function in FUNCTIONS.items():
        low, high = function.min_arguments, function.max_arguments
        constants = ", ".join(str(number + 1) for number in sorted(function.constants) if number < high) or "none"
        count = str(low) if low == high else f"{low} to {high}"
        size = function.growth.value
        lines.append(f"| {function.group} | `{name}` | {count} | {constants} | {size} |")
    return "\n".join(lines) + "\n"


def _docstrings_of_members(enum: type[Enum]) -> dict[str, str]:
    """The sentence below each member, which Python itself throws away."""
    body = next(node for node in ast.parse(inspect.getsource(enum)).body if isinstance(node, ast.ClassDef)).body
    return {
        node.targets[0].id: " ".join(sentence.value.value.split())
        for node, sentence in pairwise(body)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(sentence, ast.Expr)
        and isinstance(sentence.value, ast.Constant)
        and isinstance(sentence.value.value, str)
    }


def pages() -> dict[Path, str]:
    """Every page by its path."""
    made = {
        HERE / "exit-codes.md": exit_codes_page(),
        HERE / "conditions.md": conditions_page(),
        HERE / "api.md": api_page(),
        HERE / "messages.md": messages_page(MADE),
        HERE / "doctor-findings.md": doctor_findings_page(),
        HERE / "transform-functions.md": transform_functions_page(),
        HERE / "guarded-fields.md": f"{MADE}\n{guarded_fields_page()}",
    }
    context = click.Context(gapless)
    tables: list[SettingsTable | None] = []
    for name in gapless.list_commands(context):
        command = gapless.get_command(context, name)
        if isinstance(command, SettingsCommand) and command.table in tables:
            continue  # An old name of a command that has its page.
        if isinstance(command, SettingsCommand):
            tables.append(command.table)
            made[HERE / f"{name}.md"] = settings_page(name, command)
        elif isinstance(command, click.Group):
            made[HERE / f"{name}.md"] = group_page(name, command)
    for entry in metadata.entry_points(group="gapless.mirror_commands"):
        made[HERE / f"mirror-{entry.name}.md"] = settings_page(
            f"mirror {entry.name}", entry.load(), others="`gapless mirror` itself"
        )
    return made


def main() -> None:
    """Write the pages, or with ``--check`` say which are not as the code has them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path, text in pages().items():
        if check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path.name)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale:
        sys.exit(f"docs/reference is not as the code says ({', '.join(sorted(stale))}); run make docs.")


if __name__ == "__main__":
    main()
