from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from gapless_api.base.errors import SourceStalledError, SourceUnreachableError, StoppedError, UndeliveredError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps, new_metadata
from gapless_api.bundle.reconciliation import NewerFinding, reconcile
from gapless_api.gaps.cleanup_policy import KEEPS_ALL
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.access.errors import TopicMissingError
from gapless_spark.model.audit_outcome import OtherRecords, conclude_audit
from gapless_spark.model.expectations import Bounds, Expectation
from gapless_spark.model.gap_detection import ReceivedBlock, compare
from gapless_spark.model.gap_windows import CompleteWindows, LatestRecord, ScanOptions, WindowFindings, read_windows
from gapless_spark.model.outcome import Conclusion, Outcome, exit_code_of, outcome_of
from gapless_spark.model.scan_outcome import conclude_scan
from gapless_spark.output.comparison import newer_finding
from gapless_spark.output.tables import show_results

WHOLE = CompleteWindows("transfer", 0, 0, 2999, 3)
GAP = LatestRecord(
    b"transfer_1:0", b'{"topic":"transfer","partition":1,"window_min":0,"window_max":9,"gaps":[[3],[5,6]]}', 0, 0
)
GARBAGE = LatestRecord(b"transfer:2:0", b"\x02", 4, 77)


def concluded_scan(found: WindowFindings, policy: str = "compact", *, has_lost_records: bool = False) -> Conclusion:
    return conclude_scan("gaps", found, policy, has_lost_records=has_lost_records)


def test_a_topic_without_gap_records_is_nothing_to_do() -> None:
    concluded = concluded_scan(read_windows([]))
    assert concluded.outcome is Outcome.NOTHING_TO_DO
    assert concluded.sentence == "Nothing to do: topic gaps holds no gap records; the bundle is empty."
    assert concluded.error() is None


def test_complete_windows_are_nothing_missing() -> None:
    concluded = concluded_scan(read_windows([], [WHOLE]))
    assert concluded.outcome is Outcome.NOTHING_MISSING
    assert concluded.sentence == "Nothing is missing: 3 windows of 1 partition in topic gaps were read."


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_gap_records_behind_an_open_transaction_are_unknown(policy: str) -> None:
    """Of a detector that died they stay there for a quarter of an hour or for ever, and no newer record is read."""
    behind = "7 records of topic gaps could not be read yet, because a transaction before them is still open; scan "
    for found, others in (
        (read_windows([]), "There are no other gap records; the bundle is empty."),
        (read_windows([], [WHOLE]), "No other record reports that anything is missing: 3 windows of 1 partition in "),
        (read_windows([GAP], [WHOLE]), "According to the other records, 3 events are missing, in 2 ranges of 1 "),
    ):
        concluded = conclude_scan("gaps", found, policy, has_lost_records=False, uncommitted=7)
        what = "more" if found.missing else "anything"
        lead = f"It is unknown whether {what} is missing: {behind}again when it has ended. {others}"
        assert concluded.sentence.startswith(lead)
        assert "Nothing" not in concluded.sentence
        assert concluded.outcome is Outcome.UNKNOWN_EVENTS
        assert exit_code_of(concluded.error()) == ExitCode.INCOMPLETE
        assert (concluded.details["unread_behind_transactions"], concluded.source) == (7, {})
    garbage = conclude_scan("gaps", read_windows([GARBAGE]), policy, has_lost_records=False, uncommitted=1)
    assert garbage.outcome is Outcome.UNREADABLE_RECORDS
    assert "1 record of topic gaps was not read, because a transaction before it is still open." in garbage.sentence


def test_what_an_open_transaction_holds_back_may_belong_to_any_window_so_no_gap_counts_as_closed() -> None:
    older = Bundle(BundleKind.ALL, (PartitionGaps("transfer", 0, 0, 2999, OffsetRanges([(1005, 1007)])),), None)
    found = read_windows([], [WHOLE])
    counts = []
    for uncommitted in (0, 1):
        concluded = conclude_scan("gaps", found, "compact", has_lost_records=False, uncommitted=uncommitted)
        (became,) = reconcile(older, newer_finding(concluded)).partitions
        counts.append((became.closed, became.unknown))
    assert counts == [(3, 0), (0, 3)]


