"""The proof that an absent record counts as compacted only if what was read proves it, and as lost otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.copy_report import Alignment, CopyAddress, Ignored
from gapless_archive.segments.rows import SCHEMA, Record
from gapless_spark.archiving.verify_copy import by_order
from gapless_spark.archiving.verify_copy.compaction import Compaction, compaction_of
from gapless_spark.archiving.verify_copy.comparing import Comparison
from gapless_spark.archiving.verify_copy.findings import Unreadable
from gapless_spark.archiving.verify_copy.plan import divide_units, plan_of

if TYPE_CHECKING:
    from gapless_spark.archiving.verify_copy.unit_result import UnitResult

PARTS = ("key", "value", "headers", "timestamp")
NOW = int(time.time() * 1000)
DAY = 86_400_000
OLD, YOUNG = NOW - 3 * DAY, NOW - DAY // 2


class Entry(NamedTuple):
    """A record of the log from which the copies are made; its timestamp is that of `number`, in order."""

    key: bytes | None
    value: bytes | None
    is_old: bool = True


def log(*entries: Entry) -> list[Record]:
    return [
        Record(0, number, (OLD if entry.is_old else YOUNG) + number, 0, entry.key, entry.value, [])
        for number, entry in enumerate(entries)
    ]


def renumber(records: Sequence[Record], first: int = 700) -> list[Record]:
    """The records as a mirror writes them, with other offsets."""
    return [each._replace(offset=first + place) for place, each in enumerate(records)]


@dataclass(frozen=True)
class ListedCopy:
    """A copy whose records are in memory; something else than a record is a range that cannot be read."""

    records: Sequence[Any]
    tombstone_seconds: float | None = DAY / 1000
    kind: Any = "kafka"
    topic_id: str = "A"
    covered: tuple[int, int] | None = None
    may_lag: bool = False
    reads: list[OffsetRanges] = field(default_factory=list)

    @property
    def about(self) -> CopyAddress:
        return CopyAddress(
            address="x", kind=self.kind, cluster_id="", region="", topic="t", topic_id=self.topic_id, partitions=1
        )

    def answerable(self, partition: int) -> OffsetRanges:
        if self.covered is not None:
            return OffsetRanges([self.covered])
        offsets = [each.offset if isinstance(each, Record) else each.last for each in self.records]
        return OffsetRanges([(0, max(offsets))]) if offsets and not partition else OffsetRanges()

    def absences(self, missing: OffsetRanges, partition: int) -> Iterator[Unreadable]:
        assert not partition
        for first, last in missing:
            yield Unreadable(first, last, "NotArchived")

    def read(self, partition: int, ranges: OffsetRanges) -> Iterator[Any]:
        assert not partition
        self.reads.append(ranges)
        for is_record, some in groupby(self.records, lambda each: isinstance(each, Record)):
            if is_record:
                rows = [each._asdict() for each in some if each.offset in ranges]
                yield from pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(max_chunksize=100)
            else:
                yield from some

    def check_unchanged(self) -> None:
        """Nothing replaces it."""


def compare(a: ListedCopy, b: ListedCopy, alignment: Alignment, ignored: tuple[Ignored, ...] = ()) -> UnitResult:
    comparison = Comparison(a, b, alignment, PARTS, ignored)  # type: ignore[arg-type]
    (result,) = comparison.of(plan_of(a, b, alignment).units)
    assert result.a.records == result.equal + result.different + result.moved + result.only_in_a + result.compacted_in_b
    assert result.b.records == result.equal + result.different + result.moved + result.only_in_b + result.compacted_in_a
    return result


def counts(result: UnitResult) -> tuple[int, int, int]:
    """Records only in A, those of A that compaction removed from B, and all others that are not equal."""
    others = result.different + result.moved + result.only_in_b + result.compacted_in_a
    return result.only_in_a, result.compacted_in_b, others


K, L = b"k", b"a longer key than the hash has bytes"
FULL = log(Entry(K, b"1"), Entry(L, b"1"), Entry(K, b"2"), Entry(None, b"no key"), Entry(L, b"2"), Entry(K, b"3"))
REMOVED: dict[str, tuple[list[Record], set[int], tuple[int, int]]] = {
    "nothing": (FULL, set(), (0, 0)),
    "all but the last of each key": (FULL, {0, 1, 2}, (0, 3)),
    "the last record of a key": (FULL, {4}, (1, 0)),
    "the last two records of a key": (FULL, {2, 5}, (2, 0)),
    "all records of a key": (FULL, {1, 4}, (2, 0)),
    "a record without a key": (FULL, {3}, (1, 0)),
    "some of each kind": (FULL, {0, 3, 4}, (2, 1)),
    "a tombstone with all before it": (log(Entry(K, b"1"), Entry(K, None), Entry(L, b"1")), {0, 1}, (0, 2)),
    "a tombstone alone": (log(Entry(K, b"1"), Entry(K, None), Entry(L, b"1")), {1}, (1, 0)),
    "a young tombstone": (log(Entry(K, b"1"), Entry(K, None, is_old=False), Entry(L, b"1")), {0, 1}, (2, 0)),
    "a tombstone and what follows it": (log(Entry(K, b"1"), Entry(K, None), Entry(K, b"2")), {0, 1, 2}, (1, 2)),
    "an empty value": (log(Entry(K, b"1"), Entry(K, b""), Entry(L, b"1")), {0, 1}, (2, 0)),
    "what an empty key names": (log(Entry(b"", b"1"), Entry(b"", b"2")), {0}, (0, 1)),
}


@pytest.mark.parametrize("alignment", ["offsets", "order"])
@pytest.mark.parametrize("removed", REMOVED)
def test_only_what_a_later_record_or_an_old_tombstone_supersedes_counts_as_compacted(
    removed: str, alignment: Alignment
) -> None:
    records, without, expected = REMOVED[removed]
    left = [each for each in records if each.offset not in without]
    copy = left if alignment == "offsets" else renumber(left)
    a = ListedCopy(records, None)
    result = compare(a, ListedCopy(copy, topic_id="B", covered=(0, 2_000)), alignment)
    assert counts(result) == (*expected, 0)
    assert result.equal == len(left)
    # Mirrored, with the copies in the other order.
    swapped = compare(ListedCopy(copy, topic_id="B", covered=(0, 2_000)), a, alignment)
    assert (swapped.only_in_b, swapped.compacted_in_a) == expected
    not_compacted = compare(a, ListedCopy(copy, None, topic_id="B", covered=(0, 2_000)), alignment)
    assert counts(not_compacted) == (sum(expected), 0, 0)


def test_ranges_say_which_records_were_compacted_and_which_are_lost() -> None:
    result = compare(ListedCopy(FULL, None), ListedCopy([FULL[2], FULL[5]]), "offsets")
    assert [(each.kind, each.records, each.a and (each.a.first, each.a.last)) for each in result.differences] == [
        ("onlyInA", 1, (1, 1)),
        ("onlyInA", 2, (3, 4)),
    ]
    assert [(each.records, each.a and each.a.first) for each in result.compacted] == [(1, 0)]
    lost = compare(ListedCopy(FULL, None), ListedCopy([FULL[4], FULL[5]]), "offsets")
    assert [(each.kind, each.records, each.a and (each.a.first, each.a.last)) for each in lost.compacted] == [
        ("compactedInB", 3, (0, 2))
    ]
    assert [(each.kind, each.a and each.a.first) for each in lost.differences] == [("onlyInA", 3)]


@pytest.mark.parametrize("alignment", ["offsets", "order"])
def test_a_changed_record_is_no_compaction_although_both_copies_have_a_later_one(alignment: Alignment) -> None:
    changed = [FULL[0], FULL[1], FULL[2]._replace(value=b"changed"), *FULL[3:]]
    result = compare(ListedCopy(FULL), ListedCopy(changed, topic_id="B"), alignment)
    assert (result.different, result.only_in_a, result.only_in_b) == (1, 0, 0)
    assert (result.compacted_in_a, result.compacted_in_b) == (0, 0)


def test_the_proof_may_be_behind_the_offsets_that_are_compared() -> None:
    """An archive ends before the record that compaction kept."""
    archived = ListedCopy(FULL[:3], kind="archive", may_lag=True, covered=(0, 2))
    kafka = ListedCopy(FULL[4:], covered=(0, 5))
    result = compare(archived, kafka, "offsets")
    assert counts(result) == (0, 3, 0)
    assert kafka.reads[-1] == OffsetRanges([(3, 5)])
    without = compare(archived, ListedCopy(FULL[5:], covered=(0, 5)), "offsets")
    assert counts(without) == (1, 2, 0)
    complete = ListedCopy(FULL)
    compare(ListedCopy(FULL[:3], kind="archive", may_lag=True, covered=(0, 2)), complete, "offsets")
    assert len(complete.reads) == 1  # without an absence nothing more is read


def test_a_tombstone_proves_nothing_if_the_copy_could_not_be_read_completely() -> None:
    records = log(Entry(K, b"1"), Entry(K, None), *(Entry(L, b"%d" % number) for number in range(4)))
    gap = Unreadable(4, 4, "Damaged", 1, "object X is damaged")
    left = ListedCopy([*records[2:4], gap, *records[5:]], kind="archive", topic_id="B")
    assert counts(compare(ListedCopy(records, None), left, "offsets"))[:2] == (2, 0)
    sound = ListedCopy(records[2:], kind="archive", topic_id="B")
    assert counts(compare(ListedCopy(records, None), sound, "offsets"))[:2] == (0, 2)


def test_with_null_as_empty_neither_an_empty_key_nor_an_empty_value_proves_anything() -> None:
    records = log(Entry(b"", b"1"), Entry(b"", b"2"), Entry(K, b"1"), Entry(K, b""))
    a, b = ListedCopy(records, None), ListedCopy([records[1]], covered=(0, 3))
    assert counts(compare(a, b, "offsets", ("nullAsEmpty",))) == (3, 0, 0)


@pytest.mark.parametrize("alignment", ["offsets", "order"])
def test_null_is_like_empty_on_request_in_keys_values_and_headers(alignment: Alignment) -> None:
    headers: list[tuple[bytes, bytes | None]] = [(b"a", None), (b"b", b""), (b"c", b"3")]
    one = [
        Record(0, 0, 1, 0, None, None, headers),
        Record(0, 1, 2, 0, b"k", None, []),
        Record(0, 2, 3, 0, b"k", b"v", [(b"d", None)]),
    ]
    empty: list[tuple[bytes, bytes | None]] = [(b"a", b""), (b"b", b""), (b"c", b"3")]
    other = [
        one[0]._replace(key=b"", value=b"", headers=empty),
        one[1]._replace(value=b""),
        one[2]._replace(headers=[(b"d", b"")]),
    ]
    a, b = ListedCopy(one, None), ListedCopy(other, None, topic_id="B")
    assert compare(a, b, alignment).equal == 0
    ignored = compare(a, b, alignment, ("nullAsEmpty",))
    assert (ignored.equal, ignored.different) == (3, 0)
    assert ignored.a.ranges == ignored.b.ranges
    changed = ListedCopy([*other[:2], other[2]._replace(headers=[(b"d", b"x")])], None, topic_id="B")
    assert compare(a, changed, alignment, ("nullAsEmpty",)).different == 1


def test_more_records_than_a_window_has_may_have_been_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_order, "MAX_WINDOW", 256)
    records = log(*(Entry(b"%d" % (number % 3), b"%d" % number) for number in range(2_000)))
    for first in (1_700, 1_997):
        copy = renumber(records[first:])
        for both in (None, 1.0):
            result = compare(ListedCopy(records, both), ListedCopy(copy, topic_id="B"), "order")
            assert counts(result) == (0, first, 0)
            assert result.equal == 2_000 - first


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", None]), st.booleans(), st.booleans()), max_size=40),
    st.sets(st.integers(0, 39)),
    st.sets(st.integers(0, 39)),
)
def test_what_is_lost_is_never_called_compacted(
    content: list[tuple[bytes | None, bool, bool]], not_in_a: set[int], not_in_b: set[int]
) -> None:
    """Whatever a copy lacks: the result is that of a search through all records of both."""
    entries = [
        Entry(key, None if is_tombstone and key else b"%d" % number, is_old)
        for number, (key, is_tombstone, is_old) in enumerate(content)
    ]
    records = log(*entries)
    in_a = [each for each in records if each.offset not in not_in_a]
    in_b = [each for each in records if each.offset not in not_in_b]
    everything = (0, 10_000)
    result = compare(ListedCopy(in_a, covered=everything), ListedCopy(in_b, covered=everything), "offsets")
    expected = _excused(in_a, in_b), _excused(in_b, in_a)
    assert (result.compacted_in_b, result.compacted_in_a) == tuple(len(excused) for excused, _ in expected)
    assert (result.only_in_a, result.only_in_b) == tuple(len(lost) for _, lost in expected)
    # By order, with a complete copy, the neighbours of a record say where it was.
    other = ListedCopy(renumber(in_b), topic_id="B", covered=everything)
    complete = compare(ListedCopy(records, None, covered=everything), other, "order")
    excused, lost = _excused(records, in_b)
    assert (complete.compacted_in_b, complete.only_in_a) == (len(excused), len(lost))
    if not (result.only_in_a or result.only_in_b):
        return
    both = compare(ListedCopy(in_a, covered=everything), other, "order")
    assert both.only_in_a + both.only_in_b + both.different + both.moved > 0


def _excused(present: Sequence[Record], other: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Divide the records that `other` lacks into those that compaction may have removed, and those it lost."""
    excused: list[Record] = []
    lost: list[Record] = []
    for one in present:
        if one in other:
            continue
        is_superseded = any(later.key == one.key and later.offset > one.offset for later in other)
        is_deleted = all(each.key != one.key for each in other) and any(
            each.key == one.key
            and each.offset >= one.offset
            and each.value is None
            and (each.timestamp or 0) < NOW - DAY
            for each in present
        )
        (excused if one.key is not None and (is_superseded or is_deleted) else lost).append(one)
    return excused, lost


def test_only_a_copy_that_may_have_been_compacted_excuses_absences() -> None:
    day = DAY / 1000
    topic, plain = ListedCopy([], day, topic_id="A"), ListedCopy([], None, topic_id="B")
    archived = ListedCopy([], 60.0, kind="archive", topic_id="A")
    assert compaction_of(topic, plain) == Compaction(day, None)  # what the source still has, a copy must have
    assert compaction_of(topic, archived) == Compaction(60.0, None)  # an archive must have what its topic still has
    assert compaction_of(plain, archived) == Compaction(60.0, 60.0)  # the source was compacted before it was copied
    assert compaction_of(plain, ListedCopy([], None, kind="archive")) == Compaction()
    assert compaction_of(archived, archived) == Compaction(60.0, 60.0)


def test_a_compacted_partition_is_not_divided() -> None:
    big = ListedCopy([], None, covered=(0, 999_999))
    plan = plan_of(big, big, "offsets")
    assert len(divide_units(plan, 4)) == 4
    assert len(divide_units(plan, 4, whole_partitions=True)) == 1
