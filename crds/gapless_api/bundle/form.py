r"""Owns what a bundle is in memory and its canonical form, over which its digest goes; must not know files.

The canonical form is UTF-8 text of lines that end with a line feed: first the kind (``all`` or ``first``), then one
line for each topic and partition, topics in the order of their code points, then partitions by number::

    {"gaps":[[5],[1010,1015]],"partition":0,"topic":"transfer","window_max":2999,"window_min":0}

JSON without white space, keys in the alphabet's order, ranges ascending and merged where they touch or overlap,
``[a]`` for one offset and ``[a,b]`` for more, ``null`` for no ranges, no escapes in the topic but those of quotation
mark and backslash. These are the lines that `bundle_writer` writes, so the digest can be checked without Gapless::

    sed -n 's/^  "type": "\(.*\)",$/\1/p; s/^  \({.*}\),\{0,1\}$/\1/p' bundle.json | sha256sum

Ranges that were only inferred are among the others, and the metadata lists them once more. That list has a digest of
its own, made alike: the line ``inferred``, then for each topic and partition one with the members ``partition``,
``ranges`` and ``topic``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gapless_api.codec.canonical import content_id, encodable, listed, moment_text
from gapless_api.offsets.ids import TopicPartition, is_topic
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

METADATA_VERSION = 1
MADE_OF_RECORDS = {"of_records": "true"}
"""What the source of a bundle has, too, that was made of bundles that hold a detector's records alone."""


class BundleKind(StrEnum):
    """What a sender makes of the ranges."""

    ALL = "all"
    """Send the offsets that the ranges name."""
    FIRST = "first"
    """Send everything from the first missing offset of each partition to the partition's end."""


@dataclass(frozen=True, slots=True)
class PartitionGaps:
    """What is missing in one partition."""

    topic: str
    partition: int
    """The downstream partition."""
    window_min: int
    window_max: int
    """The highest offset that was looked at, inclusive."""
    ranges: OffsetRanges
    """Empty when nothing is missing."""


