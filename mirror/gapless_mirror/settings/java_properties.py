"""The reader of Java properties files of Kafka's own programs.

Errors never contain values, which may be passwords.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_mirror.settings.config_providers import has_reference, referenced_file, resolve_references
from gapless_mirror.settings.config_types import trimmed

_PARTS = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PROVIDER_CLASS = re.compile(r"config\.providers\.([^.]+)\.class")
_MALFORMED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
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
        return trimmed(self.resolve(self.raw_value))

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


def read_java_properties(file: Path, *, strict: bool = True) -> dict[str, Property]:
    """Read `file`; the last one of duplicate keys counts, as in Java.

    Args:
        file: of one of Kafka's programs.
        strict: whether text that Kafka's programs refuse or read in an unexpected way is refused; not for a file that
            may have another syntax.

    Raises:
        ConfigurationError: the file cannot be read, or has such text.
    """
    text = _content(file, strict=strict).decode("latin-1")
    found = _properties(text, file, _written_in_latin_1 if strict else _lenient)
    classes = {name[1]: each.raw_value for key, each in found.items() if (name := _PROVIDER_CLASS.fullmatch(key))}
    return {key: each._replace(raw_value=trimmed(each.raw_value), providers=classes) for key, each in found.items()}


def _raw_values(file: Path) -> dict[str, str]:
    """Read a file of Kafka's provider of files, which is UTF-8. Raises ConfigurationError."""
    try:
        text = _content(file, strict=True).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"The properties file {file} of a configuration provider is not UTF-8 text; save it as UTF-8."
        ) from None
    return {key: each.raw_value for key, each in _properties(text, file, _written).items()}


def _content(file: Path, *, strict: bool) -> bytes:
    try:
        content = read_small(file)
    except OSError as error:
        raise ConfigurationError(
            f"The properties file {file} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    if strict and content.startswith(codecs.BOM_UTF8):
        raise ConfigurationError(
            f"The properties file {file} begins with a byte order mark, which Kafka's programs read as a part of the "
            f"first name; save it without one."
        )
    return content.removeprefix(codecs.BOM_UTF8)


def _properties(text: str, file: Path, read: Callable[[str], str]) -> dict[str, Property]:
    found = {}
    for number, line in _logical_lines(text):
        parts = _PARTS.fullmatch(line)
        if parts is None:  # pragma: no cover -- the expression matches every line
            continue
        try:
            key, value = read(parts["key"]), read(parts["value"])
        except ValueError as error:
            raise ConfigurationError(f"The properties file {file} {error} (line {number}).") from None
        found[key] = Property(key, value, f"in {file}, line {number}")
    return found


def _lenient(text: str) -> str:
    """Resolve the escapes of a text that may have another syntax."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2]), text)


def _written(text: str) -> str:
    r"""Resolve the escapes of a text; two of them are one character beyond U+FFFF, as in Java. Raises ValueError."""
    if _MALFORMED.search(text):
        raise ValueError(r"has a \u without four hexadecimal digits, which Java refuses; write \\ for a backslash")
    try:
        return _lenient(text).encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        raise ValueError(r"has a \u escape of half a character; write both halves") from None


def _written_in_latin_1(text: str) -> str:
    """Resolve the escapes of a text in Latin-1, the only encoding that Kafka's programs read. Raises ValueError."""
    if not text.isascii() and _is_utf_8(text.encode("latin-1")):
        raise ValueError(r"has characters in UTF-8, which Kafka's programs read as Latin-1; write them as \u escapes")
    return _written(text)


def _is_utf_8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Split a text into lines with content, each with its number; a backslash at the end continues a line.

    As in Java, a line that is only a backslash continues nothing.
    """
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
