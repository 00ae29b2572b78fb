r"""Owns what an inventory is in memory and its canonical form, over which its digest goes; must not know files.

An inventory says what exists upstream at a moment. The canonical form is UTF-8 text of lines that end with a line feed:
first the line ``manifest``, then one line for each topic and partition, as the downstream side names them, topics in
the order of their code points, then partitions by number::

    {"absent":[[3],[7,9]],"first":0,"last":11,"partition":0,"topic":"transfer"}

and, from version 2 on, with the topic's id at the end: ``…,"topic":"transfer","topic_id":"vJdzA4Q-QhyXGS0vI5_Q6g"}``.

JSON without white space, keys in the alphabet's order, ranges ascending and merged where they touch, ``[a]`` for one
offset and ``[a,b]`` for more, ``[]`` for none and ``null`` where the records were not read; no escapes in the topic but
those of quotation mark and backslash. `inventory.writer` writes these lines, so the digest can be checked without
Gapless::

    { echo manifest; sed -n 's/^  \({.*}\),\{0,1\}$/\1/p' inventory.json; } | sha256sum
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gapless_api.codec.canonical import content_id, encodable, listed, moment_text
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, is_topic
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INVENTORY_VERSION = 2
KNOWN_VERSIONS = frozenset({1, INVENTORY_VERSION})
"""Version 1 has no topic ids, so that a topic that was recreated cannot be told from the one before."""
FIRST_LINE = b"manifest\n"
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Sixteen bytes in Base64 as Kafka writes them."""


class Isolation(StrEnum):
    """Which records of transactions count as events."""

    UNCOMMITTED = "read_uncommitted"
    """All, as the live sender reads them: open and aborted ones, too."""
    COMMITTED = "read_committed"
    """Those of transactions that were committed; a partition ends where the first open one begins."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """What one partition holds."""

    topic: str
    """As ids carry it: after topicTranslations."""
    partition: int
    """As ids carry it: after the shift by partitionStartValue."""
    first: int
    """The lowest offset that Kafka still has; of an empty partition, the offset that the next event gets."""
    last: int | None
    """The highest offset, inclusive; ``None`` when the partition is empty."""
    absent: OffsetRanges | None = None
    """The offsets between that are no events; ``None`` when the records were not read."""
    topic_id: str | None = None
    """Kafka's own for the topic, another one when it is recreated; ``None`` in version 1 or where brokers have none."""

    def __post_init__(self) -> None:
        """Refuse what cannot be. Raises ValueError with what is wrong."""
        if not is_topic(self.topic):
            raise ValueError(f"{self.topic!r} is no topic")
        if not 0 <= self.partition <= MAX_PARTITION:
            raise ValueError(f"the partition {self.partition} is not within 0 to {MAX_PARTITION}")
        if self.topic_id is not None and not _TOPIC_ID.fullmatch(self.topic_id):
            raise ValueError(f"{self.topic_id!r} is no id of a topic")
        if not 0 <= self.first <= MAX_OFFSET or (self.last is not None and self.last > MAX_OFFSET):
            raise ValueError(f"an offset is not within 0 to {MAX_OFFSET}")
        if self.last is not None and self.last < self.first:
            raise ValueError(f"it goes from {self.first} to {self.last}")
        if self.absent is None or not len(self.absent):
            return
        if self.last is None or self.absent.first_offset < self.first or self.absent.last_offset > self.last:
            raise ValueError("an absent offset is not between first and last")

    @property
    def events(self) -> OffsetRanges:
        """The offsets that are events, as far as is known."""
        if self.last is None:
            return OffsetRanges()
        everything = OffsetRanges([(self.first, self.last)])
        return everything if self.absent is None else everything - self.absent

    @property
    def event_count(self) -> int:
        """How many offsets are events, as far as is known."""
        if self.last is None:
            return 0
        return self.last - self.first + 1 - (0 if self.absent is None else self.absent.count)


@dataclass(frozen=True, slots=True)
class InventoryMetadata:
    """What an inventory says of itself, the key ``gapless``."""

    version: int
    id: str
    """When it was made and the beginning of its digest."""
    created: datetime
    """In UTC, without fractions of a second: all that existed then is in the inventory."""
    cluster: str
    """Kafka's own id of the upstream cluster."""
    isolation: Isolation
    source: dict[str, str]
    """Where the inventory comes from, for people."""
    events: int
    """How many events all partitions hold together, as far as is known."""
    sha256: str
    """Hexadecimal digest of the canonical form."""
    signature: str | None = None
    """Base64 of an Ed25519 signature over everything else in the metadata."""

    def members(self) -> dict[str, Any]:
        """The metadata as JSON members in the order in which they are written."""
        unsigned = {
            "version": self.version,
            "id": self.id,
            "created": moment_text(self.created),
            "cluster": self.cluster,
            "isolation": str(self.isolation),
            "source": dict(sorted(self.source.items())),
            "events": self.events,
            "sha256": self.sha256,
        }
        return unsigned if self.signature is None else {**unsigned, "signature": self.signature}


@dataclass(frozen=True, slots=True)
class Inventory:
    """What exists upstream at a moment, as one file carries it."""

    entries: tuple[PartitionOffsets, ...]
    """One for each topic and partition, in their order."""
    metadata: InventoryMetadata


def canonical_entries(entries: Iterable[PartitionOffsets]) -> tuple[PartitionOffsets, ...]:
    """Bring `entries` into the canonical order.

    Raises:
        ValueError: two are for the same topic and partition.
    """
    ordered = tuple(sorted(entries, key=lambda entry: (entry.topic, entry.partition)))
    for before, after in pairwise(ordered):
        if (before.topic, before.partition) == (after.topic, after.partition):
            raise ValueError(f"topic {after.topic}, partition {after.partition}, is there twice")
    return ordered


def entry_line(entry: PartitionOffsets) -> Iterator[bytes]:
    """Yield the line of `entry` in pieces of bounded size, without the line feed."""
    if entry.absent is None:
        yield b'{"absent":null,'
    else:
        yield b'{"absent":['
        yield from listed("", entry.absent)
        yield b"],"
    rest = {"first": entry.first, "last": entry.last, "partition": entry.partition, "topic": entry.topic}
    if entry.topic_id is not None:
        rest["topic_id"] = entry.topic_id
    yield json.dumps(rest, ensure_ascii=False, separators=(",", ":"))[1:].encode("utf-8")


def inventory_sha256(entries: Iterable[PartitionOffsets]) -> str:
    """The digest of `entries`, which are in canonical order already (see `canonical_entries`)."""
    digest = hashlib.sha256(FIRST_LINE)
    for entry in entries:
        for piece in entry_line(entry):
            digest.update(piece)
        digest.update(b"\n")
    return digest.hexdigest()


def new_inventory(
    entries: Iterable[PartitionOffsets],
    *,
    created: datetime,
    cluster: str,
    isolation: Isolation,
    source: dict[str, str],
) -> Inventory:
    """Make an unsigned inventory. Its id sorts by time and ends alike for inventories with the same content.

    Raises:
        ValueError: `created` has no time zone, or two entries are for the same topic and partition.
    """
    if created.tzinfo is None:
        raise ValueError("the time of an inventory needs a time zone")
    ordered = canonical_entries(entries)
    moment = created.astimezone(UTC).replace(microsecond=0)
    sha256 = inventory_sha256(ordered)
    metadata = InventoryMetadata(
        INVENTORY_VERSION,
        content_id(moment, sha256),
        moment,
        cluster,
        isolation,
        encodable(source),
        sum(entry.event_count for entry in ordered),
        sha256,
    )
    return Inventory(ordered, metadata)
