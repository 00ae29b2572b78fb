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
    return list(_strict_runs(datagrams) if order == "strict" else _free_runs(datagrams))


def _free_runs(datagrams: Sequence[bytes]) -> Iterator[Run]:
    """Group by size, largest first; a run that is not full takes one datagram of the next size as its last."""
    by_size: defaultdict[int, list[bytes]] = defaultdict(list)
    for datagram in datagrams:
        by_size[len(datagram)].append(datagram)
    open_run: Run | None = None
    for size in sorted(by_size, reverse=True):
        group = by_size[size]
        start = 0
        if open_run is not None:
            open_run.datagrams.append(group[0])
            yield open_run
            open_run, start = None, 1
        most = min(MOST_SEGMENTS, max(MOST_SEGMENT_BYTES // max(size, 1), 1))
        for first in range(start, len(group), most):
            run = Run(size, group[first : first + most])
            if len(run.datagrams) < most:
                open_run = run
            else:
                yield run
    if open_run is not None:
        yield open_run


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
