"""Reading complete resend reports (``gapless resend --report``); must not know who sends.

They are read as a stream of JSON events, so that only the ranges are kept in memory (16 bytes each).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import ijson

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition, is_topic
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_api.wire.form import WireError, members_of
from gapless_api.wire.resend_report import (
    FULL_REPORT_HEAD,
    FULL_REPORT_PARTITION,
    NEVER,
    RangeKind,
    ReportHead,
    ShortReport,
)

_RANGES, _PARTITION = "partitions.item.ranges.", "partitions.item"
_KINDS = frozenset(RangeKind)
_READ = frozenset({RangeKind.SENT, RangeKind.FILLED, *NEVER})
_OLDER_VERSIONS = frozenset({1, 2, 3})
"""Also supported: their partitions are the same, and otherwise only `started` is used."""
_HEAD = frozenset({FULL_REPORT_HEAD.marker, "form", "event", *members_of(ReportHead)})
_SHORT = frozenset(members_of(ShortReport)) - _HEAD - {"partitions"}
"""Members that only the short form has, in all versions."""


@dataclass(frozen=True, slots=True)
class ResendFindings:
    """The combined findings of one or more resends."""

    filled: Mapping[TopicPartition, OffsetRanges] = field(default_factory=dict)
    """Sent as empty events, because the original events are not available."""
    unavailable: Mapping[TopicPartition, OffsetRanges] = field(default_factory=dict)
    """Could not be sent by the last resend that tried, and never can be."""


def read_resend_reports(paths: Iterable[Path]) -> ResendFindings:
    """Read the reports in `paths`; a folder stands for the files ``*.json`` in it.

    Raises:
        ConfigurationError: a file is missing, or is not a complete resend report; the message names it.
    """
    filled: dict[TopicPartition, OffsetRanges] = {}
    unavailable: dict[TopicPartition, OffsetRanges] = {}
    for _, outcomes in sorted((_read(path) for path in _files(paths)), key=itemgetter(0)):
        # Later reports take precedence: an archive may still have sent an offset, and retention may have deleted one.
        for (partition, kind), ranges in outcomes.items():
            if kind in {RangeKind.SENT, RangeKind.FILLED}:
                unavailable[partition] = unavailable.get(partition, OffsetRanges()) - ranges
            if kind == RangeKind.SENT:
                filled[partition] = filled.get(partition, OffsetRanges()) - ranges
        for (partition, kind), ranges in outcomes.items():
            if kind != RangeKind.SENT:
                by_partition = filled if kind == RangeKind.FILLED else unavailable
                by_partition[partition] = by_partition.get(partition, OffsetRanges()) | ranges
    return ResendFindings(_without_empty(filled), _without_empty(unavailable))


def _without_empty(by_partition: dict[TopicPartition, OffsetRanges]) -> dict[TopicPartition, OffsetRanges]:
    return {partition: ranges for partition, ranges in by_partition.items() if len(ranges)}


def _files(paths: Iterable[Path]) -> list[Path]:
    files = []
    for path in paths:
        reports = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not reports:
            raise ConfigurationError(f"The folder {path} contains no resend report (*.json); give the right one.")
        files += reports
    return files


def _read(path: Path) -> tuple[str, dict[tuple[TopicPartition, str], OffsetRanges]]:
    """Return when the resend began, and its ranges by partition and kind."""
    try:
        with path.open("rb") as stream:
            return _Reading(ijson.parse(stream)).findings()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except WireError as error:
        problem = f"cannot be used: {error}"
    except (ijson.JSONError, ValueError, SystemError, ArithmeticError):
        # ijson raises the last three for numbers of thousands of digits, and for those like 0e9223372036854775808.
        problem = "is not valid JSON or is truncated"
    raise ConfigurationError(
        f"The resend report {path} {problem}; give the file that gapless resend --report wrote."
    ) from None


class _Reading:
    """One reading of a report, partition by partition; their members may have any order."""

    def __init__(self, events: Iterable[tuple[str, str, Any]]) -> None:
        self._events = events
        self._outcomes: dict[tuple[TopicPartition, str], OffsetRanges] = {}
        self._head = ijson.ObjectBuilder()
        self._unknown = ""
        """The first unknown member of the report."""
        self._version: Any = None
        self._begin_partition()

    def _begin_partition(self) -> None:
        self._columns: dict[str, tuple[array[int], array[int]]] = {}
        """First and last offsets of the current partition, by kind."""
        self._figures = ijson.ObjectBuilder()
        """The other members of the partition."""
        self._has_ranges = False
        self._range_prefix, self._column, self._count = "", (array("q"), array("q")), 0
        """The JSON path of the offsets of the current kind, its offsets, and the number of its ranges so far."""

    def findings(self) -> tuple[str, dict[tuple[TopicPartition, str], OffsetRanges]]:
        """Return when the resend began, and its ranges by partition and kind. Raises WireError."""
        is_listed = False
        for prefix, event, value in self._events:
            if prefix.startswith(_RANGES):
                self._take_range(prefix, event, value)
            elif prefix.startswith(_PARTITION):
                self._take_partition_member(prefix, event, value)
            elif prefix == "partitions":
                is_listed = event in {"start_array", "end_array"}
            else:
                self._take_head_member(prefix, event, value)
        head = self._head.value if isinstance(getattr(self._head, "value", None), dict) else {}
        self._check(head, is_listed=is_listed)
        return str(head["started"]), self._outcomes

    def _take_head_member(self, prefix: str, event: str, value: Any) -> None:
        if prefix == FULL_REPORT_HEAD.marker:
            self._version = value
        is_name = event == "map_key" and not prefix
        if is_name:
            self._check_name(value)
        name = value if is_name else prefix.split(".", 1)[0]
        if name == "partitions":
            return
        if name and name not in _HEAD:
            self._unknown = self._unknown or name
            return
        self._head.event(event, _figure(value))

    def _check_name(self, name: str) -> None:
        """Refuse a name that would be ambiguous in a path."""
        if not name or "." in name:
            self._refuse(f"{name[:40]!r} is unknown")

    def _check(self, head: dict[str, Any], *, is_listed: bool) -> None:
        """Check that the members other than partitions are those of a complete report."""
        version = head.get(FULL_REPORT_HEAD.marker)
        if self._unknown in _SHORT:
            self._refuse("it is the short form, which does not list the ranges that were sent or filled")
        if type(version) is int and version in _OLDER_VERSIONS:
            if not isinstance(head.get("started"), str):
                self._refuse("started is missing or not text")
        else:
            FULL_REPORT_HEAD.from_json(head)
            if self._unknown:
                self._refuse(f"{self._unknown[:40]!r} is unknown")
        if not is_listed:
            self._refuse("partitions is missing or not a list")

    def _take_range(self, prefix: str, event: str, value: Any) -> None:
        """Process a JSON event inside of the ranges of a partition; the inner loop of reading."""
        if event == "number":
            if prefix != self._range_prefix:
                self._choose_kind(prefix)
            if type(value) is not int or not 0 <= value <= MAX_OFFSET:
                self._refuse("an offset in it is invalid")
            firsts, lasts = self._column
            (firsts if len(firsts) == len(lasts) else lasts).append(value)
        elif event == "end_array":
            self._count += prefix.endswith(".item")
            if not len(self._column[0]) == len(self._column[1]) == self._count:
                self._refuse("a range in it is not first and last")
        elif event == "start_array":
            if prefix.count(".") == _RANGES.count("."):
                self._choose_kind(f"{prefix}.item.item")
            elif prefix.count(".") > _RANGES.count(".") + 1:
                self._refuse("a range in it is not first and last")
        else:
            self._refuse("a range in it is not first and last")

    def _choose_kind(self, prefix: str) -> None:
        kind = prefix.removeprefix(_RANGES).removesuffix(".item.item")
        if kind not in _KINDS or prefix != f"{_RANGES}{kind}.item.item":
            self._refuse(f"ranges.{kind[:40]} is unknown, or its ranges are not first and last")
        self._range_prefix = prefix
        self._column = (array("q"), array("q"))
        if kind in _READ:
            self._column = self._columns.setdefault(kind, self._column)
        self._count = len(self._column[1])

    def _take_partition_member(self, prefix: str, event: str, value: Any) -> None:
        if prefix == f"{_PARTITION}.ranges":
            self._has_ranges = event in {"start_map", "map_key", "end_map"}
            if not self._has_ranges or (event == "map_key" and value not in _KINDS):
                self._refuse("the ranges of a partition are not an object, or have an unknown kind")
            return
        if prefix == _PARTITION and event == "map_key":
            self._check_name(value)
            if value == "ranges":
                return
        self._figures.event(event, _figure(value))
        if prefix == _PARTITION and event not in {"start_map", "map_key"}:
            self._end_partition()

    def _end_partition(self) -> None:
        figures = self._figures.value
        if not self._has_ranges:
            self._refuse("a partition in it has no ranges, as in the short form of a report")
        marked = {FULL_REPORT_PARTITION.marker: FULL_REPORT_PARTITION.version, **figures}
        figures = FULL_REPORT_PARTITION.from_json(marked)
        if not is_topic(figures.topic):
            self._refuse("a partition in it has no topic")
        for kind, columns in self._columns.items():
            key = ((figures.topic, figures.partition), kind)
            before = self._outcomes.get(key)
            ranges = self._build(*columns)
            self._outcomes[key] = ranges if before is None else before | ranges
        self._begin_partition()

    def _build(self, firsts: array[int], lasts: array[int]) -> OffsetRanges:
        builder = RangesBuilder()
        try:
            for first, last in zip(firsts, lasts, strict=True):
                builder.add(first, last)
        except ValueError as error:
            self._refuse(str(error))
        return builder.build()

    def _refuse(self, problem: str) -> NoReturn:
        if self._version in _OLDER_VERSIONS:
            problem = f"version {self._version} is supported as well, but {problem}"
        raise FULL_REPORT_HEAD.refusal(self._version, problem)


def _figure(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
