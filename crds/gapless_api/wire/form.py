"""Owns how a frozen dataclass becomes JSON and is read back: strictly, or not at all; must not know any message.

Members are named after the fields (``with_`` is ``with``) and all are required, whatever their default. Integers
are 0 or more, floating point numbers finite and 0 or more. Only what can be read with certainty is read: an
unknown version, a missing member, an unknown one or one of another type is a `WireError`, never a zero.

Own code and not msgspec, because the start of the sender counts: importing msgspec takes a fifth of that time.
"""

import json
import math
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION

Message = TypeVar("Message")

_LONGEST_SHOWN = 40


class WireError(ValueError):
    """A message cannot be read; the text says what was found, its version, and the version that is known."""


class AtMost(NamedTuple):
    """The largest value of an integer."""

    most: int


class Flat:
    """Marks a field whose members stand among those of its owner."""


Offset = Annotated[int, AtMost(MAX_OFFSET)]
PartitionNumber = Annotated[int, AtMost(MAX_PARTITION)]


@dataclass(frozen=True, slots=True)
class Form(Generic[Message]):
    """How one message is written and read."""

    title: str
    """What sentences call the message."""
    marker: str
    """The member that holds the version."""
    version: int
    model: type[Message]
    event: str = ""
    """The member ``event`` of the message as a line of a log; empty for a message that is none."""
    kind: str = ""
    """The member ``form``, where the same report has several."""
    snake_case: bool = False
    """Whether members are named like Python's fields; else they are in camelCase."""

    def to_json(self, message: Message) -> dict[str, Any]:
        """Turn `message` into what `json.dumps` takes."""
        head: dict[str, Any] = {self.marker: self.version}
        if self.kind:
            head["form"] = self.kind
        return {**head, **to_plain(message, snake_case=self.snake_case)}

    def to_line(self, message: Message) -> str:
        """Turn `message` into a line of a log, without its line feed."""
        return json.dumps({"event": self.event, **self.to_json(message)}, separators=(",", ":"))

    def from_json(self, found: Any) -> Message:
        """Read what `to_json` or `to_line` wrote.

        Raises:
            WireError: it is anything else.
        """
        members = dict(found) if isinstance(found, dict) else {}
        if self.event and members.get("event") == self.event:
            del members["event"]
        version = members.pop(self.marker, None)
        if type(version) is not int or version != self.version:
            raise self.refusal(version, "use programs of one release")
        kind = members.pop("form", "") if self.kind else ""
        if kind != self.kind:
            raise self.refusal(version, f"it has the form {_shown(kind)} and not {self.kind}")
        try:
            return cast("Message", _read_model(self.model, members, _Mode(self.snake_case)))
        except _MemberError as error:
            raise self.refusal(version, f"{error.args[0].removeprefix('.')} {error.args[1]}") from None

    def from_members(self, members: Mapping[str, Any]) -> Message:
        """Make the message of plain `members`, which may have others and more of them.

        Raises:
            WireError: one is missing or of another type.
        """
        try:
            return cast("Message", _read_model(self.model, members, _Mode(self.snake_case, is_exact=False)))
        except _MemberError as error:
            raise self.refusal(self.version, f"{error.args[0].removeprefix('.')} {error.args[1]}") from None

    def refusal(self, version: Any, problem: str) -> WireError:
        """The error for a message of `version`, with both versions in its text."""
        has = f"no version ({self.marker})" if version is None else f"version {_shown(version)}"
        return WireError(f"the {self.title} has {has}, and this program reads version {self.version}: {problem}")


