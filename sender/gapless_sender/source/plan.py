"""Owns what is to be resent: from settings and bundle to the wanted offsets of each partition; pure.

Must not know how Kafka is asked, how events travel, or how far a resend has come.

There are two steps, because the second needs answers of Kafka: a `Selection` says what the user asks for, and with the
offsets at which a partition begins and ends each `Wish` of it becomes a `PartitionPlan`.

Topics and partitions of bundles and settings are the downstream side's names (as ids carry them); Kafka is read under
the upstream names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.offsets.windows import PartitionWindow
from gapless_sender.base.sharding import UNSHARDED, Shard
from gapless_sender.source.shares import wishes_of_shard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.bundle.form import Bundle
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.settings.selection import SelectionSettings


class Mode(StrEnum):
    """How the user chose the events."""

    BUNDLE = "bundle"
    OFFSETS = "offsets"
    TIME = "time"


class Reason(StrEnum):
    """Why a wanted event cannot be sent."""

    EXPIRED = "Expired"
    """Below the partition's first offset: retention or DeleteRecords took it."""
    NON_EXISTENT = "NonExistent"
    """Kafka stepped over it although later offsets exist: compacted, or a transaction marker."""
    NOT_YET_WRITTEN = "NotYetWritten"
    """At or beyond the partition's end; it may still come."""
    TOO_LARGE = "TooLarge"
    """It needs more datagrams than the receiver joins."""
    ARCHIVE_DAMAGED = "ArchiveDamaged"
    """Below the partition's first offset, and the segment of the archive that had it is missing or damaged."""


RETRIABLE = (Reason.EXPIRED, Reason.ARCHIVE_DAMAGED)
"""Reasons that an archive may remove later."""


FILTERED, FILLED, OUTSIDE, NOT_ASKED_FOR = "filtered", "filled", "outsideTimeRange", "notAskedFor"
"""What else than being sent, or a `Reason`, can become of a wanted offset, as the checkpoint and the report name it.

``outsideTimeRange`` and ``notAskedFor`` (holes of an open end) are looked at and do not belong to the plan.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """One partition under both its names."""

    topic: str
    """As ids and bundles name it."""
    partition: int
    """As ids and bundles number it."""
    upstream_topic: str
    upstream_partition: int

    @property
    def upstream(self) -> TopicPartition:
        """As Kafka names it."""
        return self.upstream_topic, self.upstream_partition

    def __str__(self) -> str:
        shown = f"{self.topic}/{self.partition}"
        if (self.topic, self.partition) == (self.upstream_topic, self.upstream_partition):
            return shown
        return f"{shown} (upstream {self.upstream_topic}/{self.upstream_partition})"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of one partition before Kafka was asked."""

    place: Place
    ranges: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets wanted by number: one that does not exist is unavailable."""
    open_from: int | None = None
    """All that exists from this offset to the partition's end is wanted too."""
    by_time: bool = False
    """All that exists from the selection's first timestamp to the partition's end is wanted (and then looked at)."""

    @property
    def key(self) -> TopicPartition:
        """Topic and partition as the downstream side names them."""
        return self.place.topic, self.place.partition


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry of a bundle that is another cluster's."""

    topic: str
    partition: int
    events: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user asks for."""

    mode: Mode
    wishes: tuple[Wish, ...]
    """Those of this shard."""
    first_timestamp_ms: int | None = None
    """Oldest wanted timestamp, inclusive."""
    last_timestamp_ms: int | None = None
    """Newest wanted timestamp, inclusive."""
    skipped: tuple[Skipped, ...] = ()
    all_partitions_of: Place | None = None
    """Set when Kafka must say which partitions there are: partition 0 of the topic, upstream and downstream."""
    window: PartitionWindow = field(default_factory=PartitionWindow)
    shard: Shard = UNSHARDED
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What makes this selection this one, in words and numbers, for the checkpoint."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The offsets to walk through in one partition."""

    place: Place
    wanted: OffsetRanges
    open_from: int | None = None
    """At and above this offset, what does not exist was not asked for by number and is not missed.

    Offsets of `numbered` are the exception.
    """
    numbered: OffsetRanges | None = None
    """Offsets above `open_from` that were asked for by number; ``None`` for none."""

    def missed(self, first: int, last: int) -> tuple[OffsetRanges, OffsetRanges]:
        """Of the wanted offsets `first` to `last` that do not exist: those asked for by number, and the others."""
        gone = OffsetRanges([(first, last)])
        if self.open_from is None or last < self.open_from:
            return gone, OffsetRanges()
        asked = gone.clip(0, self.open_from - 1)
        if self.numbered is not None:
            asked |= gone & self.numbered
        return asked, gone - asked


