"""The reference page of the messages between programs; must not know their members: it reads the models."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from gapless_api.wire.archive_progress import ARCHIVE_LINE
from gapless_api.wire.audit_state import AUDIT_STATE
from gapless_api.wire.bundle_origin import BUNDLE_ORIGIN
from gapless_api.wire.compaction_result import COMPACTION_LINE
from gapless_api.wire.copy_report import COPY_REPORT
from gapless_api.wire.doctor_report import DOCTOR_REPORT
from gapless_api.wire.form import AtMost, Flat
from gapless_api.wire.link_profile import LINK_PROFILE
from gapless_api.wire.lost_times import LOST_TIMES
from gapless_api.wire.mirror_drift import DRIFT_REPORT
from gapless_api.wire.mirror_groups import GROUPS_REPORT
from gapless_api.wire.mirror_progress import MIRROR_LINE
from gapless_api.wire.preflight import PREFLIGHT_LINE
from gapless_api.wire.progress import PROGRESS_LINE
from gapless_api.wire.reading_progress import READING_LINE
from gapless_api.wire.resend_plan import SHORT_PLAN
from gapless_api.wire.resend_report import FULL_REPORT_HEAD, SHORT_REPORT, PartitionFigures, RangeKind
from gapless_api.wire.restore_progress import RESTORE_LINE, RESTORE_PLAN_LINE
from gapless_api.wire.scan_result import SCAN_REPORT, SCAN_RESULT, VERIFY_REPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_api.wire.form import Form

HOW_MESSAGES_ARE_READ = (
    "What one program of Gapless writes and another reads, in lines of a pod's log and in files. Every message says "
    "its version. A reader refuses another version, a member that is missing or unknown, and one of another type, with "
    "a sentence that names both versions; so use sender, Spark and operator images of one release. Numbers are 0 or "
    "more; integers have no upper bound where none is given. What may be null is always there.\n"
)


class _Message(NamedTuple):
    form: Form[Any]
    title: str
    about: str


_MESSAGES = (
    _Message(PROGRESS_LINE, "Progress line", "A line on standard error of `gapless resend` where that is no terminal."),
    _Message(
        READING_LINE,
        "Reading progress line",
        "A line on standard error of `gapless scan`, `create`, `audit`, `verify`, `verify-copy`, `compact`, `segments "
        "verify` and `inventory --absent` where that is no terminal, from the third second on.",
    ),
    _Message(
        FULL_REPORT_HEAD,
        "Resend report, full",
        "The file of `gapless resend --report`, which `gapless verify --resend-report` reads (also in versions 1 to 3; "
        "version 1 has no `form`). `partitions` follows, with the ranges by what became of them, both ends inclusive.",
    ),
    _Message(
        SHORT_REPORT,
        "Resend report, short",
        "The last line of `gapless resend --report-line`, and what the operator keeps in the ConfigMap of "
        "`status.report`, there without `event`. It does not list what was sent, so `gapless verify` refuses it.",
    ),
    _Message(
        SHORT_PLAN,
        "Resend plan",
        "The last line of `gapless resend --plan --report-line`. The file and the text on standard output have "
        '`"form": "full"`, no `event` and no `…Omitted`.',
    ),
    _Message(PREFLIGHT_LINE, "Preflight line", "What `gapless link preflight` prints."),
    _Message(
        LINK_PROFILE,
        "Link profile",
        "The file of `gapless link receive --profile`, which `gapless resend --link-profile` reads, and the "
        "operator for `profileRef` of a Diode.",
    ),
    _Message(
        ARCHIVE_LINE,
        "Archive progress line",
        "A line on standard error of `gapless archive` where that is no terminal: at the start, after commits and "
        "while nothing happens, and at the end.",
    ),
    _Message(COMPACTION_LINE, "Compaction result line", "The last line of `gapless compact` on standard error."),
    _Message(RESTORE_PLAN_LINE, "Restore plan line", "The last line of `gapless restore --plan` on standard error."),
    _Message(
        RESTORE_LINE,
        "Restore progress line",
        "A line on standard error of `gapless restore` where that is no terminal, and its last one.",
    ),
    _Message(
        MIRROR_LINE,
        "Mirror progress line",
        "A line on standard error of each worker of `gapless mirror` where that is no terminal: every "
        "`progressInterval`, when a stall begins or ends, and at the end.",
    ),
    _Message(DRIFT_REPORT, "Mirror drift report", "The output of `gapless mirror diff --json`."),
    _Message(GROUPS_REPORT, "Report of consumer groups", "The output of `gapless mirror groups --json`."),
    _Message(
        SCAN_RESULT,
        "Result of a scan",
        '`report` in the line `{"event": "result", "report": …}` that `gapless scan` and `gapless audit` print with '
        "`--result-lines`; `bundle_gzip_base64` beside it is the bundle. A result of more than 12,000 characters comes "
        "in several lines.",
    ),
    _Message(LOST_TIMES, "Times of losses", "`lost` in the report of `gapless audit`, and in `details` of its result."),
    _Message(
        COPY_REPORT,
        "Report of a comparison",
        "The file of `gapless verify-copy --report`, which `--check-report` reads. Its signature is Ed25519 over the "
        "line `gapless copy report` and all other members as JSON without white space, keys in the alphabet's order, "
        "as UTF-8. Reports of version 1 are read, too.",
    ),
    _Message(
        DOCTOR_REPORT,
        "Doctor report",
        "The file of `gapless doctor --report`, which `--remembered` reads, and the output of `--json`, both "
        "without `event`. The last line of `--report-line` has no topics and at most 40 findings.",
    ),
    _Message(
        AUDIT_STATE,
        "Audit state",
        "The file `state.json` of `gapless audit --state`, which the next audit reads; `sha256` is the digest of the "
        "others. The files of versions 1 to 3 are read, too.",
    ),
    _Message(
        BUNDLE_ORIGIN,
        "Origin of a bundle",
        "The member `gapless.source.origin` of a bundle, as text, which `gapless verify` and `--compare-with` read. "
        "A bundle without it is read, and the result says that the topic ID is unknown.",
    ),
)


def messages_page(made: str) -> str:
    """The page; `made` is its first line."""
    lines = [made, "# Messages between programs\n", HOW_MESSAGES_ARE_READ]
    for message in _MESSAGES:
        form = message.form
        lines += [f"## {message.title}\n", f"{message.about}\n", "| member | type | what it is |", "|---|---|---|"]
        if form.event:
            lines.append(f'| `event` | `"{form.event}"` | |')
        lines.append(f"| `{form.marker}` | `{form.version}` | Version. |")
        if form.kind:
            lines.append(f'| `form` | `"{form.kind}"` | |')
        lines += _rows(form.model, "", form.snake_case)
        if form is FULL_REPORT_HEAD:
            lines += _rows(PartitionFigures, "partitions[].", snake_case=False)
            lines += [
                f"| `partitions[].ranges.{kind}` | list of `[first, last]` | {_sentence(kind)} |" for kind in RangeKind
            ]
        lines.append("")
    lines += [
        "## Reports of scan, audit and verify\n",
        (
            f"The files of `--report` are for people and scripts; no program of Gapless reads them. `{SCAN_REPORT[0]}` "
            f"({SCAN_REPORT[1]}) and `{VERIFY_REPORT[0]}` ({VERIFY_REPORT[1]}) are their versions.\n"
        ),
    ]
    return "\n".join(lines)


def _sentence(kind: RangeKind) -> str:
    return _docstrings(RangeKind)[kind.name]


def _rows(model: Any, path: str, snake_case: bool) -> Iterator[str]:  # noqa: FBT001
    sentences = _docstrings(model)
    for field in fields(model):
        kind, notes = _unwrapped(field.type)
        if Flat in notes:
            yield from _rows(kind, path, snake_case)
            continue
        name = field.name.rstrip("_")
        name = name if snake_case else re.sub("_(.)", lambda letter: letter[1].upper(), name)
        yield f"| `{path}{name}` | {_type(field.type)} | {sentences.get(field.name, '')} |".replace("  |", " |")
        inner = next((each for each in _inside(field.type) if is_dataclass(each)), None)
        if inner is not None:
            yield from _rows(inner, f"{path}{name}{'[]' if get_origin(kind) is tuple else ''}.", snake_case)


def _unwrapped(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return (get_args(kind)[0], get_args(kind)[1:]) if get_origin(kind) is Annotated else (kind, ())


def _inside(kind: Any) -> tuple[Any, ...]:
    return (kind, *get_args(kind))


def _type(kind: Any) -> str:  # noqa: PLR0911 -- one for each kind
    """What may stand there, in few words."""
    kind, notes = _unwrapped(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return " or ".join("null" if each is type(None) else _type(each) for each in inner)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is Mapping:
        return f"object of {_type(inner[1])} by name"
    if origin is Literal:
        return ", ".join(f"`{word}`" for word in inner)
    if is_dataclass(kind):
        return "object"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{word}`" for word in kind)
    most = next((f" up to {note.most}" for note in notes if isinstance(note, AtMost)), "")
    return {int: "an integer", float: "number", bool: "boolean", str: "text"}.get(kind, "anything") + most


def _docstrings(owner: Any) -> dict[str, str]:
    """The sentence below each field or member, with those of the classes above."""
    found: dict[str, str] = {}
    for body in (node.body for node in ast.parse(inspect.getsource(owner)).body if isinstance(node, ast.ClassDef)):
        for node, sentence in pairwise(body):
            target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
            if isinstance(target, ast.Name) and isinstance(sentence, ast.Expr):
                found[target.id] = " ".join(str(getattr(sentence.value, "value", "")).split())
    return found