def to_plain(value: Any, *, snake_case: bool = False) -> Any:
    """Turn a model, or a value of one, into dictionaries, lists and scalars."""
    if is_dataclass(value):
        found: dict[str, Any] = {}
        model: Any = type(value)
        for part in _parts(model, snake_case):
            inner = to_plain(getattr(value, part.field), snake_case=snake_case)
            if part.flat:
                found |= inner
            else:
                found[part.member] = inner
        return found
    if isinstance(value, Mapping):
        return {str(name): to_plain(inner, snake_case=snake_case) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [to_plain(inner, snake_case=snake_case) for inner in value]
    return str(value) if isinstance(value, str) else value


def members_of(model: Any, *, snake_case: bool = False) -> tuple[str, ...]:
    """The names of all members of a model."""
    names: list[str] = []
    for part in _parts(model, snake_case):
        names += members_of(part.kind, snake_case=snake_case) if part.flat else [part.member]
    return tuple(names)


class _MemberError(Exception):
    """A member is not what the model says: its path, and what is wrong with it."""


class _Mode(NamedTuple):
    """How members are read."""

    snake_case: bool
    is_exact: bool = True
    """Whether unknown members are refused."""


class _Part(NamedTuple):
    field: str
    member: str
    kind: Any
    flat: bool


@cache
def _parts(model: Any, snake_case: bool) -> tuple[_Part, ...]:  # noqa: FBT001 -- a key of the cache
    parts = []
    for field in fields(model):
        kind, notes = _unwrapped(field.type)
        member = field.name.rstrip("_")
        if not snake_case:
            member = re.sub("_(.)", lambda letter: letter[1].upper(), member)
        is_flat = Flat in notes
        parts.append(_Part(field.name, member, kind if is_flat else field.type, is_flat))
    return tuple(parts)


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        return kind, tuple(notes)
    return annotation, ()


def _read_model(model: Any, found: Any, mode: _Mode) -> Any:
    if not isinstance(found, dict):
        raise _MemberError("", "is not an object")
    left = dict(found)
    message = _taken(model, left, mode)
    if left and mode.is_exact:
        raise _MemberError(f".{_shown(next(iter(left)))}", "is unknown")
    return message


def _taken(model: Any, left: dict[str, Any], mode: _Mode) -> Any:
    """Build a model of members that are taken out of `left`."""
    values = {}
    for part in _parts(model, mode.snake_case):
        if part.flat:
            values[part.field] = _taken(part.kind, left, mode)
            continue
        if part.member not in left:
            raise _MemberError(f".{part.member}", "is missing")
        try:
            values[part.field] = _value(part.kind, left.pop(part.member), mode)
        except _MemberError as error:
            raise _MemberError(f".{part.member}{error.args[0]}", error.args[1]) from None
    return model(**values)


def _value(kind: Any, found: Any, mode: _Mode) -> Any:  # noqa: PLR0911 -- one for each kind
    kind, notes = _unwrapped(kind)
    if kind is Any:
        return found
    if is_dataclass(kind):
        return _read_model(kind, found, mode)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        if found is None and type(None) in inner:
            return None
        (kind,) = (each for each in inner if each is not type(None))
        return _value(kind, found, mode)
    if origin is tuple:
        if not isinstance(found, list):
            raise _MemberError("", "is not a list")
        return tuple(_entry(inner[0], entry, f"[{index}]", mode) for index, entry in enumerate(found))
    if origin is Mapping:
        if not isinstance(found, dict):
            raise _MemberError("", "is not an object")
        return {name: _entry(inner[1], entry, f".{_shown(name)}", mode) for name, entry in found.items()}
    return _scalar(kind, notes, found)


def _entry(kind: Any, found: Any, where: str, mode: _Mode) -> Any:
    try:
        return _value(kind, found, mode)
    except _MemberError as error:
        raise _MemberError(f"{where}{error.args[0]}", error.args[1]) from None


def _scalar(kind: Any, notes: tuple[Any, ...], found: Any) -> Any:
    if get_origin(kind) is Literal:
        words: tuple[str, ...] = get_args(kind)
        fits, expected, kind = type(found) is str and found in words, f"one of {', '.join(words)}", str
    elif kind is bool or kind is str:
        fits, expected = type(found) is kind, "true or false" if kind is bool else "text"
    elif kind is int:
        most = next((note.most for note in notes if isinstance(note, AtMost)), None)
        fits = type(found) is int and found >= 0 and (most is None or found <= most)
        expected = "an integer " + ("of 0 or more" if most is None else f"from 0 to {most}")
    elif kind is float:
        fits, expected = _is_figure(found), "a number of 0 or more"
    else:  # a StrEnum
        fits, expected = type(found) is str and found in set(kind), f"one of {', '.join(kind)}"
    if not fits:
        raise _MemberError("", f"is {_shown(found)} and must be {expected}")
    return kind(found)


def _is_figure(found: Any) -> bool:
    if type(found) is int:
        return 0 <= found <= MAX_OFFSET
    return type(found) is float and math.isfinite(found) and found >= 0


def _shown(found: Any) -> str:
    """Show a value that may be anything, in few printable characters."""
    if isinstance(found, dict | list):
        return "an object" if isinstance(found, dict) else "a list"
    text = json.dumps(found) if not isinstance(found, int) or found.bit_length() < 200 else "a huge number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def parse_json(text: str) -> Any:
    """Read JSON of which any text may be given; ``None`` for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
