"""Owns what tools make of bundles: one of several, what one has and another has not, pieces of one.

Plain bundles in, plain portions out. Must not know files, nor the command line. What was only inferred stays
marked as inferred on every way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.form import BundleKind, PartitionGaps, canonical_results
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gapless_api.bundle.form import Bundle
    from gapless_api.offsets.ids import TopicPartition
_NOTHING = OffsetRanges()
_BYTES_AROUND = 1024
"""What a bundle's frame and metadata take at most, beside its source."""


@dataclass(frozen=True, slots=True)
class Portion:
    """What a bundle shall hold."""

    kind: BundleKind
    results: tuple[PartitionGaps, ...]
    inferred: tuple[PartitionGaps, ...] = ()
    """What of the results was only inferred."""

    @property
    def missing(self) -> int:
        """How many offsets the results hold together."""
        return sum(entry.ranges.count for entry in self.results)


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """How two bundles differ in one partition."""

    topic: str
    partition: int
    only_first: OffsetRanges
    only_second: OffsetRanges
    both: int
    """How many offsets are in both."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a piece may hold; ``None`` for any amount."""

    most_events: int | None = None
    most_ranges: int | None = None
    most_bytes: int | None = None
    """Of the piece's file, not compressed."""


def inferred_of(bundle: Bundle) -> tuple[PartitionGaps, ...]:
    """What of a bundle was only inferred."""
    return () if bundle.metadata is None else bundle.metadata.inferred


def common_kind(bundles: Mapping[str, Bundle]) -> BundleKind:
    """The kind that all `bundles`, by what messages call them, have.

    Raises:
        ConfigurationError: two kinds are mixed.
    """
    kinds = {bundle.kind: name for name, bundle in bundles.items()}
    if len(kinds) > 1:
        raise ConfigurationError(
            f"The bundle {kinds[BundleKind.ALL]} is of type all and {kinds[BundleKind.FIRST]} of type first, which "
            f"tells only where a partition's gaps begin; use bundles of one type."
        )
    return next(iter(kinds))


def merged(bundles: Mapping[str, Bundle]) -> Portion:
    """Everything that any of `bundles` lists. What one of them knows to be missing is not inferred.

    Raises:
        ConfigurationError: two kinds are mixed.
    """
    kind = common_kind(bundles)
    results = canonical_results(kind, [entry for bundle in bundles.values() for entry in bundle.results])
    guessed = canonical_results(BundleKind.ALL, [entry for bundle in bundles.values() for entry in inferred_of(bundle)])
    if guessed:
        known = _by_place([entry for bundle in bundles.values() for entry in _known(bundle)])
        guessed = _less(guessed, known)
    return Portion(kind, results, guessed)


def subtracted(bundle: Bundle, other: Bundle, *, names: tuple[str, str]) -> Portion:
    """What `bundle` lists and `other` does not; partitions of which nothing is left are left out.

    Raises:
        ConfigurationError: one is of type first, which means everything from an offset on.
    """
    if common_kind(dict(zip(names, (bundle, other), strict=True))) is BundleKind.FIRST:
        raise ConfigurationError(
            f"The bundles {names[0]} and {names[1]} are of type first, which means everything from an offset on; only "
            f"from a bundle of type all can another be taken away."
        )
    taken = _by_place(other.results)
    return Portion(bundle.kind, _less(bundle.results, taken), _less(inferred_of(bundle), taken))


def differences(first: Bundle, second: Bundle, *, names: tuple[str, str]) -> Iterator[PartitionDifference]:
    """How `first` and `second` differ, for every partition that one of them lists.

    Raises:
        ConfigurationError: two kinds are mixed.
    """
    common_kind(dict(zip(names, (first, second), strict=True)))
    before, after = _by_place(first.results), _by_place(second.results)
    for place in sorted({*before, *after}):
        mine, theirs = before.get(place, _NOTHING), after.get(place, _NOTHING)
        only_mine = mine - theirs
        yield PartitionDifference(*place, only_mine, theirs - mine, mine.count - only_mine.count)


