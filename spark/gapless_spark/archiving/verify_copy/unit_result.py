"""The result of a unit of work, as a task returns it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gapless_api.wire.copy_report import Difference, DigestedRange, NotCompared, TimestampTypes
from gapless_api.wire.form import Form, Offset, PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """The records read from one copy."""

    records: int
    timestamp_types: TimestampTypes
    ranges: tuple[DigestedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The result of the comparison of a unit."""

    partition: PartitionNumber
    first: Offset
    """The lowest offset of the unit, by which units of a partition are sorted."""
    a: CopyResult
    b: CopyResult
    equal: int
    different: int
    only_in_a: int
    only_in_b: int
    moved: int
    compacted_in_a: int
    compacted_in_b: int
    differences: tuple[Difference, ...]
    difference_count: int
    compacted: tuple[Difference, ...]
    compacted_count: int
    not_compared: tuple[NotCompared, ...]


_RESULT = Form("result of a task", "gaplessCopyResult", 1, UnitResult)


def encode_result(result: UnitResult) -> str:
    """Encode a result as a text that a task returns."""
    return json.dumps(_RESULT.to_json(result), separators=(",", ":"))


def decode_results(texts: Iterable[str]) -> Iterator[UnitResult]:
    """Decode the results that tasks have returned."""
    for text in texts:
        yield _RESULT.from_json(json.loads(text))
