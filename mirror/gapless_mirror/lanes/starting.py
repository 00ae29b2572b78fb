"""Where a partition starts that has no position, although its target has records: only where the user decides.

A position is missing when the control topic was deleted, or when its record cannot be read. It is not a new mirror
then: copying from the beginning would write everything twice. A position that is older than the copies is no better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.errors import SourceStalledError
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.looking import look_at_records
from gapless_mirror.lanes.observations import Stop
from gapless_mirror.lanes.outdated import POSITION_OUTDATED, outdated_positions
from gapless_mirror.lanes.provenance import chain_of
from gapless_mirror.lanes.records import LanePosition
from gapless_mirror.lanes.setup import LaneSetup, OnMissingPosition
from gapless_mirror.lanes.stored import POSITION_UNREADABLE
from gapless_mirror.lanes.target_tail import TailNotFoundError, position_at_target

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.control import LaneState
    from gapless_mirror.lanes.reader import Batch
    from gapless_mirror.lanes.sources import SourceTopic

POSITION_MISSING = "PositionMissing"
"""The reason for which a partition stops that has no position, although its target has records."""
log = structlog.get_logger("mirror")
Start = LanePosition | Stop


def decide_starts(
    partitions: Mapping[TopicPartition, SourceTopic], state: LaneState, setup: LaneSetup, pulse: Callable[[], None]
) -> dict[TopicPartition, Start]:
    """Return where partitions start, or why they do not; nothing for those that start as in a new mirror.

    Args:
        partitions: the source partitions without a position, and their topics.
        state: of the lane.
        setup: what all lanes have in common.
        pulse: called while waiting for Kafka.

    Raises:
        SourceStalledError: the target does not answer.
        KafkaException: the target rejects a request.
    """
    starts: dict[TopicPartition, Start] = {}
    is_undecided = setup.on_missing_position is OnMissingPosition.FAIL
    for topic_partition in partitions.keys() & state.unreadable.keys():
        if is_undecided:
            message = state.unreadable[topic_partition][0].sentence
            starts[topic_partition] = Stop(reason=POSITION_UNREADABLE, message=message)
    candidates = {
        (topic.target, number): topic
        for (name, number), topic in partitions.items()
        if (name, number) not in starts
        and name != HEARTBEAT_TOPIC
        and number not in topic.group_offsets
        and topic.copy is not None
        and number < len(topic.copy.end_offsets)
        and topic.copy.first_offsets[number] < topic.copy.end_offsets[number]
    }
    if not candidates or setup.on_missing_position is OnMissingPosition.COPY_AGAIN:
        return starts
    for target, number in _with_records(candidates, setup, pulse):
        topic = candidates[target, number]
        starts[topic.name, number] = _start(topic, number, setup)
    return starts


def decide_outdated(
    positions: Mapping[TopicPartition, tuple[SourceTopic, LanePosition]], setup: LaneSetup, pulse: Callable[[], None]
) -> dict[TopicPartition, Start]:
    """Return where partitions start whose positions are older than the copies in the target, or why they do not.

    Raises like `outdated_positions`.

    Args:
        positions: as committed, with the topics as both clusters have them now.
        setup: what all lanes have in common.
        pulse: called while waiting for Kafka.
    """
    starts: dict[TopicPartition, Start] = {}
    outdated = outdated_positions(positions, setup, pulse)
    for name, number in sorted(outdated.certain | outdated.unknown):
        topic, position = positions[name, number]
        if setup.on_missing_position is OnMissingPosition.COPY_AGAIN:
            log.warning("copying again", topic=name, partition=number, reason=POSITION_OUTDATED)
        elif (name, number) in outdated.unknown:
            starts[name, number] = Stop(reason=POSITION_OUTDATED, message=_uncertain(position, number, topic))
        else:
            starts[name, number] = _start(topic, number, setup, position)
    return starts


def _with_records(
    candidates: Mapping[TopicPartition, SourceTopic], setup: LaneSetup, pulse: Callable[[], None]
) -> list[TopicPartition]:
    """Return the target partitions that have committed records, or may have copies; a log may consist of aborted ones.

    A mirror that marks its copies, because another one copies back, only has copies where there are marked records.
    """
    found: list[TopicPartition] = []

    def is_enough(batch: Batch) -> bool:
        is_found = _may_be_copies(batch, candidates[batch.topic_partition].name, setup)
        found.extend([batch.topic_partition] if is_found else ())
        return is_found

    starts = {each: _first(topic, each[1]) for each, topic in candidates.items()}
    looked = look_at_records(setup.target, starts, is_enough, pulse)
    if any(not setup.provenance.adds(candidates[each].name) for each in looked.unread):
        raise SourceStalledError(
            f"Kafka at {setup.target.bootstrap_servers} did not answer which target topics have records."
        )
    # What was not found out is for the user to decide: in time, or because a batch cannot be read.
    return sorted({*found, *looked.unread, *looked.damaged})


def _may_be_copies(batch: Batch, topic: str, setup: LaneSetup) -> bool:
    if not setup.provenance.adds(topic):
        return True
    own = setup.provenance.source_id
    return any(own in chain_of(headers) for message in batch.messages if (headers := message.headers()))


def _first(topic: SourceTopic, number: int) -> int:
    return 0 if topic.copy is None else topic.copy.first_offsets[number]


def _start(topic: SourceTopic, number: int, setup: LaneSetup, outdated: LanePosition | None = None) -> Start:
    """Return where a partition starts that has no position, or only an outdated one, or why it does not."""
    problem = ""
    if setup.on_missing_position is OnMissingPosition.START_AT_TARGET:
        try:
            found = position_at_target(topic, number, setup)
        except TailNotFoundError as error:
            problem = f" ({error})"
        else:
            log.warning("position found at the target", topic=topic.name, partition=number, next=found.next_offset)
            return found
    if outdated is None:
        return Stop(reason=POSITION_MISSING, message=_missing(topic, number, setup, problem))
    return Stop(reason=POSITION_OUTDATED, message=_outdated(outdated, number, topic, setup, problem))


def _missing(topic: SourceTopic, number: int, setup: LaneSetup, problem: str) -> str:
    name = f"{topic.name}/{number}"
    return (
        f"The mirror {setup.identity.name} has no position of {name}, although the target {topic.target}/{number} "
        f"has records{problem}: copying {name} from its beginning would write them again. If the control topic "
        f"{setup.identity.control_topic} was deleted or recreated, start the mirror with --start-at-target, which "
        f"finds the position by the last records of the target, or with --start-at-group=GROUP; if the records are "
        f"others, or may be there twice, with --copy-again."
    )


def _outdated(position: LanePosition, number: int, topic: SourceTopic, setup: LaneSetup, problem: str) -> str:
    name, control = f"{topic.name}/{number}", setup.identity.control_topic
    return (
        f"The position of {name} is older than its copies: it says that {name} was copied up to source offset "
        f"{position.next_offset:,}, and behind the offset {position.target_end or 0:,} of {topic.target}/{number} are "
        f"copies of the records that follow{problem}. The control topic {control} has lost records, or another "
        f"program has written to it. Start the mirror with --start-at-target, which finds the position by the last "
        f"records of the target, or with --copy-again, which writes these copies again."
    )


def _uncertain(position: LanePosition, number: int, topic: SourceTopic) -> str:
    return (
        f"Whether the position of {topic.name}/{number} is older than its copies is not known: the target "
        f"{topic.target}/{number} has records behind the offset {position.target_end or 0:,}, and a batch of them "
        f"cannot be read, because its log is damaged. Repair the disk of the target; or start the mirror with "
        f"--copy-again, which copies from the position on, if these records are not copies."
    )
