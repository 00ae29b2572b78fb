r"""The model of a bundle and its canonical form, from which its digest is computed; must not know files.

The canonical form is UTF-8 text of lines that end with a line feed: first the kind (``all`` or ``first``), then one
line for each topic and partition, sorted by the code points of the topic, then by partition number::

    {"gaps":[[5],[1010,1015]],"partition":0,"topic":"transfer","window_max":2999,"window_min":0}

JSON without white space, keys sorted, ranges ascending and merged where they are adjacent or overlap, ``[a]`` for one
offset and ``[a,b]`` for more, ``null`` for no ranges; the only escapes in the topic are those of quotation mark and
backslash. `bundle.writer` writes these lines, so the digest can be checked without Gapless::

    sed -n 's/^  "type": "\(.*\)",$/\1/p; s/^  \({.*}\),\{0,1\}$/\1/p' bundle.json | sha256sum

Inferred ranges are among the others, and the metadata lists them again. That list has its own digest, computed in the
same way: the line ``inferred``, then one line for each topic and partition with the members ``partition``, ``ranges``
and ``topic``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from gapless_api.base.quantities import quantity
from gapless_api.codec.canonical import content_id, encodable, json_ranges, moment_text
from gapless_api.offsets.ids import TopicPartition, is_topic
from gapless_api.offsets.ranges import OffsetRanges

METADATA_VERSION = 1
MADE_OF_RECORDS = {"of_records": "true"}
"""Members of the source of a bundle that was made from bundles with only a detector's records."""


class BundleKind(StrEnum):
    """What a sender resends for the ranges of a bundle."""

    ALL = "all"
    """The offsets in the ranges."""
    FIRST = "first"
    """Everything from the first missing offset of each partition to its end."""


@dataclass(frozen=True, slots=True)
class PartitionGaps:
    """The missing offsets of one partition."""

    topic: str
    partition: int
    """The downstream partition."""
    window_min: int
    window_max: int
    """The highest offset that was checked, inclusive."""
    ranges: OffsetRanges
    """Empty if nothing is missing."""


@dataclass(frozen=True, slots=True)
class BundleMetadata:
    """The metadata of a bundle, its key ``gapless``, which other programs ignore."""

    version: int
    id: str
    """The creation time and the beginning of the digest; can be part of a Kubernetes name."""
    created: datetime
    """In UTC, without fractions of a second."""
    source: dict[str, str]
    """The origin of the bundle, for people."""
    missing: int
    """The number of offsets in all ranges."""
    sha256: str
    """Hexadecimal digest of the canonical form."""
    signature: str | None = None
    """Base64 of an Ed25519 signature over everything else in the metadata."""
    inferred: tuple[PartitionGaps, ...] = ()
    """The inferred ranges of the results, in the same order and with the same windows; no entry without ranges."""

    def members(self) -> dict[str, Any]:
        """Return the metadata as JSON members, in the order in which they are written, without the inferred ranges.

        The list of inferred ranges may be as long as the results; its digest represents it, so that the signature
        covers it.
        """
        unsigned: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "created": moment_text(self.created),
            "source": dict(sorted(self.source.items())),
            "missing": self.missing,
            "sha256": self.sha256,
        }
        if self.inferred:
            unsigned["inferred_sha256"] = inferred_sha256(self.inferred)
        return unsigned if self.signature is None else {**unsigned, "signature": self.signature}


@dataclass(frozen=True, slots=True)
class Bundle:
    """The missing offsets of many partitions: the content of a bundle file."""

    kind: BundleKind
    results: tuple[PartitionGaps, ...]
    """One for each topic and partition, in canonical order."""
    metadata: BundleMetadata | None
    """``None`` for a bundle of another program."""
    repeated: int = field(default=0, compare=False)
    """How often a bundle of another program lists an offset that it has listed before; merged in `results`."""

    @property
    def repeated_sentence(self) -> str:
        """What to tell about `repeated`; empty for nothing."""
        if not self.repeated:
            return ""
        return f"The bundle lists {quantity(self.repeated, 'offset')} more than once; each counts once."

    @property
    def missing(self) -> int:
        """The number of offsets in all ranges."""
        return sum(entry.ranges.count for entry in self.results)

    @property
    def sha256(self) -> str:
        """The digest of the canonical form, from the metadata, or computed if there is none."""
        return self.metadata.sha256 if self.metadata is not None else canonical_sha256(self.kind, self.results)


