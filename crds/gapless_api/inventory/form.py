r"""The model of an inventory and its canonical form, from which its digest is computed; must not know files.

An inventory lists what existed upstream at one time. The canonical form is UTF-8 text of lines that end with a line
feed: first the line ``manifest``, then one line for each topic and partition, as the downstream side names them, sorted
by the code points of the topic, then by partition number::

    {"absent":[[3],[7,9]],"first":0,"last":11,"partition":0,"topic":"transfer"}

and, from version 2 on, with the topic ID at the end: ``…,"topic":"transfer","topic_id":"vJdzA4Q-QhyXGS0vI5_Q6g"}``,
and, from version 3 on, with the leader epochs after the absent offsets: ``…],"epochs":[[0,0],[4,7]],"first":…``.

JSON without white space, keys sorted, ranges ascending and merged where they are adjacent, ``[a]`` for one offset and
``[a,b]`` for more, ``[]`` for none and ``null`` where the records were not read; the only escapes in the topic are
those of quotation mark and backslash. `inventory.writer` writes these lines, so the digest can be checked without
Gapless::

    { echo manifest; sed -n 's/^  \({.*}\),\{0,1\}$/\1/p' inventory.json; } | sha256sum
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from gapless_api.codec.canonical import content_id, encodable, json_ranges, moment_text
from gapless_api.inventory.epochs import EpochStart, LogExtent, check_epochs, first_difference
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, is_topic
from gapless_api.offsets.ranges import OffsetRanges

INVENTORY_VERSION = 3
KNOWN_VERSIONS = frozenset({1, 2, INVENTORY_VERSION})
"""Version 1 has no topic IDs, so it does not show that a topic was recreated. Versions 1 and 2 have no leader epochs,
so they do not show that a log was truncated and has grown again."""
FIRST_LINE = b"manifest\n"
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Sixteen bytes in Base64, as Kafka prints topic IDs."""


class Isolation(StrEnum):
    """Which transactional records count as events."""

    UNCOMMITTED = "read_uncommitted"
    """All records, also those of open and aborted transactions, as the live sender reads them."""
    COMMITTED = "read_committed"
    """Records of committed transactions; a partition ends where its first open transaction begins."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of one partition."""

    topic: str
    """As in event IDs: after topicTranslations."""
    partition: int
    """As in event IDs: shifted by partitionStartValue."""
    first: int
    """The lowest offset that Kafka still has; in an empty partition, the offset of the next event."""
    last: int | None
    """The highest offset, inclusive; ``None`` if the partition is empty."""
    absent: OffsetRanges | None = None
    """The offsets between them that are no events; ``None`` if the records were not read."""
    topic_id: str | None = None
    """Kafka's ID of the topic, which changes if it is recreated; ``None`` in version 1, or if the brokers have none."""
    epochs: tuple[EpochStart, ...] | None = None
    """The leader epochs of the log; ``None`` in versions 1 and 2, or if the brokers did not return them."""

    def __post_init__(self) -> None:
        """Validate the fields. Raises ValueError with the problem."""
        if not is_topic(self.topic):
            raise ValueError(f"{self.topic!r} is not a topic name")
        if not 0 <= self.partition <= MAX_PARTITION:
            raise ValueError(f"the partition {self.partition} is not within 0 to {MAX_PARTITION}")
        if self.topic_id is not None and not _TOPIC_ID.fullmatch(self.topic_id):
            raise ValueError(f"{self.topic_id!r} is not a topic ID")
        if not 0 <= self.first <= MAX_OFFSET or (self.last is not None and self.last > MAX_OFFSET):
            raise ValueError(f"an offset is not within 0 to {MAX_OFFSET}")
        if self.last is not None and self.last < self.first:
            raise ValueError(f"it goes from {self.first} to {self.last}")
        if self.epochs is not None:
            check_epochs(self.epochs)
        if self.absent is None or not len(self.absent):
            return
        if self.last is None or self.absent.first_offset < self.first or self.absent.last_offset > self.last:
            raise ValueError("an absent offset is not between first and last")

    @property
    def end(self) -> int:
        """The end of the partition, exclusive."""
        return self.first if self.last is None else self.last + 1

    def first_difference(self, older: PartitionOffsets, *, same_ends: bool = True) -> int | None:
        """Return the first offset of an older log of the same topic ID that this one has replaced or lost.

        ``None`` if there is none, or if that is unknown because an entry has no epochs.
        """
        if older.epochs is None or self.epochs is None:
            return None
        logs = (LogExtent(each.first, each.end, each.epochs or ()) for each in (older, self))
        return first_difference(*logs, same_ends=same_ends)

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of `offset`, or of the end if the log is shorter; ``None`` if it is unknown."""
        return None if not self.epochs else LogExtent(self.first, self.end, self.epochs).epoch_at(offset)

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the leader; ``None`` if it is unknown."""
        return None if self.epochs is None else self.epochs[-1].epoch

    @property
    def events(self) -> OffsetRanges:
        """The offsets that are events, as far as known."""
        if self.last is None:
            return OffsetRanges()
        everything = OffsetRanges([(self.first, self.last)])
        return everything if self.absent is None else everything - self.absent

    @property
    def event_count(self) -> int:
        """The number of offsets that are events, as far as known."""
        if self.last is None:
            return 0
        return self.last - self.first + 1 - (0 if self.absent is None else self.absent.count)