@pytest.mark.parametrize("policy", ["delete", "compact,delete", "none", "unknown"])
def test_a_topic_that_may_have_lost_records_never_says_that_nothing_is_missing(policy: str) -> None:
    for found in (read_windows([]), read_windows([], [WHOLE]), read_windows([GAP], [WHOLE])):
        concluded = concluded_scan(found, policy)
        assert "Nothing is missing" not in concluded.sentence
        assert "offsets without a record are unknown and not closed" in concluded.sentence
        assert concluded.sentence.endswith("run gapless audit to find out what has arrived.")
        assert concluded.details["cleanup_policy"] == policy
        assert concluded.source == {}


def test_only_windows_with_a_record_count_as_looked_at() -> None:
    apart = [CompleteWindows("transfer", 1, 20, 29, 1), CompleteWindows("transfer", 1, 25, 34, 1)]
    concluded = concluded_scan(read_windows([GAP, LatestRecord(b"transfer:1:40", None, 0, 9)], apart))
    assert concluded.checked == {("transfer", 1): OffsetRanges([(0, 9), (20, 34)])}
    assert concluded.partitions[0]["without_record"] == 10


def test_a_bundle_says_that_its_topic_keeps_all_only_when_nothing_was_ever_lost() -> None:
    assert concluded_scan(read_windows([GAP])).source == KEEPS_ALL
    assert concluded_scan(read_windows([GAP]), has_lost_records=True).source == {}
    assert concluded_scan(read_windows([GAP], tombstones=1)).source == {}


def test_a_window_whose_record_cannot_be_read_is_not_closed_by_the_bundle_of_the_scan() -> None:
    older = (PartitionGaps("transfer", 0, 0, 2999, OffsetRanges([(1005, 1007)])),)
    unreadable = LatestRecord(b"transfer:0:1000", b"\x02", 0, 7)
    around = [CompleteWindows("transfer", 0, first, first + 999, 1) for first in (0, 2000)]
    concluded = concluded_scan(read_windows([unreadable], around))
    metadata = new_metadata(
        created=datetime(2026, 11, 20, tzinfo=UTC),
        source={"command": "gapless scan", **concluded.source},
        missing=0,
        sha256="0" * 64,
    )
    newer = NewerFinding.of_bundle(Bundle(BundleKind.ALL, concluded.results, metadata))
    (became,) = reconcile(Bundle(BundleKind.ALL, older, None), newer).partitions
    assert (became.closed, became.unknown) == (0, 3)


def test_gaps_are_counted_in_events_ranges_and_partitions() -> None:
    concluded = concluded_scan(read_windows([GAP], [WHOLE]))
    assert concluded.outcome is Outcome.GAPS_FOUND
    assert concluded.missing == 3
    assert concluded.sentence == "3 events are missing, in 2 ranges of 1 partition; 1 of 2 partitions is complete."


def test_what_is_inferred_is_told_apart_and_an_audit_is_named() -> None:
    lost = [CompleteWindows("transfer", 0, 0, 999, 1), CompleteWindows("transfer", 0, 3000, 3999, 1)]
    concluded = concluded_scan(read_windows([GAP], lost, options=ScanOptions(infer=True)))
    assert concluded.sentence == (
        "3,002 events are missing, in 3 ranges of 2 partitions; 0 of 2 partitions are complete. 2,999 of them, in 1 "
        "range, are inferred and not reported by any record; some may have arrived. For an exact result run gapless "
        "audit --topics=transfer where the received events are stored."
    )
    assert [(entry.partition, list(entry.ranges)) for entry in concluded.inferred] == [(0, [(1, 2999)])]
    assert [entry["inferred_events"] for entry in concluded.partitions] == [2999, 0]
    details = {name: concluded.details[name] for name in ("infer", "inferred_events", "inferred_ranges")}
    assert details == {"infer": True, "inferred_events": 2999, "inferred_ranges": 1}
    stream = io.StringIO()
    show_results(concluded, stream, read_by=None, with_sentence=True)
    assert "2,999" in stream.getvalue()


FORGETTING = [CompleteWindows("transfer", 1, 10 * window, 10 * window + 9, 1) for window in range(1, 6)]
"""Windows after which the detector no longer tracks the one of `GAP`."""
LATE_GAP = LatestRecord(
    b"transfer_1:60", b'{"topic":"transfer","partition":1,"window_min":60,"window_max":69,"gaps":[[4]]}', 0, 2
)


