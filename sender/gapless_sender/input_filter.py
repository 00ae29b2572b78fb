"""Owns which values are withheld from the link by rules; must not know where values come from nor how they are sent.

The rules are the peer's: ``action:regex``, in order, the first whose pattern is found anywhere in the value decides,
else the default action; without any rule nothing is withheld, whatever the default. RE2 searches in time linear in the
value's length, so no pattern can blow up and none has to be refused for looking dangerous; a time-out per value is
accepted in the settings and not needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.errors import ConfigurationError
from gapless_api.files import read_small

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST_PATTERN = 1000
"""Characters; the peer's limit, so that rules that work here work there."""
_INLINE = re.compile(r"(allow|deny)\s*:", re.IGNORECASE)
_NEXT_RULE = re.compile(r",(?=\s*(?:[a-z]+\s*:|#|$))|\n", re.IGNORECASE)
"""A comma ends an inline rule only before another rule, so that ``{1,3}`` stays whole; the peer splits at every one.

What follows need only look like a rule, so that a misspelt action is an error and not a part of the pattern before it.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    denies: bool
    pattern: str
    found_in: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class InputFilter:
    """Rules in order, and what happens to a value that none of them finds something in."""

    rules: tuple[Rule, ...] = ()
    denies_by_default: bool = False
    _any_found_in: Callable[[bytes], Any] | None = None
    """One search for all patterns at once, since most values match no rule; ``None`` when it is of no use."""

    @classmethod
    def parse(cls, rules: str, default_action: str = "allow") -> InputFilter:
        """Read the settings inputFilterRules and inputFilterDefaultAction.

        Args:
            rules: inline rules separated by commas or line breaks; or a file of one rule a line, when the text names an
                existing file, begins with ``config/`` or ``/``, or ends with ``.txt``. What begins with ``allow:`` or
                ``deny:`` is always inline. Blank rules and those that start with ``#`` are skipped.
            default_action: allow or deny; empty for allow.

        Raises:
            ConfigurationError: a rule, the file or the default action is wrong.
        """
        action = default_action.strip().lower()
        if action not in {"", "allow", "deny"}:
            raise ConfigurationError(f"inputFilterDefaultAction is {default_action!r}; it must be allow or deny.")
        text = rules.strip()
        if _names_file(text):
            lines, place = _lines_of(Path(text)), "Line {} of " + text.replace("{", "{{").replace("}", "}}")
        else:
            lines, place = _NEXT_RULE.split(text), "Rule {} of inputFilterRules"
        parsed = tuple(
            _rule(line.strip(), place.format(number))
            for number, line in enumerate(lines, start=1)
            if line.strip() and not line.strip().startswith("#")
        )
        return cls(parsed, action == "deny", _any_of(parsed))

    @property
    def passes_everything(self) -> bool:
        """Whether no value can be withheld, so that nobody needs to ask."""
        return not self.rules or not (self.denies_by_default or any(rule.denies for rule in self.rules))

    def denies(self, value: bytes) -> bool:
        """Whether `value` must not be sent."""
        if not value.isascii():
            value = _readable(value)
        if self._any_found_in is None or self._any_found_in(value):
            for rule in self.rules:
                if rule.found_in(value):
                    return rule.denies
        return self.denies_by_default and bool(self.rules)

    def denied(self, values: Sequence[bytes]) -> list[bool]:
        """For each of `values`, whether it must not be sent."""
        if self.passes_everything:
            return [False] * len(values)
        return [self.denies(value) for value in values]


def _names_file(text: str) -> bool:
    if _INLINE.match(text):
        return False
    if text.startswith(("config/", "/")) or text.endswith(".txt"):
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        return False


_STRAY_BYTE = re.compile("[\udc80-\udcff]")


def _readable(value: bytes) -> bytes:
    """Replace each byte that is not UTF-8 by U+FFFD, as Go's regular expressions read it.

    So ``.`` matches such a byte, and a binary value cannot slip past a rule like ``deny:password.*secret``.
    """
    try:
        value.decode()
    except UnicodeDecodeError:
        return _STRAY_BYTE.sub("\ufffd", value.decode(errors="surrogateescape")).encode()
    return value


def _lines_of(file: Path) -> list[str]:
    try:
        return re.split(r"\r?\n", read_small(file).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"The filter rules {file} cannot be read ({error.strerror}); give the path of a readable file in "
            f"inputFilterRules, or the rules themselves."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"The filter rules {file} are not UTF-8 text; give one rule action:regex a line."
        ) from None
    except ValueError:  # a zero byte in the path
        raise ConfigurationError(
            f"The filter rules {str(file)!r} are no path; give the path of a readable file in inputFilterRules."
        ) from None


def _rule(text: str, place: str) -> Rule:
    word, colon, pattern = text.partition(":")
    action, pattern = word.strip().lower(), pattern.strip()
    if not colon:
        raise ConfigurationError(f"{place} is {text[:60]!r}; write it as allow:regex or deny:regex.")
    if action not in {"allow", "deny"}:
        raise ConfigurationError(
            f"{place} has the action {word.strip()[:60]!r}; it must be allow or deny "
            f"(a comma within a pattern can be written as \\x2c)."
        )
    if not pattern:
        raise ConfigurationError(f"{place} has no pattern; write {action}:.* for every value.")
    within = place[0].lower() + place[1:]
    if len(pattern) > LONGEST_PATTERN:
        raise ConfigurationError(
            f"The pattern of {within} has {len(pattern)} characters; shorten it to {LONGEST_PATTERN}."
        )
    import re2  # noqa: PLC0415 -- slow to load, and most resends have no rules

    try:
        search = _search(pattern)
    except UnicodeEncodeError:  # the command line may hold any bytes
        raise ConfigurationError(
            f"The pattern of {within} is not UTF-8 text; write other bytes as \\x{{ff}}."
        ) from None
    except re2.error as error:
        said = error.args[0] if isinstance(error.args[0], bytes) else str(error).encode(errors="replace")
        reason = repr(said.decode(errors="replace")[:100])[1:-1]  # it quotes the pattern
        raise ConfigurationError(
            f"The pattern of {within} is no RE2 expression ({reason}); correct {pattern[:60]!r}."
        ) from None
    return Rule(action == "deny", pattern, search)


def _search(pattern: str) -> Callable[[bytes], Any]:
    import re2  # noqa: PLC0415 -- see _rule

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    search: Callable[[bytes], Any] = re2.compile(pattern, options).search
    return search


def _any_of(rules: tuple[Rule, ...]) -> Callable[[bytes], Any] | None:
    if len(rules) < 2:
        return None
    import re2  # noqa: PLC0415 -- see _rule

    try:
        return _search("|".join(f"(?:{rule.pattern})" for rule in rules))
    except re2.error:  # together they are too large
        return None
