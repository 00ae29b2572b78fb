from __future__ import annotations

import json
import re
from array import array
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import LocalStorageError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.bundle.form import PartitionGaps
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.page.bins import counts, edge
from gapless_api.page.pages import page_members, write_page
from gapless_api.page.shading import shade
from gapless_spark.model.outcome import Conclusion, Outcome
from gapless_spark.output.jobs import _write_files
from gapless_spark.settings.jobs import JobSettings
from gapless_spark.settings.tables import SCAN


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int, set[int], int]:
    first = draw(st.sampled_from([0, 7, MAX_OFFSET - 200])) + draw(st.integers(0, 50))
    last = min(first + draw(st.integers(0, 140)), MAX_OFFSET)
    offsets = draw(st.sets(st.integers(max(first - 5, 0), min(last + 5, MAX_OFFSET)), max_size=80))
    return first, last, offsets, draw(st.integers(1, 200))


@given(spans())
def test_parts_hold_what_counting_each_offset_gives(case: tuple[int, int, set[int], int]) -> None:
    first, last, offsets, most = case
    found = counts(OffsetRanges.of_offsets(offsets), first, last, most)
    amount = len(found)
    assert amount == min(most, last - first + 1)
    edges = [edge(first, last, amount, index) for index in range(amount + 1)]
    assert (edges[0], edges[-1]) == (first, last + 1)
    assert found == [sum(a <= o < b for o in offsets) for a, b in pairwise(edges)]


def test_the_whole_span_of_offsets_is_counted_without_rounding() -> None:
    found = counts(OffsetRanges([(0, MAX_OFFSET)]), 0, MAX_OFFSET, 120)
    assert sum(found) == MAX_OFFSET + 1
    assert max(found) - min(found) <= 1


@pytest.mark.parametrize(
    ("missing", "size", "expected"),
    [(0, 9, None), (1, 100, 0), (2, 100, 1), (50, 100, 2), (51, 100, 3), (99, 100, 3), (100, 100, 4), (1, 1, 4)],
)
def test_shades_end_where_the_legend_says(missing: int, size: int, expected: int | None) -> None:
    assert shade(missing, size) == expected


def told(tmp_path: Path, **more: Any) -> JobSettings:
    values = {setting.name: setting.default for setting in SCAN.settings}
    chosen = {"html": tmp_path / "page.html", "bootstrapServers": "kafka:9092"}
    return JobSettings.of({**values, **chosen, **more})


def concluded(*results: PartitionGaps, inferred: tuple[PartitionGaps, ...] = ()) -> Conclusion:
    rows = tuple(
        {
            "topic": found.topic,
            "partition": found.partition,
            "missing": found.ranges.count,
            "ranges": len(found.ranges),
            "first_missing": found.ranges.first_offset if len(found.ranges) else None,
            "last_missing": found.ranges.last_offset if len(found.ranges) else None,
            "inferred_events": 0,
            "stale_events": 0,
            "looked_up_to": found.window_max,
        }
        for found in results
    )
    return Conclusion(Outcome.GAPS_FOUND, "Some <b>events</b> are missing.", results, rows, inferred=inferred)


def report_of(conclusion: Conclusion, **more: Any) -> dict[str, Any]:
    return {
        "command": "scan",
        "created": "2026-01-02T03:04:05Z",
        "topics": ["gaps"],
        "cluster_id": "c",
        "outcome": conclusion.outcome,
        "exit_code": 0,
        "message": conclusion.sentence,
        "missing": conclusion.missing,
        "partitions": conclusion.partitions,
        "bundle": {"file": "out/it's.json", "id": "b", "sha256": "0" * 64, "missing": conclusion.missing},
        "seconds": 1.5,
        **more,
    }


def page_of(report: dict[str, Any], conclusion: Conclusion, page: Path) -> dict[str, Any]:
    full = report | page_members(conclusion.results, conclusion.inferred)
    write_page(full, page, "kafka:9092")
    return full


