"""What is resent: turns settings and bundle into the requested offsets of each partition; pure.

Must not know how Kafka is queried, how events travel, or how far a resend has progressed.

There are two steps, because the second needs answers from Kafka. A `Selection` is what the user requests. With the
first and last offset of a partition, each `PartitionRequest` in it becomes a `PartitionPlan`.

Topics and partitions in bundles and settings are named as downstream (as event ids carry them); Kafka is read under the
upstream names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.offsets.windows import PartitionWindow
from gapless_api.wire.resend_report import SkippedEntry
from gapless_sender.base.sharding import UNSHARDED, Shard
from gapless_sender.source.requests import MappedPartition, PartitionRequest, requests_of_shard

if TYPE_CHECKING:
    from gapless_api.bundle.form import Bundle
    from gapless_sender.settings.selection import SelectionSettings


class Mode(StrEnum):
    """How the user selected the events."""

    BUNDLE = "bundle"
    OFFSETS = "offsets"
    TIME = "time"


class Reason(StrEnum):
    """Why a requested event cannot be sent."""

    EXPIRED = "Expired"
    """Below the partition's first offset: deleted by retention or DeleteRecords."""
    NON_EXISTENT = "NonExistent"
    """Skipped by Kafka although later offsets exist: compacted, aborted, or a transaction marker."""
    NOT_YET_WRITTEN = "NotYetWritten"
    """At or beyond the partition's end; it may still be written."""
    TOO_LARGE = "TooLarge"
    """It needs more datagrams than the receiver reassembles."""
    ARCHIVE_DAMAGED = "ArchiveDamaged"
    """Below the partition's first offset, and the archive segment that had it is missing or damaged."""


RETRIABLE = (Reason.EXPIRED, Reason.ARCHIVE_DAMAGED)
"""Reasons that an archive may remove later."""


FILLED, FILTERED, OUTSIDE, NOT_REQUESTED = "filled", "filtered", "outsideTimeRange", "notAskedFor"
"""What a requested offset can become other than sent or a `Reason`, as checkpoint and report name it.

``outsideTimeRange`` and ``notAskedFor`` (absent offsets of an open range) were read and do not belong to the plan.
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user requests."""

    mode: Mode
    requests: tuple[PartitionRequest, ...]
    """Those of this shard."""
    first_timestamp_ms: int | None = None
    """Oldest requested timestamp, inclusive."""
    last_timestamp_ms: int | None = None
    """Newest requested timestamp, inclusive."""
    skipped: tuple[SkippedEntry, ...] = ()
    """Entries of the bundle that belong to another cluster."""
    all_partitions_of: MappedPartition | None = None
    """Set when Kafka must return the number of partitions: partition 0 of the topic."""
    window: PartitionWindow = field(default_factory=PartitionWindow)
    shard: Shard = UNSHARDED
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What distinguishes this selection from others, for the checkpoint."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The offsets to read in one partition."""

    partition: MappedPartition
    requested: OffsetRanges
    open_from: int | None = None
    """An absent offset at or above this one is not missed, unless it is in `numbered`."""
    numbered: OffsetRanges | None = None
    """Offsets at or above `open_from` that were requested by number; ``None`` for none."""

    def split_absent(self, first: int, last: int) -> tuple[OffsetRanges, OffsetRanges]:
        """Split the absent offsets `first` to `last` into those requested by number and the others."""
        absent = OffsetRanges([(first, last)])
        if self.open_from is None or last < self.open_from:
            return absent, OffsetRanges()
        by_number = absent.clip(0, self.open_from - 1)
        if self.numbered is not None:
            by_number |= absent & self.numbered
        return by_number, absent - by_number


