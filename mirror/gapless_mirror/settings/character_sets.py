"""Sets of characters as Java's regular expressions write them, and their text in Python's. Pure."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

_LAST = 0x10FFFF
_ASCII = 128
_LETTERS = frozenset(map(ord, string.ascii_letters))
_CASE = 32
"""What distinguishes a from A."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """Sorted ranges of code points, both ends inclusive, that do not touch."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharacterSet:
        """Return the set of any ranges."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def of_characters(cls, characters: Iterable[str]) -> CharacterSet:
        """Return the set of these characters."""
        return cls.of((ord(each), ord(each)) for each in characters)

    def __or__(self, other: CharacterSet) -> CharacterSet:
        return CharacterSet.of((*self.ranges, *other.ranges))

    def __invert__(self) -> CharacterSet:
        gaps, start = [], 0
        for first, last in self.ranges:
            if first > start:
                gaps.append((start, first - 1))
            start = last + 1
        return CharacterSet((*gaps, *([(start, _LAST)] if start <= _LAST else [])))

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return ~(~self | ~other)

    def ignoring_case(self) -> CharacterSet:
        """Return the set with both cases of its ASCII letters, as CASE_INSENSITIVE alone."""
        letters = (letter for letter in _LETTERS if any(first <= letter <= last for first, last in self.ranges))
        return self | CharacterSet.of((letter ^ _CASE, letter ^ _CASE) for letter in letters)

    def text(self) -> str:
        """Return an expression of Python for one character of the set."""
        if not self.ranges:
            return r"[^\u0000-\U0010ffff]"
        if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return _escaped(self.ranges[0][0])
        if self.ranges[0][0] == 0 and self.ranges[-1][1] == _LAST and len(self.ranges) > 1:
            return f"[^{(~self).text_inside()}]"
        return f"[{self.text_inside()}]"

    def text_inside(self) -> str:
        """Return what stands between the brackets."""
        return "".join(_escaped(a) if a == b else f"{_escaped(a)}-{_escaped(b)}" for a, b in self.ranges)


def _escaped(code: int) -> str:
    character = chr(code)
    if code < _ASCII and (character.isalnum() or character == "_"):
        return character
    if " " < character < "\x7f":
        return f"\\{character}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


LINE_ENDS = CharacterSet.of_characters("\n\r\x85\u2028\u2029")
"""What a dot does not match."""
CLASSES = {
    "d": CharacterSet.of_characters(string.digits),
    "w": CharacterSet.of_characters(string.ascii_letters + string.digits + "_"),
    "s": CharacterSet.of_characters(" \t\n\v\f\r"),
    "h": CharacterSet.of_characters(" \t\xa0\u1680\u180e\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))),
    "v": CharacterSet.of_characters("\n\v\f\r\x85\u2028\u2029"),
}
"""``\\d`` and its like, which are sets of ASCII characters in Java."""
POSIX = {
    "Lower": CharacterSet.of_characters(string.ascii_lowercase),
    "Upper": CharacterSet.of_characters(string.ascii_uppercase),
    "ASCII": CharacterSet(((0, _ASCII - 1),)),
    "Alpha": CharacterSet.of_characters(string.ascii_letters),
    "Digit": CharacterSet.of_characters(string.digits),
    "Alnum": CharacterSet.of_characters(string.ascii_letters + string.digits),
    "Punct": CharacterSet.of_characters(string.punctuation),
    "Graph": CharacterSet(((0x21, 0x7E),)),
    "Print": CharacterSet(((0x20, 0x7E),)),
    "Blank": CharacterSet.of_characters(" \t"),
    "Cntrl": CharacterSet(((0, 0x1F), (0x7F, 0x7F))),
    "XDigit": CharacterSet.of_characters(string.hexdigits),
    "Space": CharacterSet.of_characters(" \t\n\v\f\r"),
}
"""The classes of ``\\p{…}`` that have ASCII characters only."""
CASED = frozenset({"Lower", "Upper", "L", "Lu", "Ll", "Lt", "LC", "Lowercase", "Uppercase", "LowerCase", "UpperCase"})
"""Classes of which Java's versions read ``(?i)`` in different ways."""
_OTHERS = {
    "IsAlphabetic": "Alpha",
    "IsLetter": "Alpha",
    "IsLatin": "Alpha",
    "IsDigit": "Digit",
    "IsLowercase": "Lower",
    "IsUppercase": "Upper",
    "javaLowerCase": "Lower",
    "javaUpperCase": "Upper",
    "javaAlphabetic": "Alpha",
    "javaLetter": "Alpha",
    "javaDigit": "Digit",
    "javaLetterOrDigit": "Alnum",
    "InBasicLatin": "ASCII",
    "InBASIC_LATIN": "ASCII",
}


@cache
def property_among_ascii(name: str) -> CharacterSet | None:
    """Return the ASCII characters with a property of Unicode, such as ``L``; ``None`` if unknown."""
    if name in _OTHERS:
        return POSIX[_OTHERS[name]]
    category = name.removeprefix("Is").removeprefix("gc=").removeprefix("general_category=")
    found = [chr(code) for code in range(_ASCII) if unicodedata.category(chr(code)).startswith(category)]
    return CharacterSet.of_characters(found) if category and found else None