@dataclass(frozen=True, slots=True)
class BundleMetadata:
    """Our own part of a bundle, the key ``gapless``, which other programs ignore."""

    version: int
    id: str
    """Tells bundles apart: when it was made and the beginning of its digest; fit to be part of a Kubernetes name."""
    created: datetime
    """In UTC, without fractions of a second."""
    source: dict[str, str]
    """Where the bundle comes from, for people."""
    missing: int
    """How many offsets all ranges hold together."""
    sha256: str
    """Hexadecimal digest of the canonical form."""
    signature: str | None = None
    """Base64 of an Ed25519 signature over everything else in the metadata."""
    inferred: tuple[PartitionGaps, ...] = ()
    """Inferred ranges of the results, in their order; windows as there, no entry without ranges."""

    def members(self) -> dict[str, Any]:
        """The metadata as JSON members in the order in which they are written, without the list of what was inferred.

        That list may be as long as the results; its digest is here in its place, so the signature covers it too.
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
    """What is missing in many partitions, as one file carries it."""

    kind: BundleKind
    results: tuple[PartitionGaps, ...]
    """One for each topic and partition, in their order."""
    metadata: BundleMetadata | None
    """``None`` in a bundle that another program wrote."""

    @property
    def missing(self) -> int:
        """How many offsets all ranges hold together."""
        return sum(entry.ranges.count for entry in self.results)

    @property
    def sha256(self) -> str:
        """Digest of the canonical form, as the metadata has it or, without metadata, of the results."""
        return self.metadata.sha256 if self.metadata is not None else canonical_sha256(self.kind, self.results)


def canonical_results(kind: BundleKind, results: Iterable[PartitionGaps]) -> tuple[PartitionGaps, ...]:
    """Bring `results` into the canonical order, one for each topic and partition, cut down to what `kind` keeps.

    Raises:
        ValueError: an entry has a topic that no id can have.
    """
    entries: dict[TopicPartition, PartitionGaps] = {}
    for entry in results:
        if not is_topic(entry.topic):
            raise ValueError(f"{entry.topic!r} is no topic")
        other = entries.setdefault((entry.topic, entry.partition), entry)
        if other is not entry:
            entries[entry.topic, entry.partition] = PartitionGaps(
                entry.topic,
                entry.partition,
                min(entry.window_min, other.window_min),
                max(entry.window_max, other.window_max),
                entry.ranges | other.ranges,
            )
    ordered = (entries[place] for place in sorted(entries))
    if kind is BundleKind.FIRST:
        return tuple(replace(entry, ranges=OffsetRanges(entry.ranges.head(1))) for entry in ordered)
    return tuple(ordered)


def canonical_inferred(
    inferred: Iterable[PartitionGaps], results: tuple[PartitionGaps, ...]
) -> tuple[PartitionGaps, ...]:
    """Bring what was only inferred into canonical order, cut down to what canonical `results` hold.

    Raises:
        ValueError: an entry has a topic that no id can have.
    """
    held = {(entry.topic, entry.partition): entry for entry in results}
    cut = (
        replace(held[entry.topic, entry.partition], ranges=entry.ranges & held[entry.topic, entry.partition].ranges)
        for entry in canonical_results(BundleKind.ALL, inferred)
        if (entry.topic, entry.partition) in held
    )
    return tuple(entry for entry in cut if len(entry.ranges))


def canonical_line(entry: PartitionGaps) -> Iterator[bytes]:
    """Yield the line of `entry` in pieces of bounded size, without the line feed."""
    yield from listed('{"gaps":[', entry.ranges)
    rest = {
        "partition": entry.partition,
        "topic": entry.topic,
        "window_max": entry.window_max,
        "window_min": entry.window_min,
    }
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    yield (("]," if len(entry.ranges) else '{"gaps":null,') + text[1:]).encode("utf-8")


def inferred_line(entry: PartitionGaps) -> Iterator[bytes]:
    """Yield what the list of inferred ranges says of `entry`, which has some, in pieces of bounded size."""
    yield from listed(f'{{"partition":{entry.partition},"ranges":[', entry.ranges)
    yield f'],"topic":{json.dumps(entry.topic, ensure_ascii=False)}}}'.encode()


class CanonicalDigest:
    """Computes the digest of a bundle, or of the list of what was inferred, from its canonical form piece by piece."""

    def __init__(self, first_line: str) -> None:
        self._hash = hashlib.sha256(f"{first_line}\n".encode())

    def update(self, piece: bytes) -> None:
        """Take the next piece of a line."""
        self._hash.update(piece)

    def end_line(self) -> None:
        """Take the end of a line."""
        self._hash.update(b"\n")

    def hexdigest(self) -> str:
        """The digest of all lines so far."""
        return self._hash.hexdigest()


def canonical_sha256(kind: BundleKind, results: Iterable[PartitionGaps]) -> str:
    """The digest of `results`, which are in canonical order already (see `canonical_results`)."""
    digest = CanonicalDigest(kind)
    for entry in results:
        for piece in canonical_line(entry):
            digest.update(piece)
        digest.end_line()
    return digest.hexdigest()


def inferred_sha256(inferred: Iterable[PartitionGaps]) -> str:
    """The digest of the list of what was inferred, which is in canonical order already (see `canonical_inferred`)."""
    digest = CanonicalDigest("inferred")
    for entry in inferred:
        for piece in inferred_line(entry):
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
    """Make the metadata of a bundle. Its id sorts by time and ends alike for bundles with the same content.

    Raises:
        ValueError: `created` has no time zone.
    """
    if created.tzinfo is None:
        raise ValueError("the time of a bundle needs a time zone")
    moment = created.astimezone(UTC).replace(microsecond=0)
    name = content_id(moment, sha256)
    return BundleMetadata(METADATA_VERSION, name, moment, encodable(source), missing, sha256, inferred=inferred)