def select(
    settings: SelectionSettings, bundle: Bundle | None, *, bundle_digest: str = "", shard: Shard = UNSHARDED
) -> Selection:
    """Turn settings into a selection; the first that is set decides: bundle, offsets, time.

    Args:
        settings: what to resend.
        bundle: the content of ``resendFileName``.
        bundle_digest: distinguishes this bundle from others.
        shard: the shard whose share is selected. Shares depend on the request alone, so that all shards agree on them:
            not on progress, nor on Kafka, which may answer each shard differently.

    Raises:
        ConfigurationError: nothing is selected, the selection is contradictory, or a partition is outside the window.
    """
    window = PartitionWindow(settings.window_start, settings.window_count)
    mapping = PartitionMapping.of(window, settings.topic_translations)
    has_times = settings.first_timestamp_ms is not None or settings.last_timestamp_ms is not None
    # The peer's file sets 1970 for "from the beginning"; as a bound it would leave out records without a timestamp.
    first_ms, last_ms = settings.first_timestamp_ms or None, settings.last_timestamp_ms
    if first_ms is not None and last_ms is not None and last_ms < first_ms:
        raise ConfigurationError("The setting to is before from; give a time range whose end is not before its start.")
    identity = {
        "partitionStartValue": window.start,
        "partitionStopValue": window.count,
        "topicTranslations": settings.topic_translations,
        "from": settings.first_timestamp_ms,
        "to": last_ms,
    }
    if shard.count > 1:
        identity["shard"] = str(shard)

    def selection(
        mode: Mode,
        requests: Iterable[PartitionRequest],
        *,
        skipped: tuple[SkippedEntry, ...] = (),
        all_partitions_of: MappedPartition | None = None,
    ) -> Selection:
        mine = requests_of_shard(tuple(requests), shard)
        return Selection(mode, mine, first_ms, last_ms, skipped, all_partitions_of, window, shard, identity)

    if bundle is not None:
        identity |= {"bundle": bundle_digest}
        requests, skipped = _requests_of_bundle(bundle, mapping)
        return selection(Mode.BUNDLE, requests, skipped=skipped)
    topic, partition = mapping.downstream(settings.topic), settings.partition
    first, last = settings.first_offset, settings.last_offset
    identity |= {"topic": topic, "partition": partition}
    if topic is not None and partition is not None and first is not None:
        identity |= {"offsetFrom": first, "offsetTo": last}
        return selection(Mode.OFFSETS, [_request_by_offsets(mapping.partition(topic, partition), first, last)])
    if first is not None or last is not None:
        needed = {"topic": topic, "partition": partition, "offsetFrom": first}
        missing = [name for name, value in needed.items() if value is None]
        raise ConfigurationError(
            f"A resend by offsets needs topic, partition and offsetFrom, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; set them, or remove the offsets."
        )
    # A topic and a partition without any time are the complete partition, because the peer's default "from" is 1970.
    if topic is not None and partition is not None:
        return selection(Mode.TIME, [PartitionRequest(mapping.partition(topic, partition), by_time=True)])
    if topic is not None and has_times:
        first_partition = MappedPartition(topic, window.start, mapping.upstream(topic), 0)
        return selection(Mode.TIME, (), all_partitions_of=first_partition)
    raise ConfigurationError(
        "No events are selected; give a bundle with --resend-file-name, or --topic with --partition and "
        "--offset-from, or --topic with --from or --to."
    )


def upstream_topics(settings: SelectionSettings, bundle: Bundle | None) -> set[str]:
    """Return the Kafka topics that a selection by `settings` and `bundle` reads, over all shards."""
    window = PartitionWindow(settings.window_start, settings.window_count)
    mapping = PartitionMapping.of(window, settings.topic_translations)
    if bundle is not None:
        return {
            mapping.upstream(gaps.topic)
            for gaps in bundle.results
            if window.handles(gaps.partition) and len(gaps.ranges)
        }
    topic = mapping.downstream(settings.topic)
    return set() if topic is None else {mapping.upstream(topic)}


