"""Owns the reader of Java properties files of Kafka's own programs.

Errors never contain values, which may be passwords.
"""

from __future__ import annotations

import codecs
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_kafka.mirror.settings.config_providers import has_reference, referenced_file, resolve_references

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_PARTS = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PROVIDER_CLASS = re.compile(r"config\.providers\.([^.]+)\.class")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A property of a file."""

    key: str
    raw_value: str
    """The value with its references to configuration providers."""
    origin: str
    """File and line, for messages."""
    providers: Mapping[str, str] = MappingProxyType({})
    """The classes of the configuration providers that the file names."""
    resolves: bool = True
    """Whether references may be resolved; a value that is only printed must not contain what they lead to."""

    @property
    def value(self) -> str:
        """The value with all references resolved. Raises ConfigurationError."""
        return self.resolve(self.raw_value)

    @property
    def value_file(self) -> Path | None:
        """The file whose content is the value, if the value is a reference to one."""
        return referenced_file(self.raw_value, self.providers)

    def resolve(self, text: str) -> str:
        """Resolve the references in a part of the value. Raises ConfigurationError."""
        origin = f"The property {self.key} ({self.origin})"
        if not self.resolves and has_reference(text):
            raise ConfigurationError(f"{origin} takes its value from elsewhere; write the value there.")
        return resolve_references(text, origin=origin, classes=self.providers, read=_raw_values)


def read_java_properties(file: Path) -> dict[str, Property]:
    """Read `file`; the last one of duplicate keys counts, as in Java.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    try:
        text = _decode(read_small(file).removeprefix(codecs.BOM_UTF8))
    except OSError as error:
        raise ConfigurationError(
            f"The properties file {file} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    found = {}
    for number, line in _logical_lines(text):
        parts = _PARTS.fullmatch(line)
        if parts is None:  # pragma: no cover -- the expression matches every line
            continue
        key, value = _unescape(parts["key"]), _unescape(parts["value"]).strip()
        found[key] = Property(key, value, f"in {file}, line {number}")
    classes = {name[1]: each.raw_value for key, each in found.items() if (name := _PROVIDER_CLASS.fullmatch(key))}
    return {key: each._replace(providers=classes) for key, each in found.items()}


def _raw_values(file: Path) -> dict[str, str]:
    return {key: each.raw_value for key, each in read_java_properties(file).items()}


def _decode(content: bytes) -> str:
    """Decode UTF-8, which Kafka's programs read since 3.9, or else Latin-1, which Java reads by default."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Split a text into lines with content, each with its number; a backslash at the end continues a line."""
    pending, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = natural.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2]), text)
