"""Owns what a lane does about partitions that it cannot read on: it finds out why, and stops them or skips the loss."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaException

from gapless_api.codec.canonical import moment_text
from gapless_kafka.access.errors import fault_of, reason_in
from gapless_kafka.mirror.lanes.losses import RECREATED, Loss, recreated, unreadable
from gapless_kafka.mirror.lanes.observations import SeenError
from gapless_kafka.mirror.lanes.records import LostRange
from gapless_kafka.mirror.lanes.setup import OnDataLoss

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.progress import PartitionProgress
    from gapless_kafka.mirror.lanes.reader import Reader
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceTopic

_AGAIN_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_EXPIRED = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
log = structlog.get_logger("mirror")


class Recovery:
    """The partitions of a lane that cannot be read on."""

    def __init__(self, setup: LaneSetup) -> None:
        self._setup = setup
        self._reader: Reader
        self._look_at: dict[TopicPartition, float] = {}
        """When to look at the logs of partitions."""

    def begin(self, reader: Reader) -> None:
        """Continue with a new reader."""
        self._reader = reader
        self._look_at.clear()

    def look_at(self, place: TopicPartition) -> None:
        """Read a partition on once its log is known to hold the position."""
        self._look_at.setdefault(place, 0.0)

    def note(self, one: PartitionProgress, error: KafkaError) -> None:
        """Take note of an error of a partition."""
        if error.name() in _EXPIRED:
            self.look_at(one.place)
            return
        fault = fault_of(error.name())
        message = str(fault.error(self._setup.source.bootstrap_servers, f"the topic {one.place[0]}"))
        message = f"{message} ({reason_in(error.str())})"
        one.error = SeenError(message=message, name=error.name(), seen_at=time.monotonic())

    def resume(self, partitions: Mapping[TopicPartition, PartitionProgress]) -> bool:
        """Look at the logs of partitions that cannot be read on; whether a loss was skipped."""
        now, skipped = time.monotonic(), False
        for place in [place for place, at in self._look_at.items() if at <= now]:
            one = partitions.get(place)
            if one is None:
                del self._look_at[place]
                continue
            try:
                low, high = self._reader.log_range(place, timeout_seconds=_ANSWER_SECONDS)
            except KafkaException as error:
                self._look_at[place] = now + _AGAIN_SECONDS
                self.note(one, error.args[0])
                continue
            del self._look_at[place]
            skipped |= self._continue_after(one, low, high)
        return skipped

    def follow_recreated(self, one: PartitionProgress, topic: SourceTopic) -> bool:
        """Follow a topic that was deleted and recreated, if that is what the user decided; whether it is followed."""
        if one.stop is not None and one.stop.reason != RECREATED:
            return False
        self._reader.drop([one.place])
        one.take_back()  # what was decided when its log ended too early
        ids = (one.position.source_id, topic.id)
        name, partition = one.place
        first = topic.first_offsets[partition]
        # The end that the reader saw last may be that of the new topic.
        loss = recreated(f"{name}/{partition}", one.position.next_offset, one.known_end, ids, first)
        if not self._skip(one, loss):
            return False
        one.position = replace(one.position, source_id=topic.id, start=first)
        one.forget_map()
        one.end_seen = None
        one.copy_until = topic.end_offsets[partition] if self._setup.once else None
        self._reader.add({one.place: one.next_offset})
        return True

    def _continue_after(self, one: PartitionProgress, low: int, high: int) -> bool:
        loss = None
        begins = one.is_new and not one.continues
        if begins and one.next_offset == one.position.start and low > one.next_offset:
            # Nothing was promised yet: records that expire before copying begins are no loss.
            one.position = replace(one.position, start=low, next_offset=low)
            one.next_offset = low
        else:
            loss = unreadable(f"{one.place[0]}/{one.place[1]}", one.next_offset, low, high)
            if loss is not None and not self._skip(one, loss):
                return False
        self._reader.add({one.place: one.next_offset})
        return loss is not None

    def _skip(self, one: PartitionProgress, loss: Loss) -> bool:
        """Continue behind a loss if that is what the user decided; otherwise stop the partition."""
        about = {"topic": one.place[0], "partition": one.place[1], "reason": loss.stop.reason}
        if self._setup.on_data_loss is OnDataLoss.FAIL:
            if one.stop != loss.stop:
                log.warning("partition stopped", **about, message=loss.stop.message)
            one.stop = loss.stop
            return False
        log.warning("offsets lost", **about, first=loss.first, count=loss.end - loss.first, next=loss.next_offset)
        lost: tuple[LostRange, ...] = ()
        if loss.end > loss.first:
            lost = (
                LostRange(
                    first=loss.first,
                    last=loss.end - 1,
                    reason=loss.stop.reason,
                    source_id=one.position.source_id,
                    time=moment_text(datetime.now(UTC)),
                ),
            )
        one.decide(loss.next_offset, lost)
        return True
