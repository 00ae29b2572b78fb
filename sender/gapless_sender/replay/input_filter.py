"""The rules that withhold values from the link; must not know where values come from nor how they are sent.

The rules are the peer's: ``action:regex``, in order. The first whose pattern is found anywhere in the value decides,
else the default action; without any rule nothing is withheld, whatever the default. RE2 searches in time linear in the
value's length, so no pattern is dangerous; a timeout per value is accepted in the settings and not needed.

Patterns have the semantics of the peer, which uses Go's regexp package. RE2 differs from it in a few constructs, which
are refused here or rewritten; the unit tests have a table of Go's results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small

MAX_PATTERN_LENGTH = 1000
"""In characters; the peer's limit, so that rules that work here work there."""
_INLINE = re.compile(r"(allow|deny)\s*:", re.IGNORECASE)
_NEXT_RULE = re.compile(r",(?=\s*(?:[a-z]+\s*:|#|$))|\n", re.IGNORECASE)
"""A comma ends an inline rule only before another rule, so that ``{1,3}`` is not split; the peer splits at every one.

What follows need only look like a rule, so that a misspelt action is an error and not part of the pattern before it.
"""
_QUOTED_OR_ESCAPED = re.compile(r"\\(?:Q(.*?)(?:\\E|\Z)|(.))", re.DOTALL)
"""What follows a backslash: ``\\Q`` up to ``\\E`` or the end, or one character."""
_PATTERN_BYTES = 128 * 1024 * 1024
"""Memory limit of a compiled pattern; RE2's default of 8 MiB is too small for some that Go accepts (``\\pL{1000}``)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    denies: bool
    pattern: str
    expression: str
    """The pattern in RE2's syntax."""
    search: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class InputFilter:
    """Rules in order, and the action for a value that no rule matches."""

    rules: tuple[Rule, ...] = ()
    denies_by_default: bool = False
    _search_all: Callable[[bytes], list[int]] | None = None
    """Returns the indexes of all matching rules and their count, in one search; nothing when that failed.

    ``None`` for a single rule, and when the patterns together are too large.
    """

    @classmethod
    def parse(cls, rules: str, default_action: str = "allow") -> InputFilter:
        """Parse the settings inputFilterRules and inputFilterDefaultAction.

        Args:
            rules: inline rules separated by commas or line breaks; or a file with one rule per line, when the text
                names an existing file, begins with ``config/`` or ``/``, or ends with ``.txt``. What begins with
                ``allow:`` or ``deny:`` is always inline. Blank rules and those that start with ``#`` are skipped.
            default_action: allow or deny; empty for allow.

        Raises:
            ConfigurationError: a rule, the file or the default action is invalid.
        """
        action = default_action.strip().lower()
        if action not in {"", "allow", "deny"}:
            raise ConfigurationError(f"inputFilterDefaultAction is {default_action!r}; it must be allow or deny.")
        text = rules.strip()
        is_file = _names_file(text)
        lines = _read_lines(Path(text)) if is_file else _NEXT_RULE.split(text)
        parsed = tuple(
            _parse_rule(line.strip(), f"Line {number} of {text}" if is_file else f"Rule {number} of inputFilterRules")
            for number, line in enumerate(lines, start=1)
            if line.strip() and not line.strip().startswith("#")
        )
        return cls(parsed, action == "deny", _combined_search(parsed))

    @property
    def passes_everything(self) -> bool:
        """Whether no value can be withheld."""
        return not self.rules or not (self.denies_by_default or any(rule.denies for rule in self.rules))

    def denies(self, value: bytes) -> bool:
        """Return whether `value` must not be sent."""
        if not value.isascii():
            value = _replace_invalid_bytes(value)
        if self._search_all is not None and (matches := self._search_all(value)):
            first = min(matches)
            return self.rules[first].denies if first < len(self.rules) else self.denies_by_default
        for rule in self.rules:
            if rule.search(value):
                return rule.denies
        return self.denies_by_default and bool(self.rules)

    def denied(self, values: Sequence[bytes]) -> list[bool]:
        """Return for each of `values` whether it must not be sent."""
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


def _replace_invalid_bytes(value: bytes) -> bytes:
    """Replace each byte that is not UTF-8 by U+FFFD, as Go's regular expressions read it.

    So ``.`` matches such a byte, and a binary value cannot slip past a rule like ``deny:password.*secret``.
    """
    try:
        value.decode()
    except UnicodeDecodeError:
        return _STRAY_BYTE.sub("\ufffd", value.decode(errors="surrogateescape")).encode()
    return value


