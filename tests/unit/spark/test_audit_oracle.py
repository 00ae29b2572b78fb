"""Any stream, audited by the code that tasks and states run, against sets of single offsets."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.store.access import S3Access
from gapless_archive.store.state_place import open_place
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_spark.audit import first_records
from gapless_spark.audit.audit_state import AuditState
from gapless_spark.model import expired_records
from gapless_spark.model.bitmaps import Received, collect_blocks, fold_keys, merge_bitmaps, received_block
from gapless_spark.model.event_keys import FOREIGN, Block, KeyBatch
from gapless_spark.model.expectations import Bounds, Expectation, Expectations, parse_expectations
from gapless_spark.model.gap_detection import ReceivedPartition, compare
from kit.machine.examples import examples
from kit.peer.arrivals import FOREIGN as FOREIGN_KEYS
from kit.peer.arrivals import (
    LARGEST_OFFSET,
    Arrivals,
    Key,
    TopicPartition,
    arrivals,
    as_ranges,
    missing_between,
    record_counts,
)

if TYPE_CHECKING:
    import pytest

    from gapless_spark.audit.first_records import RecordSpan

Found = dict[TopicPartition, ReceivedPartition]


def batches_of(keys: Sequence[Key], size: int) -> list[KeyBatch]:
    column = pa.array(keys, pa.binary())
    return [KeyBatch(column.slice(i, size)) for i in range(0, len(keys), size)]


def received(tasks: Iterable[Sequence[Key]], size: int) -> dict[Block, Received]:
    """Do what the Spark plan does: partial bitmaps by task, sorted together, joined, collected."""
    partial = [batch for keys in tasks for batch in fold_keys(batches_of(keys, size))]
    if not partial:
        return {}
    order = [(name, "ascending") for name in ("topic", "partition", "block")]
    together = pa.Table.from_batches(partial).sort_by(order).to_batches(max_chunksize=5)
    found = collect_blocks(merge_bitmaps(together))
    assert found == collect_blocks(partial), "a run without Spark joins them at once"
    return found


def judged(blocks: Iterable[tuple[Block, Received]], expected: Expectations) -> tuple[Found, int]:
    """What an audit finds, and how many keys are no event's."""
    known = dict(blocks)
    foreign = known.pop(FOREIGN, None)
    partitions = compare([received_block(*pair) for pair in known.items()], expected)
    return {(each.topic, each.partition): each for each in partitions}, foreign.records if foreign else 0


def written(ranges: OffsetRanges) -> list[list[int]]:
    return [[first, last] if first != last else [first] for first, last in ranges]


def split(keys: Sequence[Key], pieces: int, chance: random.Random) -> list[Sequence[Key]]:
    """Divide at random places; some of the parts may be empty."""
    ends = sorted(chance.randint(0, len(keys)) for _ in range(pieces - 1))
    return [keys[first:last] for first, last in zip([0, *ends], [*ends, len(keys)], strict=True)]


def assert_exact(stream: Arrivals, found: Found, foreign: int, expected: dict[TopicPartition, set[int]]) -> None:
    """Compare every number that an audit reports with brute force; `expected` of those places where it is given."""
    arrived = stream.arrived
    assert found.keys() == {*arrived, *expected}
    assert foreign == stream.foreign
    for place, partition in found.items():
        offsets = arrived.get(place, [])
        told = {name: getattr(partition, name) for name in ("records", "received", "duplicates")}
        assert told == record_counts(offsets), place
        if place in expected:
            missing = as_ranges(expected[place] - set(offsets))
        else:
            missing = missing_between(min(offsets), max(offsets), offsets)
        assert written(partition.missing) == missing, place
        beyond = len(set(offsets) - expected[place]) if place in expected else 0
        assert partition.unexpected + partition.outside_inventory == beyond
        if place in expected:
            known = {offset for first, last in partition.known for offset in range(first, last + 1)}
            assert known == expected[place] | set(offsets), "what an audit can speak of"
        assert (partition.first_received, partition.last_received) == (
            (min(offsets), max(offsets)) if offsets else (None, None)
        )


