"""Every offset of an older bundle is accounted for, and none counts as closed that nobody has looked at."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.algebra import Portion
from gapless_api.bundle.form import MADE_OF_RECORDS, Bundle, BundleKind, BundleMetadata, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.reconciliation import (
    MAX_PARTITIONS,
    TOOL_PREFIX,
    NewerFinding,
    failed_comparison,
    is_made_of_records,
    reconcile,
)
from gapless_api.bundle.writer import write_bundle
from gapless_api.cli.bundle.parts import write_portion
from gapless_api.gaps.cleanup_policy import KEEPS_ALL
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.form import members_of
from gapless_api.wire.resend_report import UNAVAILABLE, Outcome, RangeKind, report_text
from gapless_api.wire.resend_report_files import ResendFindings, read_resend_reports
from gapless_api.wire.totals import Totals
from gapless_sender.replay.report import Account, PartitionResult
from gapless_sender.replay.report import report as report_of_sender
from gapless_sender.source.plan import FILLED, FILTERED, OUTSIDE, Reason

PLACE = ("t", 0)


def entry(*pairs: tuple[int, int], window: tuple[int, int] = (0, 99), topic: str = "t", partition: int = 0) -> Any:
    return PartitionGaps(topic, partition, *window, OffsetRanges(pairs))


def bundle(*entries: PartitionGaps, kind: BundleKind = BundleKind.ALL) -> Bundle:
    return Bundle(kind, entries, None)


def audited(*entries: PartitionGaps, kind: BundleKind = BundleKind.ALL) -> NewerFinding:
    """What the bundle of an audit says, which looks at everything within its windows."""
    metadata = BundleMetadata(1, "newer", datetime(2026, 11, 20, tzinfo=UTC), {"command": "gapless audit"}, 0, "0" * 64)
    return NewerFinding.of_bundle(Bundle(kind, entries, metadata))


def counts(old: Bundle, newer: NewerFinding, said: ResendFindings | None = None) -> dict[str, int]:
    found = reconcile(old, newer, said)
    names = ("closed", "filled", "unavailable", "open", "unknown", "new")
    return {name: found.total(name) for name in names if found.total(name)}


def test_what_is_not_missing_any_more_has_closed_and_what_is_still_is_open() -> None:
    old = bundle(entry((5, 5), (10, 19)))
    assert counts(old, audited(entry((15, 25)))) == {"closed": 6, "open": 5, "new": 6}


def test_what_the_newer_finding_did_not_look_at_is_unknown() -> None:
    old = bundle(entry((5, 9), (90, 109)), entry((1, 3), partition=1))
    newer = audited(entry(window=(7, 99)))
    assert counts(old, newer) == {"closed": 3 + 10, "unknown": 2 + 10 + 3}
    assert not reconcile(old, newer).settled


@pytest.mark.parametrize("command", ["gapless scan", "gapless create", None])
def test_a_bundle_of_records_closes_by_silence_only_when_its_topic_has_kept_them_all(
    tmp_path: Path, command: str | None
) -> None:
    old = bundle(entry((5, 9), (20, 29)))
    newer = bundle(entry((20, 21)))
    if command is not None:
        moment = datetime(2026, 11, 20, tzinfo=UTC)
        for name, kept in (("lost", {}), ("kept", KEEPS_ALL)):
            source = {"command": command, **kept}
            write_bundle(tmp_path / name, BundleKind.ALL, [entry((20, 21))], created=moment, source=source)
        assert counts(old, NewerFinding.of_bundle(read_bundle(tmp_path / "kept"))) == {"closed": 13, "open": 2}
        newer = read_bundle(tmp_path / "lost")
    found = NewerFinding.of_bundle(newer)
    assert counts(old, found) == {"open": 2, "unknown": 13}
    assert "may have lost records" in reconcile(old, found).sentence()


def test_holes_in_what_was_looked_at_are_unknown_too() -> None:
    old = bundle(entry((5, 9), (40, 49)))
    newer = NewerFinding.of_job((entry(),), {PLACE: OffsetRanges([(0, 6), (45, 99)])})
    assert counts(old, newer) == {"closed": 2 + 5, "unknown": 3 + 5}


def test_what_was_received_although_an_inventory_calls_it_absent_has_closed_or_was_filled() -> None:
    old = bundle(entry((5, 9), (40, 44), (99, 101)))
    said = ResendFindings(filled={PLACE: OffsetRanges([(5, 6), (99, 101)])})
    absent = {PLACE: OffsetRanges([(5, 9), (100, 101)])}
    # Expected were 10 to 99; 5, 7 and 100 came all the same, 6, 8, 9 and 101 did not.
    looked = {PLACE: OffsetRanges([(5, 5), (7, 7), (10, 100)])}
    newer = NewerFinding.of_job((entry(window=(10, 99)),), looked, absent)
    assert counts(old, newer, said) == {"closed": 1 + 5, "filled": 1 + 2, "unavailable": 4}


def test_behind_the_first_range_of_a_bundle_of_first_ranges_nothing_is_known() -> None:
    old = bundle(entry((5, 5), (10, 19), (30, 30)))
    newer = audited(entry((12, 13)), kind=BundleKind.FIRST)
    assert counts(old, newer) == {"closed": 3, "open": 2, "unknown": 7}
    complete = audited(entry(), kind=BundleKind.FIRST)
    assert counts(old, complete) == {"closed": 12}


def test_a_resend_tells_filled_from_arrived_and_never_possible_from_open() -> None:
    old = bundle(entry((10, 19)), entry((0, 1), partition=1))
    said = ResendFindings(
        filled={PLACE: OffsetRanges([(10, 11), (13, 13)])},
        unavailable={PLACE: OffsetRanges([(14, 15), (18, 18)]), ("t", 1): OffsetRanges([(1, 1)])},
    )
    newer = audited(entry((13, 16)))
    # 13 was filled and is missing still; 18 was said to be out of reach and has arrived; 1/1 was not looked at.
    assert counts(old, newer, said) == {"closed": 4, "filled": 2, "unavailable": 3, "open": 2, "unknown": 1}


def test_what_the_other_side_declares_to_be_no_event_is_not_waited_for() -> None:
    newer = NewerFinding.of_job((entry(),), {PLACE: OffsetRanges([(0, 6), (8, 99)])}, {PLACE: OffsetRanges([(7, 7)])})
    assert counts(bundle(entry((5, 9))), newer) == {"closed": 4, "unavailable": 1}


def test_the_report_and_the_sentence_say_the_same() -> None:
    old = bundle(entry((5, 9)))
    assert reconcile(old, audited(entry())).sentence() == ("All 5 offsets of the older bundle have closed: 5 arrived.")
    said = ResendFindings(unavailable={PLACE: OffsetRanges([(5, 5)])})
    settled = reconcile(old, audited(entry((5, 5), (50, 50))), said)
    assert settled.settled
    assert settled.sentence() == (
        "None of the 5 offsets of the older bundle is still open: 4 arrived, 1 permanently unavailable "
        "upstream. 1 offset is missing now that it does not list."
    )
    waiting = reconcile(old, audited(entry((5, 6), window=(0, 8)))).as_json()
    assert waiting["sentence"] == ("Of 5 offsets of the older bundle still open: 2, not checked: 1 (2 arrived).")
    assert waiting["partitions"][0]["first_open"] == [[5, 6]]
    assert waiting["partitions"][0]["first_unknown"] == [[9, 9]]
    assert waiting["with"]["id"] is None
    assert len(waiting["with"]["sha256"]) == 64
    assert failed_comparison("It is gone.") == {"with": None, "problem": "It is gone."}


def test_the_report_lists_the_partitions_that_matter_most_and_says_how_many_more_there_are() -> None:
    places = [entry((1, 1), partition=number) for number in range(MAX_PARTITIONS + 5)]
    newer = audited(*(entry(partition=number) for number in range(MAX_PARTITIONS + 4)))
    shown = reconcile(bundle(*places), newer).as_json()
    assert (len(shown["partitions"]), shown["partitions_omitted"]) == (MAX_PARTITIONS, 5)
    assert shown["partitions"][0]["partition"] == MAX_PARTITIONS + 4


offsets = st.sets(st.integers(0, 40) | st.integers(MAX_OFFSET - 40, MAX_OFFSET))


@given(offsets, offsets, offsets, offsets, offsets, st.sampled_from(BundleKind))
def test_every_offset_becomes_what_the_rules_say_one_by_one(  # noqa: PLR0917
    listed: set[int], missing: set[int], looked: set[int], filled: set[int], gone: set[int], kind: BundleKind
) -> None:
    first_only = kind is BundleKind.FIRST
    now = OffsetRanges.of_offsets(missing)
    results = (PartitionGaps("t", 0, 0, MAX_OFFSET, OffsetRanges(now.head(1)) if first_only else now),)
    newer = NewerFinding(kind, results, {PLACE: OffsetRanges.of_offsets(looked)})
    said = ResendFindings({PLACE: OffsetRanges.of_offsets(filled)}, {PLACE: OffsetRanges.of_offsets(gone)})
    expected = dict.fromkeys(("closed", "filled", "unavailable", "open", "unknown"), 0)
    for offset in listed:
        if offset in results[0].ranges:
            expected["unavailable" if offset in gone else "open"] += 1
        elif offset not in looked or (first_only and len(now) and offset > now[0].last):
            expected["unavailable" if offset in gone else "unknown"] += 1
        else:
            expected["filled" if offset in filled else "closed"] += 1
    found = reconcile(bundle(PartitionGaps("t", 0, 0, 0, OffsetRanges.of_offsets(listed))), newer, said)
    assert {name: found.total(name) for name in expected} == expected
    assert found.total("listed") == len(listed) == sum(expected.values())
    assert found.total("new") == results[0].ranges.count - len(listed & {o for o in missing if o in results[0].ranges})


def report(started: str, *partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"gaplessReport": 1, "started": started, "ledger": {"sent": 1}, "partitions": list(partitions), **more}


def ranges(partition: int = 0, **kinds: list[list[int]]) -> dict[str, Any]:
    figures = {"topic": "t.x", "partition": partition, "upstreamTopic": "other", "upstreamPartition": 0}
    return {**figures, **dict.fromkeys(members_of(Totals), 7), "ranges": kinds}


def written(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reports_of_several_resends_count_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    first = report(
        "2026-11-20T10:00:00Z",
        ranges(Expired=[[1, 5]], NonExistent=[[7, 7]], TooLarge=[[9, 9]], NotYetWritten=[[90, 99]], sent=[[50, 60]]),
        ranges(1, filled=[[3, MAX_OFFSET]]),
    )
    second = report("2026-11-20T11:00:00Z", ranges(sent=[[2, 3]], filled=[[7, 7]], Expired=[[55, 56]]))
    paths = [written(tmp_path, "b.json", second), written(tmp_path, "a.json", first)]
    for given_paths in (paths, paths[::-1], [tmp_path]):
        found = read_resend_reports(given_paths)
        assert found.unavailable == {("t.x", 0): OffsetRanges([(1, 1), (4, 5), (9, 9), (55, 56)])}
        assert found.filled == {("t.x", 0): OffsetRanges([(7, 7)]), ("t.x", 1): OffsetRanges([(3, MAX_OFFSET)])}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not valid JSON or is truncated"),
        ({"type": "all", "results": []}, r"no version \(gaplessReport\)"),
        ({"gaplessReport": 2, "partitions": []}, "version 2"),
        (report("x", ranges(Expired=[[2, 1]])), "not a range"),
        (report("x", ranges(Expired=[[5, 6], [1, 2]])), "comes after"),
        (report("x", ranges(Expired=[[5]])), "not first and last"),
        (report("x", ranges(Expired=[[1, MAX_OFFSET + 1]])), "an offset in it is invalid"),
        (report("x", {"ranges": {}}), "topic is missing"),
        (report("x", {**ranges(), "topic": ""}), "no topic"),
        (report("x", {**ranges(), "partition": True}), "partition is true and must be an integer"),
        (report("x", ranges(Expired=[[1, 2, 3, 4]])), "not first and last"),
        (report("x", ranges(Expired=[[1], [2, 3], [4]])), "not first and last"),
        (report("x", ranges(Expired=[[[1, 2]]])), "not first and last"),
        (report("x", ranges(Expired=["1-2"])), "not first and last"),
        (report("x", ranges(Lost=[[1, 2]])), "unknown kind"),
        (report("x", {**ranges(), "ranges": None}), "not an object"),
        (report("x", {name: value for name, value in ranges().items() if name != "ranges"}), "no ranges"),
        (report("x", unavailableRanges=[]), "short form"),
        (report("x", partitionsOmitted=0), "short form"),
        (report("x", **{"started.x": 1}), "unknown"),
        (report("x", **{"": 1}), "unknown"),
    ],
)
def test_what_is_no_report_of_a_resend_is_refused_by_name(tmp_path: Path, content: Any, problem: str) -> None:
    path = written(tmp_path, "r.json", content)
    with pytest.raises(ConfigurationError, match=problem) as refused:
        read_resend_reports([path])
    assert str(path) in str(refused.value)


def test_a_missing_report_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_resend_reports([tmp_path / "missing"])
    with pytest.raises(ConfigurationError, match="contains no resend report"):
        read_resend_reports([tmp_path])


def test_of_a_bundle_that_a_tool_made_only_what_it_lists_is_known(tmp_path: Path) -> None:
    path = tmp_path / "piece.json"
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    write_bundle(path, BundleKind.ALL, [entry((7, 7))], created=moment, source={"command": f"{TOOL_PREFIX}split"})
    assert counts(bundle(entry((5, 9))), NewerFinding.of_bundle(read_bundle(path))) == {"open": 1, "unknown": 4}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("gapless scan", {"closed": 1, "open": 2, "unknown": 48}),
        ("gapless create", {"closed": 1, "open": 2, "unknown": 48}),
        ("gapless audit", {"closed": 49, "open": 2}),
    ],
)
def test_what_was_only_inferred_closes_by_an_audit_and_by_no_record(
    tmp_path: Path, command: str, found: dict[str, int]
) -> None:
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    for name, ranges, inferred in (("old", [(5, 5), (50, 99)], [(50, 99)]), ("new", [(60, 61)], [])):
        write_bundle(
            tmp_path / name,
            BundleKind.ALL,
            [entry(*ranges)],
            created=moment,
            source={"command": command, **(KEEPS_ALL if command != "gapless audit" else {})},
            inferred=[entry(*inferred)],
        )
    old = read_bundle(tmp_path / "old")
    assert counts(old, NewerFinding.of_bundle(read_bundle(tmp_path / "new"))) == found
    by_records = command != "gapless audit"
    assert counts(old, NewerFinding.of_job((entry((60, 61)),), {}, by_records=by_records)) == found


@pytest.mark.parametrize(
    ("source", "by_records", "found"),
    [
        ({"command": "gapless audit"}, True, {"open": 2, "unknown": 49}),
        ({"command": "gapless audit"}, False, {"open": 2, "closed": 49}),
        ({"command": f"{TOOL_PREFIX}merge"}, True, {"open": 2, "unknown": 49}),
        ({"command": f"{TOOL_PREFIX}merge", **MADE_OF_RECORDS}, True, {"open": 2, "closed": 49}),
        ({"command": "gapless scan"}, True, {"open": 2, "closed": 49}),
        (None, True, {"open": 2, "closed": 49}),
    ],
)
def test_what_an_audit_found_closes_by_an_audit_and_by_no_record(
    tmp_path: Path, source: dict[str, str] | None, *, by_records: bool, found: dict[str, int]
) -> None:
    old = bundle(entry((5, 5), (50, 99)))
    if source is not None:
        moment = datetime(2026, 11, 20, tzinfo=UTC)
        write_bundle(tmp_path / "old", BundleKind.ALL, [entry((5, 5), (50, 99))], created=moment, source=source)
        old = read_bundle(tmp_path / "old")
    assert counts(old, NewerFinding.of_job((entry((60, 61)),), {}, by_records=by_records)) == found


def test_a_tool_says_that_it_made_a_bundle_of_records_alone(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    for name, command in (("scan", "gapless scan"), ("audit", "gapless audit")):
        write_bundle(tmp_path / name, BundleKind.ALL, [entry((5, 5))], created=moment, source={"command": command})
    for names, alone in ((["scan"], True), (["scan", "audit"], False)):
        bundles = {name: read_bundle(tmp_path / name) for name in names}
        write_portion(tmp_path / "all", Portion(BundleKind.ALL, (entry((5, 5)),), ()), bundles, {"command": "x"})
        assert is_made_of_records(read_bundle(tmp_path / "all")) == alone


def test_the_bundle_is_named_as_it_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    metadata = write_bundle(
        path, BundleKind.ALL, [entry((1, 2))], created=datetime(2026, 11, 20, tzinfo=UTC), source={}
    )
    shown = reconcile(read_bundle(path), audited()).as_json()
    assert shown["with"] == {"id": metadata.id, "sha256": metadata.sha256}


def test_every_reason_of_the_sender_is_known_here() -> None:
    assert {str(kind) for kind in UNAVAILABLE} == {str(reason) for reason in Reason}
    assert {str(kind) for kind in RangeKind} - {"sent"} == {str(kind) for kind in (FILTERED, FILLED, OUTSIDE, *Reason)}


def test_what_the_sender_writes_is_what_is_read(tmp_path: Path) -> None:
    kinds = {"sent": [[1, 4]], "filled": [[5, 5]], "NonExistent": [[6, 7]], "NotYetWritten": [[8, 9]]}
    account = Account([PartitionResult("t", 0, "up", 3, Totals(planned=9, sent=4, filled=1, unavailable=4), kinds)])
    made = report_of_sender(
        outcome=Outcome.INCOMPLETE,
        exit_code=4,
        reason=None,
        message="",
        selection=None,
        bundle=None,
        account=account,
        started="2026-11-20T10:00:00Z",
        seconds=1.0,
    )
    found = read_resend_reports([written(tmp_path, "r.json", "".join(report_text(made)))])
    assert found == ResendFindings({PLACE: OffsetRanges([(5, 5)])}, {PLACE: OffsetRanges([(6, 7)])})
