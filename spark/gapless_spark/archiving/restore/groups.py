"""Owns positions of consumer groups: read from a file, translated by the offset map, and committed at the target."""

from __future__ import annotations

import csv
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, unpadded_decimal
from gapless_kafka.topics.group_position import publish_position
from gapless_kafka.writing.offset_map import OffsetMap, Reach, target_position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gapless_api.offsets.ids import TopicPartition
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
        matching = [restore for restore in restores if restore.source.topic == source.topic]
        if len(matching) != 1:
            reason = (
                "several restored sources have this name" if matching else "this restore does not contain the topic"
            )
            raise ConfigurationError(
                f"The position of group {source.group} in {source.topic}/{source.partition} cannot be translated: "
                f"{reason}. Correct the file of groupOffsets."
            )
        restore = matching[0]
        position = state.position(restore.work, str(restore.source), source.partition)
        reach = Reach(position.done[0].first, position.next_offset) if position is not None and position.done else None
        if position is None or reach is None or not reach.holds(source.offset):
            done = f"{reach.first}-{reach.next_offset - 1}" if reach is not None else ""
            raise ConfigurationError(
                f"Group {source.group} continues at offset {source.offset} of {source.topic}/{source.partition}, "
                f"which is outside of the restored offsets ({done or 'none'}); also restore that offset, or correct "
                f"the file of groupOffsets."
            )
        end = partial(topics.end_offset, restore.target, position.target_partition, committed=True)
        target = target_position(source.offset, maps.get((restore.work, source.partition)), end)
        target_partition = (restore.target, position.target_partition)
        if target_partition in translated.setdefault(source.group, {}):
            raise ConfigurationError(
                f"Group {source.group} would have two positions in {restore.target}/{position.target_partition}, from "
                f"several source partitions; keep only one of them in the file of groupOffsets."
            )
        translated[source.group][target_partition] = target
    return translated


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
