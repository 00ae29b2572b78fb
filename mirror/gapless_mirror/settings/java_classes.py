"""How Java's regular expressions write sets of characters: escapes, properties, and classes in brackets. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_mirror.settings.character_sets import CASED, CLASSES, POSIX, CharacterSet, property_among_ascii
from gapless_mirror.settings.java_tokens import TokenReader

MAX_DEPTH = 50
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that apply at a place."""

    ignore_case: bool = False
    dot_all: bool = False


class ClassReader(TokenReader):
    """Reads sets of characters."""

    @staticmethod
    def one(characters: CharacterSet, flags: Flags) -> str:
        """Return the expression for one character of the set."""
        return (characters.ignoring_case() if flags.ignore_case else characters).text()

    def escape(self, flags: Flags) -> tuple[CharacterSet, int | None]:
        """Read an escape behind its backslash; return its characters, and its code if it is a single one."""
        token = self.take()
        letter = token.text
        if letter in "pP" and not token.is_literal:
            return self._property(flags, negated=letter == "P"), None
        if letter.lower() in CLASSES and letter.isascii():
            found = CLASSES[letter.lower()]
            return (~found if letter.isupper() else found), None
        code = self._code(letter)
        one = CharacterSet(((code, code),))
        return (one.ignoring_case() if flags.ignore_case else one), code

    def _code(self, letter: str) -> int:
        """Return the code point of an escape; `letter` is its first character."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "c":
            return ord(self.take().text) ^ 64
        if letter == "0":
            return self._octal()
        if letter == "x" and self.take_if("{"):
            digits = self.take_while(_is_hexadecimal, 8)
            if not digits or not self.take_if("}") or int(digits, 16) > 0x10FFFF:
                raise self.error("has an invalid \\x{…}")
            return int(digits, 16)
        if letter in {"x", "u"}:
            wanted = 2 if letter == "x" else 4
            digits = self.take_while(_is_hexadecimal, wanted)
            if len(digits) != wanted or 0xD800 <= int(digits, 16) <= 0xDFFF:
                raise self.error(f"has an invalid \\{letter}")
            return int(digits, 16)
        if letter.isascii() and letter.isdigit():
            raise self.error(f"has a backreference, \\{letter}, which takes too long", back=1)
        if letter.isascii() and letter.isalpha():
            raise self.error(f"has the escape \\{letter}, which cannot be expressed outside Java", back=1)
        return ord(letter)

    def _octal(self) -> int:
        digits = self.take_while(_is_octal, 3 if self.peek() in {"0", "1", "2", "3"} else 2)
        if not digits:
            raise self.error("has an invalid \\0")
        return int(digits, 8)

    def _property(self, flags: Flags, *, negated: bool) -> CharacterSet:
        if self.take_if("{"):
            name = self.take_while(lambda letter: letter != "}", 60)
            if not self.take_if("}"):
                raise self.error("has a \\p{ without }")
        else:
            name = self.take().text
        found = POSIX.get(name)
        if found is None and self.ascii_names:
            found = property_among_ascii(name)
        bare = name.removeprefix("Is").removeprefix("java").removeprefix("gc=")
        if found is None or (flags.ignore_case and bare in CASED):
            raise self.error(f"has the class \\p{{{name}}}, which cannot be expressed outside Java", back=1)
        return ~found if negated else found

    def bracketed(self, flags: Flags, depth: int) -> CharacterSet:
        """Read a class of characters behind its ``[``, and its ``]``."""
        if depth > MAX_DEPTH:
            raise self.error(f"has classes in more than {MAX_DEPTH} levels")
        is_negated = self.take_if("^")
        found = self._operands(flags, depth, is_first=True)
        self.take()
        return ~found if is_negated else found

    def _operands(self, flags: Flags, depth: int, *, is_first: bool) -> CharacterSet:
        """Read the union up to ``]``, which an intersection with the rest may end."""
        found: CharacterSet | None = None
        while True:
            if not self.more():
                raise self.error("has a [ without ]")
            if self.peek() == "]" and found is not None:
                return found
            if self.take_if("["):
                part = self.bracketed(flags, depth + 1)
            elif self.peek() == "&" and self.peek(1) == "&":
                if found is None or self.peek(2) in {"&", "]"}:
                    raise self.error("has a && without a class on both sides")
                self._index += 2
                return found & self._operands(flags, depth, is_first=False)
            elif self.peek() == "&" and not is_first:
                raise self.error("has a single & behind &&, which Java's versions read in different ways")
            else:
                part = self._range(flags)
            found = part if found is None else found | part

    def _range(self, flags: Flags) -> CharacterSet:
        """Read one character or a range."""
        characters, low = self._single(flags)
        if low is None or self.peek() != "-" or self.peek(1) in {"]", "["}:
            return characters
        self.take()
        if not self.more():
            raise self.error("has a [ without ]")
        _, high = self._single(flags)
        if high is None or high < low:
            raise self.error("has an invalid range", back=1)
        found = CharacterSet(((low, high),))
        return found.ignoring_case() if flags.ignore_case else found

    def _single(self, flags: Flags) -> tuple[CharacterSet, int | None]:
        token = self.take()
        if token.text == "\\" and not token.is_literal:
            if self.peek() and self.peek() in "bBAzZG":
                raise self.error("has an anchor in a class")
            return self.escape(flags)
        one = CharacterSet.of_characters(token.text)
        return (one.ignoring_case() if flags.ignore_case else one), ord(token.text)


def _is_hexadecimal(letter: str) -> bool:
    return letter in "0123456789abcdefABCDEF"


def _is_octal(letter: str) -> bool:
    return letter in "01234567"