@settings(max_examples=examples(200))
@given(stream=arrivals(), tasks=st.integers(1, 6), size=st.integers(5, 200), seed=st.integers(0, 2**32))
def test_an_audit_finds_each_missing_offset_and_no_other(stream: Arrivals, tasks: int, size: int, seed: int) -> None:
    parts = split(stream.keys, tasks, random.Random(seed))
    assert_exact(stream, *judged(received(parts, size).items(), {}), {})


@settings(max_examples=examples(150))
@given(stream=arrivals(), seed=st.integers(0, 2**32))
def test_with_bounds_the_ends_and_the_silent_partitions_are_exact_too(stream: Arrivals, seed: int) -> None:
    chance = random.Random(seed)
    named = {place: sent for place, sent in stream.sent.items() if chance.random() < 0.9}
    # Somebody may name bounds narrower than what came, or wider.
    bounds = {
        place: (
            max(0, sent[0] - chance.choice([0, 0, 3])),
            min(LARGEST_OFFSET, max(sent[-1] + chance.choice([0, 0, -3, 3]), sent[0])),
        )
        for place, sent in named.items()
    }
    texts = [f"{topic}:{partition}:{first}-{last}" for (topic, partition), (first, last) in bounds.items()]
    found, foreign = judged(received([stream.keys], 64).items(), parse_expectations(texts))
    assert_exact(stream, found, foreign, {place: set(range(low, high + 1)) for place, (low, high) in bounds.items()})
    assert sum(partition.outside_inventory for partition in found.values()) == 0


@settings(max_examples=examples(150))
@given(stream=arrivals(), seed=st.integers(0, 2**32))
def test_what_an_inventory_calls_absent_is_never_missing(stream: Arrivals, seed: int) -> None:
    chance = random.Random(seed)
    share = chance.choice([0.0, 0.1, 0.9])
    existing = {
        place: {offset for offset in sent if chance.random() >= share} for place, sent in stream.sent.items()
    }  # an absent one may have arrived all the same: before it was compacted, or because it was filled
    expected = {
        place: Expectation(
            OffsetRanges.of_offsets(offsets),
            Bounds.INVENTORY,
            OffsetRanges.of_offsets(set(stream.sent[place]) - offsets),
        )
        for place, offsets in existing.items()
    }
    found, foreign = judged(received([stream.keys], 64).items(), expected)
    assert_exact(stream, found, foreign, existing)
    assert sum(partition.unexpected for partition in found.values()) == 0
    for place, sent in stream.sent.items():
        gaps = found[place].gaps()
        assert (gaps.window_min, gaps.window_max) == (sent[0], sent[-1]), "absent ones are not missing, at the ends too"


def cut_after(records: int) -> Cut:
    return Cut("cluster", (TopicCut("raw", (0,), (records,), 0, id="raw's"),))


@settings(max_examples=examples(60))
@given(stream=arrivals(), runs=st.integers(1, 5), size=st.integers(1, 100), seed=st.integers(0, 2**32))
@example(stream=Arrivals([], {}, 0), runs=2, size=1, seed=0)
def test_audits_that_go_on_at_any_moment_say_what_one_audit_says(
    tmp_path_factory: pytest.TempPathFactory, stream: Arrivals, runs: int, size: int, seed: int
) -> None:
    folder, chance = tmp_path_factory.mktemp("audits") / "state", random.Random(seed)
    read = 0
    for part in split(stream.keys, runs, chance):
        cut = cut_after(read + len(part))
        with AuditState(open_place(folder, S3Access())) as state:
            left = state.unread(cut)
            assert left.offsets == len(part), "only what is new is read again"
            known = dict(state.merge_and_commit(received(split(part, chance.randint(1, 3), chance), size), cut))
        read += len(part)
        so_far = Arrivals(stream.keys[:read], stream.sent, sum(key in FOREIGN_KEYS for key in stream.keys[:read]))
        assert_exact(so_far, *judged(known.items(), {}), {})
    assert known == received([stream.keys], 1000)


