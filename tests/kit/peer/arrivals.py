"""A Hypothesis strategy for streams as a receiver writes them, and a brute-force search for missing offsets.

Must not know the product. It uses sets of single offsets, so that it cannot repeat an error of the optimised code.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from hypothesis import strategies as st

TopicPartition = tuple[str, int]
"""Of the source."""
Key = bytes | None

LARGEST_OFFSET = 2**63 - 1
LARGEST_PARTITION = 2**31 - 1
WINDOW = 10
"""Offsets in a window; losses are generated around the edges of windows."""

FOREIGN: tuple[Key, ...] = (
    None, b"", b"STATUS", b"KEY_UPDATE#", b"random_17", b"_1_2", b"t_01_2", b"t_1_02", b"t_1_-2", b"t_1_", b"t_1_+2",
    b"\xff_1_2", b"t_1_2 ", f"t_1_{LARGEST_OFFSET + 1}".encode(), f"t_{LARGEST_PARTITION + 1}_1".encode(),
    b"t_1_99999999999999999999999", "t_1_٣".encode(),
)  # fmt: skip
"""Keys that can occur in a topic of received events and are not event IDs."""


@dataclass(frozen=True, repr=False)
class Arrivals:
    """The events that were sent over the link, and the keys that arrived."""

    keys: list[Key]
    """In the order of arrival."""
    sent: dict[TopicPartition, range]
    """Offsets that were sent, by partition."""
    foreign: int
    """Number of keys that are not event IDs."""

    def __repr__(self) -> str:
        return f"<{len(self.keys)} keys, {self.foreign} of them foreign, of {self.sent}: {self.keys[:100]}>"[:10_000]

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 -- as hypothesis calls it
        printer.text(repr(self))

    @property
    def arrived(self) -> dict[TopicPartition, list[int]]:
        """Offsets of each partition with events, in the order of arrival, including duplicates."""
        offsets: dict[TopicPartition, list[int]] = {}
        for key in self.keys:
            if key is None or key in FOREIGN:
                continue
            topic, partition, offset = key.decode().rsplit("_", 2)
            offsets.setdefault((topic, int(partition)), []).append(int(offset))
        return offsets


def missing_between(first: int, last: int, arrived: Collection[int], absent: Collection[int] = ()) -> list[list[int]]:
    """Return the offsets from `first` to `last` (inclusive) that neither arrived nor are absent, as bundle ranges."""
    excluded = set(arrived) | set(absent)
    return as_ranges([offset for offset in range(first, last + 1) if offset not in excluded])


def as_ranges(offsets: Collection[int]) -> list[list[int]]:
    """Return offsets as bundle ranges: `[n]` for a single one, else `[first, last]`."""
    ranges = []
    for _, group in groupby(enumerate(sorted(set(offsets))), key=lambda pair: pair[1] - pair[0]):
        run = [offset for _, offset in group]
        ranges.append([run[0], run[-1]] if len(run) > 1 else run)
    return ranges


@st.composite
def arrivals(
    draw: st.DrawFn,
    *,
    min_partitions: int = 1,
    max_partitions: int = 8,
    max_events: int = 12 * WINDOW,
    repeats: float = 0.3,
) -> Arrivals:
    """Generate streams with lost window edges, bursts, silent partitions, duplicates, disorder and foreign keys."""
    count = draw(st.integers(min_partitions, max_partitions))
    chance = random.Random(draw(st.integers(0, 2**32)))
    topics = draw(st.lists(st.sampled_from(["transfer", "a.b_c-d", "é", "_"]), min_size=1, max_size=3, unique=True))
    starts = st.sampled_from([0, 1, 2**20, 2**31, 2**32, 2**53, 2**63 - 2**20, LARGEST_OFFSET])
    sent: dict[TopicPartition, range] = {}
    events: list[tuple[TopicPartition, int]] = []
    near = [draw(starts) for _ in range(min(count, 4))]
    for number in range(count):
        events_sent = chance.randint(1, max_events)
        begin = near[number % len(near)] - chance.randint(0, events_sent)
        begin = min(max(begin, 0), LARGEST_OFFSET + 1 - events_sent)
        partition = chance.choice([number, LARGEST_PARTITION - number])
        topic_partition = (topics[number % len(topics)], partition)
        sent[topic_partition] = range(begin, begin + events_sent)
        lost = _lost(sent[topic_partition], chance)
        events += [(topic_partition, offset) for offset in sent[topic_partition] if offset not in lost]
    events += [event for event in events if chance.random() < repeats]
    disorder = draw(st.sampled_from([0, 3, 3 * WINDOW, 10**9]))
    keys: list[Key] = [
        f"{topic}_{partition}_{offset}".encode()
        for _, ((topic, partition), offset) in sorted(
            (position + chance.randint(0, disorder), event) for position, event in enumerate(events)
        )
    ]
    foreign = draw(st.integers(0, 20))
    for _ in range(foreign):
        keys.insert(chance.randint(0, len(keys)), chance.choice(FOREIGN))
    return Arrivals(keys, sent, foreign)


def _lost(sent: range, chance: random.Random) -> set[int]:
    """Choose the lost offsets: of one kind of loss, or of all kinds."""
    kind = chance.choice(["none", "single", "bursts", "edges", "windows", "end", "silent", "all"])
    lost: set[int] = set()
    if kind == "silent":
        return set(sent)
    if kind in {"single", "all"}:
        lost |= {offset for offset in sent if chance.random() < 0.05}
    if kind in {"bursts", "all"}:
        for _ in range(chance.randint(1, 3)):
            begin = chance.choice(sent)
            lost |= set(range(begin, begin + chance.randint(2, 3 * WINDOW)))
    borders = [offset for offset in sent if offset % WINDOW == 0]
    if kind in {"edges", "all"} and borders:
        for _ in range(chance.randint(1, 3)):
            border = chance.choice(borders)
            lost |= set(range(border - chance.randint(0, 4), border + chance.randint(0, 4)))
    if kind == "windows" and borders:
        border = chance.choice(borders)
        lost |= set(range(border, border + WINDOW * chance.randint(1, 3)))
    if kind == "end":
        lost |= set(sent[-chance.randint(1, len(sent)) :])
    return lost


def record_counts(arrived: Collection[int]) -> dict[str, int]:
    """Return the counts that an audit reports for a partition."""
    copies = Counter(arrived)
    return {"records": len(arrived), "received": len(copies), "duplicates": sum(n - 1 for n in copies.values())}