def select(
    chosen: SelectionSettings, bundle: Bundle | None, *, bundle_digest: str = "", shard: Shard = UNSHARDED
) -> Selection:
    """Turn settings into a selection; the first that is given decides: bundle, offsets, time.

    Args:
        chosen: the settings of what to resend.
        bundle: the content of ``resendFileName``.
        bundle_digest: what tells this bundle from another.
        shard: whose share the selection shall be. Shares follow from what is wanted alone, so that all shards agree on
            them: not from what was done before, nor from Kafka, which may answer each shard differently.

    Raises:
        ConfigurationError: nothing is chosen, the choice is contradictory, or a partition maps below zero.
    """
    window = PartitionWindow(chosen.window_start, chosen.window_count)
    names = Names.of(window, chosen.topic_translations)
    first_ms, last_ms = chosen.first_timestamp_ms, chosen.last_timestamp_ms
    if first_ms is not None and last_ms is not None and last_ms < first_ms:
        raise ConfigurationError("The setting to is before from; give a time range whose end is not before its start.")
    identity = {
        "partitionStartValue": window.start,
        "partitionStopValue": window.count,
        "topicTranslations": chosen.topic_translations,
        "from": first_ms,
        "to": last_ms,
    }
    if shard.count > 1:
        identity["shard"] = str(shard)
    if bundle is not None:
        wishes, skipped = _of_bundle(bundle, names)
        identity |= {"bundle": bundle_digest}
        return Selection(
            Mode.BUNDLE,
            wishes_of_shard(wishes, shard),
            first_ms,
            last_ms,
            skipped,
            window=window,
            shard=shard,
            identity=identity,
        )
    topic, partition = names.wire(chosen.topic), chosen.partition
    first, last = chosen.first_offset, chosen.last_offset
    identity |= {"topic": topic, "partition": partition}
    if topic is not None and partition is not None and first is not None:
        wish = _of_offsets(names, topic, partition, first, last)
        identity |= {"offsetFrom": first, "offsetTo": last}
        mine = wishes_of_shard(wish, shard)
        return Selection(Mode.OFFSETS, mine, first_ms, last_ms, window=window, shard=shard, identity=identity)
    if first is not None or last is not None:
        needed = {"topic": topic, "partition": partition, "offsetFrom": first}
        missing = [name for name, value in needed.items() if value is None]
        raise ConfigurationError(
            f"A resend by offsets needs topic, partition and offsetFrom, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; give them, or delete the offsets."
        )
    # A topic and a partition without any time are the whole partition, because the peer's default "from" is 1970.
    if topic is not None and not first_ms is last_ms is partition is None:
        if partition is None:
            every = Place(topic, window.start, names.upstream(topic), 0)
            return Selection(
                Mode.TIME, (), first_ms, last_ms, all_partitions_of=every, window=window, shard=shard, identity=identity
            )
        mine = wishes_of_shard((Wish(names.place(topic, partition), by_time=True),), shard)
        return Selection(Mode.TIME, mine, first_ms, last_ms, window=window, shard=shard, identity=identity)
    raise ConfigurationError(
        "Nothing is chosen to be resent; give a bundle with --resend-file-name, or --topic with --partition and "
        "--offset-from, or --topic with --from or --to."
    )


def upstream_topics(chosen: SelectionSettings, bundle: Bundle | None) -> set[str]:
    """The topics of Kafka that a selection by `chosen` and `bundle` reads, whichever shard does."""
    window = PartitionWindow(chosen.window_start, chosen.window_count)
    names = Names.of(window, chosen.topic_translations)
    if bundle is not None:
        return {
            names.upstream(gaps.topic) for gaps in bundle.results if window.handles(gaps.partition) and len(gaps.ranges)
        }
    topic = names.wire(chosen.topic)
    return set() if topic is None else {names.upstream(topic)}


