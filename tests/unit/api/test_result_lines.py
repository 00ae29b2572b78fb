"""A result survives its way through a log, and a log that lost a part says so."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gapless_api.wire.result_lines import MAX_LINE_CHARACTERS, ResultLinesError, find_result, result_lines, unpack_gzip
from gapless_api.wire.scan_result import SCAN_RESULT, ScanReport
from kit.machine.examples import examples

REPORT = ScanReport(
    command="scan",
    created="2026-11-20T10:00:00Z",
    topics=("gaps",),
    outcome="stopped",
    exit_code=143,
    message="ä \u2028 and \n a line feed",
    read_by=None,
    seconds=1.5,
    findings=None,
    details={"most": 9223372036854775807},
)
LATER = replace(REPORT, exit_code=130)
PLAIN = SCAN_RESULT.to_json(REPORT)


def test_a_small_result_is_one_line_that_a_person_can_read() -> None:
    (line,) = result_lines(REPORT, b'{"type": "all"}')
    assert json.loads(line)["report"] == PLAIN
    found = find_result([line])
    assert found.report == REPORT
    assert found.bundle_gzip is not None
    assert gzip.decompress(found.bundle_gzip) == b'{"type": "all"}'


def test_a_large_result_is_cut_into_lines_that_container_runtimes_keep_whole() -> None:
    bundle = random.Random(7).randbytes(300_000)
    lines = result_lines(REPORT, bundle)
    assert len(lines) > 10
    assert max(map(len, lines)) <= MAX_LINE_CHARACTERS
    found = find_result(["starting", *lines[:3], '{"event":"progress"}', *lines[3:], "", "bye"])
    assert found.report == REPORT
    assert unpack_gzip(found.bundle_gzip or b"") == bundle


def test_a_bundle_that_is_gzipped_already_is_not_gzipped_again() -> None:
    packed = gzip.compress(b"x" * 100)
    assert find_result(result_lines(REPORT, packed)).bundle_gzip == packed


def test_a_result_without_a_bundle_has_none() -> None:
    assert find_result(result_lines(REPORT, None)).bundle_gzip is None


def test_the_last_result_of_a_log_counts() -> None:
    first, second = result_lines(REPORT, random.Random(1).randbytes(50_000)), result_lines(LATER, None)
    assert find_result([*first, *second]).report == LATER
    assert find_result([*second, *first]).report == REPORT


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda _: [], "no result"),
        (lambda _: ["not json", '{"event":"other"}', '["result"]'], "no result"),
        (lambda lines: lines[1:], "part 1 of"),
        (lambda lines: lines[:-1], "is missing from the log"),
        (lambda lines: [lines[0].replace('"piece":"', '"piece":"AAAA'), *lines[1:]], "do not match their digest"),
        (lambda _: [json.dumps({"event": "result", "piece": 5})], "malformed"),
        (lambda _: [json.dumps({"event": "result", "report": 5})], "no report"),
        (lambda _: [json.dumps({"event": "result", "report": {}})], "no version .* this program reads version 3"),
        (lambda _: [json.dumps({"event": "result", "report": PLAIN, "bundle_gzip_base64": "?"})], "not base64"),
    ],
)
def test_what_is_missing_or_altered_is_named(spoil: Callable[[list[str]], list[str]], reason: str) -> None:
    lines = result_lines(REPORT, random.Random(3).randbytes(50_000))
    with pytest.raises(ResultLinesError, match=reason):
        find_result(spoil(lines))


def test_unpacking_stops_before_it_fills_the_memory() -> None:
    with pytest.raises(ResultLinesError, match="larger than 1000 bytes"):
        unpack_gzip(gzip.compress(bytes(1_000_000)), max_bytes=1000)
    with pytest.raises(ResultLinesError, match="is truncated"):
        unpack_gzip(gzip.compress(b"abc")[:-3])
    with pytest.raises(ResultLinesError, match="damaged"):
        unpack_gzip(b"abc")


_reports = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=20,
)
_foreign = st.one_of(
    st.text(st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), max_size=60),
    st.sampled_from(
        ['{"event":"progress"}', "26/01/01 10:00:00 INFO DAGScheduler", '{"event":"result"', '["result"]', "null"]
    ),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.dictionaries(st.text(max_size=9), _reports, max_size=6).map(lambda details: replace(REPORT, details=details)),
    st.none() | st.integers(0, 60_000),
    st.lists(_foreign, max_size=12),
    st.randoms(use_true_random=False),
)
def test_any_result_is_found_whatever_stands_between_its_lines(
    report: ScanReport, size: int | None, foreign: list[str], chance: random.Random
) -> None:
    bundle = None if size is None else chance.randbytes(size)
    lines = result_lines(report, bundle)
    for line in foreign:
        lines.insert(chance.randint(0, len(lines)), line)
    found = find_result(lines)
    assert found.report == report
    assert (unpack_gzip(found.bundle_gzip) if found.bundle_gzip is not None else None) == bundle


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1))
def test_a_log_that_is_cut_anywhere_never_gives_half_a_result(seed: int, one: float, other: float) -> None:
    log = "\n".join(result_lines(REPORT, random.Random(seed).randbytes(40_000)))
    start, end = sorted((int(one * len(log)), int(other * len(log))))
    assume(end - start < len(log))
    with pytest.raises(ResultLinesError):
        find_result(log[start:end].splitlines())
