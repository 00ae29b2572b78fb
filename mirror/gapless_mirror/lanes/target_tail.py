"""How a lost position is found again: the last records of the target are looked for in the source.

Copies keep key, value, timestamp and headers, and a mirror adds only the header with the origin. The records before
the last one tell equal records apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.reading.cuts import Slice
from gapless_kafka.reading.reader import read_slices
from gapless_mirror.lanes.new_partition import start_at
from gapless_mirror.lanes.provenance import HEADER, chain_of

if TYPE_CHECKING:
    from confluent_kafka import Message

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.headers import Header
    from gapless_mirror.lanes.records import LanePosition
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceTopic

_TAIL_OFFSETS = 1000
"""How many of the last offsets of the target are compared."""


class TailNotFoundError(Exception):
    """The last records of the target do not say where the source continues. The text completes a sentence."""


class Content(NamedTuple):
    """What a copy has in common with its original."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...]


class FoundRecord(NamedTuple):
    """A record of the source or the target."""

    offset: int
    content: Content
    chain: tuple[str, ...] = ()
    """The clusters from which it was copied."""


def position_at_target(topic: SourceTopic, partition: int, setup: LaneSetup) -> LanePosition:
    """Return the position after the source record whose copy is the last one in the target.

    Raises:
        TailNotFoundError: there is no such record, or there are several.
        GaplessError: a cluster does not answer, or denies access.
    """
    copy = topic.copy
    if copy is None:
        raise TailNotFoundError("the target is unknown")
    end, own = copy.end_offsets[partition], setup.provenance.source_id
    first = max(copy.first_offsets[partition], end - _TAIL_OFFSETS)
    target = list(_records(setup.target, Slice(topic.target, partition, first, end, may_skip_expired=True)))
    marked = [record for record in target if own in record.chain]
    tail = marked or [record for record in target if not record.chain]
    if not tail:
        raise TailNotFoundError(f"none of its last {_TAIL_OFFSETS:,} offsets has a copy of this source")
    first, end = topic.first_offsets[partition], topic.end_offsets[partition]
    source = _records(setup.source, Slice(topic.name, partition, first, end, may_skip_expired=True))
    copied = (record for record in source if not setup.provenance.has_returned(record.chain))
    next_offset = find_after([record.content for record in tail], copied)
    position = start_at(topic, next_offset, setup.epoch)
    return replace(position, target_id=copy.id, target_end=tail[-1].offset + 1)


def find_after(tail: Sequence[Content], source: Iterable[FoundRecord]) -> int:
    """Return the offset after the source record that the tail ends with.

    Equal records are told apart by the records before them, as far as the source still has these. A single one counts
    although those before it differ: other programs may write to the target, and compaction removes records.

    Raises:
        TailNotFoundError: no record is equal, or several are that cannot be told apart.
    """
    window = deque[Content](maxlen=len(tail))
    candidates, matching = [], []
    for offset, content, _ in source:
        window.append(content)
        if content == tail[-1]:
            candidates.append(offset)
            if all(map(eq, reversed(tail), reversed(window))):
                matching.append(offset)
    if not candidates:
        raise TailNotFoundError("the source does not have its last record")
    found = matching or candidates
    if len(found) > 1:
        raise TailNotFoundError("the source has its last records several times")
    return found[0] + 1


def _records(connection: KafkaConnection, part: Slice) -> Iterator[FoundRecord]:
    """Read committed records."""
    if part.first_offset >= part.end_offset:
        return
    for messages in read_slices(connection, [part]):
        yield from map(found_record, messages)


def found_record(message: Message) -> FoundRecord:
    """Return what of a record is compared."""
    headers = message.headers() or []
    at = message.timestamp()[1]
    content = Content(
        message.key(),
        message.value(),
        # A mirror writes the timestamp 0 as 1: Kafka's client would replace it.
        max(at, 1) if at >= 0 else -1,
        tuple((name, value) for name, value in headers if name != HEADER),
    )
    return FoundRecord(message.offset() or 0, content, chain_of(headers))