def test_a_thousand_partitions_and_a_million_ranges_are_a_small_page(tmp_path: Path) -> None:
    firsts = array("q", range(MAX_OFFSET - 1_000_000, MAX_OFFSET, 1000))
    incomplete = OffsetRanges.of_canonical(firsts, array("q", (first + first // 1000 % 900 for first in firsts)))
    assert len(incomplete) == 1000
    results = tuple(PartitionGaps("t" * 100, p, 0, MAX_OFFSET, incomplete) for p in range(1000))
    conclusion = concluded(*results, inferred=results)
    full = page_of(report_of(conclusion), conclusion, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 2_000_000
    assert len(full["gap_map"]) == 100


def test_what_a_report_holds_cannot_become_markup_or_a_script(tmp_path: Path) -> None:
    evil = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'
    conclusion = concluded(PartitionGaps(evil, 0, 0, 9, OffsetRanges([(3, 5)])))
    page_of(report_of(conclusion, topics=[evil], cluster_id=evil), conclusion, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "&lt;b&gt;events&lt;/b&gt;" in page
    assert "&lt;img src=x onerror=&#34;alert(2)&#34;&gt;" in page


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    conclusion = concluded(PartitionGaps("transfer", 0, 0, 9, OffsetRanges([(3, 5)])))
    page_of(report_of(conclusion), conclusion, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "default-src 'none'" in page
    assert (
        re.findall(r"""\b(?:src|href|action|srcset)=|url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg")""", page)
        == []
    )


def test_page_and_report_say_the_same(tmp_path: Path) -> None:
    ranges = OffsetRanges([(3, 5), (7, 7), (100, 199)])
    whole = PartitionGaps("transfer", 1, 0, 9, OffsetRanges())
    incomplete = PartitionGaps("transfer", 0, 0, 999, ranges)
    inferred_ranges = PartitionGaps("transfer", 0, 0, 999, OffsetRanges([(150, 199)]))
    conclusion = concluded(whole, incomplete, inferred=(inferred_ranges,))
    full = page_of(report_of(conclusion, read_by="local"), conclusion, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "read by local ·" in page
    assert [(g["first_offset"], g["last_offset"], g["missing"], g["inferred"]) for g in full["biggest_gaps"]] == [
        (100, 199, 100, 50),
        (3, 5, 3, 0),
        (7, 7, 1, 0),
    ]
    shown = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr><td>transfer/0.*", page)]
    assert shown == [
        ["transfer/0", f"{g['missing']}", f"{g['first_offset']}", f"{g['last_offset']}", f"{g['inferred']}"]
        for g in full["biggest_gaps"]
    ]
    source = re.search(r'id="source">(.*)</script>', page)
    assert source is not None
    assert [found["missing"] for found in json.loads(source[1])] == ["3 5 7 7 100 199"]
    assert (sum(full["gap_map"][0]["bins"]), sum(full["gap_map"][0]["inferred_bins"])) == (104, 50)


def test_commands_are_quoted_for_the_shell(tmp_path: Path) -> None:
    conclusion = concluded(PartitionGaps("transfer", 0, 0, 9, OffsetRanges([(3, 5)])))
    page_of(report_of(conclusion), conclusion, tmp_path / "page.html")
    shown = unescape(re.sub("<[^>]*>", "", (tmp_path / "page.html").read_text()))
    assert "gapless bundle text 'out/it'\"'\"'s.json'" in shown


def test_a_page_that_cannot_be_written_costs_no_report(tmp_path: Path) -> None:
    conclusion = concluded(PartitionGaps("transfer", 0, 0, 9, OffsetRanges([(3, 5)])))
    report = tmp_path / "report.json"
    gone = tmp_path / "gone" / "page.html"
    failed = _write_files(report_of(conclusion), conclusion, told(tmp_path, html=gone, report=report))
    assert isinstance(failed, LocalStorageError)
    found = json.loads(report.read_text())
    assert found["exit_code"] == ExitCode.BAD_CONFIGURATION
    assert found["biggest_gaps"][0]["missing"] == 3
    assert f"The page {gone} cannot be written" in found["message"]


def test_unknown_events_are_in_totals_and_table_and_their_partitions_are_not_complete(tmp_path: Path) -> None:
    counted = [("whole", 0, 0), ("doubtful", 0, 7_000), ("gappy", 5, 0)]
    rows = [
        {"topic": topic, "partition": 0, "missing": missing, "unknown": unknown, "bounds": "given"}
        for topic, missing, unknown in counted
    ]
    conclusion = Conclusion(Outcome.UNKNOWN_EVENTS, "5 events are missing.", (), tuple(rows))
    page = tmp_path / "page.html"
    page_of(report_of(conclusion, command="audit", unknown=7_000, missing=5), conclusion, page)
    text = page.read_text("utf-8")
    headings = re.findall(r"<th[^>]*>(?:<button[^>]*>)?([a-z ]+)", text.partition('id="partitions"')[2])
    assert headings[:4] == ["topic", "partition", "missing", "unknown"]
    shown = re.findall(
        r'<tr( class="whole")?><td>(\w+)</td><td class="n">0</td><td class="n">([\d,]+)</td><td class="n">([\d,]+)',
        text,
    )
    assert shown == [("", "gappy", "5", "0"), ("", "doubtful", "0", "7,000"), (' class="whole"', "whole", "0", "0")]
    totals = dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d,]+)</dd>", text))
    assert (totals["Unknown"], totals["Complete partitions"]) == ("7,000", "1")
    assert "gapless audit --bootstrap-servers=kafka:9092 --topics=gaps --include-unknown" in unescape(
        re.sub("<[^>]+>", "", text)
    )
