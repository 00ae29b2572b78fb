"""The operations on bundles: merge, subtract, diff and split.

Takes bundles and returns portions. Must not know files, or the command line. Inferred ranges stay marked as inferred in
all operations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps, canonical_results
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
_NOTHING = OffsetRanges()
_MAX_FRAME_BYTES = 1024
"""The maximum size of the frame and the metadata of a bundle, without its source."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The content of a bundle to be written."""

    kind: BundleKind
    results: tuple[PartitionGaps, ...]
    inferred: tuple[PartitionGaps, ...] = ()
    """The ranges of the results that were only inferred."""

    @property
    def missing(self) -> int:
        """The number of offsets in the results."""
        return sum(entry.ranges.count for entry in self.results)


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """The difference of two bundles in one partition."""

    topic: str
    partition: int
    only_first: OffsetRanges
    only_second: OffsetRanges
    both: int
    """The number of offsets in both bundles."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a piece; ``None`` for no limit."""

    max_events: int | None = None
    max_ranges: int | None = None
    max_bytes: int | None = None
    """Size of the uncompressed file."""


def inferred_of(bundle: Bundle) -> tuple[PartitionGaps, ...]:
    """Return the ranges of a bundle that were only inferred."""
    return () if bundle.metadata is None else bundle.metadata.inferred


def common_kind(bundles: Mapping[str, Bundle]) -> BundleKind:
    """Return the kind of all `bundles`, which are given by their names in messages.

    Raises:
        ConfigurationError: the kinds differ.
    """
    kinds = {bundle.kind: name for name, bundle in bundles.items()}
    if len(kinds) > 1:
        raise ConfigurationError(
            f"The bundle {kinds[BundleKind.ALL]} is of type all and {kinds[BundleKind.FIRST]} of type first, which "
            f"has only the first gap of each partition; use bundles of one type."
        )
    return next(iter(kinds))


def merge_bundles(bundles: Mapping[str, Bundle]) -> Portion:
    """Merge `bundles`. A range is inferred only if it is inferred in all bundles that list it.

    Raises:
        ConfigurationError: the kinds differ.
    """
    kind = common_kind(bundles)
    results = canonical_results(kind, [entry for bundle in bundles.values() for entry in bundle.results])
    inferred = canonical_results(
        BundleKind.ALL, [entry for bundle in bundles.values() for entry in inferred_of(bundle)]
    )
    if inferred:
        recorded = _by_partition([entry for bundle in bundles.values() for entry in _recorded(bundle)])
        inferred = _subtract(inferred, recorded)
    return Portion(kind, results, inferred)


def subtract_bundle(bundle: Bundle, other: Bundle, *, names: tuple[str, str]) -> Portion:
    """Return what `bundle` lists and `other` does not, without partitions that would be empty.

    Raises:
        ConfigurationError: a bundle is of type first, which means everything from an offset on.
    """
    if common_kind(dict(zip(names, (bundle, other), strict=True))) is BundleKind.FIRST:
        raise ConfigurationError(
            f"The bundles {names[0]} and {names[1]} are of type first, which means everything from an offset on; "
            f"only bundles of type all can be subtracted."
        )
    subtrahend = _by_partition(other.results)
    return Portion(bundle.kind, _subtract(bundle.results, subtrahend), _subtract(inferred_of(bundle), subtrahend))


def diff_bundles(first: Bundle, second: Bundle, *, names: tuple[str, str]) -> Iterator[PartitionDifference]:
    """Yield the difference of `first` and `second` for every partition in either.

    Raises:
        ConfigurationError: the kinds differ.
    """
    common_kind(dict(zip(names, (first, second), strict=True)))
    before, after = _by_partition(first.results), _by_partition(second.results)
    for topic_partition in sorted({*before, *after}):
        old, new = before.get(topic_partition, _NOTHING), after.get(topic_partition, _NOTHING)
        only_old = old - new
        yield PartitionDifference(*topic_partition, only_old, new - old, old.count - only_old.count)


