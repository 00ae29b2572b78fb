"""Owns what a transaction of a lane holds beside records: positions and the offset map, and what it changes in memory.

Must not know how records are read, nor why a transaction fails.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.mirror.lanes.records import MAP, POSITION, content, map_key, position_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.progress import PartitionProgress
    from gapless_kafka.mirror.lanes.records import LanePosition, MapTail
    from gapless_kafka.mirror.lanes.writer import LaneWriter
    from gapless_kafka.writing.offset_map import Run


class Change(NamedTuple):
    """What a commit changes of a partition."""

    one: PartitionProgress
    position: LanePosition
    tail: MapTail | None
    parts: list[int]
    """The first offsets of the parts of the offset map that were written."""
    records: int
    bytes: int


class CommitInDoubt:
    """What a commit changes that was not answered; it outlives the opening of a lane, and its thread."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._changes)

    def put(self, changes: list[Change]) -> None:
        """Begin a commit."""
        with self._lock:
            self._changes = changes

    def take(self) -> list[Change]:
        """What is to be counted if the commit was made, by one caller only; empty when another one has taken it."""
        with self._lock:
            changes, self._changes = self._changes, []
        return changes


def put_positions(writer: LaneWriter, partitions: Iterable[PartitionProgress], epoch: int) -> list[Change]:
    """Hand over the positions behind all that was written, and where it went.

    Raises:
        KafkaException: a record was not taken.
        InterleavedError: it cannot be told where records went.
    """
    runs: dict[TopicPartition, list[Run]] = {}
    sizes: dict[TopicPartition, tuple[int, int]] = {}
    for written in writer.written:
        found = written.runs()
        if not written.is_routed:
            runs.setdefault(written.place, []).extend(found)
        records, size = sizes.get(written.place, (0, 0))
        sizes[written.place] = (records + len(written.offsets), size + written.bytes)
    changes = []
    for one in partitions:
        if not one.has_moved and one.place not in sizes:
            continue
        records, size = sizes.get(one.place, (0, 0))
        position = one.position_after(records, size, epoch)
        tails = one.tails_after(runs.get(one.place, ()))
        for first in one.expired_parts:
            writer.put(map_key(*one.place, first), None)
        for tail in tails if records else ():
            writer.put(map_key(*one.place, tail.runs[0].first), content(MAP, tail.record()))
        writer.put(position_key(*one.place), content(POSITION, position))
        parts = [tail.runs[0].first for tail in tails] if records else []
        changes.append(Change(one, position, tails[-1] if tails else None, parts, records, size))
    return changes
