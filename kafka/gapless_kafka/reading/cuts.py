"""Owns what a cut of topics is: which offsets are read, and how a cut is divided among readers. No client of Kafka.

A cut is fixed before anything is read. The end of each partition is its last stable offset, so that a transaction that
is open, or was left open by a dead program, delays nothing.
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
    """By partition: the first offset that is read, inclusive."""
    end_offsets: tuple[int, ...]
    """By partition: the last offset that is read plus one."""
    uncommitted: int
    """How many offsets behind the ends belong to transactions that are still open."""
    id: str = ""
    """The topic ID (KIP-516); empty where brokers have none."""
    from_the_beginning: bool = True
    """Whether records that expire before reading begins end nothing: they are no loss, or whoever reads counts them."""
    log_starts: tuple[int, ...] = ()
    """By partition: the lowest offset in the log, where `first_offsets` continue behind what an earlier run read."""
    expired: frozenset[int] = frozenset()
    """The partitions of which records were deleted before they were read, where somebody keeps count."""
    high_watermarks: tuple[int, ...] = ()
    """By partition: the end of the log, behind transactions that are still open; empty where it does not matter."""

    @property
    def offsets(self) -> int:
        """How many offsets the cut spans; there are not more records than that."""
        return sum(self.end_offsets) - sum(self.first_offsets)


@dataclass(frozen=True, slots=True)
class Cut:
    """Which offsets of all topics are read."""

    cluster_id: str
    topics: tuple[TopicCut, ...]

    @property
    def offsets(self) -> int:
        """How many offsets all topics span together."""
        return sum(topic.offsets for topic in self.topics)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive offsets of one partition, which one reader reads."""

    topic: str
    partition: int
    first_offset: int
    """Inclusive."""
    end_offset: int
    """Exclusive."""
    may_begin_later: bool
    """Whether reading begins at the lowest offset there is when records expire before."""


def slices_of(cut: Cut) -> tuple[Slice, ...]:
    """Each partition of `cut` in which there is something to read, undivided."""
    return tuple(
        Slice(topic.topic, partition, first, end, topic.from_the_beginning)
        for topic in cut.topics
        for partition, (first, end) in enumerate(zip(topic.first_offsets, topic.end_offsets, strict=True))
        if first < end
    )


def grouped(cut: Cut, parts: int) -> list[tuple[Slice, ...]]:
    """Distribute the partitions of `cut`, undivided, to at most `parts` of about as many offsets; no part is empty."""
    undivided = slices_of(cut)
    found: list[list[Slice]] = [[] for _ in range(min(parts, len(undivided)))]
    loads = [(0, number) for number in range(len(found))]
    for one in sorted(undivided, key=lambda one: one.first_offset - one.end_offset):  # the largest first
        load, number = loads[0]
        found[number].append(one)
        heapreplace(loads, (load + one.end_offset - one.first_offset, number))
    return [tuple(some) for some in found]


def divided(cut: Cut, parts: int) -> list[tuple[Slice, ...]]:
    """Divide `cut` into at most `parts` of as many offsets each; no part is empty.

    The partitions are laid end to end and cut at equal distances. So a hot partition falls into several parts, and
    many small ones share a part; of one partition, a part has one slice at most.
    """
    undivided = slices_of(cut)
    ends = list(accumulate(one.end_offset - one.first_offset for one in undivided))
    total = ends[-1] if ends else 0
    parts = min(parts, total)
    borders = [total * number // parts for number in range(1, parts + 1)] if parts else []
    divided: list[list[Slice]] = [[] for _ in borders]
    part = passed = 0
    for one, end in zip(undivided, ends, strict=True):
        while passed < end:
            until = min(end, borders[part])
            first, behind = (one.end_offset - (end - at) for at in (passed, until))
            divided[part].append(Slice(one.topic, one.partition, first, behind, one.may_begin_later))
            passed = until
            if passed == borders[part]:
                part += 1
    return [tuple(some) for some in divided]