def split_bundle(
    bundle: Bundle, limits: Limits, *, by: str | None = None, inferred_apart: bool = False
) -> Iterator[Portion]:
    """Split a bundle lazily into pieces that together list the same offsets, in its order.

    Args:
        bundle: the bundle. Partitions without missing offsets are in no piece.
        limits: the limits of a piece; ranges are split where necessary.
        by: ``topic`` or ``partition`` for one topic or partition per piece; ``None`` for any number.
        inferred_apart: whether inferred ranges go into separate pieces, after the others.

    Raises:
        ConfigurationError: events of a bundle of type first are limited, or a single range exceeds the bytes.
    """
    if bundle.kind is BundleKind.FIRST and limits.max_events is not None:
        raise ConfigurationError(
            "A bundle of type first means everything from an offset on, so its events cannot be counted; split it by "
            "topic or partition, or create a bundle of type all."
        )
    inferred = inferred_of(bundle)
    parts = [tuple(_recorded(bundle)), inferred] if inferred_apart else [bundle.results]
    for part in parts:
        entries = [entry for entry in part if len(entry.ranges)]
        for _, group in groupby(entries, key=_KEYS[by]):
            for results in _fill_pieces(group, limits, twice=bool(inferred), frame_bytes=_frame_bytes(bundle)):
                yield Portion(bundle.kind, results, _restrict(inferred, results))


_KEYS = {
    None: lambda _entry: None,
    "topic": lambda entry: entry.topic,
    "partition": lambda entry: (entry.topic, entry.partition),
}


def _fill_pieces(
    entries: Iterable[PartitionGaps], limits: Limits, *, twice: bool, frame_bytes: int
) -> Iterator[tuple[PartitionGaps, ...]]:
    """Yield pieces, each filled up to the limits. With inferred ranges, a range may be in the file `twice`."""
    max_events = limits.max_events or 1 << 70
    max_ranges = limits.max_ranges or 1 << 70
    max_bytes = limits.max_bytes or 1 << 70
    times = 2 if twice else 1
    piece: list[PartitionGaps] = []
    events, ranges, size = 0, 0, frame_bytes
    for entry in entries:
        entry_bytes = times * (100 + len(json.dumps(entry.topic, ensure_ascii=False).encode()))
        builder = RangesBuilder()
        size += entry_bytes
        for first, last in entry.ranges:
            start = first
            while start <= last:
                end = min(last, start + max_events - events - 1)
                cost = times * (len(str(start)) + len(str(end)) + 4)
                if events < max_events and ranges < max_ranges and size + cost <= max_bytes:
                    builder.add(start, end)
                    events, ranges, size = events + end - start + 1, ranges + 1, size + cost
                    start = end + 1
                    continue
                if not ranges:
                    raise ConfigurationError(
                        f"A single range of topic {entry.topic}, partition {entry.partition}, does not fit into "
                        f"{max_bytes} bytes; allow {size + cost} or more."
                    )
                if len(builder):
                    piece.append(replace(entry, ranges=builder.build()))
                yield tuple(piece)
                piece = []
                events, ranges, size = 0, 0, frame_bytes + entry_bytes
        if len(builder):
            piece.append(replace(entry, ranges=builder.build()))
    if piece:
        yield tuple(piece)


def _frame_bytes(bundle: Bundle) -> int:
    source = {} if bundle.metadata is None else bundle.metadata.source
    return _MAX_FRAME_BYTES + 2 * len(json.dumps(source, ensure_ascii=False).encode())


def _restrict(entries: tuple[PartitionGaps, ...], results: tuple[PartitionGaps, ...]) -> tuple[PartitionGaps, ...]:
    """Reduce `entries` to the offsets in `results`."""
    if not entries:
        return ()
    limits = _by_partition(results)
    common = (
        replace(each, ranges=each.ranges & limits.get((each.topic, each.partition), _NOTHING)) for each in entries
    )
    return tuple(entry for entry in common if len(entry.ranges))


def _recorded(bundle: Bundle) -> Iterator[PartitionGaps]:
    """Yield the results of a bundle without inferred ranges."""
    inferred = _by_partition(inferred_of(bundle))
    for entry in bundle.results:
        ranges = inferred.get((entry.topic, entry.partition))
        yield entry if ranges is None else replace(entry, ranges=entry.ranges - ranges)


def _subtract(
    entries: Iterable[PartitionGaps], removed: Mapping[TopicPartition, OffsetRanges]
) -> tuple[PartitionGaps, ...]:
    """Remove offsets from `entries`, and entries without remaining ranges."""
    remaining = (
        replace(each, ranges=each.ranges - removed.get((each.topic, each.partition), _NOTHING)) for each in entries
    )
    return tuple(entry for entry in remaining if len(entry.ranges))


def _by_partition(entries: Iterable[PartitionGaps]) -> dict[TopicPartition, OffsetRanges]:
    merged: dict[TopicPartition, OffsetRanges] = {}
    for entry in entries:
        before = merged.get((entry.topic, entry.partition))
        merged[entry.topic, entry.partition] = entry.ranges if before is None else before | entry.ranges
    return merged
