"""Owns the result of a unit of work, as it comes back from the task that does it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gapless_api.wire.copy_report import Difference, DigestedRange, NotCompared, TimestampTypes
from gapless_api.wire.form import Form, Offset, PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """What was read of one copy."""

    records: int
    timestamp_types: TimestampTypes
    ranges: tuple[DigestedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """What the comparison of a unit found."""

    partition: PartitionNumber
    first: Offset
    """The lowest offset of the unit; parts of a partition are put in its order."""
    a: CopyResult
    b: CopyResult
    equal: int
    different: int
    only_in_a: int
    only_in_b: int
    moved: int
    differences: tuple[Difference, ...]
    difference_count: int
    not_compared: tuple[NotCompared, ...]


_RESULT = Form("result of a task", "gaplessCopyResult", 1, UnitResult)


def text_of_result(result: UnitResult) -> str:
    """Write a result as the text that a task returns."""
    return json.dumps(_RESULT.to_json(result), separators=(",", ":"))


def results_in(texts: Iterable[str]) -> Iterator[UnitResult]:
    """Read what tasks have returned."""
    for text in texts:
        yield _RESULT.from_json(json.loads(text))