@dataclass(frozen=True, slots=True)
class Names:
    """What topics and partitions are called on both sides."""

    window: PartitionWindow
    upstream_by_wire: Mapping[str, str]

    @classmethod
    def of(cls, window: PartitionWindow, translations: Mapping[str, str]) -> Names:
        """Take the live sender's `translations` of upstream topic to topic on the wire."""
        return cls(window, {wire: upstream for upstream, wire in translations.items()})

    def upstream(self, topic: str) -> str:
        """Kafka's name of a topic that ids call `topic`."""
        return self.upstream_by_wire.get(topic, topic)

    def wire(self, topic: str | None) -> str | None:
        """The name that ids carry of a `topic` from the settings, which is Kafka's name in the live sender's file.

        The live sender never sends a translated topic under its own name, so no id with that name could close a gap.
        """
        if topic in self.upstream_by_wire:
            return topic
        return next((wire for wire, upstream in self.upstream_by_wire.items() if upstream == topic), topic)

    def place(self, topic: str, partition: int) -> Place:
        """The partition that ids call so. Raises ConfigurationError when it is none of this cluster's."""
        if not self.window.handles(partition):
            raise ConfigurationError(
                f"Downstream partition {partition} is outside the partition window {self.window} of this cluster; give "
                f"the number that events carry downstream, or correct partitionStartValue and partitionStopValue."
            )
        return Place(topic, partition, self.upstream(topic), self.window.to_upstream(partition))


def _of_bundle(bundle: Bundle, names: Names) -> tuple[tuple[Wish, ...], tuple[Skipped, ...]]:
    """One wish for each partition of the bundle that this cluster handles and that misses anything."""
    wishes, skipped = [], []
    for gaps in bundle.results:
        topic, partition, ranges = gaps.topic, gaps.partition, gaps.ranges
        if not names.window.handles(partition):
            skipped.append(Skipped(topic, partition, ranges.count))
        elif len(ranges):
            # The peer's "first" means: resend from the first gap to the end, because later gaps are not listed.
            open_from = ranges.first_offset if bundle.kind == "first" else None
            wishes.append(Wish(names.place(topic, partition), ranges, open_from))
        else:
            names.place(topic, partition)  # A wrong window shows here even if nothing is missing.
    return tuple(wishes), tuple(skipped)


def _of_offsets(names: Names, topic: str, partition: int, first: int, last: int | None) -> tuple[Wish, ...]:
    if last is not None and last < first:
        raise ConfigurationError(
            f"offsetTo {last} is below offsetFrom {first}; give a last offset that is not below the first."
        )
    place = names.place(topic, partition)
    return (Wish(place, open_from=first) if last is None else Wish(place, OffsetRanges([(first, last)])),)


def wishes_of_all(selection: Selection, partition_count: int) -> tuple[Wish, ...]:
    """This shard's wishes of a time range over a whole topic, which has `partition_count` partitions upstream."""
    every = selection.all_partitions_of
    if every is None:
        return selection.wishes
    places = (
        Place(every.topic, selection.window.to_downstream(number), every.upstream_topic, number)
        for number in range(partition_count)
    )
    every_wish = (Wish(place, by_time=True) for place in places if selection.window.handles(place.partition))
    # All weigh the same, so shares go round in the order of partitions: a topic that grows while shards start changes
    # nothing for the partitions that it had.
    return wishes_of_shard(tuple(every_wish), selection.shard)


def plan_partition(wish: Wish, *, end: int, first_in_time: int | None = None) -> PartitionPlan:
    """Fix which offsets are walked through.

    Args:
        wish: what is wanted.
        end: the offset after the partition's last one, at the start of the resend: what is written later is not
            wanted by an open end.
        first_in_time: for a wish by time, the earliest offset whose timestamp is in the range; `end` if there is none.
    """
    open_from = first_in_time if wish.by_time else wish.open_from
    if open_from is None:
        return PartitionPlan(wish.place, wish.ranges)
    rest = OffsetRanges([(open_from, end - 1)]) if open_from < end else OffsetRanges()
    if not len(wish.ranges):
        return PartitionPlan(wish.place, rest, open_from)
    return PartitionPlan(wish.place, wish.ranges | rest, open_from, wish.ranges)
