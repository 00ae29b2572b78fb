"""Positions of consumer groups: read from a file, translated by the offset map, and committed at the target."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, TopicPartition, unpadded_decimal
from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.topics.group_position import publish_position
from gapless_kafka.writing.offset_map import OffsetMap, Reach, target_position

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.target_topics import TargetTopics
    from gapless_kafka.writing.control_topic import ControlState, ControlTopic
    from gapless_spark.archiving.restore.works import TopicRestore

_COLUMNS = 4


class GroupOffset(NamedTuple):
    """The position of a consumer group in the archived topic."""

    group: str
    topic: str
    partition: int
    offset: int


def read_group_offsets(file: Path, group: str | None) -> list[GroupOffset]:
    """Read lines of topic,partition,offset, after the name of the group unless `group` gives it.

    Raises:
        ConfigurationError: the file cannot be read, or a line is invalid.
    """
    try:
        text = read_small(file).decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            f"The file {file} of groupOffsets cannot be read ({error.strerror}); give the path of a readable file."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"The file {file} of groupOffsets is not UTF-8 text; save it as UTF-8.") from None
    offsets = []
    for number, line in enumerate(csv.reader(text.splitlines(), skipinitialspace=True), start=1):
        if not line:
            continue
        owner, topic, *numbers = line if len(line) == _COLUMNS else [group or "", *line]
        partition = unpadded_decimal(numbers[0], MAX_PARTITION) if len(numbers) == 2 else None
        offset = unpadded_decimal(numbers[1], MAX_OFFSET) if len(numbers) == 2 else None
        if partition is None or offset is None or not topic:
            raise ConfigurationError(
                f"Line {number} of {file} is not topic,partition,offset or group,topic,partition,offset; export the "
                f"positions with kafka-consumer-groups.sh --reset-offsets --to-current --export --dry-run."
            )
        if not owner:
            raise ConfigurationError(f"Line {number} of {file} names no consumer group; give it with --group-name.")
        offsets.append(GroupOffset(owner, topic, partition, offset))
    return offsets


def translate(
    offsets: Sequence[GroupOffset],
    restores: Sequence[TopicRestore],
    state: ControlState,
    maps: Mapping[tuple[str, int], OffsetMap],
    topics: TargetTopics,
) -> dict[str, dict[TopicPartition, int]]:
    """Return the positions in the target, by group.

    Args:
        offsets: positions in archived topics.
        restores: the restored topics.
        state: the positions of the restore.
        maps: from source to target offsets, by work and source partition.
        topics: of the target.

    Raises:
        ConfigurationError: a position is outside of the restored offsets, or two positions have the same target.
    """
    translated: dict[str, dict[TopicPartition, int]] = {}
    for source in offsets:
        restore = _restore_of(source, restores)
        position = state.position(restore.work, str(restore.source), source.partition)
        _check_reach(source, restore, position.ranges if position is not None else OffsetRanges())
        target_partition = restore.target_partition(source.partition)
        end = partial(topics.end_offset, restore.target, target_partition, committed=True)
        offset = target_position(source.offset, maps.get((restore.work, source.partition)), end)
        _add_once(translated, source.group, (restore.target, target_partition), offset)
    return translated


def check_group_offsets(
    offsets: Sequence[GroupOffset],
    restores: Sequence[TopicRestore],
    has_members: Mapping[str, bool],
    *,
    skips_lost: bool,
) -> None:
    """Check before the first record that all positions can be committed after the restore.

    Args:
        offsets: positions in archived topics.
        restores: the topics, with their plans.
        has_members: the groups of the target.
        skips_lost: whether lost offsets are skipped.

    Raises:
        ConfigurationError: a position is outside of the offsets that are restored, two positions have the same target,
            or a group has members.
    """
    planned: dict[str, dict[TopicPartition, int]] = {}
    for source in offsets:
        restore = _restore_of(source, restores)
        position = restore.positions.get(source.partition)
        done = position.ranges if position is not None else OffsetRanges()
        for plan in restore.plans:
            if plan.partition == source.partition:
                done |= plan.ranges | plan.unexplained if skips_lost else plan.ranges
        _check_reach(source, restore, done)
        _add_once(planned, source.group, (restore.target, restore.target_partition(source.partition)), source.offset)
        if has_members.get(source.group):
            raise ConfigurationError(
                f"The consumer group {source.group} has members at the target, so its positions cannot be committed; "
                f"stop its consumers and run again."
            )


def _restore_of(source: GroupOffset, restores: Sequence[TopicRestore]) -> TopicRestore:
    matching = [restore for restore in restores if restore.source.topic == source.topic]
    if len(matching) != 1:
        reason = "several restored sources have this name" if matching else "this restore does not contain the topic"
        raise ConfigurationError(
            f"The position of group {source.group} in {source.topic}/{source.partition} cannot be translated: "
            f"{reason}. Correct the file of groupOffsets."
        )
    return matching[0]


def _check_reach(source: GroupOffset, restore: TopicRestore, done: OffsetRanges) -> None:
    """Check that a position is within the offsets that are `done`; a partition without any has only its end."""
    end = restore.empty_partition_end(source.partition)
    reach = Reach(done.first_offset, done.last_offset + 1) if done else None
    if reach is None and end is not None:
        reach = Reach(end, end)
    if reach is None or not reach.holds(source.offset):
        shown = f"{reach.first}-{reach.next_offset - 1}" if reach is not None and done else "none"
        raise ConfigurationError(
            f"Group {source.group} continues at offset {source.offset} of {source.topic}/{source.partition}, "
            f"which is outside of the restored offsets ({shown}); also restore that offset, or correct "
            f"the file of groupOffsets."
        )


def _add_once(positions: dict[str, dict[TopicPartition, int]], group: str, target: TopicPartition, offset: int) -> None:
    of_group = positions.setdefault(group, {})
    if target in of_group:
        raise ConfigurationError(
            f"Group {group} would have two positions in {target[0]}/{target[1]}, from several source partitions; keep "
            f"only one of them in the file of groupOffsets."
        )
    of_group[target] = offset


def commit_group_offsets(  # noqa: PLR0913, PLR0917 -- source and target
    offsets: Sequence[GroupOffset],
    restores: Sequence[TopicRestore],
    control: ControlTopic,
    topics: TargetTopics,
    connection: KafkaConnection,
    timeout_seconds: float,
) -> int:
    """Translate positions, commit them at the target, and return their number.

    Raises:
        GaplessError: a position cannot be translated (then none is committed), or Kafka refuses one.
    """
    maps = control.offset_maps({restore.work for restore in restores})
    translated = translate(offsets, restores, control.state(), maps, topics)
    for group, positions in sorted(translated.items()):
        publish_position(connection, group, positions, timeout_seconds=timeout_seconds)
    return sum(len(positions) for positions in translated.values())