def _read_lines(file: Path) -> list[str]:
    try:
        return re.split(r"\r?\n", read_small(file).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"The filter rules {file} cannot be read ({error.strerror}); give the path of a readable file in "
            f"inputFilterRules, or the rules themselves."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"The filter rules {file} are not UTF-8 text; give one rule action:regex per line."
        ) from None
    except ValueError:  # a zero byte in the path
        raise ConfigurationError(
            f"The filter rules {str(file)!r} are not a path; give the path of a readable file in inputFilterRules."
        ) from None


def _parse_rule(text: str, name: str) -> Rule:
    word, colon, pattern = text.partition(":")
    action, pattern = word.strip().lower(), pattern.strip()
    if not colon:
        raise ConfigurationError(f"{name} is {text[:60]!r}; write it as allow:regex or deny:regex.")
    if action not in {"allow", "deny"}:
        raise ConfigurationError(
            f"{name} has the action {word.strip()[:60]!r}; it must be allow or deny "
            f"(a comma within a pattern can be written as \\x2c)."
        )
    if not pattern:
        raise ConfigurationError(f"{name} has no pattern; write {action}:.* for every value.")
    within = name[0].lower() + name[1:]
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ConfigurationError(
            f"The pattern of {within} has {len(pattern)} characters; shorten it to {MAX_PATTERN_LENGTH}."
        )
    import re2  # noqa: PLC0415 -- slow to load, and most resends have no rules

    try:
        expression = _go_expression(pattern)
        compiled = _compile(expression)
    except UnicodeEncodeError:  # the command line may hold any bytes
        raise ConfigurationError(
            f"The pattern of {within} is not UTF-8 text; write other bytes as \\x{{ff}}."
        ) from None
    except (re2.error, _GoRefusesError) as error:
        detail = error.args[0] if isinstance(error.args[0], bytes) else str(error).encode(errors="replace")
        reason = repr(detail.decode(errors="replace")[:100])[1:-1]  # it quotes the pattern
        raise ConfigurationError(
            f"The pattern of {within} is not a valid RE2 expression ({reason}); correct {pattern[:60]!r}."
        ) from None
    return Rule(action == "deny", pattern, expression, compiled.search)


class _GoRefusesError(ValueError):
    """RE2 accepts a pattern that the peer's regular expressions refuse."""


def _go_expression(pattern: str) -> str:
    """Rewrite a pattern so that RE2 reads it like Go. Raises `_GoRefusesError`, UnicodeEncodeError and re2.error."""
    escaped = {match[2] for match in _QUOTED_OR_ESCAPED.finditer(pattern)}
    if "C" in escaped:
        raise _GoRefusesError("invalid escape sequence: \\C")
    invalid_names = [name for name in _compile(pattern).groupindex if not name.isascii()]
    if invalid_names:
        raise _GoRefusesError(f"invalid named capture: {invalid_names[0]}")
    if "B" not in escaped:
        return pattern
    # RE2 matches \B inside a character of several bytes, Go does not. A match that is anchored at the start advances
    # by complete characters.
    last = max(_QUOTED_OR_ESCAPED.finditer(pattern), key=re.Match.end)
    still_quoted = last[1] is not None and not last[0].endswith(r"\E")
    return rf"\A(?s:.*?)(?:{pattern}{chr(92) + 'E' if still_quoted else ''})"


def _options() -> Any:
    import re2  # noqa: PLC0415 -- see _parse_rule

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


def _compile(pattern: str) -> Any:
    """Compile one pattern. Raises re2.error and UnicodeEncodeError."""
    import re2  # noqa: PLC0415 -- see _parse_rule

    options = _options()
    try:
        return re2.compile(pattern, options)
    except re2.error:
        options.max_mem = _PATTERN_BYTES
        return re2.compile(pattern, options)


def _combined_search(rules: tuple[Rule, ...]) -> Callable[[bytes], list[int]] | None:
    """Return a search for all patterns at once, since most values match none.

    A set whose search runs out of memory reports no match instead of an error, so the last pattern always matches.
    """
    if len(rules) < 2:
        return None
    import re2  # noqa: PLC0415 -- see _parse_rule

    combined = re2.Set.SearchSet(_options())
    try:
        for rule in rules:
            combined.Add(rule.expression)
        combined.Add("")
        combined.Compile()
    except re2.error:  # together they are too large
        return None
    search: Callable[[bytes], list[int]] = combined.Match
    return search
