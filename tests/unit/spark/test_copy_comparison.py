"""The proof that a comparison of two copies finds every edit and nothing else, however records are batched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.rows import SCHEMA, Record
from gapless_spark.archiving.verify_copy import by_order, streams
from gapless_spark.archiving.verify_copy.by_offset import compare_by_offset
from gapless_spark.archiving.verify_copy.by_order import compare_by_order
from gapless_spark.archiving.verify_copy.findings import Findings, Unreadable
from gapless_spark.archiving.verify_copy.streams import Meter, Stream, digest_of

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import Alignment, Part

PARTS: tuple[Part, ...] = ("key", "value", "headers", "timestamp")


def record(offset: int, content: int | None = None, **more: Any) -> Record:
    number = offset if content is None else content
    made = Record(0, offset, 1_000 + number, 0, b"key %d" % number, b"value %d" % number, [(b"h", b"%d" % number)])
    return made._replace(**more)


def batches(records: Sequence[Record], sizes: Sequence[int]) -> list[pa.RecordBatch]:
    found, at, number = [], 0, 0
    while at < len(records):
        size = sizes[number % len(sizes)]
        rows = [each._asdict() for each in records[at : at + size]]
        found.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        at, number = at + size, number + 1
    return found


@dataclass
class Compared:
    findings: Findings
    meters: tuple[Meter, Meter] = field(repr=False)

    @property
    def differences(self) -> list[tuple[Any, ...]]:
        """Kind, parts, and the offsets in both copies."""
        return [
            (
                one.kind,
                one.parts,
                *(None if span is None else (span.first, span.last) for span in (one.a, one.b)),
            )
            for one in self.findings.differences
        ]

    def check_sums(self) -> None:
        found = self.findings
        assert self.meters[0].records == found.equal + found.different + found.moved + found.only_in_a
        assert self.meters[1].records == found.equal + found.different + found.moved + found.only_in_b
        digests = [digest_of(meter.ranges()) for meter in self.meters]
        assert (digests[0] == digests[1]) is (not found.differences)


def compared(
    alignment: Alignment,
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    sizes: tuple[Sequence[int], Sequence[int]] = ((7,), (5,)),
    parts: tuple[Part, ...] = PARTS,
    ignored: tuple[Part, ...] = (),
) -> Compared:
    """Compare records; something else than a record is a gap."""
    findings, meters = Findings(0), (Meter(alignment), Meter(alignment))
    made = [
        Stream(items(records, size), meter, ignored) for records, size, meter in zip((a, b), sizes, meters, strict=True)
    ]
    compare = compare_by_offset if alignment == "offsets" else compare_by_order
    compare(*made, parts, findings)
    return Compared(findings, meters)


def items(records: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    found: list[Any] = []
    held: list[Record] = []
    for each in records:
        if isinstance(each, Record):
            held.append(each)
        else:
            found += [*batches(held, sizes), each]
            held = []
    return found + batches(held, sizes)


RECORDS = [record(offset) for offset in range(200)]
CHANGES: dict[str, tuple[Part, ...]] = {"key": ("key",), "value": ("value",), "timestamp": ("timestamp",)}


@pytest.mark.parametrize("alignment", ["offsets", "order"])
def test_the_same_records_are_alike(alignment: Alignment) -> None:
    found = compared(alignment, RECORDS, RECORDS)
    assert (found.findings.equal, found.differences) == (200, [])
    found.check_sums()


@pytest.mark.parametrize("alignment", ["offsets", "order"])
@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("key", {"key": b"other"}),
        ("key", {"key": None}),
        ("key", {"key": b""}),
        ("value", {"value": b"value 10\0"}),
        ("value", {"value": None}),
        ("value", {"value": b""}),
        ("timestamp", {"timestamp": 1_011}),
        ("timestamp", {"timestamp": None}),
        ("headers", {"headers": []}),
        ("headers", {"headers": [(b"h", None)]}),
        ("headers", {"headers": [(b"h", b"")]}),
        ("headers", {"headers": [(b"h", b"10"), (b"h", b"10")]}),
        ("headers", {"headers": [(b"H", b"10")]}),
    ],
)
def test_one_change_is_one_difference(alignment: Alignment, part: Part, changed: dict[str, Any]) -> None:
    other = [*RECORDS[:10], RECORDS[10]._replace(**changed), *RECORDS[11:]]
    found = compared(alignment, RECORDS, other)
    assert found.differences == [("different", (part,), (10, 10), (10, 10))]
    assert found.findings.equal == 199
    found.check_sums()


@pytest.mark.parametrize("alignment", ["offsets", "order"])
def test_null_and_empty_differ_also_in_the_order_of_headers(alignment: Alignment) -> None:
    one = [record(0, key=None, value=b"", headers=[(b"a", b"1"), (b"a", b"2")])]
    other = [record(0, key=b"", value=None, headers=[(b"a", b"2"), (b"a", b"1")])]
    assert compared(alignment, one, other).differences == [("different", ("key", "value", "headers"), (0, 0), (0, 0))]


@pytest.mark.parametrize("alignment", ["offsets", "order"])
def test_what_is_ignored_does_not_count_in_the_digest_either(alignment: Alignment) -> None:
    other = [each._replace(timestamp=5, headers=[]) for each in RECORDS]
    found = compared(alignment, RECORDS, other, parts=("key", "value"), ignored=("headers", "timestamp"))
    assert (found.findings.equal, found.differences) == (200, [])
    found.check_sums()


@pytest.mark.parametrize("alignment", ["offsets", "order"])
def test_timestamp_types_are_counted_and_only_compared_on_request(alignment: Alignment) -> None:
    other = [each._replace(timestamp_type=1) for each in RECORDS[:50]] + [
        each._replace(timestamp_type=None) for each in RECORDS[50:]
    ]
    found = compared(alignment, RECORDS, other)
    assert found.differences == []
    types = found.meters[1].timestamp_types()
    assert (types.create_time, types.log_append_time, types.none) == (0, 50, 150)
    strict = compared(alignment, RECORDS, other, parts=(*PARTS, "timestampType"))
    assert [each[:2] for each in strict.differences] == [("different", ("timestampType",))]
    assert strict.findings.different == 200


def test_records_of_one_copy_only_are_ranges_of_offsets() -> None:
    found = compared("offsets", RECORDS[:150], [*RECORDS[20:100], *RECORDS[110:]])
    assert found.differences == [
        ("onlyInA", (), (0, 19), None),
        ("onlyInA", (), (100, 109), None),
        ("onlyInB", (), None, (150, 199)),
    ]
    assert (found.findings.only_in_a, found.findings.only_in_b, found.findings.equal) == (30, 50, 120)
    found.check_sums()


def test_a_lost_record_is_one_difference_although_all_offsets_behind_it_are_others() -> None:
    copy = [record(1_000 + place, place if place < 70 else place + 1) for place in range(199)]
    found = compared("order", RECORDS, copy)
    assert found.differences == [("onlyInA", (), (70, 70), None)]
    assert found.findings.equal == 199
    found.check_sums()


def test_an_added_record_and_two_that_changed_places_are_told_apart() -> None:
    order = [*range(30), 500, *range(30, 90), 91, 90, *range(92, 200)]
    copy = [record(1_000 + place, content) for place, content in enumerate(order)]
    found = compared("order", RECORDS, copy)
    assert found.differences[0] == ("onlyInB", (), None, (1_030, 1_030))
    assert [each[0] for each in found.differences] == ["onlyInB", "moved"]
    assert found.differences[1][2:] in {((90, 90), (1_092, 1_092)), ((91, 91), (1_091, 1_091))}
    assert found.findings.equal == 199
    found.check_sums()


def test_by_offset_two_records_that_changed_places_are_both_different() -> None:
    copy = [record(place, {90: 91, 91: 90}.get(place)) for place in range(200)]
    parts = ("key", "value", "headers", "timestamp")
    assert compared("offsets", RECORDS, copy).differences == [("different", parts, (90, 91), (90, 91))]


def test_a_record_that_accidentally_occurs_in_both_does_not_lead_astray() -> None:
    lost, behind, twin = range(1_000, 1_100), range(2_000, 2_100), 9
    one = [0, *range(20, 60), *lost[:10], twin, *lost[10:], *behind]
    other = [*range(20, 60), *behind[:10], twin, *behind[10:]]
    a, b = ([record(place, content) for place, content in enumerate(each)] for each in (one, other))
    found = compared("order", a, b)
    assert found.differences == [
        ("onlyInA", (), (0, 0), None),
        ("onlyInA", (), (41, 50), None),
        ("moved", (), (51, 51), (50, 50)),
        ("onlyInA", (), (52, 141), None),
    ]
    found.check_sums()


def test_a_long_loss_is_found_exactly() -> None:
    many = [record(offset) for offset in range(6_000)]
    copy = [record(place, content) for place, content in enumerate([*range(1_000), *range(4_700, 6_000)])]
    found = compared("order", many, copy, sizes=((1_000,), (333,)))
    assert found.differences == [("onlyInA", (), (1_000, 4_699), None)]
    found.check_sums()


def test_copies_without_any_timestamp_are_paired_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_order, "MAX_WINDOW", 1_024)
    many = [record(offset) for offset in range(3_000)]
    found = compared("order", many, [each._replace(timestamp=None) for each in many], sizes=((100,), (100,)))
    assert found.differences == [("different", ("timestamp",), (0, 2_999), (0, 2_999))]
    assert found.findings.different == 3_000


def test_copies_that_have_nothing_in_common_end_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_order, "MAX_WINDOW", 256)
    found = compared("order", [record(offset) for offset in range(1_500)], [record(0, -1 - n) for n in range(900)])
    assert found.findings.equal == 0
    assert found.findings.different + found.findings.only_in_a == 1_500
    found.check_sums()


def test_equal_records_in_long_rows_are_counted() -> None:
    same = [record(offset, 1) for offset in range(5_000)]
    found = compared("order", same, same[:4_000], sizes=((512,), (300,)))
    assert (found.findings.equal, found.findings.only_in_a) == (4_000, 1_000)
    found.check_sums()


EDITS = st.lists(st.tuples(st.sampled_from(["lose", "add", "value", "timestamp"]), st.integers(0, 129)), max_size=8)
SIZES = st.lists(st.integers(1, 120), min_size=1, max_size=4)


@given(EDITS, SIZES, SIZES)
def test_random_edits_of_distinct_records_are_found_and_nothing_else(
    edits: list[tuple[str, int]], sizes_a: list[int], sizes_b: list[int]
) -> None:
    """By order: one edit of a record, where its neighbours are as they were, is one difference of its kind."""
    chosen = {place: kind for kind, place in edits}
    chosen = {place: kind for place, kind in chosen.items() if place - 1 not in chosen}
    originals = [record(offset) for offset in range(130)]
    copy: list[Record] = []
    expected = []
    for each in originals:
        kind = chosen.get(each.offset)
        at = 5_000 + len(copy)
        if kind == "lose":
            expected.append(("onlyInA", (), (each.offset, each.offset), None))
            continue
        if kind == "add":
            expected.append(("onlyInB", (), None, (at, at)))
            copy.append(record(at, 10_000 + each.offset))
            at += 1
        changed = each._replace(offset=at)
        if kind in {"value", "timestamp"}:
            expected.append(("different", (kind,), (each.offset, each.offset), (at, at)))
            changed = changed._replace(**{kind: b"changed" if kind == "value" else 7})
        copy.append(changed)
    found = compared("order", originals, copy, sizes=(sizes_a, sizes_b))
    assert found.differences == expected
    found.check_sums()


@given(st.lists(st.integers(0, 3), max_size=80), st.lists(st.integers(0, 3), max_size=80), SIZES, SIZES)
def test_copies_of_few_different_records_are_never_called_alike_when_they_are_not(
    one: list[int], other: list[int], sizes_a: list[int], sizes_b: list[int]
) -> None:
    a, b = ([record(place, content) for place, content in enumerate(each)] for each in (one, other))
    found = compared("order", a, b, sizes=(sizes_a, sizes_b))
    assert (not found.differences) is (one == other)
    found.check_sums()


@given(st.sets(st.integers(0, 250)), st.sets(st.integers(0, 250)), st.sets(st.integers(0, 250)), SIZES, SIZES)
def test_by_offset_everything_is_found_whatever_offsets_and_batches_there_are(
    in_a: set[int], in_b: set[int], changed: set[int], sizes_a: list[int], sizes_b: list[int]
) -> None:
    a = [record(offset) for offset in sorted(in_a)]
    b = [record(offset, value=b"changed") if offset in changed else record(offset) for offset in sorted(in_b)]
    found = compared("offsets", a, b, sizes=(sizes_a, sizes_b))
    seen: dict[str, set[int]] = {"onlyInA": set(), "onlyInB": set(), "different": set()}
    for kind, _, span_a, span_b in found.differences:
        first, last = span_a or span_b
        there = in_a | in_b
        seen[kind] |= {offset for offset in range(first, last + 1) if offset in there}
    assert seen == {"onlyInA": in_a - in_b, "onlyInB": in_b - in_a, "different": in_a & in_b & changed}
    assert found.findings.equal == len((in_a & in_b) - changed)
    found.check_sums()


@pytest.mark.parametrize("sizes", [((7,), (5,)), ((1,), (200,)), ((200,), (1,))])
def test_a_gap_hides_the_same_offsets_of_the_other_copy(sizes: tuple[tuple[int], tuple[int]]) -> None:
    gap = Unreadable(50, 79, "Damaged", 30, "object X is damaged")
    for a, b, side in (
        ([*RECORDS[:50], gap, *RECORDS[80:]], RECORDS, "a"),
        (RECORDS, [*RECORDS[:50], gap, *RECORDS[80:]], "b"),
    ):
        found = compared("offsets", a, b, sizes=sizes)
        assert (found.findings.equal, found.differences) == (170, [])
        (missing,) = found.findings.not_compared
        assert (missing.side, missing.span.first, missing.span.last, missing.records) == (side, 50, 79, 30)
        found.check_sums()


def test_records_right_before_a_gap_that_only_one_copy_has_are_found() -> None:
    one = [*RECORDS[:45], Unreadable(50, 79, "Damaged", 30, ""), *RECORDS[80:]]
    found = compared("offsets", one, RECORDS, sizes=((7,), (200,)))
    assert found.differences == [("onlyInB", (), None, (45, 49))]
    assert found.findings.equal == 165
    found.check_sums()


@pytest.mark.parametrize("sizes", [((7,), (5,)), ((1,), (200,)), ((200,), (1,))])
def test_a_gap_stands_for_as_many_records_of_a_copy_with_other_offsets(
    sizes: tuple[tuple[int], tuple[int]],
) -> None:
    gap = Unreadable(50, 79, "Damaged", 30, "object X is damaged")
    copy = [each._replace(offset=each.offset + 9_000) for each in RECORDS]
    for a, b in (([*RECORDS[:50], gap, *RECORDS[80:]], copy), (copy, [*RECORDS[:50], gap, *RECORDS[80:]])):
        found = compared("order", a, b, sizes=sizes)
        assert (found.findings.equal, found.differences) == (170, [])
        assert len(found.findings.not_compared) == 1
        found.check_sums()


def test_a_gap_right_behind_a_difference_and_one_at_the_end_are_passed() -> None:
    gap = Unreadable(50, 79, "Damaged", 30, "")
    copy = [each._replace(offset=each.offset + 9_000) for each in RECORDS]
    changed = [*RECORDS[:49], RECORDS[49]._replace(value=b"changed"), gap, *RECORDS[80:]]
    found = compared("order", changed, copy)
    assert found.differences == [("different", ("value",), (49, 49), (9_049, 9_049))]
    assert found.findings.equal == 169
    at_the_end = compared("order", RECORDS[:50], [*copy[:50], replace(gap, first=9_050, last=9_079)])
    assert (at_the_end.findings.equal, at_the_end.differences, len(at_the_end.findings.not_compared)) == (50, [], 1)


def test_neighbouring_gaps_of_one_kind_are_listed_as_one() -> None:
    gaps = [Unreadable(50, 59, "Damaged", 10, "X"), Unreadable(60, 79, "Damaged", 20, "X")]
    (missing,) = compared("offsets", [*RECORDS[:50], *gaps, *RECORDS[80:]], RECORDS).findings.not_compared
    assert (missing.span.first, missing.span.last, missing.records) == (50, 79, 30)


def test_only_the_first_differences_are_listed_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless_spark.archiving.verify_copy.findings.MAX_DIFFERENCES", 5)
    copy = [each._replace(value=b"changed") if each.offset % 2 else each for each in RECORDS]
    found = compared("offsets", RECORDS, copy)
    assert (len(found.differences), found.findings.difference_count, found.findings.different) == (5, 100, 100)


@given(SIZES)
def test_ranges_end_at_multiples_of_offsets_or_after_so_many_records(sizes: list[int]) -> None:
    original = streams.RANGE
    try:
        streams.RANGE = 100  # type: ignore[misc]
        offsets = [*range(30, 180), *range(230, 420, 2)]
        records = [record(offset) for offset in offsets]
        for alignment, expected in (
            ("offsets", [(30, 99, 70), (100, 179, 80), (230, 298, 35), (300, 398, 50), (400, 418, 10)]),
            ("order", [(30, 129, 100), (130, 328, 100), (330, 418, 45)]),
        ):
            meter = Meter(alignment)  # type: ignore[arg-type]
            for rows in batches(records, sizes):
                meter.take(rows)
            found = meter.ranges()
            assert [(each.first, each.last, each.records) for each in found] == expected
            for each in found:
                digest = ContentDigest()
                digest.update(batches([r for r in records if each.first <= r.offset <= each.last], [1_000])[0])
                assert each.digest == digest.text()
    finally:
        streams.RANGE = original  # type: ignore[misc]