@dataclass(frozen=True, slots=True)
class PartitionMapping:
    """Maps topics and partitions between upstream and downstream."""

    window: PartitionWindow
    upstream_by_downstream: Mapping[str, str]

    @classmethod
    def of(cls, window: PartitionWindow, translations: Mapping[str, str]) -> PartitionMapping:
        """Take the live sender's `translations` of upstream topic to downstream topic."""
        return cls(window, {downstream: upstream for upstream, downstream in translations.items()})

    def upstream(self, topic: str) -> str:
        """Return Kafka's name of a downstream `topic`."""
        return self.upstream_by_downstream.get(topic, topic)

    def downstream(self, topic: str | None) -> str | None:
        """Return the downstream name of a `topic` from the settings, which may give Kafka's name.

        The live sender never sends a translated topic under its own name, so no id with that name could close a gap.
        """
        if topic in self.upstream_by_downstream:
            return topic
        names = (name for name, upstream in self.upstream_by_downstream.items() if upstream == topic)
        return next(names, topic)

    def partition(self, topic: str, partition: int) -> MappedPartition:
        """Map a downstream partition. Raises ConfigurationError when this cluster does not have it."""
        if not self.window.handles(partition):
            raise ConfigurationError(
                f"Downstream partition {partition} is outside the partition window {self.window} of this cluster; give "
                f"the number that events carry downstream, or correct partitionStartValue and partitionStopValue."
            )
        return MappedPartition(topic, partition, self.upstream(topic), self.window.to_upstream(partition))


def _requests_of_bundle(
    bundle: Bundle, mapping: PartitionMapping
) -> tuple[list[PartitionRequest], tuple[SkippedEntry, ...]]:
    """Return a request for each partition with gaps that this cluster handles, and the entries of other clusters."""
    requests, skipped = [], []
    for gaps in bundle.results:
        topic, partition, ranges = gaps.topic, gaps.partition, gaps.ranges
        if not mapping.window.handles(partition):
            skipped.append(SkippedEntry(topic=topic, partition=partition, events=ranges.count))
        elif len(ranges):
            # The peer's "first" means: resend from the first gap to the end, because later gaps are not listed.
            open_from = ranges.first_offset if bundle.kind == "first" else None
            requests.append(PartitionRequest(mapping.partition(topic, partition), ranges, open_from))
        else:
            mapping.partition(topic, partition)  # A wrong window shows here even if nothing is missing.
    return requests, tuple(skipped)


def _request_by_offsets(partition: MappedPartition, first: int, last: int | None) -> PartitionRequest:
    if last is None:
        return PartitionRequest(partition, open_from=first)
    if last < first:
        raise ConfigurationError(
            f"offsetTo {last} is below offsetFrom {first}; give a last offset that is not below the first."
        )
    return PartitionRequest(partition, OffsetRanges([(first, last)]))


def requests_of_all_partitions(selection: Selection, partition_count: int) -> tuple[PartitionRequest, ...]:
    """Return this shard's requests of a time range over a topic with `partition_count` upstream partitions."""
    template = selection.all_partitions_of
    if template is None:
        return selection.requests
    partitions = (
        MappedPartition(template.topic, selection.window.to_downstream(number), template.upstream_topic, number)
        for number in range(partition_count)
    )
    requests = (
        PartitionRequest(partition, by_time=True)
        for partition in partitions
        if selection.window.handles(partition.partition)
    )
    # All have the same weight, so they are assigned in order: a topic that gets partitions while shards start keeps the
    # assignment of those that it had.
    return requests_of_shard(tuple(requests), selection.shard)


def plan_partition(request: PartitionRequest, *, end: int, first_in_time: int | None = None) -> PartitionPlan:
    """Fix which offsets are read.

    Args:
        request: what is requested of the partition.
        end: the offset after the partition's last one at the start of the resend: an open range ends there.
        first_in_time: for a request by time, the earliest offset with a timestamp in the range; `end` if there is none.
    """
    open_from = first_in_time if request.by_time else request.open_from
    if open_from is None:
        return PartitionPlan(request.partition, request.ranges)
    numbered = request.ranges
    if open_from > end:
        # At the end, an open range is empty: nothing was written since. Behind it, the first offset is requested by
        # number like one of a bundle: that Kafka has not written it is an answer, and not "nothing to do".
        numbered |= OffsetRanges([(open_from, open_from)])
    tail = OffsetRanges([(open_from, end - 1)]) if open_from < end else OffsetRanges()
    if not len(numbered):
        return PartitionPlan(request.partition, tail, open_from)
    return PartitionPlan(request.partition, numbered | tail, open_from, numbered)
