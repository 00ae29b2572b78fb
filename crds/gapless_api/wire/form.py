"""Strict conversion of frozen dataclasses to JSON and back; must not know any message.

Members are named after the fields (``with_`` is ``with``). All are required, also those with a default. Integers are 0
or more, floating point numbers are finite and 0 or more. An unknown version, a missing or unknown member, or a member
of another type is a `WireError`; nothing is replaced by a default.

This does not use msgspec, because importing it would take a fifth of the start time of the sender.
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

_MAX_SHOWN = 40


class WireError(ValueError):
    """A message cannot be read; the error names its version, the supported version, and the problem."""


class _Mode(NamedTuple):
    """Options for reading members."""

    snake_case: bool
    is_exact: bool = True
    """Whether unknown members are refused."""


class AtMost(NamedTuple):
    """The maximum of an integer field."""

    most: int


class Flat:
    """Marks a field whose members are merged into those of its owner."""


Offset = Annotated[int, AtMost(MAX_OFFSET)]
PartitionNumber = Annotated[int, AtMost(MAX_PARTITION)]


@dataclass(frozen=True, slots=True)
class Form(Generic[Message]):
    """Format of a message: its model, version and names."""

    title: str
    """The name of the message in errors."""
    marker: str
    """The name of the member with the version."""
    version: int
    model: type[Message]
    event: str = ""
    """The member ``event`` of a log line; empty for a message that is not a log line."""
    kind: str = ""
    """The member ``form``, for a report with several forms."""
    snake_case: bool = False
    """Whether members are in snake_case like the fields; else they are in camelCase."""

    def to_json(self, message: Message) -> dict[str, Any]:
        """Convert `message` to JSON objects, for `json.dumps`."""
        head: dict[str, Any] = {self.marker: self.version}
        if self.kind:
            head["form"] = self.kind
        return {**head, **to_plain(message, snake_case=self.snake_case)}

    def to_line(self, message: Message) -> str:
        """Convert `message` to a log line, without the line feed."""
        return json.dumps({"event": self.event, **self.to_json(message)}, separators=(",", ":"))

    def from_json(self, content: Any) -> Message:
        """Read a message that `to_json` or `to_line` wrote.

        Raises:
            WireError: `content` is anything else.
        """
        members = dict(content) if isinstance(content, dict) else {}
        if self.event and members.get("event") == self.event:
            del members["event"]
        version = members.pop(self.marker, None)
        if type(version) is not int or version != self.version:
            raise self.refusal(version, "use programs of one release")
        kind = members.pop("form", "") if self.kind else ""
        if kind != self.kind:
            raise self.refusal(version, f"it has the form {_shown(kind)} and not {self.kind}")
        return self._read(members, _Mode(self.snake_case))

    def from_members(self, members: Mapping[str, Any]) -> Message:
        """Create the message from `members` without a version; unknown members are ignored.

        Raises:
            WireError: a member is missing or has another type.
        """
        return self._read(members, _Mode(self.snake_case, is_exact=False))

    def _read(self, members: Mapping[str, Any], mode: _Mode) -> Message:
        try:
            return cast("Message", _read_model(self.model, members, mode))
        except _MemberError as error:
            raise self.refusal(self.version, f"{error.args[0].removeprefix('.')} {error.args[1]}") from None

    def refusal(self, version: Any, problem: str) -> WireError:
        """Return the error for a message of `version`, which names both versions."""
        has = f"no version ({self.marker})" if version is None else f"version {_shown(version)}"
        return WireError(f"the {self.title} has {has}, and this program reads version {self.version}: {problem}")


def to_plain(value: Any, *, snake_case: bool = False) -> Any:
    """Convert a model, or the value of a field, to dictionaries, lists and scalars."""
    if is_dataclass(value):
        members: dict[str, Any] = {}
        model: Any = type(value)
        for part in _parts(model, snake_case):
            inner = to_plain(getattr(value, part.field), snake_case=snake_case)
            if part.flat:
                members |= inner
            else:
                members[part.member] = inner
        return members
    if isinstance(value, Mapping):
        return {str(name): to_plain(inner, snake_case=snake_case) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [to_plain(inner, snake_case=snake_case) for inner in value]
    return str(value) if isinstance(value, str) else value


def members_of(model: Any, *, snake_case: bool = False) -> tuple[str, ...]:
    """Return the names of all members of a model."""
    names: list[str] = []
    for part in _parts(model, snake_case):
        names += members_of(part.kind, snake_case=snake_case) if part.flat else [part.member]
    return tuple(names)


class _MemberError(Exception):
    """A member does not match the model: its path, and the problem."""


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


def _read_model(model: Any, value: Any, mode: _Mode) -> Any:
    if not isinstance(value, dict):
        raise _MemberError("", "is not an object")
    members = dict(value)
    message = _take_members(model, members, mode)
    if members and mode.is_exact:
        raise _MemberError(f".{_shown(next(iter(members)))}", "is unknown")
    return message


def _take_members(model: Any, members: dict[str, Any], mode: _Mode) -> Any:
    """Build a model from `members`, and remove its members from them."""
    values = {}
    for part in _parts(model, mode.snake_case):
        if part.flat:
            values[part.field] = _take_members(part.kind, members, mode)
            continue
        if part.member not in members:
            raise _MemberError(f".{part.member}", "is missing")
        values[part.field] = _nested(part.kind, members.pop(part.member), f".{part.member}", mode)
    return model(**values)


def _value(kind: Any, value: Any, mode: _Mode) -> Any:  # noqa: PLR0911 -- one for each kind
    kind, notes = _unwrapped(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_model(kind, value, mode)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        if value is None and type(None) in inner:
            return None
        (kind,) = (each for each in inner if each is not type(None))
        return _value(kind, value, mode)
    if origin is tuple:
        if not isinstance(value, list):
            raise _MemberError("", "is not a list")
        return tuple(_nested(inner[0], entry, f"[{index}]", mode) for index, entry in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _MemberError("", "is not an object")
        return {name: _nested(inner[1], entry, f".{_shown(name)}", mode) for name, entry in value.items()}
    return _scalar(kind, notes, value)


def _nested(kind: Any, value: Any, path: str, mode: _Mode) -> Any:
    """Read a value inside of another; errors have its `path`."""
    try:
        return _value(kind, value, mode)
    except _MemberError as error:
        raise _MemberError(f"{path}{error.args[0]}", error.args[1]) from None


def _scalar(kind: Any, notes: tuple[Any, ...], value: Any) -> Any:
    if get_origin(kind) is Literal:
        words: tuple[str, ...] = get_args(kind)
        fits, expected, kind = type(value) is str and value in words, f"one of {', '.join(words)}", str
    elif kind is bool or kind is str:
        fits, expected = type(value) is kind, "true or false" if kind is bool else "text"
    elif kind is int:
        most = next((note.most for note in notes if isinstance(note, AtMost)), None)
        fits = type(value) is int and value >= 0 and (most is None or value <= most)
        expected = "an integer " + ("of 0 or more" if most is None else f"from 0 to {most}")
    elif kind is float:
        fits, expected = _is_number(value), "a number of 0 or more"
    else:  # a StrEnum
        fits, expected = type(value) is str and value in set(kind), f"one of {', '.join(kind)}"
    if not fits:
        raise _MemberError("", f"is {_shown(value)} and must be {expected}")
    return kind(value)


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return 0 <= value <= MAX_OFFSET
    return type(value) is float and math.isfinite(value) and value >= 0


def _shown(value: Any) -> str:
    """Show any value in a few printable characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value) if not isinstance(value, int) or value.bit_length() < 200 else "a huge number"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def parse_json(text: str) -> Any:
    """Parse JSON; ``None`` for any text that is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