@pytest.mark.parametrize("skip_stale", [False, True])
def test_what_the_detector_no_longer_tracks_is_told_apart_in_the_bundle_or_not(*, skip_stale: bool) -> None:
    options = ScanOptions(skip_stale=skip_stale)
    where = (
        "They are left out of the bundle, and --include-stale adds them."
        if skip_stale
        else "They are in the bundle, and gapless scan --skip-stale leaves them out."
    )
    rest = (
        f" 3 events in 1 window are no longer tracked by the detector: missing when it last wrote the record, and "
        f"unknown since. {where} For an exact result run gapless audit --topics=transfer where the received events are "
        f"stored."
    )
    none = concluded_scan(read_windows([GAP], FORGETTING, options=options))
    assert none.outcome is Outcome.NOTHING_MISSING
    assert not none.is_missing_now
    assert none.sentence == f"Nothing is missing now: 6 windows of 1 partition in topic gaps were read.{rest}"
    assert none.missing == (0 if skip_stale else 3)
    some = concluded_scan(read_windows([GAP, LATE_GAP], FORGETTING, options=options))
    assert some.outcome is Outcome.GAPS_FOUND
    assert some.is_missing_now
    assert some.sentence == (f"1 event is missing now, in 1 range of 1 partition; 0 of 1 partition are complete.{rest}")
    assert some.missing == (1 if skip_stale else 4)
    for concluded, now in ((none, 0), (some, 1)):
        assert concluded.details["missing_now"] == now
        assert (concluded.details["stale_events"], concluded.details["stale_windows"]) == (3, 1)
        assert concluded.partitions[0]["stale_events"] == 3
        assert concluded.details["recommended"] == "gapless audit --topics=transfer"


def test_without_stale_records_nothing_is_left_out() -> None:
    found = concluded_scan(read_windows([GAP], FORGETTING[:4], options=ScanOptions(skip_stale=True)))
    assert found.sentence == "3 events are missing, in 2 ranges of 1 partition; 0 of 1 partition are complete."
    assert found.results[0].window_min == 0


def test_unreadable_records_end_with_4_and_say_where_the_first_is() -> None:
    concluded = concluded_scan(read_windows([GAP, GARBAGE], [WHOLE]))
    error = concluded.error()
    assert isinstance(error, UndeliveredError)
    assert exit_code_of(error) == ExitCode.INCOMPLETE
    assert "1 record of topic gaps cannot be read" in str(error)
    assert "in partition 4 at offset 77 (the value has version 2" in str(error)
    assert concluded.details["first_unreadable"][0]["offset"] == 77
    assert concluded.missing == 3


def received(*offsets: int, partition: int = 0, records: int | None = None) -> ReceivedBlock:
    ranges = OffsetRanges.of_offsets(offsets)
    firsts, lasts = [r.first for r in ranges], [r.last for r in ranges]
    return ReceivedBlock("t", partition, 0, records or len(offsets), len(offsets), firsts, lasts)


def test_an_audit_of_nothing_is_nothing_to_do() -> None:
    assert (
        conclude_audit(["a"], (), OtherRecords()).sentence
        == "Nothing to do: topic a holds no records, and nothing is expected."
    )
    emptied = conclude_audit(["a"], (), OtherRecords(expired=True))
    assert (emptied.outcome, exit_code_of(emptied.error())) == (Outcome.NOTHING_TO_DO, ExitCode.DONE)
    assert "Kafka has deleted records that no audit has read: give the expected offsets" in emptied.sentence


def test_records_of_which_none_is_an_event_say_nothing_about_what_is_missing() -> None:
    key = b"order-17\n\xff" + b"x" * 100
    expected = {("t", 0): Expectation(OffsetRanges([(0, 999)]))}
    concluded = conclude_audit(["a", "b"], compare([], expected), OtherRecords(5, key))
    assert concluded.outcome is Outcome.UNREADABLE_RECORDS
    assert isinstance(concluded.error(), UndeliveredError)
    assert (concluded.missing, concluded.details["unknown"], concluded.results) == (0, 1000, ())
    assert concluded.sentence.startswith("None of 5 records of topics a, b has the key of an event")
    assert "(the first key: 'order-17\\n\\\\xffxxx" in concluded.sentence
    assert "x' and 50 more bytes)" in concluded.sentence
    assert newer_finding(concluded).results == ()
    assert "(the first key: none)" in conclude_audit(["a"], (), OtherRecords(1)).sentence


