"""Which patterns of LIKE and regular expressions the SQL of a mirror may use: those that take linear time.

Java tries alternatives one after the other, so that some expressions take minutes for one record. A pattern is accepted
if few attempts can start at each position of the text; pure.
"""

from __future__ import annotations

import math
import re
from typing import Any

MAX_LENGTH = 256
"""Of a regular expression, in characters."""
_MAX_ATTEMPTS = 1_000
_MAX_REPEAT = 1_000
_MAX_STEPS = 20_000
"""At each position: the ways to match, times the characters that each can read."""
_ESCAPES = frozenset("wWdDsSbBtnrfxu")
_DIFFERENT = re.compile(r"&&|\[[^\]]*\[|\[\^?\]|\(\?(?!:)")
"""What Python and Java read differently, and groups other than (…) and (?:…)."""
_REPEATED_GROUP, _UNLIMITED_GROUP = re.compile(r"\)[*+{]"), re.compile(r"\)([*+]|\{[0-9]*,\})")


def pattern_width(pattern: str) -> int:
    """Return the minimum number of characters that the regular expression matches.

    Raises:
        ValueError: it may take too long, or is not accepted. The message completes "the regular expression …".
    """
    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"is longer than {MAX_LENGTH} characters")
    flagless = pattern.removeprefix("(?i)")
    escaped = re.findall(r"\\(.)", flagless, re.DOTALL)
    plain = re.sub(r"\\.", "x", flagless, flags=re.DOTALL)
    if _DIFFERENT.search(plain) or any(letter.isalnum() and letter not in _ESCAPES for letter in escaped):
        raise ValueError("has a backreference, a lookaround, a flag, a nested class, or an escape that is not accepted")
    bars = plain.count("|")
    if _REPEATED_GROUP.search(plain) and (bars or _UNLIMITED_GROUP.search(plain)):
        raise ValueError("repeats a group with alternatives, or a group without limit")
    try:
        # The module with the parser has no other name; re.compile would build what is not needed.
        parsed = re._parser.parse(flagless)  # type: ignore[attr-defined]  # noqa: SLF001
    except (re.error, RecursionError, OverflowError):
        raise ValueError("is not valid") from None
    items = _flat(list(parsed))
    anchored = bool(items) and str(items[0][0]) == "AT" and str(items[0][1]) in {"AT_BEGINNING", "AT_BEGINNING_STRING"}
    unbounded = _check_unbounded(items)
    if unbounded > (1 if anchored else 0):
        raise ValueError(
            "repeats without limit before its end; give a limit as in {1,100}, or begin with ^ and repeat once"
        )
    ways = _attempts(items) * 2**bars  # Python joins alternatives that Java tries one by one
    if ways > _MAX_ATTEMPTS or ways * _reach(items) > _MAX_STEPS:
        raise ValueError("can match in too many ways; use narrower limits or fewer alternatives")
    return int(parsed.getwidth()[0])


def check_like(pattern: str) -> None:
    """Check a pattern of LIKE.

    Raises:
        ValueError: it may take too long. The message completes "the pattern of LIKE …".
    """
    inner = pattern.removesuffix("%").removeprefix("%") if len(pattern) > 1 else ""
    if pattern.count("%") > 1 and "%" in inner:
        raise ValueError("has % in several places; use one %, or one at both ends")


def _check_unbounded(items: list[Any]) -> int:
    """Return how many unlimited repetitions something follows, at the top of the expression."""
    count = 0
    for number, (kind, value) in enumerate(items):
        name = str(kind)
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            _, high, body = value
            if not _is_bounded(high):
                if _repeats(list(body)):
                    raise ValueError("repeats a repetition without limit")
                count += number < len(items) - 1
            elif _has_unbounded(list(body)):
                raise ValueError("repeats a repetition without limit")
        elif _has_unbounded([(kind, value)]):
            raise ValueError("repeats without limit inside a group; move the repetition out of it, or give a limit")
    return count


def _flat(items: list[Any]) -> list[Any]:
    """Return the items without the groups around them, which change nothing as long as they are not repeated."""
    flat: list[Any] = []
    for kind, value in items:
        flat += _flat(list(value[3])) if str(kind) == "SUBPATTERN" else [(kind, value)]
    return flat


def _reach(items: list[Any]) -> int:
    """Return how many characters are read at one position, without unlimited repetitions."""
    total = 0
    for kind, value in items:
        reaches = [_reach(body) for body in _bodies(kind, value)] or [1]
        high = value[1] if str(kind) in {"MAX_REPEAT", "MIN_REPEAT"} and _is_bounded(value[1]) else 1
        total += max(reaches) * int(high)
    return total


def _is_bounded(high: Any) -> bool:
    return str(high) != "MAXREPEAT"


def _bodies(kind: Any, value: Any) -> list[list[Any]]:
    """Return the expressions inside an item. Raises ValueError for items that are not accepted."""
    match str(kind):
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT":
            return []
        case "SUBPATTERN":
            return [list(value[3])]
        case "MAX_REPEAT" | "MIN_REPEAT":
            return [list(value[2])]
        case "BRANCH":
            return [list(each) for each in value[1]]
    raise ValueError("has a construct that is not accepted")


def _has_unbounded(items: list[Any]) -> bool:
    return any(
        (str(kind) in {"MAX_REPEAT", "MIN_REPEAT"} and not _is_bounded(value[1]))
        or any(_has_unbounded(body) for body in _bodies(kind, value))
        for kind, value in items
    )


def _repeats(items: list[Any]) -> bool:
    """Whether there is more than one way to match the same text: a repetition or alternatives."""
    return any(
        str(kind) in {"MAX_REPEAT", "MIN_REPEAT", "BRANCH"} or any(_repeats(body) for body in _bodies(kind, value))
        for kind, value in items
    )


def _attempts(items: list[Any]) -> float:
    """Return a bound on the ways to match at one position."""
    ways = 1.0
    for kind, value in items:
        bodies = _bodies(kind, value)
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, body = value
                if not _is_bounded(high):
                    continue
                if high > _MAX_REPEAT:
                    raise ValueError(f"repeats more than {_MAX_REPEAT:,} times")
                inner = _attempts(list(body))
                # Also a repetition of fixed length reads that much text at each position.
                ways *= (high - low + 1) * (math.inf if inner > 1 and high * math.log10(inner) > 9 else inner**high)
            case "BRANCH":
                ways *= sum(_attempts(body) for body in bodies)
            case _:
                for body in bodies:
                    ways *= _attempts(body)
    return ways
