"""The characters of one of Java's regular expressions, and errors that name a position among them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_EXCERPT = 20


class JavaPatternError(ValueError):
    """An expression that Java refuses, or that Python cannot express; completes "the expression …"."""


class _Token(NamedTuple):
    """A character of the expression."""

    text: str
    position: int
    """The first is 1."""
    is_literal: bool = False
    """Whether it stands between ``\\Q`` and ``\\E``."""


def _tokens(text: str) -> list[_Token]:
    r"""Split an expression into characters, and resolve ``\Q…\E``."""
    tokens, index = [], 0
    while index < len(text):
        if text.startswith("\\Q", index):
            end = text.find("\\E", index + 2)
            last = len(text) if end < 0 else end
            tokens += [_Token(text[place], place + 1, is_literal=True) for place in range(index + 2, last)]
            index = last + 2
            continue
        step = 2 if text[index] == "\\" else 1
        tokens += [_Token(text[place], place + 1) for place in range(index, min(index + step, len(text)))]
        index += step
    return tokens


class TokenReader:
    """Takes the characters one after the other."""

    def __init__(self, text: str, *, ascii_names: bool) -> None:
        self._text, self.ascii_names = text, ascii_names
        self._tokens = _tokens(text)
        self._index = 0

    def more(self) -> bool:
        """Whether anything is left."""
        return self._index < len(self._tokens)

    def error(self, reason: str, *, back: int = 0) -> JavaPatternError:
        """Return the error at the current position, or `back` characters before."""
        index = self._index - back
        position = self._tokens[index].position if index < len(self._tokens) else len(self._text) + 1
        rest = self._text[position - 1 :]
        shown = f", at {rest[:_EXCERPT]!r}{'…' if len(rest) > _EXCERPT else ''}" if rest else ", at its end"
        return JavaPatternError(f"{reason} (character {position:,}{shown})")

    def peek(self, ahead: int = 0) -> str:
        """Return a character with meaning; empty at the end, and for a literal character."""
        index = self._index + ahead
        if index >= len(self._tokens) or self._tokens[index].is_literal:
            return ""
        return self._tokens[index].text

    def take(self) -> _Token:
        """Return the next character. Raises JavaPatternError at the end."""
        if not self.more():
            raise self.error("ends too early")
        self._index += 1
        return self._tokens[self._index - 1]

    def take_if(self, text: str) -> bool:
        """Take `text` if it comes next, with its meaning."""
        found = all(self.peek(ahead) == letter for ahead, letter in enumerate(text))
        self._index += len(text) if found else 0
        return found

    def take_while(self, wanted: Callable[[str], bool], most: int) -> str:
        """Take up to `most` characters with meaning."""
        found = ""
        while len(found) < most and self.peek() and wanted(self.peek()):
            found += self.take().text
        return found