def test_what_may_have_been_received_and_deleted_is_unknown_and_in_no_bundle_unless_asked_for() -> None:
    expected = {("t", 0): Expectation(OffsetRanges([(0, 9)])), ("t", 1): Expectation(OffsetRanges([(0, 9)]))}
    upto = {("t", 0): 5, ("t", 1): MAX_OFFSET}
    found = compare([received(3, 5, 6, 8)], expected, lambda place: upto[place])
    concluded = conclude_audit(["a"], found, OtherRecords())
    assert concluded.outcome is Outcome.UNKNOWN_EVENTS
    assert exit_code_of(concluded.error()) == ExitCode.INCOMPLETE
    assert [(entry.partition, entry.window_min, list(entry.ranges)) for entry in concluded.results] == [
        (0, 5, [(7, 7), (9, 9)])
    ]
    assert concluded.listed is None
    assert [(row["missing"], row["unknown"]) for row in concluded.partitions] == [(2, 4), (0, 10)]
    assert (concluded.missing, concluded.details["unknown"]) == (2, 14)
    assert concluded.sentence.startswith("2 events are missing, in 2 ranges of 1 partition; 0 of 2 partitions are comp")
    assert "14 events of 2 partitions are unknown: Kafka deleted records" in concluded.sentence
    both = conclude_audit(["a"], found, OtherRecords(), include_unknown=True).listed or ()
    assert [(entry.window_min, list(entry.ranges)) for entry in both] == [
        (0, [(0, 2), (4, 4), (7, 7), (9, 9)]),
        (0, [(0, 9)]),
    ]
    older = Bundle(BundleKind.ALL, both, None)
    became = reconcile(older, newer_finding(concluded))
    assert [(one.open, one.unknown, one.closed) for one in became.partitions] == [(2, 4, 0), (0, 10, 0)]
    as_bundle = NewerFinding(BundleKind.ALL, concluded.results)
    assert [one.closed for one in reconcile(older, as_bundle).partitions] == [0, 0]


@pytest.mark.parametrize(
    ("expected", "arrived", "closed"),
    [
        ([(0, 9), (90, 99)], {3, 95}, 1),
        ([(0, 9), (90, 99)], {*range(3, 91)}, 88),
        ([(0, 9), (50, 50), (52, 99)], {51, 120}, 1),
        ([], {7, 8}, 2),
        ([], set(), 0),
    ],
)
def test_what_was_neither_expected_nor_received_is_not_closed_by_the_bundle_of_an_audit(
    expected: list[tuple[int, int]], arrived: set[int], closed: int
) -> None:
    told = {("t", 0): Expectation(OffsetRanges(expected), Bounds.INVENTORY)}
    concluded = conclude_audit(["a"], compare([received(*sorted(arrived))], told), OtherRecords())
    older = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, OffsetRanges([(0, 99)])),), None)
    (became,) = reconcile(older, NewerFinding(BundleKind.ALL, concluded.results)).partitions
    assert (became.open, became.closed) == (concluded.missing, closed)


def test_events_behind_an_open_transaction_are_in_the_sentence() -> None:
    found = compare([received(1, 2, 3)], {("t", 0): Expectation(OffsetRanges([(1, 3)]))})
    concluded = conclude_audit(["a"], found, OtherRecords(uncommitted=(("a", 7), ("b", 0))))
    assert concluded.sentence.endswith(
        " 7 records of topic a were not read, because a transaction before them is still open."
    )
    assert exit_code_of(concluded.error()) == ExitCode.DONE


def test_unknown_events_of_deleted_records_and_of_open_transactions_are_counted_apart() -> None:
    given = {("t", number): Expectation(OffsetRanges([(0, 9)])) for number in range(3)}
    found = compare([], given, {("t", 0): 3, ("t", 1): MAX_OFFSET, ("t", 2): -1}.__getitem__)
    concluded = conclude_audit(["a"], found, OtherRecords(held_back=frozenset({("t", 1), ("t", 2)})))
    assert (concluded.details["unknown"], concluded.details["unknown_behind_transactions"]) == (14, 10)
    assert " 4 events of 1 partition are unknown: Kafka deleted records before" in concluded.sentence
    assert " 10 events of 1 partition are unknown: an open transaction holds back records" in concluded.sentence
    assert isinstance(concluded.error(), UndeliveredError)