@settings(max_examples=3)
@given(stream=arrivals(min_partitions=1000, max_partitions=1000, max_events=30), seed=st.integers(0, 2**32))
def test_a_thousand_partitions_are_told_apart(stream: Arrivals, seed: int) -> None:
    wanted = {place: set(sent) for place, sent in stream.sent.items()}
    expected = {place: Expectation(OffsetRanges.of_offsets(offsets)) for place, offsets in wanted.items()}
    parts = split(stream.keys, 4, random.Random(seed))
    assert_exact(stream, *judged(received(parts, 1000).items(), expected), wanted)


@dataclass
class Log:
    """A topic downstream: who knows all that ever arrived, and what retention has taken."""

    partitions: list[list[bytes]]
    starts: list[int]

    def cut(self) -> Cut:
        ends = tuple(len(keys) for keys in self.partitions)
        return Cut("cluster", (TopicCut("raw", tuple(self.starts), ends, 0, id="raw's"),))

    def first_keys(self, _connection: object, wanted: dict[tuple[str, int], RecordSpan]) -> dict[Any, list[bytes]]:
        return {
            (topic, number): self.partitions[number][one.first_offset : one.end_offset][: one.max_records]
            for (topic, number), one in wanted.items()
        }

    def shows_that_it_is_scattered(self, most: int) -> bool:
        """Whether the first kept records of each partition of which some are gone name another one."""
        return all(
            any(key.split(b"_")[1] != b"%d" % number for key in keys[start : start + most])
            for number, (keys, start) in enumerate(zip(self.partitions, self.starts, strict=True))
            if start
        )

    def read(self, cut: Cut) -> list[bytes]:
        (topic,) = cut.topics
        pieces = zip(self.partitions, self.starts, topic.first_offsets, topic.end_offsets, strict=True)
        return [key for keys, start, first, end in pieces for key in keys[max(start, first) : end]]


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(seed=st.integers(0, 2**32), scattered=st.booleans(), runs=st.integers(1, 5), keeps_state=st.booleans())
@example(seed=2**31 - 1, scattered=True, runs=5, keeps_state=True)
def test_whatever_expires_no_event_that_was_received_is_called_missing(  # noqa: C901, PLR0912, PLR0915, PLR0917 -- a link, and days of it
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    scattered: bool,  # noqa: FBT001 -- an example
    runs: int,
    keeps_state: bool,  # noqa: FBT001
) -> None:
    """Live events rise and are lost at random; those that were lost are sent again between them.

    What the audit rests on is assumed: of each source that enough of the first kept records show, one of them was live
    when one of them is above all that was received before, and they show it when events are not in the partitions that
    their keys name.
    """
    chance, most = random.Random(seed), 12
    for module in (expired_records, first_records):
        monkeypatch.setattr(module, "FIRST_RECORDS", most, raising=False)
    log = Log([[], []], [0, 0])
    monkeypatch.setattr(first_records, "first_keys", log.first_keys)
    folder = tmp_path_factory.mktemp("audits") / "state"
    sent, lost, arrived = [0, 0, 0], [set[int](), set[int](), set[int]()], [set[int](), set[int](), set[int]()]
    loss = chance.choice([0.2, 0.6])
    live_sources = [0, 1]  # the third is silent, and lost as a whole
    live = set[bytes]()
    begins, known_at_begin, read_up_to = [0, 0], [[-1] * 3, [-1] * 3], [-1, -1, -1]

    def arrive(source: int, offset: int) -> None:
        arrived[source].add(offset)
        lost[source].discard(offset)
        log.partitions[chance.randrange(2) if scattered else source].append(f"t_{source}_{offset}".encode())

    for _ in range(runs):
        for _ in range(chance.choice([0, 5, 60])):
            for source in live_sources:
                for offset in chance.sample(sorted(lost[source]), min(len(lost[source]), chance.choice([0, 0, 2]))):
                    arrive(source, offset)
                while chance.random() < loss:
                    lost[source].add(sent[source])
                    sent[source] += 1
                live.add(f"t_{source}_{sent[source]}".encode())
                arrive(source, sent[source])
                sent[source] += 1
        if chance.random() < 0.4:  # a long resend, and the live stream is silent
            for source in live_sources:
                for offset in sorted(lost[source]):
                    arrive(source, offset)
        for number, keys in enumerate(log.partitions):
            if chance.random() < 0.5:
                lowest = max(log.starts[number], len(keys) - chance.choice([20, 1000]))
                log.starts[number] = chance.randint(lowest, len(keys))
        assume(not scattered or log.shows_that_it_is_scattered(most))
        if not scattered and chance.random() < 0.5:
            sent[2] = max(sent[2], chance.randint(0, 9))
        place = open_place(folder, S3Access()) if keeps_state else None
        with AuditState(place) as state:
            cut = state.unread(log.cut())

            def assume_that_live_ones_are_shown(late: Iterable[int]) -> None:
                for number in late:
                    begins[number] = log.starts[number]
                    known_at_begin[number] = list(read_up_to) if keeps_state else [-1] * 3
                for number, keys in enumerate(log.partitions):
                    kept = keys[begins[number] :]
                    if begins[number] and len(kept) >= most:
                        for source in range(3):
                            assume(a_live_one_is_shown(kept, most, source, known_at_begin[number][source], live))

            assume_that_live_ones_are_shown(cut.topics[0].expired)
            state.check_first_records(None, cut)  # type: ignore[arg-type]
            if chance.random() < 0.3:  # retention is quicker than the audit
                for number in {0, chance.randrange(2)}:
                    log.starts[number] = chance.randint(log.starts[number], len(log.partitions[number]))
                assume(not scattered or log.shows_that_it_is_scattered(most))
            new = received([log.read(cut)], 50)
            if chance.random() < 0.2:  # and has deleted more when that was read
                log.starts[1] = chance.randint(log.starts[1], len(log.partitions[1]))
                assume(not scattered or log.shows_that_it_is_scattered(most))
            if cut.offsets:
                (topic,) = cut.topics
                firsts = zip(topic.first_offsets, topic.end_offsets, log.starts, strict=True)
                late = [number for number, (first, end, start) in enumerate(firsts) if first < min(start, end)]
                assume_that_live_ones_are_shown(late)
                cut = state.recheck_expired(None, cut, log.cut())  # type: ignore[arg-type]
            known = dict(state.merge_and_commit(new, cut))
        for block, part in known.items():
            if block != FOREIGN:
                read_up_to[block.partition] = max(read_up_to[block.partition], part.positions.max())
        expected = {
            ("t", source): Expectation(OffsetRanges([(0, count - 1)])) for source, count in enumerate(sent) if count
        }
        found = compare([received_block(*pair) for pair in known.items()], expected, state.frontiers.of)
        for partition in found:
            truly = arrived[partition.partition]
            missing, unknown = (set(offsets_of(ranges)) for ranges in (partition.missing, partition.unknown))
            assert not missing & truly, "received, and called missing"
            assert set(offsets_of(partition.known)) - missing <= truly, "not received, and called closed"
            assert not missing & unknown
            if not any(log.starts):
                assert not unknown, "nothing has expired"


def a_live_one_is_shown(kept: list[bytes], most: int, source: int, before: int, live: set[bytes]) -> bool:
    """Whether a live event of `source` is where an audit thinks that it sees one; true when it thinks of none."""

    def of_source(keys: list[bytes]) -> list[bytes]:
        return [key for key in keys if key.startswith(b"t_%d_" % source)]

    first, everything = of_source(kept[:most]), of_source(kept)
    seen = first if any(int(key.split(b"_")[2]) > before for key in first) else everything
    rises = bool(first) and any(int(key.split(b"_")[2]) > before for key in seen)
    return not rises or any(key in live for key in seen)


def offsets_of(ranges: OffsetRanges) -> list[int]:
    return [offset for first, last in ranges for offset in range(first, last + 1)]