def pieces(bundle: Bundle, limits: Limits, *, by: str | None = None, inferred_apart: bool = False) -> Iterator[Portion]:
    """Cut a bundle into pieces that together list the same, in its order; each is made on request.

    Args:
        bundle: what is cut. Partitions of which nothing is missing are in no piece.
        limits: what a piece may hold; ranges are cut where they must be.
        by: ``topic`` or ``partition`` for pieces that hold no more than one; ``None`` for any.
        inferred_apart: whether what was only inferred goes into pieces of its own, after the others.

    Raises:
        ConfigurationError: events are limited in a bundle of type first, or not even one range fits into the bytes.
    """
    if bundle.kind is BundleKind.FIRST and limits.most_events is not None:
        raise ConfigurationError(
            "A bundle of type first means everything from an offset on, so its events cannot be counted; split it by "
            "topic or partition, or have one of type all made."
        )
    guessed = inferred_of(bundle)
    sides = [tuple(_known(bundle)), guessed] if inferred_apart else [bundle.results]
    for side in sides:
        present = [entry for entry in side if len(entry.ranges)]
        for _, group in groupby(present, key=_KEYS[by]):
            for results in _filled(group, limits, twice=bool(guessed), around=_bytes_around(bundle)):
                yield Portion(bundle.kind, results, _cut(guessed, results))


_KEYS = {
    None: lambda _entry: None,
    "topic": lambda entry: entry.topic,
    "partition": lambda entry: (entry.topic, entry.partition),
}


def _filled(
    entries: Iterable[PartitionGaps], limits: Limits, *, twice: bool, around: int
) -> Iterator[tuple[PartitionGaps, ...]]:
    """Fill pieces to the brim, one after the other. Inferred ranges may be in the file `twice`."""
    most_events = limits.most_events or 1 << 70
    most_ranges = limits.most_ranges or 1 << 70
    most_bytes = limits.most_bytes or 1 << 70
    times = 2 if twice else 1
    done: list[PartitionGaps] = []
    events, ranges, size = 0, 0, around
    for entry in entries:
        frame = times * (100 + len(json.dumps(entry.topic, ensure_ascii=False).encode()))
        builder = RangesBuilder()
        size += frame
        for first, last in entry.ranges:
            start = first
            while start <= last:
                end = min(last, start + most_events - events - 1)
                cost = times * (len(str(start)) + len(str(end)) + 4)
                if events < most_events and ranges < most_ranges and size + cost <= most_bytes:
                    builder.add(start, end)
                    events, ranges, size = events + end - start + 1, ranges + 1, size + cost
                    start = end + 1
                    continue
                if not ranges:
                    raise ConfigurationError(
                        f"Not even one range of topic {entry.topic}, partition {entry.partition}, fits into "
                        f"{most_bytes} bytes; allow {size + cost} or more."
                    )
                if len(builder):
                    done.append(replace(entry, ranges=builder.build()))
                yield tuple(done)
                done = []
                events, ranges, size = 0, 0, around + frame
        if len(builder):
            done.append(replace(entry, ranges=builder.build()))
    if done:
        yield tuple(done)


def _bytes_around(bundle: Bundle) -> int:
    source = {} if bundle.metadata is None else bundle.metadata.source
    return _BYTES_AROUND + 2 * len(json.dumps(source, ensure_ascii=False).encode())


def _cut(entries: tuple[PartitionGaps, ...], results: tuple[PartitionGaps, ...]) -> tuple[PartitionGaps, ...]:
    if not entries:
        return ()
    held = _by_place(results)
    common = (replace(each, ranges=each.ranges & held.get((each.topic, each.partition), _NOTHING)) for each in entries)
    return tuple(entry for entry in common if len(entry.ranges))


def _known(bundle: Bundle) -> Iterator[PartitionGaps]:
    guessed = _by_place(inferred_of(bundle))
    for entry in bundle.results:
        inferred = guessed.get((entry.topic, entry.partition))
        yield entry if inferred is None else replace(entry, ranges=entry.ranges - inferred)


def _less(entries: Iterable[PartitionGaps], taken: Mapping[TopicPartition, OffsetRanges]) -> tuple[PartitionGaps, ...]:
    left = (replace(each, ranges=each.ranges - taken.get((each.topic, each.partition), _NOTHING)) for each in entries)
    return tuple(entry for entry in left if len(entry.ranges))


def _by_place(entries: Iterable[PartitionGaps]) -> dict[TopicPartition, OffsetRanges]:
    found: dict[TopicPartition, OffsetRanges] = {}
    for entry in entries:
        before = found.get((entry.topic, entry.partition))
        found[entry.topic, entry.partition] = entry.ranges if before is None else before | entry.ranges
    return found
