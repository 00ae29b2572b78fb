"""``gapless mirror status``: the positions in the control topic of a mirror, compared with the source."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.quantities import quantity
from gapless_api.cli.json_output import print_json
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.lanes.claims import PositionState
from gapless_mirror.lanes.comparisons import Compared, compare_all, compare_not_begun
from gapless_mirror.lanes.control import read_lanes
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.layout import lanes_of
from gapless_mirror.settings.subcommands import SubcommandSettings
from gapless_mirror.settings.typed import cluster_connection

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.records import LostRange, TargetLoss

_HEADINGS = ("TOPIC", "PARTITION", "TARGET", "POSITION", "LAG", "LOST", "STATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The position of a source partition, compared with the source."""

    topic: str
    partition: int
    target: str
    position: int
    """The source offset to copy next."""
    begun: bool
    """Whether the mirror has stored this position; otherwise it will begin there."""
    lag: int | None
    """Offsets that are not copied; ``None`` when the position does not hold, or the source lacks the partition."""
    records: int
    """Copied in total."""
    lost: int
    """Offsets that were skipped by request."""
    lost_ranges: tuple[LostRange, ...] = ()
    copied_again: tuple[TargetLoss, ...] = ()
    """Losses in the target after which the source was copied again by request."""
    state: str = PositionState.HOLDS.value
    """How the position compares with both clusters: Holds, Unknown, or the reason for which copying stops."""
    note: str = ""
    """What is different, and the command that decides."""


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
    partitions = control[identity.control_topic].partitions
    lanes = read_lanes(target, identity.control_topic, range(partitions))
    lanes = {lane: lanes[lane] for lane in range(lanes_of(identity.control_topic, partitions, lanes))}
    unreadable = [
        record.sentence for state in lanes.values() for records in state.unreadable.values() for record in records
    ]
    foreign = [sentence for state in lanes.values() for sentence in state.foreign]
    positions = {each: position for state in lanes.values() for each, position in state.positions.items()}
    compared = compare_not_begun(positions, source, timeout_seconds=timeout)
    for state in lanes.values():
        for unreadable_position in state.unreadable:
            compared.pop(unreadable_position, None)
    compared |= compare_all(positions, source, target, timeout_seconds=timeout)
    statuses = partition_statuses(compared, positions.keys())
    runs = [state.run for state in lanes.values() if state.run is not None]
    last = max(runs, key=lambda run: run.epoch, default=None)
    if options.json:
        engine, epoch = (last.engine, last.epoch) if last is not None else (None, None)
        head: dict[str, Any] = {"name": identity.name, "engine": engine, "epoch": epoch, "lanes": len(lanes)}
        head |= {"unreadable": unreadable, "foreign": foreign}
        print_json(head | {"partitions": [asdict(each) for each in statuses]}, "partitions")
        return _exit_code(statuses, unreadable)
    engine = f"engine {last.engine}, run {last.epoch}" if last is not None else "never run"
    sys.stdout.write(
        f"Mirror {identity.name}: {engine}, {quantity(len(lanes), 'lane')}, {quantity(len(statuses), 'partition')}\n"
    )
    sys.stdout.write(as_table(statuses))
    sys.stdout.writelines(f"{sentence}\n" for sentence in (*unreadable, *foreign))
    return _exit_code(statuses, unreadable)


def _exit_code(statuses: Iterable[PartitionStatus], unreadable: Sequence[str]) -> int:
    """Return 4 when a position does not hold, cannot be read, or nothing is known about it."""
    holds = not unreadable and all(status.state == PositionState.HOLDS.value for status in statuses)
    return ExitCode.DONE if holds else ExitCode.INCOMPLETE


def partition_statuses(
    compared: Mapping[TopicPartition, Compared], begun: Collection[TopicPartition]
) -> list[PartitionStatus]:
    """Return the status of compared positions, sorted by topic and partition; `begun` has those that are stored."""
    statuses = []
    for (topic, partition), (position, comparison, source, _) in sorted(compared.items()):
        holds = comparison.state is PositionState.HOLDS and source is not None
        statuses.append(
            PartitionStatus(
                topic=topic,
                partition=partition,
                target=position.target,
                position=position.next_offset,
                begun=(topic, partition) in begun,
                lag=source.end - position.next_offset if holds and source is not None else None,
                records=position.records,
                lost=position.lost_offsets,
                lost_ranges=position.lost,
                copied_again=position.copied_again,
                state=comparison.state.value,
                note=comparison.sentence,
            )
        )
    return statuses


def as_table(statuses: Sequence[PartitionStatus]) -> str:
    """Format the statuses as a table, followed by the lost ranges."""
    rows = [_HEADINGS]
    for each in statuses:
        lag = "unknown" if each.lag is None else f"{each.lag:,}"
        row = (each.topic, str(each.partition), each.target, f"{each.position:,}", lag, f"{each.lost:,}", each.state)
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    lost = [
        f"Lost: {status.topic}/{status.partition} offsets {lost.first}-{lost.last} ({lost.reason}, {lost.time})"
        for status in statuses
        for lost in status.lost_ranges
    ]
    again = [
        f"Copied again: {status.topic}/{status.partition} from offset {loss.restart:,}, after {loss.copied_to:,} had "
        f"been reached ({loss.reason}, {loss.time})"
        for status in statuses
        for loss in status.copied_again
    ]
    notes = [f"{status.state}: {status.note}" for status in statuses if status.note]
    return "".join(f"{line}\n" for line in (*lines, *lost, *again, *notes))
