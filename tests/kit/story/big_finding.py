"""A reproducible scan result with everything that a report page can show, and the pages rendered from it.

Must not know the layout of the page.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.bundle.reconciliation import reconcile
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.page.pages import page_members, write_page, write_verify_page
from gapless_spark.model.gap_windows import ScanOptions, Stale, WindowFindings
from gapless_spark.model.scan_outcome import conclude_scan
from gapless_spark.output.comparison import newer_finding

if TYPE_CHECKING:
    from gapless_spark.model.outcome import Conclusion

TOPICS = {"transfer.orders": 64, "transfer.sensor-readings": 48, "billing_events": 24}
"""Number of partitions by topic."""
HIGHEST = ("transfer.orders", 3)
"""The partition that ends at the largest offset; it has few ranges, so its map can be zoomed to single offsets."""
_CREATED = "2026-01-31T06:00:12Z"


def big_scan() -> Conclusion:
    """Return the conclusion of a scan with ``--infer`` over windows of 136 partitions."""
    chance = random.Random(20)
    partitions = [(topic, partition) for topic in sorted(TOPICS) for partition in range(TOPICS[topic])]
    results, inferred, stale = [], [], []
    for index, topic_partition in enumerate(partitions):
        listed, guess = _lost(chance, topic_partition)
        results.append(PartitionGaps(*topic_partition, *_window(topic_partition), listed | guess))
        if len(guess):
            inferred.append(PartitionGaps(*topic_partition, *_window(topic_partition), guess))
        stale.append(Stale(chance.randrange(1, 900), 1) if index % 17 == 5 else Stale(0, 0))
    windows = 10 * len(partitions)
    options = ScanOptions(infer=True)
    covered = tuple(OffsetRanges([(0, result.window_max)]) for result in results)
    findings = WindowFindings(
        results=tuple(results),
        inferred=tuple(inferred),
        stale=tuple(stale),
        missing_now=tuple(result.ranges for result in results),
        reported=covered,
        checked=covered,
        options=options,
        windows=windows,
        complete_windows=windows // 2,
        tombstones=0,
        unreadable=0,
        first_unreadable=(),
    )
    return conclude_scan("transfer-gaps", findings, "compact", has_lost_records=False)


def _window(topic_partition: tuple[str, int]) -> tuple[int, int]:
    return (
        (MAX_OFFSET - 4_000_000, MAX_OFFSET)
        if topic_partition == HIGHEST
        else (0, 9_999_999 + 100_000 * topic_partition[1])
    )


def _lost(chance: random.Random, topic_partition: tuple[str, int]) -> tuple[OffsetRanges, OffsetRanges]:
    """Return the listed and the inferred losses: none, a few bursts, or a long sequence of small losses."""
    first, last = _window(topic_partition)
    if topic_partition[1] % 8 == 7:
        return OffsetRanges(), OffsetRanges()
    pairs = []
    for _ in range(chance.randrange(1, 6)):
        begin = chance.randrange(first, last - 200_000)
        pairs.append((begin, begin + chance.randrange(1, 200_000)))
    if topic_partition[1] % 3 == 0 and topic_partition != HIGHEST:
        begin = chance.randrange(first, last - 3_000_000)
        for _ in range(chance.randrange(200, 800)):
            begin += chance.randrange(200, 4_000)
            pairs.append((begin, begin + chance.randrange(150)))
    if topic_partition[1] % 5 == 3:
        tail = chance.randrange(100_000, 400_000)
        return OffsetRanges(pairs), OffsetRanges([(last - tail - 300_000, last - 300_000), (last - 40_000, last)])
    return OffsetRanges(pairs), OffsetRanges()


def report_of(conclusion: Conclusion, **more: Any) -> dict[str, Any]:
    """Return the report of a scan that took 42 seconds."""
    return {
        "command": "scan",
        "created": _CREATED,
        "topics": ["transfer-gaps"],
        "cluster_id": "lTPWqYFmQ5yWjDqZDRnRsg",
        "outcome": str(conclusion.outcome),
        "exit_code": 0,
        "message": conclusion.sentence,
        "missing": conclusion.missing,
        **conclusion.details,
        "partitions": conclusion.partitions,
        "bundle": {
            "file": "gaps.bundle.json",
            "id": "2026-01-31-7f",
            "sha256": "ab" * 32,
            "missing": conclusion.missing,
        },
        "seconds": 42.125,
        **more,
    }


def write_big_page(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the page of a scan with an older bundle to compare with into `folder`; return it and its report."""
    conclusion = big_scan()
    older = Bundle(
        BundleKind.ALL,
        tuple(
            PartitionGaps(e.topic, e.partition, 0, e.window_max - 300_000, e.ranges) for e in conclusion.results[:70]
        ),
        None,
    )
    reconciliation = reconcile(older, newer_finding(conclusion)).as_json()
    report = report_of(conclusion, reconciliation=reconciliation)
    page = folder / "gaps.html"
    full = report | page_members(conclusion.results, conclusion.inferred)
    write_page(full, page, "kafka-down:9092")
    return page, full


def write_page_of_big_verify(folder: Path) -> Path:
    """Write the page of a ``verify`` whose audit covers only a part of the bundle into `folder`."""
    conclusion = big_scan()
    older = Bundle(BundleKind.ALL, conclusion.results[:100], None)
    became = reconcile(older, newer_finding(replace(conclusion, results=conclusion.results[40:]))).as_json()
    report = {
        "command": "verify",
        "created": _CREATED,
        "older": "gaps.bundle.json",
        "against": "audit",
        "topics": ["transfer"],
        "outcome": "gaps-left",
        "exit_code": 4,
        "message": became["sentence"],
        "reconciliation": became,
        "seconds": 12.5,
    }
    page = folder / "verify.html"
    write_verify_page(report, page, "kafka-down:9092")
    return page
