"""Owns when an audit may continue a state, and the blocks of a state: which records were read, and what they held.

Must not know where a state is kept, Spark or how bitmaps are made. A state is a head (`gapless_api.wire.audit_state`)
that names one file of blocks (Arrow rows, with the digest in the head); a head without its blocks is worth nothing.
"""

from __future__ import annotations

import hashlib
import heapq
from dataclasses import replace
from functools import reduce
from itertools import groupby
from operator import or_
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.audit_state import Contents, ReadTopic, decode_head
from gapless_api.wire.form import WireError
from gapless_archive.store.state_place import StateError
from gapless_spark.model.bitmaps import PARTIAL_SCHEMA, decode_blocks, encode_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gapless_api.wire.audit_state import StateHead
    from gapless_kafka.reading.cuts import Cut, TopicCut
    from gapless_spark.model.bitmaps import Received
    from gapless_spark.model.event_keys import Block

_ANEW = "give an empty folder or prefix to begin again"


def read_head(text: bytes, place: str) -> StateHead:
    """Read a head.

    Raises:
        StateError: it is damaged, something else, or of another version; the sentence names `place`.
    """
    try:
        return decode_head(text)
    except WireError as error:
        raise StateError(f"The state {place} cannot be continued ({error}); {_ANEW}.") from None


def unread_of(head: StateHead, cut: Cut, place: str) -> Cut:
    """The part of `cut` that was not read before, topics that are new to the state from their beginning.

    Raises:
        StateError: the state is of another cluster or of topics that are not read, or Kafka has lost records.
    """
    if head.cluster_id != cut.cluster_id:
        raise StateError(
            f"The state {place} is of the Kafka cluster {head.cluster_id}, and this audit reads {cut.cluster_id}; "
            f"give the state that belongs to it, or {_ANEW}."
        )
    known, read = {topic.topic: topic for topic in head.topics}, {topic.topic for topic in cut.topics}
    if known.keys() - read:
        raise StateError(
            f"The state {place} is of the topics {', '.join(sorted(known))}, and this audit reads "
            f"{', '.join(sorted(read))}; give all topics of the state (more may be added), or {_ANEW}."
        )
    return replace(
        cut,
        topics=tuple(
            _unread(known[topic.topic], topic, place) if topic.topic in known else from_the_log_start(topic)
            for topic in cut.topics
        ),
    )


def read_topics(cut: Cut, contents: Mapping[str, Contents] | None = None) -> tuple[ReadTopic, ...]:
    """How far everything has been read when `cut` has, and what the topics were seen to hold."""
    return tuple(
        ReadTopic(
            topic=topic.topic,
            id=topic.id,
            next_offsets=topic.end_offsets,
            contents=(contents or {}).get(topic.topic, Contents()),
        )
        for topic in cut.topics
    )


def from_the_log_start(topic: TopicCut) -> TopicCut:
    """All of a topic that no earlier run has read; what is below its first offsets is gone."""
    return _from(topic, (0,) * len(topic.first_offsets))


def _from(topic: TopicCut, next_offsets: Sequence[int]) -> TopicCut:
    starts = topic.first_offsets
    return replace(
        topic,
        first_offsets=tuple(map(max, starts, next_offsets)),
        log_starts=starts,
        expired=frozenset(number for number, start in enumerate(starts) if start > next_offsets[number]),
    )


def overtaken(cut: Cut, now: Cut) -> tuple[Cut, Cut] | None:
    """What Kafka has deleted of `cut` while it was read, perhaps unread; ``None`` when it has deleted nothing.

    Args:
        cut: what was to be read.
        now: its topics afterwards.

    Returns:
        `cut` with these partitions among the expired ones, and what is left in these alone.

    Raises:
        ConfigurationError: a topic was deleted and recreated meanwhile.
    """
    expired, left = [], []
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
        left.append(replace(topic, first_offsets=firsts, log_starts=starts[: len(ends)], expired=late))
    if not any(topic.expired for topic in left):
        return None
    return replace(cut, topics=tuple(expired)), replace(cut, topics=tuple(left))


def _unread(known: ReadTopic, topic: TopicCut, place: str) -> TopicCut:
    name, before = known.topic, known.next_offsets
    if known.id and topic.id and known.id != topic.id:
        raise StateError(
            f"The topic {name} was deleted and made again since the state {place} was written (id {known.id}, now "
            f"{topic.id}); {_ANEW}."
        )
    if len(topic.end_offsets) < len(before):
        raise StateError(
            f"The topic {name} has {len(topic.end_offsets)} partitions and had {len(before)} when the state {place} "
            f"was written, so it is another topic; {_ANEW}."
        )
    for partition, following in enumerate(before):
        end = topic.end_offsets[partition]
        if end < following:
            raise StateError(
                f"Partition {partition} of topic {name} ends at offset {end}, but the state {place} has read up to "
                f"offset {following - 1}, so Kafka has lost records or the topic is another; {_ANEW}."
            )
    return _from(topic, (*before, *[0] * (len(topic.end_offsets) - len(before))))


def merged(before: Iterable[tuple[Block, Received]], new: Mapping[Block, Received]) -> Iterator[tuple[Block, Received]]:
    """Join what is known with what is new, in the order of the blocks.

    Args:
        before: in the order of the blocks.
        new: in any order.
    """
    added = sorted(new.items(), key=_place)
    for block, parts in groupby(heapq.merge(before, added, key=_place), key=_place):
        yield block, reduce(or_, (received for _, received in parts))


def _place(pair: tuple[Block, Received]) -> Block:
    return pair[0]


class BlocksWriter:
    """Writes blocks, one by one, and knows their digest at the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.records = 0

    def write_all(self, blocks: Iterable[tuple[Block, Received]]) -> Iterator[tuple[Block, Received]]:
        """Write `blocks` as they pass; what was written is whole when the last one has passed."""
        writer = pa.ipc.new_stream(pa.PythonFile(self, mode="w"), PARTIAL_SCHEMA)
        for block, received in blocks:
            for row in encode_blocks([(block, received)]):
                writer.write_batch(row)
            self.records += received.records
            yield block, received
        writer.close()

    @property
    def sha256(self) -> str:
        """Of all that was written."""
        return self._hash.hexdigest()

    closed = False

    def write(self, content: bytes) -> int:
        """Take bytes from Arrow."""
        self._hash.update(content)
        self._stream.write(content)
        self.bytes += len(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: the stream is flushed by whoever opened it."""


def read_blocks(file: Path, head: StateHead, place: str) -> Iterator[tuple[Block, Received]]:
    """Read the blocks that `head` names, in their order; they are checked before the first one.

    Raises:
        StateError: they are not what the head says.
    """
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise StateError(
            f"The state {place} is damaged (its file {head.blocks_file} cannot be read: {error.strerror}); {_ANEW}."
        ) from None
    if digest != head.blocks_sha256:
        raise StateError(f"The state {place} is damaged ({head.blocks_file} does not match its digest); {_ANEW}.")
    with pa.memory_map(str(file)) as mapped, pa.ipc.open_stream(mapped) as reader:
        yield from decode_blocks(reader)
