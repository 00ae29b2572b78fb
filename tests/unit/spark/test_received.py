from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, parse_event_id
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.bitmaps import decode_blocks, fold_keys, merge_bitmaps, received_block
from gapless_spark.model.event_keys import FOREIGN, KeyBatch
from gapless_spark.model.expectations import Expectation, Expectations
from gapless_spark.model.gap_detection import ReceivedBlock, compare

Key = bytes | None


def batches_of(keys: list[Key], size: int) -> list[KeyBatch]:
    column = pa.array(keys, pa.binary())
    return [KeyBatch(column.slice(i, size)) for i in range(0, len(keys), size)]


def audited(tasks: list[list[Key]], size: int = 7) -> tuple[list[ReceivedBlock], int]:
    """Do what the Spark plan does: partial bitmaps by task, sorted together, joined."""
    partial = [batch for keys in tasks for batch in fold_keys(batches_of(keys, size))]
    if not partial:
        return [], 0
    order = [(name, "ascending") for name in ("topic", "partition", "block")]
    together = pa.Table.from_batches(partial).sort_by(order).to_batches(max_chunksize=5)
    found = list(decode_blocks(merge_bitmaps(together)))
    blocks = [received_block(block, received) for block, received in found if block != FOREIGN]
    return blocks, sum(received.records for block, received in found if block == FOREIGN)


offsets = st.one_of(
    st.integers(0, 40),
    st.integers(2**20 - 5, 2**20 + 5),
    st.integers(2**53 - 2, 2**53 + 3),
    st.integers(MAX_OFFSET - 5, MAX_OFFSET),
)
events = st.builds(
    lambda topic, partition, offset: f"{topic}_{partition}_{offset}".encode(),
    st.sampled_from(["transfer", "with_underscore", "é", "_"]),
    st.sampled_from([0, 1, MAX_PARTITION]),
    offsets,
)
foreign = st.one_of(
    st.none(),
    st.sampled_from(
        [b"STATUS", b"KEY_UPDATE#", b"random_17", b"_1_2", b"t_01_2", b"t_1_-2", b"t_1_", b"\xff_1_2", b""]
    ),
    st.sampled_from([f"t_1_{MAX_OFFSET + 1}".encode(), f"t_{MAX_PARTITION + 1}_1".encode(), "t_1_٣".encode()]),
    st.binary(max_size=12),
)


def parsed(key: Key) -> tuple[str, int, int] | None:
    try:
        return None if key is None else parse_event_id(key.decode("utf-8"))
    except UnicodeDecodeError:
        return None


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(events, foreign), max_size=60), max_size=4), st.integers(1, 20))
@example([[b"t_0_0", b"t_0_0", f"t_0_{MAX_OFFSET}".encode()]], 2)
def test_any_keys_split_over_any_tasks_are_found_once_each_and_counted(tasks: list[list[Key]], size: int) -> None:
    blocks, foreign_count = audited(tasks, size)
    keys = [key for keys in tasks for key in keys]
    wanted: dict[tuple[str, int], list[int]] = {}
    for event in map(parsed, keys):
        if event is not None:
            wanted.setdefault(event[:2], []).append(event[2])
    assert foreign_count == sum(parsed(key) is None for key in keys)
    for partition in compare(blocks, {}):
        received = wanted.pop((partition.topic, partition.partition))
        assert partition.records == len(received)
        assert partition.received == len(set(received))
        assert partition.duplicates == len(received) - len(set(received))
        present = OffsetRanges.of_offsets(received)
        assert partition.missing == OffsetRanges([(present.first_offset, present.last_offset)]) - present
        assert not partition.given
    assert not wanted


@settings(deadline=None)
@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 30))
def test_an_expectation_makes_tails_and_silent_partitions_visible(
    received: set[int], silent: set[int], first: int, width: int
) -> None:
    blocks, _ = audited([[f"t_0_{offset}".encode() for offset in received]])
    expected: Expectations = {("t", 0): Expectation(OffsetRanges([(first, first + width)]))}
    if silent:
        expected["t", 9] = Expectation(OffsetRanges.of_offsets(silent))
    found = {partition.partition: partition for partition in compare(blocks, expected)}
    asked = set(range(first, first + width + 1))
    assert found[0].missing == OffsetRanges.of_offsets(asked - received)
    assert found[0].unexpected == len(received - asked)
    assert found[0].given
    if silent:
        assert found[9].missing == OffsetRanges.of_offsets(silent)
        assert found[9].first_received is None


def test_losses_at_window_ends_and_of_whole_windows_are_found() -> None:
    lost = {*range(950, 1051), *range(3000, 5000)}
    blocks, _ = audited([[f"t_0_{o}".encode() for o in range(6000) if o not in lost]], size=1000)
    assert list(compare(blocks, {})[0].missing) == [(950, 1050), (3000, 4999)]


def test_a_task_that_sees_more_blocks_than_it_holds_hands_them_on() -> None:
    keys: list[Key] = [f"t_{p}_{o}".encode() for o in (1, 2, 3) for p in range(700)]
    blocks, _ = audited([keys], size=100)
    assert [(b.records, b.offsets, list(b.firsts), list(b.lasts)) for b in blocks] == [(3, 3, [1], [3])] * 700


def test_a_complete_block_is_one_run_that_joins_its_neighbours() -> None:
    blocks, _ = audited([[f"t_0_{o}".encode() for o in range(2**20 - 3, 2**20 + 3)]], size=100)
    assert [list(b.firsts) for b in blocks] == [[2**20 - 3], [2**20]]
    assert compare(blocks, {})[0].missing == OffsetRanges()
