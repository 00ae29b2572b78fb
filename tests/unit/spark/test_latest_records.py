"""Which records are the latest of their windows: in one process, in tasks that each saw a part, and by a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pytest

from fuzz.latest_records import (
    SCAN_OPTIONS,
    Record,
    binary,
    findings_in_process,
    findings_of_oracle,
    hostile_records,
    messages_of,
)
from gapless_spark.model.gap_windows import ScanOptions, WindowFindings
from gapless_spark.scan import latest_records
from gapless_spark.scan.find_windows import find_in_process, kinds_of_one_task
from gapless_spark.scan.latest_records import latest_rows
from gapless_spark.scan.window_kinds import WindowKinds, kind_rows

MOMENT = 1_700_000_000_000


def found_in_tasks(records: Sequence[Record], options: ScanOptions, *, reading: int, joining: int) -> WindowFindings:
    """What `reading` tasks and then `joining` tasks find, between which rows are exchanged and sorted as by Spark."""
    borders = [len(records) * number // reading for number in range(reading + 1)]
    rows = [row for start, end in pairwise(borders) for row in latest_rows([messages_of(records[start:end])])]
    together = pa.Table.from_batches(rows).sort_by("identity").to_pylist()
    schema = rows[0].schema
    kinds = WindowKinds(with_tombstones=options.infer)
    for number in range(joining):
        mine = [row for row in together if hash(row["identity"]) % joining == number]
        batches = pa.Table.from_pylist(mine, schema=schema).to_batches(max_chunksize=7)
        kinds.add_rows(kind_rows(batches, with_tombstones=options.infer))
    return kinds.findings(options)


@pytest.mark.parametrize("options", SCAN_OPTIONS, ids=["as reported", "with every tail", "without stale records"])
def test_however_records_are_divided_the_same_is_found(options: ScanOptions) -> None:
    records = hostile_records(1500, seed=11)
    expected = findings_of_oracle(records, options)
    assert expected.missing
    assert expected.tombstones
    assert expected.complete_windows
    assert expected.unreadable > 20
    assert findings_in_process(records, options) == expected
    for reading, joining in ((1, 1), (4, 3)):
        assert found_in_tasks(records, options, reading=reading, joining=joining) == expected


def test_of_one_key_the_highest_offset_counts_and_of_one_window_the_latest_timestamp() -> None:
    gap, complete = binary(0, 9, [3]), binary(0, 9)
    clock_went_back = [Record(0, 0, MOMENT + 9, b"t:0:0", complete), Record(0, 1, MOMENT, b"t:0:0", gap)]
    other_partition = [Record(0, 0, MOMENT + 9, b"t:0:0", gap), Record(1, 0, MOMENT, b"t:0:0", complete)]
    for records in (clock_went_back, other_partition):
        assert findings_in_process(records, ScanOptions()).missing == 1
        assert found_in_tasks(records, ScanOptions(), reading=2, joining=1).missing == 1


def test_a_task_that_would_hold_too_much_hands_on_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    records = hostile_records(1500, seed=12)
    messages = messages_of(records)
    batches = [messages[start : start + 100] for start in range(0, len(messages), 100)]
    at_once = sum(row.num_rows for row in latest_rows(batches))
    monkeypatch.setattr(latest_records, "_MAX_TASK_BYTES", 50_000)
    assert sum(row.num_rows for row in latest_rows(batches)) > at_once
    assert found_in_tasks(records, ScanOptions(), reading=3, joining=2) == findings_of_oracle(records, ScanOptions())


def test_one_process_and_one_task_give_up_where_too_much_would_have_to_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = messages_of(hostile_records(200, seed=13))
    assert find_in_process([messages], ScanOptions(), max_bytes=10_000) is None
    monkeypatch.setattr("gapless_spark.scan.find_windows._MAX_TASK_BYTES", 10_000)
    assert not list(kinds_of_one_task([messages], with_tombstones=False))