@dataclass(frozen=True, slots=True)
class InventoryMetadata:
    """The metadata of an inventory, its key ``gapless``."""

    version: int
    id: str
    """The creation time and the beginning of the digest."""
    created: datetime
    """In UTC, without fractions of a second; the inventory lists everything that existed at this time."""
    cluster: str
    """Kafka's ID of the upstream cluster."""
    isolation: Isolation
    source: dict[str, str]
    """The origin of the inventory, for people."""
    events: int
    """The number of events in all partitions, as far as known."""
    sha256: str
    """Hexadecimal digest of the canonical form."""
    signature: str | None = None
    """Base64 of an Ed25519 signature over everything else in the metadata."""

    def members(self) -> dict[str, Any]:
        """Return the metadata as JSON members, in the order in which they are written."""
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
    """What existed upstream at one time: the content of an inventory file."""

    entries: tuple[PartitionOffsets, ...]
    """One for each topic and partition, sorted."""
    metadata: InventoryMetadata


def canonical_entries(entries: Iterable[PartitionOffsets]) -> tuple[PartitionOffsets, ...]:
    """Return `entries` in canonical order.

    Raises:
        ValueError: two entries are for the same topic and partition.
    """
    ordered = tuple(sorted(entries, key=lambda entry: (entry.topic, entry.partition)))
    for before, after in pairwise(ordered):
        if (before.topic, before.partition) == (after.topic, after.partition):
            raise ValueError(f"topic {after.topic}, partition {after.partition} is duplicated")
    return ordered


def entry_line(entry: PartitionOffsets) -> Iterator[bytes]:
    """Yield the canonical line of `entry` in pieces of limited size, without the line feed."""
    if entry.absent is None:
        yield b'{"absent":null,'
    else:
        yield b'{"absent":['
        yield from json_ranges("", entry.absent)
        yield b"],"
    if entry.epochs is not None:
        yield f'"epochs":{json.dumps(entry.epochs, separators=(",", ":"))},'.encode()
    rest = {"first": entry.first, "last": entry.last, "partition": entry.partition, "topic": entry.topic}
    if entry.topic_id is not None:
        rest["topic_id"] = entry.topic_id
    yield json.dumps(rest, ensure_ascii=False, separators=(",", ":"))[1:].encode("utf-8")


def inventory_sha256(entries: Iterable[PartitionOffsets]) -> str:
    """Return the digest of `entries`, which must be in canonical order (see `canonical_entries`)."""
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
    """Create an unsigned inventory. IDs sort by time and end the same for inventories with the same content.

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