def test_an_audit_says_when_its_bounds_are_only_what_was_seen() -> None:
    seen = conclude_audit(["a"], compare([received(1, 2, 3)], {}), OtherRecords())
    assert seen.outcome is Outcome.NOTHING_MISSING
    assert seen.sentence.startswith("Nothing is missing: 3 events of 1 partition were received.")
    assert "give the expected offsets with --expect" in seen.sentence
    given = conclude_audit(
        ["a"], compare([received(1, 2, 3)], {("t", 0): Expectation(OffsetRanges([(1, 3)]))}), OtherRecords()
    )
    assert given.sentence == "Nothing is missing: 3 events of 1 partition were received."
    assert (seen.partitions[0]["bounds"], given.partitions[0]["bounds"]) == ("seen", "given")


def test_an_audit_reports_records_duplicates_and_what_nobody_expected() -> None:
    found = compare([received(1, 2, 3, 9, records=6)], {("t", 0): Expectation(OffsetRanges([(0, 3)]))})
    concluded = conclude_audit(["a"], found, OtherRecords(2))
    assert concluded.details == {
        "records": 8,
        "foreign_keys": 2,
        "received": 4,
        "duplicates": 2,
        "unexpected": 1,
        "unknown": 0,
        "unknown_behind_transactions": 0,
        "lost": {"gapless_lost_times": 1, "after": None, "before": None, "hours": [], "hours_omitted": 0},
    }
    assert concluded.missing == 1


def test_what_is_beyond_an_inventory_is_neither_missing_nor_unexpected() -> None:
    entry = Expectation(OffsetRanges([(5, 6), (8, 9)]), Bounds.INVENTORY)
    silent, empty = Expectation(OffsetRanges([(0, 3)]), Bounds.INVENTORY), Expectation(OffsetRanges(), Bounds.INVENTORY)
    expected = {("t", 0): entry, ("t", 1): silent, ("t", 2): empty}
    concluded = conclude_audit(["a"], compare([received(3, 5, 6, 7, 8, 12)], expected), OtherRecords())
    assert (concluded.missing, concluded.details["unexpected"]) == (5, 0)
    assert [list(result.ranges) for result in concluded.results] == [[(9, 9)], [(0, 3)], []]
    rows = [(row["bounds"], row["outside_manifest"], row["first_expected"]) for row in concluded.partitions]
    assert rows == [("manifest", 3, 5), ("manifest", 0, 0), ("manifest", 0, None)]
    assert "--expect" not in concluded.sentence
    stream = io.StringIO()
    show_results(concluded, stream, read_by=None, with_sentence=True)
    assert "none (manifest)" in stream.getvalue()


def test_what_ends_a_job_early_has_an_outcome_of_its_own() -> None:
    errors = {
        TopicMissingError("x"): (Outcome.TOPIC_MISSING, 2),
        SourceUnreachableError("x"): (Outcome.UNREACHABLE, 3),
        SourceStalledError("x"): (Outcome.UNREACHABLE, 3),
        StoppedError("x", by_terminal=False): (Outcome.STOPPED, 143),
    }
    assert {error: (outcome_of(error), exit_code_of(error)) for error in errors} == errors


def test_the_table_shows_incomplete_partitions_first_and_what_was_expected() -> None:
    found = compare([received(1, 2), received(1, 4, partition=1)], {("t", 0): Expectation(OffsetRanges([(1, 2)]))})
    stream = io.StringIO()
    show_results(conclude_audit(["a"], found, OtherRecords()), stream, read_by="spark", with_sentence=True)
    lines = stream.getvalue().splitlines()
    assert lines[0].split() == [
        "partition",
        "missing",
        "unknown",
        "ranges",
        "first",
        "last",
        "received",
        "duplicates",
        "expected",
    ]
    assert lines[1].split() == ["t/1", "2", "0", "1", "2", "3", "2", "0", "1", "to", "4", "(seen)"]
    assert lines[2].split() == ["t/0", "0", "0", "0", "-", "-", "2", "0", "1", "to", "2", "(given)"]
    assert lines[3] == "Read by Spark."
    assert lines[4].startswith("2 events are missing")
