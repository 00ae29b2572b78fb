"""The proof that group offsets translate exactly whatever a partition went through, also a truncated source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless_kafka.writing.offset_map import target_position
from gapless_mirror.groups.mapped import control_records, mirrored_partitions
from gapless_mirror.lanes import records
from gapless_mirror.lanes.claims import HOLDS, LogNow
from gapless_mirror.lanes.commits import put_positions
from gapless_mirror.lanes.comparisons import Compared
from gapless_mirror.lanes.control import lane_state
from gapless_mirror.lanes.progress import PartitionProgress
from gapless_mirror.lanes.records import LanePosition
from gapless_mirror.lanes.stored import StoredRecord
from gapless_mirror.lanes.writer import Written

SOURCE = ("s", 0)


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class History:
    """A source partition, its copy, and the control topic."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        """Of the control topic."""
        self.written: list[Written] = []
        self.copies: dict[int, int] = {}
        """The target offsets of the records that the source has."""
        self.target_end = 0
        self.progress = self._progress(LanePosition(target="t", source_id="S", epoch=1, start=0, next_offset=0))

    @staticmethod
    def _progress(position: LanePosition) -> PartitionProgress:
        return PartitionProgress(SOURCE, position, position.next_offset, 0.0)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.log.append((key, value))

    def copy(self, count: int, skipped: int, moved: int) -> None:
        """Copy records after `skipped` offsets without records; others have written `moved` to the target."""
        first = self.progress.next_offset + skipped
        messages: Any = [Message(first + number) for number in range(count)]
        self.written = []
        if messages:
            batch = Written(SOURCE, messages)
            start = self.target_end + moved
            batch.targets, batch.reported = [start, start + count - 1], 2
            self.copies |= {first + number: start + number for number in range(count)}
            self.target_end = start + count
            self.written = [batch]
        self.progress.next_offset = first + count
        self.commit()

    def commit(self) -> None:
        writer: Any = self
        for change in put_positions(writer, [self.progress], 1):
            self.progress.apply_commit(change.position, change.tail, change.records, change.bytes, 0.0)
            self.progress.map_parts = change.parts

    def truncate(self, end: int) -> None:
        """Cut the source, and continue there by request."""
        if end < self.progress.next_offset:
            self.copies = {offset: copy for offset, copy in self.copies.items() if offset < end}
            self.written = []
            self.progress.follow_truncated(end, ())
            self.commit()

    def restart(self) -> None:
        """Read the lane again, as its next owner does."""
        state = lane_state([StoredRecord(*each) for each in self.log], "c", 0)
        position = state.positions.get(SOURCE)
        if position is not None:
            self.progress = self._progress(position)
            self.progress.tail = state.tails.get(SOURCE)
            self.progress.map_parts = state.map_parts.get(SOURCE, [])
            self.progress.expired_parts = state.superseded_parts.get(SOURCE, [])

    def translations(self) -> Iterator[tuple[int, int | None, int]]:
        """Iterate over source offsets, their translation, and what it must be."""
        control = control_records("c", {0: [StoredRecord(*each) for each in self.log]})
        if SOURCE not in control.positions:
            return
        position = control.positions[SOURCE]
        compared = Compared(position, HOLDS, LogNow(True, "S", 0, position.next_offset), None)
        mirrored = mirrored_partitions(control, [SOURCE], {SOURCE: compared})[SOURCE]
        for offset in range(mirrored.next_offset + 1):
            assert mirrored.reach.holds(offset)
            behind = [copy for copied, copy in sorted(self.copies.items()) if copied >= offset]
            expected = behind[0] if behind else self.target_end
            yield offset, target_position(offset, mirrored.runs, lambda: self.target_end), expected


steps = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), st.integers(0, 4), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("truncate"), st.integers(0, 30)),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Let parts be full after three runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "MAX_RUNS", 3)
        yield


@given(steps)
@example([("copy", 2, 1, 0)] * 4 + [("truncate", 5), ("copy", 2, 3, 0)])  # into an earlier part, whose rest is dead
@example([("copy", 1, 1, 0), ("truncate", 1), ("copy", 1, 1, 1)])  # others have written where the copy had ended
@example([("copy", 1, 0, 0), ("truncate", 0), ("copy", 0, 1, 0)])  # passed over before there are records
@example([("copy", 2, 1, 0)] * 4 + [("truncate", 5), ("restart",), ("copy", 2, 3, 0), ("restart",)])
def test_each_offset_translates_to_its_latest_copy_or_the_next_one(moves: list[tuple[Any, ...]]) -> None:
    history = History()
    for name, *arguments in moves:
        getattr(history, name)(*arguments)
        for offset, found, expected in history.translations():
            assert found == expected, f"offset {offset}"


def test_maps_of_an_earlier_release_that_are_not_ascending_are_read_and_continued() -> None:
    """It appended to the last part whatever came, and a position that went back."""
    history = History()
    history.copy(100, 0, 0)
    part = records.MapTail("t", "S", [records.Run(0, 100, 0), records.Run(50, 10, 101)])
    history.put(records.map_key("s", 0, 0), records.content(records.MAP, part.record()))
    position = replace(history.progress.position, next_offset=60, records=110)
    history.put(records.position_key("s", 0), records.content(records.POSITION, position))
    history.copies = {offset: offset for offset in range(50)} | {50 + number: 101 + number for number in range(10)}
    history.target_end = 111
    for _ in range(2):
        history.restart()
        history.copy(5, 1, 1)
        for offset, found, expected in history.translations():
            assert found == expected, f"offset {offset}"