def canonical_results(kind: BundleKind, results: Iterable[PartitionGaps]) -> tuple[PartitionGaps, ...]:
    """Return `results` in canonical order, merged by topic and partition, with only the ranges that `kind` keeps.

    Raises:
        ValueError: the topic of an entry is invalid in an event ID.
    """
    entries: dict[TopicPartition, PartitionGaps] = {}
    for entry in results:
        if not is_topic(entry.topic):
            raise ValueError(f"{entry.topic!r} is not a topic name")
        other = entries.setdefault((entry.topic, entry.partition), entry)
        if other is not entry:
            entries[entry.topic, entry.partition] = PartitionGaps(
                entry.topic,
                entry.partition,
                min(entry.window_min, other.window_min),
                max(entry.window_max, other.window_max),
                entry.ranges | other.ranges,
            )
    ordered = (entries[topic_partition] for topic_partition in sorted(entries))
    if kind is BundleKind.FIRST:
        return tuple(replace(entry, ranges=OffsetRanges(entry.ranges.head(1))) for entry in ordered)
    return tuple(ordered)


def canonical_inferred(
    inferred: Iterable[PartitionGaps], results: tuple[PartitionGaps, ...]
) -> tuple[PartitionGaps, ...]:
    """Return `inferred` ranges in canonical order, reduced to what canonical `results` contain.

    Raises:
        ValueError: the topic of an entry is invalid in an event ID.
    """
    by_partition = {(result.topic, result.partition): result for result in results}
    reduced = (
        replace(result, ranges=entry.ranges & result.ranges)
        for entry in canonical_results(BundleKind.ALL, inferred)
        if (result := by_partition.get((entry.topic, entry.partition))) is not None
    )
    return tuple(entry for entry in reduced if len(entry.ranges))


def canonical_line(entry: PartitionGaps) -> Iterator[bytes]:
    """Yield the canonical line of `entry` in pieces of limited size, without the line feed."""
    yield from json_ranges('{"gaps":[', entry.ranges)
    rest = {
        "partition": entry.partition,
        "topic": entry.topic,
        "window_max": entry.window_max,
        "window_min": entry.window_min,
    }
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    yield (("]," if len(entry.ranges) else '{"gaps":null,') + text[1:]).encode("utf-8")


def inferred_line(entry: PartitionGaps) -> Iterator[bytes]:
    """Yield the line of `entry` in the list of inferred ranges, in pieces of limited size; `entry` must have ranges."""
    yield from json_ranges(f'{{"partition":{entry.partition},"ranges":[', entry.ranges)
    yield f'],"topic":{json.dumps(entry.topic, ensure_ascii=False)}}}'.encode()


class CanonicalDigest:
    """Computes the digest of a canonical form, of a bundle or its inferred ranges, piece by piece."""

    def __init__(self, first_line: str) -> None:
        self._hash = hashlib.sha256(f"{first_line}\n".encode())

    def update(self, piece: bytes) -> None:
        """Add a piece of a line."""
        self._hash.update(piece)

    def end_line(self) -> None:
        """Add the end of a line."""
        self._hash.update(b"\n")

    def hexdigest(self) -> str:
        """Return the digest of all lines so far."""
        return self._hash.hexdigest()


def canonical_sha256(kind: BundleKind, results: Iterable[PartitionGaps]) -> str:
    """Return the digest of `results`, which must be in canonical order (see `canonical_results`)."""
    return _digest(kind, map(canonical_line, results))


def inferred_sha256(inferred: Iterable[PartitionGaps]) -> str:
    """Return the digest of `inferred`, which must be in canonical order (see `canonical_inferred`)."""
    return _digest("inferred", map(inferred_line, inferred))


def _digest(first_line: str, lines: Iterable[Iterable[bytes]]) -> str:
    digest = CanonicalDigest(first_line)
    for pieces in lines:
        for piece in pieces:
            digest.update(piece)
        digest.end_line()
    return digest.hexdigest()


def new_metadata(
    *,
    created: datetime,
    source: dict[str, str],
    missing: int,
    sha256: str,
    inferred: tuple[PartitionGaps, ...] = (),
) -> BundleMetadata:
    """Create the metadata of a bundle. IDs sort by time and end the same for bundles with the same content.

    Raises:
        ValueError: `created` has no time zone.
    """
    if created.tzinfo is None:
        raise ValueError("the time of a bundle needs a time zone")
    moment = created.astimezone(UTC).replace(microsecond=0)
    bundle_id = content_id(moment, sha256)
    return BundleMetadata(METADATA_VERSION, bundle_id, moment, encodable(source), missing, sha256, inferred=inferred)
