"""Owns what a task of an archiving cycle does: reads its slices and leaves finished objects and their manifests.

Only manifests go back to the program that commits. A task that is tried again writes new objects; what no commit names
is removed later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_api.wire.form import WireError
from gapless_archive.catalog.entry import SEGMENT
from gapless_archive.segments.level_zero import Coverage, LevelZeroWriter, TopicSegment
from gapless_archive.segments.peer_level_zero import PeerLevelZeroWriter
from gapless_archive.segments.rows import rows_by_partition
from gapless_archive.store.places import open_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.catalog.entry import Layout
    from gapless_archive.segments.builder import Origin
    from gapless_archive.segments.level_zero import Limits
    from gapless_archive.segments.rows import Message
    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import PlaceAddress
    from gapless_kafka.reading.cuts import Slice

MANIFESTS = "topic string, segment string"
"""The columns of the rows that come back."""


@dataclass(frozen=True, slots=True)
class SliceWriter:
    """Where and how slices are written. It travels to the executors, with paths of secrets and never the secrets."""

    address: PlaceAddress
    access: S3Access
    prefixes: Mapping[str, str]
    """By topic: what the objects' keys begin with."""
    limits: Mapping[str, Limits]
    """By topic."""
    origins: Mapping[TopicPartition, Origin]
    layout: Layout = "gapless"
    key_firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """In the layout of kafka-replicator: where the key of the next object begins."""

    @property
    def takes_all_of_a_partition(self) -> bool:
        """Whether all of a partition must be in one task: keys of kafka-replicator follow on each other."""
        return self.layout == "kafka-replicator"

    def write(self, slices: Sequence[Slice], batches: Iterable[Sequence[Message]]) -> list[TopicSegment]:
        """Write the records of slices, and return the manifests of segments that cover them.

        Raises:
            GaplessError: they cannot be read or written.
        """
        place = open_place(self.address, self.access)
        coverages = [self._coverage(one) for one in slices]
        kind = PeerLevelZeroWriter if self.layout == "kafka-replicator" else LevelZeroWriter
        with place.scratch() as scratch, kind(place, scratch, coverages) as writer:
            for messages in batches:
                for run in rows_by_partition(messages):
                    writer.add(run)
            return writer.close()

    def rows(self, slices: Sequence[Slice], batches: Iterable[Sequence[Message]]) -> Iterator[pa.RecordBatch]:
        """Like `write`, but as rows of `MANIFESTS`."""
        import pyarrow as pa  # noqa: PLC0415 -- in the task

        written = self.write(slices, batches)
        topics = pa.array([topic for topic, _ in written], pa.string())
        texts = [json.dumps(SEGMENT.to_json(segment)) for _, segment in written]
        yield pa.record_batch([topics, pa.array(texts, pa.string())], names=["topic", "segment"])

    def _coverage(self, one: Slice) -> Coverage:
        return Coverage(
            topic=one.topic,
            partition=one.partition,
            first=one.first_offset,
            end=one.end_offset,
            prefix=self.prefixes[one.topic],
            limits=self.limits[one.topic],
            origin=self.origins[one.topic, one.partition],
            key_first=self.key_firsts.get((one.topic, one.partition)),
        )


def manifests_in(batches: Iterable[pa.RecordBatch]) -> list[TopicSegment]:
    """Read rows of `MANIFESTS`, in an order that does not depend on which task was quicker."""
    found = []
    for batch in batches:
        for row in batch.to_pylist():
            try:
                segment = SEGMENT.from_json(json.loads(row["segment"]))
            except WireError as error:
                raise RuntimeError(f"a task of another release took part: {error}") from None
            found.append(TopicSegment(row["topic"], segment))
    return sorted(found, key=lambda one: (one.topic, one.segment.partition, one.segment.first))
