"""The grammar of JAAS configurations, as Kafka reads ``sasl.jaas.config``. Pure.

Kafka splits the text with Java's StreamTokenizer, in which ``-``, ``_`` and ``$`` belong to words. Errors name the
position, never the text, which holds passwords.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The only entry of a JAAS configuration."""

    name: str
    """The class, without its package."""
    options: dict[str, str]
    """Options in the order of the text; a later one of the same name takes precedence."""


@dataclass(frozen=True, slots=True)
class _Token:
    position: int
    """Of the first character; the first one of the text is 1."""
    text: str | None
    """Of a word or a quoted text; ``None`` for a number and for other characters."""
    character: str = ""
    """A character that is neither part of a word nor of a number."""


def read_jaas(text: str) -> LoginModule:
    """Read a JAAS configuration with one login module.

    Raises:
        ValueError: with what is wrong and where, without any part of the text.
    """
    tokens = [*_tokens(text)]
    entries = []
    while tokens:
        entries.append(_entry(tokens))
    if len(entries) != 1:
        raise ValueError(f"it has {len(entries)} login modules, and Kafka accepts one")
    return entries[0]


def _entry(tokens: list[_Token]) -> LoginModule:
    """Take an entry from the beginning of `tokens`."""
    module = tokens.pop(0)
    if module.text is None:
        raise ValueError(f"no class of a login module stands at character {module.position:,}")
    flag = tokens.pop(0) if tokens else None
    if flag is None or (flag.text or "").upper() not in _FLAGS:
        raise ValueError(f"the login module is not followed by {', '.join(sorted(_FLAGS)).lower()}")
    options = {}
    while tokens and tokens[0].character != ";":
        key, equals, value = (*tokens[:3], None, None, None)[:3]
        if key is None or key.text is None:
            raise ValueError(
                f"no option stands at character {tokens[0].position:,}; values with such characters need quotes"
            )
        if equals is None or equals.character != "=" or value is None or value.text is None:
            raise ValueError(f"the option at character {key.position:,} has no value; numbers need quotes")
        options[key.text] = value.text
        del tokens[:3]
    if not tokens:
        raise ValueError("the login module does not end with a semicolon")
    del tokens[0]
    return LoginModule(module.text.rpartition(".")[2], options)


def _tokens(text: str) -> Iterator[_Token]:
    """Split a text as StreamTokenizer does with its default table, comments of C++, and ``-_$`` in words."""
    at = 0
    while at < len(text):
        first, start = text[at], at
        if first <= " ":
            at += 1
        elif _is_digit(first) or first == "." or (first == "-" and _starts_number(text, at + 1)):
            at += 1
            while at < len(text) and (_is_digit(text[at]) or text[at] == "."):
                at += 1
            yield _Token(start + 1, None)
        elif _is_word(first) and first != "-":
            while at < len(text) and (_is_word(text[at]) or _is_digit(text[at]) or text[at] == "."):
                at += 1
            yield _Token(start + 1, text[start:at])
        elif first in "\"'":
            content, at = _quoted(text, at)
            yield _Token(start + 1, content)
        elif first == "/":
            at = _comment_end(text, at)
        else:
            at += 1
            yield _Token(start + 1, None, first)


def _starts_number(text: str, at: int) -> bool:
    return text[at : at + 1] == "." or _is_digit(text[at : at + 1])


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def _is_word(character: str) -> bool:
    return (character.isascii() and character.isalpha()) or character in "-_$" or character >= "\xa0"


def _comment_end(text: str, at: int) -> int:
    """Return where a comment ends; also a single slash begins one, which ends with the line."""
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    after = at + 2  # Java looks at the end of the line only behind the next character
    return min((end for end in (text.find("\n", after), text.find("\r", after)) if end >= 0), default=len(text))


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return the content of a quoted text and where it ends; an end of line ends it, too."""
    quote, at, content = text[at], at + 1, ""
    while at < len(text) and text[at] not in (quote, "\n", "\r"):
        if text[at] != "\\":
            content, at = content + text[at], at + 1
            continue
        escaped = text[at + 1 : at + 2]
        digits = ""
        while len(digits) < (3 if escaped in {*"0123"} else 2) and text[
            at + 1 + len(digits) : at + 2 + len(digits)
        ] in {*"01234567"}:
            digits += text[at + 1 + len(digits)]
        if digits:
            content, at = content + chr(int(digits, 8)), at + 1 + len(digits)
        else:
            content, at = content + _ESCAPES.get(escaped, escaped), at + 2
    return content, at + 1 if text[at : at + 1] == quote else at
