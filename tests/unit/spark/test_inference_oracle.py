"""What a scan and its inference make of any stream, against single offsets: of the records, and of what was lost."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_spark.model.gap_windows import LatestRecord, ScanOptions, read_windows
from kit.machine.examples import examples
from kit.peer.detector_run import DetectorRun

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from kit.peer.gap_detector import GapReport

SIZE = 10


def offsets(ranges: OffsetRanges) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


@dataclass(frozen=True)
class Told:
    """What the latest records of one partition say of single offsets, worked out one by one."""

    windows: dict[int, GapReport]
    size: int

    @property
    def listed(self) -> set[int]:
        return {first + hole for first, report in self.windows.items() for hole in report.missing}

    def last_certain(self, first: int) -> int:
        return first + max(self.windows[first].missing, default=-1) + 1

    def begins_well(self, first: int) -> bool:
        return first in self.windows and 0 not in self.windows[first].missing

    @property
    def inferred(self) -> set[int]:
        """What follows between the first window that has a record and the last one."""
        found = set()
        for first in range(min(self.windows), max(self.windows), self.size):
            if first not in self.windows:
                found |= set(range(first, first + self.size))
            elif not self.begins_well(first + self.size):
                found |= set(range(self.last_certain(first) + 1, first + self.size))
        return found

    @property
    def untold(self) -> set[int]:
        """What no record can tell, within the windows that have one (docs/concepts/missing-events.md)."""
        found: set[int] = set()
        for first in self.windows:
            if self.begins_well(first + self.size) or first == max(self.windows):
                found |= set(range(self.last_certain(first) + 1, first + self.size))
        return found


@st.composite
def links(draw: st.DrawFn) -> tuple[dict[int, DetectorRun], dict[int, range], int]:
    """Several partitions, 30 % repeats, disorder within or beyond the detector's memory, offsets up to the largest."""
    size = draw(st.sampled_from([2, SIZE, SIZE, 1000]))
    chance = random.Random(draw(st.integers(0, 2**32)))
    disorder = draw(st.sampled_from([0, 0, 5, 2 * size, 2 * size, 9 * size]))
    largest = MAX_OFFSET // size * size  # a window may not end beyond the largest offset
    streams, sent = {}, {}
    for partition in range(draw(st.integers(1, 4))):
        count = chance.randint(1, 12 * size)
        begin = draw(st.sampled_from([0, 7, 2**32 - 3, largest - count]))
        sent[partition] = range(begin, begin + count)
        lost = {offset for offset in sent[partition] if chance.random() < chance.choice([0, 0.02])}
        for _ in range(chance.randint(0, 4)):
            border = (begin // size + chance.randint(0, 12)) * size
            first = border + chance.randint(-size, size)
            lost |= set(range(first, first + chance.randint(1, 3 * size)))
        arrived = [offset for offset in sent[partition] if offset not in lost]
        arrived += [offset for offset in arrived if chance.random() < 0.3]
        arrived = [o for _, o in sorted((o + chance.randint(0, disorder), o) for o in arrived)]
        ticks = frozenset(chance.randrange(len(arrived) + 1) for _ in range(chance.randint(0, 10)))
        streams[partition] = DetectorRun(arrived, ticks).run(window_size=size)
    return streams, sent, size


@settings(max_examples=examples(150))
@given(link=links())
def test_a_scan_and_its_inference_miss_only_what_no_record_can_tell(
    link: tuple[dict[int, DetectorRun], dict[int, range], int],
) -> None:
    streams, sent, size = link
    records = [
        LatestRecord(key, value, 0, 0)
        for number, stream in streams.items()
        for key, value in stream.records("t", number)
    ]
    found = read_windows(records, options=ScanOptions(infer=True))
    inferred = {each.partition: offsets(each.ranges) for each in found.inferred}
    everything = {each.partition: offsets(each.ranges) for each in found.results}
    for number, stream in streams.items():
        if not stream.latest:
            assert number not in everything, "a silent partition is one of the things that no record tells"
            continue
        told = Told(stream.latest, size)
        # Exactly what the records say, and what follows from them.
        assert everything[number] - inferred.get(number, set()) == told.listed
        assert inferred.get(number, set()) == told.inferred - told.listed
        # And of what was lost, everything but that which they cannot say.
        outside = {o for o in sent[number] if o < min(stream.latest) or o > max(stream.latest) + size - 1}
        missed = set(sent[number]) - set(stream.arrived) - everything[number]
        assert missed <= told.untold | outside
        if not stream.windows_were_created_in_order_and_once or stream.came_too_late:
            continue
        # As long as nothing arrives for a window that is forgotten, a loss is missed only if it ends with its window.
        for offset in missed - outside:
            last = offset // size * size + size - 1
            assert not set(range(offset, last + 1)) & set(stream.arrived)
