r"""The translation of Java's regular expressions (``java.util.regex.Pattern``) to Python's. Pure.

A translated expression matches the same complete names. It has no flags, no classes such as ``\\w`` and no groups with
numbers: each set of characters is written out, because Python reads most of them differently.
"""

from __future__ import annotations

import re

from gapless_mirror.settings.character_sets import LINE_ENDS, CharacterSet
from gapless_mirror.settings.java_classes import MAX_DEPTH, ClassReader, Flags
from gapless_mirror.settings.java_tokens import JavaPatternError

MAX_LENGTH = 20_000
"""Of an expression, in characters."""
_MAX_REPEAT = 2**31 - 1
_ANCHORS = {"A": r"(?:\A)", "z": r"(?:\Z)", "Z": r"(?:\Z)", "b": r"(?a:\b)", "B": r"(?a:\B)"}
_SIGNS = {"^": r"(?:\A)", "$": r"(?:\Z)", ".": "."}
_LOOKS = ("?<=", "?<!", "?=", "?!")
_FLAGS = frozenset("idmsu")


def python_pattern(text: str, *, ascii_names: bool = True) -> str:
    r"""Return the expression of Python for the complete names that an expression of Java matches.

    Args:
        text: the expression of Java.
        ascii_names: whether names have ASCII characters only, as those of topics; otherwise ``\p{L}`` is refused.

    Raises:
        JavaPatternError: with the position.
    """
    if len(text) > MAX_LENGTH:
        raise JavaPatternError(f"has {len(text):,} characters, and {MAX_LENGTH:,} are allowed")
    reader = _PatternReader(text, ascii_names=ascii_names)
    found = reader.alternatives(Flags(), 0)
    if reader.more():
        raise reader.error("has a ) without (")
    try:
        re.compile(found)
    except (re.error, OverflowError, RecursionError) as error:
        reason = getattr(error, "msg", "it is too large")
        raise JavaPatternError(f"cannot be expressed outside Java: {reason}") from None
    return found


class _PatternReader(ClassReader):
    """A recursive descent through the expression."""

    def __init__(self, text: str, *, ascii_names: bool) -> None:
        super().__init__(text, ascii_names=ascii_names)
        self._names: set[str] = set()
        """Of the groups."""
        self._behinds = 0
        """Number of look-behinds around the place that is read."""

    def alternatives(self, flags: Flags, depth: int) -> str:
        """Read up to the end of the group or of the expression."""
        if depth > MAX_DEPTH:
            raise self.error(f"has groups in more than {MAX_DEPTH} levels")
        parts: list[str] = []
        while self.more() and self.peek() != ")":
            if self.take_if("|"):
                parts.append("|")
            elif self.take_if("("):
                text, flags = self._group(flags, depth)
                parts.append(text)
            else:
                parts.append(self._repeated(self._atom(flags)))
        return "".join(parts)

    def _group(self, flags: Flags, depth: int) -> tuple[str, Flags]:
        """Read a group behind its ``(``; return its text, and the flags that apply behind it."""
        opened, inner, is_behind = "(?:", flags, False
        if self.peek() == "?":
            look = next((look for look in _LOOKS if self.take_if(look)), None)
            if look is not None:
                opened, is_behind = f"(?:({look}", look.startswith("?<")
            elif self.take_if("?>"):
                opened = "(?>"
            elif self.take_if("?<"):
                name = self.take_while(lambda letter: letter.isascii() and letter.isalnum(), 100)
                if not name or not name[0].isalpha() or not self.take_if(">") or name in self._names:
                    raise self.error("has a group without a valid name of its own")
                self._names.add(name)
            else:
                self.take()
                inner = self._flags(flags)
                if self.take_if(")"):
                    return "", inner
                if not self.take_if(":"):
                    raise self.error("has an unknown kind of group")
        self._behinds += is_behind
        text = self.alternatives(inner, depth + 1)
        self._behinds -= is_behind
        if not self.take_if(")"):
            raise self.error("has a ( without )")
        atom = f"{opened}{text})" + (")" if opened.startswith("(?:(") else "")
        repeated = self._repeated(atom)
        count = repeated.removeprefix(atom)
        if self._behinds and count and "|" in text:
            raise self.error("repeats a group in a look-behind in a way whose length Java does not find")
        return repeated, flags

    def _flags(self, flags: Flags) -> Flags:
        is_on = True
        while self.peek() not in {")", ":", ""}:
            letter = self.take().text
            if letter == "-":
                is_on = False
            elif letter not in _FLAGS:
                raise self.error(f"has the flag or group {letter!r}, which only Java has", back=1)
            elif letter == "i":
                flags = Flags(is_on, flags.dot_all)
            elif letter == "s":
                flags = Flags(flags.ignore_case, is_on)
            elif letter == "u" and not self.ascii_names:
                raise self.error("has the flag u, which only Java has", back=1)
        return flags

    def _repeated(self, atom: str) -> str:
        count = self._count()
        if not count:
            return atom
        if self._behinds and (count in {"*", "+", "?"} or "," in count):
            raise self.error("has a look-behind without a fixed length")
        suffix = next((suffix for suffix in ("?", "+") if self.take_if(suffix)), "")
        if self.peek() in {"*", "+", "?", "{"} and self.peek():
            raise self.error("has a quantifier behind a quantifier")
        return f"{atom}{count}{suffix}"

    def _count(self) -> str:
        for sign in ("*", "+", "?"):
            if self.take_if(sign):
                return sign
        if not self.take_if("{"):
            return ""
        low = self.take_while(str.isdigit, 30)
        has_comma = self.take_if(",")
        high = self.take_while(str.isdigit, 30) if has_comma else ""
        if not low.isascii() or not high.isascii() or not low or not self.take_if("}"):
            raise self.error("has a { that begins no repetition such as {2,5}")
        numbers = [int(number) for number in (low, high) if number]
        if max(numbers) > _MAX_REPEAT or numbers != sorted(numbers):
            raise self.error("has a repetition that Java does not allow", back=1)
        return f"{{{low}{',' if has_comma else ''}{high}}}"

    def _atom(self, flags: Flags) -> str:
        token = self.take()
        if token.is_literal:
            return self.one(CharacterSet.of_characters(token.text), flags)
        if token.text in "*+?{":
            raise self.error("has a quantifier without an expression before it", back=1)
        if token.text in _SIGNS:
            return self._sign(token.text, flags)
        if token.text == "[":
            return self.bracketed(flags, 0).text()
        if token.text != "\\":
            return self.one(CharacterSet.of_characters(token.text), flags)
        letter = self.peek()
        if letter in _ANCHORS and letter:
            self.take()
            if letter == "b" and self.peek() == "{":
                raise self.error(f"has the boundary \\{letter}{{, which only Java has", back=1)
            return _ANCHORS[letter]
        return self.escape(flags)[0].text()

    def _sign(self, sign: str, flags: Flags) -> str:
        if sign != "." or self.ascii_names:  # names of topics have no ends of lines, and a written-out set is long
            return _SIGNS[sign]
        return (~CharacterSet() if flags.dot_all else ~LINE_ENDS).text()
