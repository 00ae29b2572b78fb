"""Owns ``gapless mirror status``: the positions in the control topic of a mirror, compared with the source."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.mirror.lanes.identity import MirrorIdentity
from gapless_kafka.mirror.lanes.progress import lost_offsets
from gapless_kafka.mirror.settings.subcommands import SubcommandSettings
from gapless_kafka.mirror.settings.typed import cluster_connection
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import existing_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_api.base.settings import Resolved
    from gapless_kafka.mirror.lanes.control import LaneState
    from gapless_kafka.mirror.lanes.records import LostRange
    from gapless_kafka.reading.cuts import TopicCut

_HEADINGS = ("TOPIC", "PARTITION", "TARGET", "POSITION", "LAG", "LOST", "NOTE")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The position of a source partition, compared with the source."""

    topic: str
    partition: int
    target: str
    position: int
    """The source offset to copy next."""
    lag: int | None
    """Offsets that are not copied; ``None`` when the source does not have the partition."""
    records: int
    """Copied in total."""
    lost: int
    """Offsets that were skipped by request."""
    lost_ranges: tuple[LostRange, ...] = ()
    note: str = ""


def run(settings: Resolved) -> int:
    """Print the status, and return the exit code.

    Raises:
        GaplessError: a cluster does not answer, or there is no such mirror.
    """
    values, options = settings.values, SubcommandSettings.of(settings.values)
    identity, timeout = MirrorIdentity(options.name), options.connect_timeout_seconds
    source, target = cluster_connection(values, "source"), cluster_connection(values, "target")
    control = TargetTopics(target, timeout_seconds=timeout).describe([identity.control_topic])
    if not control:
        raise ConfigurationError(
            f"Kafka at {target.bootstrap_servers} has no mirror {identity.name} (there is no topic "
            f"{identity.control_topic}); correct name or targetBootstrapServers."
        )
    lanes = read_lanes(target, identity.control_topic, range(control[identity.control_topic].partitions))
    topics = {topic for state in lanes.values() for topic, _ in state.positions}
    present = sorted(topics & set(existing_topics(source, timeout_seconds=timeout)))
    cut = read_cut(source, present, timeout_seconds=timeout).topics if present else ()
    statuses = partition_statuses(lanes.values(), {topic.topic: topic for topic in cut})
    runs = [state.run for state in lanes.values() if state.run is not None]
    last = max(runs, key=lambda run: run.epoch, default=None)
    if options.json:
        engine, epoch = (last.engine, last.epoch) if last is not None else (None, None)
        head = {"name": identity.name, "engine": engine, "epoch": epoch, "lanes": len(lanes)}
        sys.stdout.write(json.dumps(head | {"partitions": [asdict(each) for each in statuses]}, indent=2) + "\n")
        return 0
    engine = f"engine {last.engine}, run {last.epoch}" if last is not None else "never run"
    sys.stdout.write(f"Mirror {identity.name}: {engine}, {len(lanes)} lanes, {len(statuses)} partitions\n")
    sys.stdout.write(as_table(statuses))
    return 0


def partition_statuses(lanes: Iterable[LaneState], cuts: Mapping[str, TopicCut]) -> list[PartitionStatus]:
    """Compare positions with the offsets of the source, sorted by topic and partition."""
    statuses = []
    positions = {topic_partition: position for state in lanes for topic_partition, position in state.positions.items()}
    for (topic, partition), position in sorted(positions.items()):
        cut = cuts.get(topic)
        lag, note = None, "not in the source"
        if cut is not None and partition < len(cut.end_offsets):
            lag, note = max(cut.end_offsets[partition] - position.next_offset, 0), ""
            if cut.id and position.source_id and cut.id != position.source_id:
                lag, note = None, "the source topic was recreated"
            elif cut.first_offsets[partition] > position.next_offset:
                note = "the source has deleted records that are not copied"
        statuses.append(
            PartitionStatus(
                topic=topic,
                partition=partition,
                target=position.target,
                position=position.next_offset,
                lag=lag,
                records=position.records,
                lost=lost_offsets(position),
                lost_ranges=position.lost,
                note=note,
            )
        )
    return statuses


def as_table(statuses: Sequence[PartitionStatus]) -> str:
    """Format the statuses as a table, followed by the lost ranges."""
    rows = [_HEADINGS]
    for each in statuses:
        lag = "unknown" if each.lag is None else f"{each.lag:,}"
        row = (each.topic, str(each.partition), each.target, f"{each.position:,}", lag, f"{each.lost:,}", each.note)
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    lost = [
        f"Lost: {status.topic}/{status.partition} offsets {lost.first}-{lost.last} ({lost.reason}, {lost.time})"
        for status in statuses
        for lost in status.lost_ranges
    ]
    return "".join(f"{line}\n" for line in (*lines, *lost))
