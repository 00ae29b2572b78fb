"""The syntax of values in settings: numbers, words, sizes, durations, times, lists and patterns.

It is also that of numbers, durations and lists of names in messages. Must not know which settings exist. Each parser
raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gapless_api.base.backtracking import is_exponential

_BYTES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?(?:[smhd]|(?=$)))+")
_AGE = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?[smhd])+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(rf"{_DATE.pattern}[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_TIMES = "an RFC 3339 time, such as 2026-11-20T10:00:00Z or 2026-11-20T11:00:00+01:00"
_PARTS = re.compile(r"([0-9.]+)([smhd]?)")
_MAX_PARTITIONS = 1_000_000


def integer(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """Return a parser for integers from `minimum` to `maximum`, both inclusive."""

    def parse(text: str) -> int:
        expected = f"an integer of {minimum} or more" if maximum is None else f"an integer from {minimum} to {maximum}"
        try:
            number = int(text)
        except ValueError:
            raise ValueError(expected) from None
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError(expected)
        return number

    return parse


def seconds(minimum: float, maximum: float) -> Callable[[str], float]:
    """Return a parser for durations from `minimum` to `maximum` seconds, both inclusive."""

    def parse(text: str) -> float:
        expected = f"a number of seconds from {minimum:g} to {maximum:g}"
        try:
            number = float(text)
        except ValueError:
            raise ValueError(expected) from None
        if not minimum <= number <= maximum:
            raise ValueError(expected)
        return number

    return parse


def boolean(text: str) -> bool:
    """Parse true or false, in all spellings of the peer."""
    if text.lower() in {"true", "yes", "1"}:
        return True
    if text.lower() in {"false", "no", "0"}:
        return False
    raise ValueError("true or false")


@dataclass(frozen=True, slots=True)
class Choice:
    """A parser for one of the `allowed` words, in any case."""

    allowed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the word that `text` is. Raises ValueError."""
        for word in self.allowed:
            if text.lower() == word.lower():
                return word
        raise ValueError("one of " + ", ".join(self.allowed))


def choice(*allowed: str) -> Choice:
    """Return a parser for one of the `allowed` words, in any case."""
    return Choice(allowed)


def byte_count(minimum: int) -> Callable[[str], int]:
    """Return a parser for sizes such as 100MiB, of `minimum` bytes or more."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,15})\s*(|[KMGT]iB)", text)
        if match is None or (count := int(match[1]) * _BYTES[match[2]]) < minimum:
            raise ValueError(f"a size of {minimum} bytes or more, such as 100MiB")
        return count

    return parse


def duration(minimum: float, maximum: float = math.inf) -> Callable[[str], float]:
    """Return a parser for durations such as 5m or 1h30m, from `minimum` to `maximum` seconds, both inclusive."""

    def parse(text: str) -> float:
        if _DURATION.fullmatch(text):
            seconds = _seconds(text)
            if minimum <= seconds <= maximum:
                return seconds
        if maximum < math.inf:
            raise ValueError(
                f"a duration from {minimum:g} to {maximum:g} seconds, such as {minimum:g}s or {maximum:g}s"
            )
        raise ValueError(f"a duration of {minimum:g} seconds or more, such as 30s, 5m, 1h30m or 90d")

    return parse


def _seconds(text: str) -> float:
    return sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))


def partition_numbers(text: str) -> frozenset[int]:
    """Parse partition numbers and ranges of them, such as 0,4-7."""
    partitions: set[int] = set()
    for word in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,10})(?:-([0-9]{1,10}))?\s*", word)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if high < low or high - low >= _MAX_PARTITIONS:
            raise ValueError("numbers and ranges separated by commas, such as 0,4-7")
        partitions.update(range(low, high + 1))
    return frozenset(partitions)


def names(expected: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser for one or more names, separated by commas; duplicates are removed, and the order is kept.

    Args:
        expected: the end of the sentence "it must be …".
    """

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
        if not found:
            raise ValueError(expected)
        return found

    return parse


def regular_expression(text: str) -> re.Pattern[str]:
    """Parse a regular expression. Raises ValueError, also for one that Python's parser or its engine cannot handle."""
    try:
        pattern = re.compile(text)
        is_slow = is_exponential(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"a regular expression ({error})") from None
    if is_slow:
        raise ValueError("a regular expression without nested repetitions that take exponential time, such as (a+)+")
    return pattern


def timestamp_ms(text: str) -> int:
    """Parse a time as milliseconds since 1970, the unit of Kafka's timestamps; the rest is cut off.

    It is an RFC 3339 time, or a date for its first moment in UTC.
    """
    moment = _moment(text)
    if moment is None:
        raise ValueError(f"{_TIMES}, or a date (its first moment in UTC)")
    return _since_1970(moment)


def timestamp_or_age_ms(text: str) -> int:
    """Parse a time like `timestamp_ms`, or a duration before now; that is another time at each call."""
    try:
        moment = datetime.now(UTC) - timedelta(seconds=_seconds(text)) if _AGE.fullmatch(text) else _moment(text)
    except OverflowError:
        moment = None
    if moment is None:
        raise ValueError(f"{_TIMES}, a date (its first moment in UTC), or a duration before now, such as 2h or 1d12h")
    return _since_1970(moment)


def _moment(text: str) -> datetime | None:
    """Return the moment of an RFC 3339 time or a date; ``None`` if it is neither."""
    try:
        if _DATE.fullmatch(text):
            return datetime.fromisoformat(f"{text}T00:00:00Z")
        return datetime.fromisoformat(text.upper()) if _TIME.fullmatch(text) else None
    except ValueError:
        return None


def _since_1970(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def quantity(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 event``, ``44,176,697 events``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return names separated by commas, at most `most` of them, with the number of the others: ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def duration_text(seconds: float) -> str:
    """Return a duration in the largest suitable unit: `45 s`, `10 min`, `7 d`."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if abs(seconds) >= 10 else f"{seconds:.1f} s"
