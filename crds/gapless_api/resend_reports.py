"""Owns what the reports of resends say became of offsets (``gapless resend --report``); must not know who sends.

Read as a stream of JSON events, so that memory holds the ranges (16 bytes each) and nothing else.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import ijson

from gapless_api.errors import ConfigurationError
from gapless_api.ids import MAX_OFFSET, MAX_PARTITION, is_topic
from gapless_api.offsets import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Place = tuple[str, int]
"""Topic and partition as the downstream side names them."""

_VERSION = 1
_UNAVAILABLE = ("Expired", "NonExistent", "TooLarge")
"""Why an event cannot be sent, ever. ``NotYetWritten`` is none of these: such an event may still come."""
_SENT, _FILLED = "sent", "filled"
_RANGES = "partitions.item.ranges."
_SCALARS = frozenset({"gaplessReport", "started", "partitions.item.topic", "partitions.item.partition"})
_KINDS = frozenset({_SENT, _FILLED, *_UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class ResendFindings:
    """What one or several resends said, all together."""

    filled: Mapping[Place, OffsetRanges] = field(default_factory=dict)
    """Sent as empty events, because there is nothing else to send."""
    unavailable: Mapping[Place, OffsetRanges] = field(default_factory=dict)
    """Could not be sent by the last of them that tried, and never can be."""


class _NoReportError(ValueError):
    """The text is JSON and no report; the argument says why."""


def read_resend_reports(paths: Iterable[Path]) -> ResendFindings:
    """Read the reports `paths`; a folder stands for the files ``*.json`` in it.

    Raises:
        ConfigurationError: one is missing, or is not the report of a resend; the sentence says which.
    """
    filled: dict[Place, OffsetRanges] = {}
    unavailable: dict[Place, OffsetRanges] = {}
    for _, found in sorted((_read(path) for path in _files(paths)), key=itemgetter(0)):
        # The later word counts: what an archive could still send is not out of reach, what retention took since is.
        for (place, kind), ranges in found.items():
            if kind in {_SENT, _FILLED}:
                unavailable[place] = unavailable.get(place, OffsetRanges()) - ranges
            if kind == _SENT:
                filled[place] = filled.get(place, OffsetRanges()) - ranges
        for (place, kind), ranges in found.items():
            if kind != _SENT:
                by_place = filled if kind == _FILLED else unavailable
                by_place[place] = by_place.get(place, OffsetRanges()) | ranges
    return ResendFindings(_not_empty(filled), _not_empty(unavailable))


def _not_empty(by_place: dict[Place, OffsetRanges]) -> dict[Place, OffsetRanges]:
    return {place: ranges for place, ranges in by_place.items() if len(ranges)}


def _files(paths: Iterable[Path]) -> list[Path]:
    found = []
    for path in paths:
        listed = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not listed:
            raise ConfigurationError(f"The folder {path} holds no report of a resend (*.json); give the right one.")
        found += listed
    return found


def _read(path: Path) -> tuple[str, dict[tuple[Place, str], OffsetRanges]]:
    """When a resend began, and what it says of each place."""
    try:
        with path.open("rb") as stream:
            return _Reading(ijson.parse(stream)).findings()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except _NoReportError as error:
        problem = f"is not the report of a resend: {error}"
    except (ijson.JSONError, ValueError, SystemError, ArithmeticError):
        # The last three are for numbers of thousands of digits, and for those like 0e9223372036854775808.
        problem = "is not valid JSON or is cut off"
    raise ConfigurationError(
        f"The resend report {path} {problem}; give the file that gapless resend --report wrote."
    ) from None


class _Reading:
    """One reading of one report: partitions are taken one by one, whatever the order of their members."""

    def __init__(self, events: Iterable[tuple[str, str, Any]]) -> None:
        self._events = events
        self._found: dict[tuple[Place, str], OffsetRanges] = {}
        self._columns: dict[str, tuple[array[int], array[int]]] = {}
        """First and last offsets of the partition at hand, by kind."""
        self._scalars: dict[str, Any] = {}
        """What stands outside of ranges, by its path."""

    def findings(self) -> tuple[str, dict[tuple[Place, str], OffsetRanges]]:
        """When the resend began, and what it says of each place. Raises _NoReportError."""
        listed = False
        for prefix, event, value in self._events:
            if event == "number" and prefix.startswith(_RANGES):
                self._offset(prefix.split(".")[3], value)
            elif prefix in _SCALARS:
                self._scalars[prefix] = value
            elif prefix == "partitions":
                listed = True
            elif event == "end_map" and prefix == "partitions.item":
                self._take()
        version = self._scalars.get("gaplessReport")
        if version is None or not listed:
            raise _NoReportError("it has no gaplessReport or no partitions")
        if version != _VERSION:
            raise _NoReportError(f"its form has version {str(version)[:20]}, and this program knows only {_VERSION}")
        return str(self._scalars.get("started", "")), self._found

    def _offset(self, kind: str, offset: Any) -> None:
        if kind not in _KINDS:
            return
        if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
            raise _NoReportError("an offset in it is none")
        firsts, lasts = self._columns.setdefault(kind, (array("q"), array("q")))
        (firsts if len(firsts) == len(lasts) else lasts).append(offset)

    def _take(self) -> None:
        topic, partition = (self._scalars.pop(f"partitions.item.{name}", None) for name in ("topic", "partition"))
        if not isinstance(topic, str) or not is_topic(topic):
            raise _NoReportError("a partition in it has no topic")
        if type(partition) is not int or not 0 <= partition <= MAX_PARTITION:
            raise _NoReportError("a partition in it has no number")
        for kind, columns in self._columns.items():
            before = self._found.get(((topic, partition), kind))
            ranges = _ranges(*columns)
            self._found[(topic, partition), kind] = ranges if before is None else before | ranges
        self._columns = {}


def _ranges(firsts: array[int], lasts: array[int]) -> OffsetRanges:
    if len(firsts) != len(lasts):
        raise _NoReportError("a range in it is not first and last")
    builder = RangesBuilder()
    try:
        for first, last in zip(firsts, lasts, strict=True):
            builder.add(first, last)
    except ValueError as error:
        raise _NoReportError(str(error)) from None
    return builder.build()
