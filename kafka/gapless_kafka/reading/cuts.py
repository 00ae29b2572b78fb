"""Cuts: which offsets of topics are read, and how they are distributed to readers. No Kafka client.

A cut is fixed before anything is read. Each partition ends at its last stable offset, so that an open or hanging
transaction delays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class TopicCut:
    """Which offsets of a topic are read."""

    topic: str
    first_offsets: tuple[int, ...]
    """By partition: the first offset to read, inclusive."""
    end_offsets: tuple[int, ...]
    """By partition: the end of the offsets to read, exclusive."""
    uncommitted: int
    """How many offsets after the ends belong to open transactions."""
    id: str = ""
    """The topic ID (KIP-516); empty where brokers have none."""
    may_skip_expired: bool = True
    """Whether records may expire before they are read: this is no loss, or the caller counts them."""
    log_starts: tuple[int, ...] = ()
    """By partition: the log start offset, where `first_offsets` continue an earlier run."""
    expired: frozenset[int] = frozenset()
    """The partitions that have lost records since the earlier run, where the caller counts them."""
    high_watermarks: tuple[int, ...] = ()
    """By partition: the end of the log, including open transactions; empty where it is not needed."""
    leader_epochs: tuple[int, ...] = ()
    """By partition: the epoch of the leader whose log reached the end; -1 for old brokers, empty where not needed."""

    @property
    def held_back(self) -> frozenset[int]:
        """The partitions with records behind an open transaction; all of them if it is not known which."""
        if not self.uncommitted:
            return frozenset()
        ends = enumerate(self.end_offsets)
        return frozenset(
            number for number, end in ends if not self.high_watermarks or self.high_watermarks[number] > end
        )

    @property
    def offsets(self) -> int:
        """How many offsets the cut spans, an upper bound for the records."""
        return sum(self.end_offsets) - sum(self.first_offsets)


@dataclass(frozen=True, slots=True)
class Cut:
    """Which offsets of all topics are read."""

    cluster_id: str
    topics: tuple[TopicCut, ...]

    @property
    def offsets(self) -> int:
        """How many offsets all topics span."""
        return sum(topic.offsets for topic in self.topics)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive offsets of one partition, for one reader."""

    topic: str
    partition: int
    first_offset: int
    """Inclusive."""
    end_offset: int
    """Exclusive."""
    may_skip_expired: bool
    """Whether to start at the log start offset when the first records have expired."""


def slices_of(cut: Cut) -> tuple[Slice, ...]:
    """Return one slice for each partition of `cut` that is not empty."""
    return tuple(
        Slice(topic.topic, partition, first, end, topic.may_skip_expired)
        for topic in cut.topics
        for partition, (first, end) in enumerate(zip(topic.first_offsets, topic.end_offsets, strict=True))
        if first < end
    )


def distribute_partitions(cut: Cut, parts: int) -> list[tuple[Slice, ...]]:
    """Distribute complete partitions of `cut` to at most `parts` readers with similar load; no part is empty."""
    slices = slices_of(cut)
    assigned: list[list[Slice]] = [[] for _ in range(min(parts, len(slices)))]
    loads = [(0, number) for number in range(len(assigned))]
    for piece in sorted(slices, key=lambda piece: piece.first_offset - piece.end_offset):  # the largest first
        load, number = loads[0]
        assigned[number].append(piece)
        heapreplace(loads, (load + piece.end_offset - piece.first_offset, number))
    return [tuple(part) for part in assigned]


def split_offsets(cut: Cut, parts: int) -> list[tuple[Slice, ...]]:
    """Split `cut` into at most `parts` parts with equal numbers of offsets; no part is empty.

    The partitions are concatenated and split at equal distances. So a hot partition spans several parts, and small
    partitions share a part; a part has at most one slice of a partition.
    """
    slices = slices_of(cut)
    ends = list(accumulate(piece.end_offset - piece.first_offset for piece in slices))
    total = ends[-1] if ends else 0
    parts = min(parts, total)
    boundaries = [total * number // parts for number in range(1, parts + 1)] if parts else []
    assigned: list[list[Slice]] = [[] for _ in boundaries]
    part = start = 0
    for piece, end in zip(slices, ends, strict=True):
        while start < end:
            stop = min(end, boundaries[part])
            first_offset, end_offset = (piece.end_offset - (end - at) for at in (start, stop))
            assigned[part].append(Slice(piece.topic, piece.partition, first_offset, end_offset, piece.may_skip_expired))
            start = stop
            if start == boundaries[part]:
                part += 1
    return [tuple(part_slices) for part_slices in assigned]
