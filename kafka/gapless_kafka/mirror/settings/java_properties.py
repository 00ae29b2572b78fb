"""Owns the reader of Java properties files of Kafka's own programs.

Errors never contain values, which may be passwords.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PARTS = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PROVIDER = re.compile(r"\$\{[^}]+:[^}]*\}")


class Property(NamedTuple):
    """A property of a file."""

    key: str
    value: str
    origin: str
    """File and line, for messages."""


def read_java_properties(file: Path) -> dict[str, Property]:
    """Read `file`; the last one of duplicate keys counts, as in Java.

    Raises:
        ConfigurationError: the file cannot be read, or a value comes from a provider of Kafka Connect.
    """
    try:
        text = read_small(file).decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            f"The properties file {file} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"The properties file {file} is not UTF-8 text; save it as UTF-8.") from None
    found = {}
    for number, line in _logical_lines(text):
        parts = _PARTS.fullmatch(line)
        if parts is None:  # pragma: no cover -- the expression matches every line
            continue
        key, value = _unescape(parts["key"]), _unescape(parts["value"]).strip()
        origin = f"in {file}, line {number}"
        if _PROVIDER.search(value):
            raise ConfigurationError(
                f"The property {key} ({origin}) takes its value from a configuration provider, which only Kafka's own "
                f"programs have; write the value there, or a password to a file of its own and give that file with "
                f"--source-sasl-password-file or --target-sasl-password-file."
            )
        found[key] = Property(key, value, origin)
    return found


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
