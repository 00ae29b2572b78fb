"""When an audit may continue a state, and the files of a state: which records were read, and their bitmaps.

Must not know where a state is stored, Spark or how bitmaps are built. A state consists of a head
(`gapless_api.wire.audit_state`) and the file of blocks that it names (Arrow rows, whose digest is in the head). A head
without its blocks is invalid.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from operator import or_
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import quantity
from gapless_api.wire.audit_state import Contents, ReadTopic, StateHead, decode_head
from gapless_api.wire.form import WireError
from gapless_archive.store.state_place import StateError
from gapless_kafka.reading.log_truncation import LogPosition, find_truncated
from gapless_spark.model.bitmaps import PARTIAL_SCHEMA, Received, decode_blocks, encode_blocks
from gapless_spark.model.upstream_logs import RecordedLog

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut, TopicCut
    from gapless_spark.model.event_keys import Block

_START_AGAIN = "give an empty folder or prefix to start again"


def read_head(text: bytes, place: str) -> StateHead:
    """Parse a head.

    Raises:
        StateError: it is damaged, not a head, or of another version; the message names `place`.
    """
    try:
        return decode_head(text)
    except WireError as error:
        raise StateError(f"The state {place} cannot be continued ({error}); {_START_AGAIN}.") from None


def read_logs(head: StateHead, place: str) -> tuple[RecordedLog, ...]:
    """Return the upstream logs that `head` records. Raises StateError."""
    try:
        return tuple(map(RecordedLog.of_state, head.upstream_logs))
    except ValueError as error:
        raise StateError(
            f"The state {place} cannot be continued (an upstream log is invalid: {error}); {_START_AGAIN}."
        ) from None


def unread_cut(head: StateHead, cut: Cut, place: str) -> Cut:
    """Return the part of `cut` that is not in the state; topics that are new to it are read from their beginning.

    Raises:
        StateError: the state belongs to another cluster or to topics that are not read, or Kafka has lost records.
    """
    if head.cluster_id != cut.cluster_id:
        raise StateError(
            f"The state {place} belongs to the Kafka cluster {head.cluster_id}, but this audit reads {cut.cluster_id}; "
            f"give the state of that cluster, or {_START_AGAIN}."
        )
    known, read = {topic.topic: topic for topic in head.topics}, {topic.topic for topic in cut.topics}
    if known.keys() - read:
        raise StateError(
            f"The state {place} belongs to the topics {', '.join(sorted(known))}, but this audit reads "
            f"{', '.join(sorted(read))}; give all topics of the state (more may be added), or {_START_AGAIN}."
        )
    return replace(
        cut,
        topics=tuple(
            _unread_topic(known[topic.topic], topic, place) if topic.topic in known else from_log_start(topic)
            for topic in cut.topics
        ),
    )


def topic_positions(cut: Cut, contents: Mapping[str, Contents] | None = None) -> tuple[ReadTopic, ...]:
    """Return the position in each topic after `cut` was read, with the contents found in the topic."""
    return tuple(
        ReadTopic(
            topic=topic.topic,
            id=topic.id,
            next_offsets=topic.end_offsets,
            contents=(contents or {}).get(topic.topic, Contents()),
            leader_epochs=topic.leader_epochs if all(epoch >= 0 for epoch in topic.leader_epochs) else (),
        )
        for topic in cut.topics
    )


def check_not_truncated(head: StateHead, cut: Cut, connection: KafkaConnection, place: str) -> None:
    """Check that the topics still contain what earlier audits have read, also where they have grown since.

    Raises:
        StateError: Kafka has truncated a log under the same topic ID.
        GaplessError: Kafka does not respond, or denies access.
    """
    now = {topic.topic: topic.leader_epochs for topic in cut.topics}
    found = find_truncated(
        connection,
        [
            LogPosition(topic.topic, partition, following, epoch)
            for topic in head.topics
            for partition, (following, epoch) in enumerate(zip(topic.next_offsets, topic.leader_epochs, strict=False))
            if now.get(topic.topic, ())[partition : partition + 1] not in {(), (-1,), (epoch,)}
        ],
    )
    before = {topic.topic: topic.next_offsets for topic in head.topics}
    for (name, partition), end in sorted(found.items()):
        raise StateError(
            f"Kafka has truncated partition {partition} of topic {name} under the same topic ID, as after an unclean "
            f"leader election or on a replaced disk: the state {place} has read offsets {end} to "
            f"{before[name][partition] - 1}, but other records have or get these offsets, so nothing was audited; "
            f"{_START_AGAIN}."
        )


def check_unchanged(connection: KafkaConnection, cut: Cut, now: Cut) -> None:
    """Check that no log was truncated between two cuts, so that what was read in between is still there.

    Raises:
        ConfigurationError: Kafka has truncated a log.
        GaplessError: Kafka does not respond, or denies access.
    """
    positions = [
        LogPosition(topic.topic, partition, end, before)
        for topic, after in zip(cut.topics, now.topics, strict=True)
        for partition, (end, before, epoch) in enumerate(
            zip(topic.end_offsets, topic.leader_epochs, after.leader_epochs, strict=False)
        )
        if topic.id == after.id and 0 <= before != epoch
    ]
    for (name, partition), end in sorted(find_truncated(connection, positions).items()):
        raise ConfigurationError(
            f"Kafka truncated partition {partition} of topic {name} at offset {end} while it was read, as after an "
            f"unclean leader election; run again."
        )


def from_log_start(topic: TopicCut) -> TopicCut:
    """Return the cut of a topic that no earlier audit has read; records before its log start have expired."""
    return _starting_at(topic, (0,) * len(topic.first_offsets))


def _starting_at(topic: TopicCut, next_offsets: Sequence[int]) -> TopicCut:
    starts = topic.first_offsets
    return replace(
        topic,
        first_offsets=tuple(map(max, starts, next_offsets)),
        log_starts=starts,
        expired=frozenset(number for number, start in enumerate(starts) if start > next_offsets[number]),
    )


def expired_during_read(cut: Cut, now: Cut) -> tuple[Cut, Cut] | None:
    """Find partitions of `cut` in which Kafka deleted records during the read; ``None`` when there are none.

    Args:
        cut: the offsets that were read.
        now: the topics after the read.

    Returns:
        `cut` with these partitions marked as expired, and the offsets that remain in these partitions only.

    Raises:
        ConfigurationError: a topic was deleted and recreated meanwhile.
    """
    expired, remaining = [], []
    for topic, after in zip(cut.topics, now.topics, strict=True):
        if topic.id != after.id:
            raise ConfigurationError(
                f"The topic {topic.topic} was deleted and recreated while it was read (topic ID {topic.id} -> "
                f"{after.id}); run again."
            )
        ends, starts = topic.end_offsets, after.first_offsets
        late = frozenset(
            number for number, first in enumerate(topic.first_offsets) if first < min(starts[number], ends[number])
        )
        firsts = tuple(min(starts[number], end) if number in late else end for number, end in enumerate(ends))
        expired.append(replace(topic, expired=topic.expired | late))
        remaining.append(replace(topic, first_offsets=firsts, log_starts=starts[: len(ends)], expired=late))
    if not any(topic.expired for topic in remaining):
        return None
    return replace(cut, topics=tuple(expired)), replace(cut, topics=tuple(remaining))


def _unread_topic(known: ReadTopic, topic: TopicCut, place: str) -> TopicCut:
    name, before = known.topic, known.next_offsets
    if known.id and topic.id and known.id != topic.id:
        raise StateError(
            f"The topic {name} was deleted and recreated after the state {place} was written (topic ID {known.id} -> "
            f"{topic.id}); {_START_AGAIN}."
        )
    if len(topic.end_offsets) < len(before):
        raise StateError(
            f"The topic {name} has {quantity(len(topic.end_offsets), 'partition')} but had {len(before)} when the "
            f"state {place} was written, so it is not the same topic; {_START_AGAIN}."
        )
    for partition, following in enumerate(before):
        end = topic.end_offsets[partition]
        if end < following:
            raise StateError(
                f"Partition {partition} of topic {name} ends at offset {end}, but the state {place} has read up to "
                f"offset {following - 1}, so Kafka has lost records or it is not the same topic; {_START_AGAIN}."
            )
    return _starting_at(topic, (*before, *[0] * (len(topic.end_offsets) - len(before))))


def merge_blocks(
    before: Iterable[tuple[Block, Received]], new: Mapping[Block, Received]
) -> Iterator[tuple[Block, Received]]:
    """Merge the blocks of a state with new ones, and yield them in order.

    Args:
        before: blocks in order.
        new: blocks in any order.
    """
    added = sorted(new.items(), key=_block)
    for block, parts in groupby(heapq.merge(before, added, key=_block), key=_block):
        yield block, reduce(or_, (received for _, received in parts))


def _block(pair: tuple[Block, Received]) -> Block:
    return pair[0]


class BlocksWriter:
    """Writes blocks to a stream, and computes their digest."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.records = 0

    def write_all(self, blocks: Iterable[tuple[Block, Received]]) -> Iterator[tuple[Block, Received]]:
        """Write and yield each of `blocks`; the file is complete after the last one."""
        writer = pa.ipc.new_stream(pa.PythonFile(self, mode="w"), PARTIAL_SCHEMA)
        for block, received in blocks:
            for row in encode_blocks([(block, received)]):
                writer.write_batch(row)
            self.records += received.records
            yield block, received
        writer.close()

    @property
    def sha256(self) -> str:
        """The digest of all bytes written."""
        return self._hash.hexdigest()

    closed = False

    def write(self, content: bytes) -> int:
        """Write bytes for Arrow."""
        self._hash.update(content)
        self._stream.write(content)
        self.bytes += len(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: the owner of the stream flushes it."""


def read_blocks(file: Path, head: StateHead, place: str) -> Iterator[tuple[Block, Received]]:
    """Yield the blocks that `head` names, in order, after checking the digest of their file.

    Raises:
        StateError: the file cannot be read, or does not match the digest.
    """
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise StateError(
            f"The state {place} is damaged ({head.blocks_file} cannot be read: {error.strerror}); {_START_AGAIN}."
        ) from None
    if digest != head.blocks_sha256:
        raise StateError(
            f"The state {place} is damaged ({head.blocks_file} does not match its digest); {_START_AGAIN}."
        )
    with pa.memory_map(str(file)) as mapped, pa.ipc.open_stream(mapped) as reader:
        yield from decode_blocks(reader)
