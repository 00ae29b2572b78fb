"""How a lane compares the target of its partitions with their positions, and what it does about a loss there."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from gapless_api.codec.canonical import moment_text
from gapless_kafka.access.errors import TopicMissingError
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_mirror.lanes.claims import TARGET_REASONS, Comparison, LogNow, compare_target, log_in
from gapless_mirror.lanes.divergence import EpochClaim, find_diverged, target_claim
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.observations import SeenError, Stop
from gapless_mirror.lanes.records import TargetLoss
from gapless_mirror.lanes.setup import LaneSetup, OnTargetLoss

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.progress import PartitionProgress
    from gapless_mirror.lanes.sources import SourceTopic

FORMER_LEADER = "ANSWER_OF_FORMER_LEADER"
"""The name of this error, beside the error names of Kafka."""
_FORMER_LEADER_SECONDS = 60.0
"""How long a partition waits for its current leader. After that, its epoch was set back, as by a restored snapshot."""
_TIMEOUT_SECONDS = 10.0
_LOG = structlog.get_logger("mirror")


class TargetLosses:
    """Checks the targets of a lane's partitions."""

    def __init__(self, setup: LaneSetup) -> None:
        self._setup = setup
        self._former_since: dict[TopicPartition, float] = {}
        """Since when a former leader may have answered about the target of a source partition."""

    def follow(self, partition: PartitionProgress, topic: SourceTopic, diverged_at: int | None) -> bool:
        """Compare a partition with its target at a refresh; return whether it may be copied.

        Args:
            partition: of the source.
            topic: of the source, with its target.
            diverged_at: where the target log has other records than the position says; ``None`` for nowhere.

        Raises:
            GaplessError: the target does not answer.
        """
        number = partition.topic_partition[1]
        if topic.copy is None:
            return partition.stop is None or partition.stop.reason not in TARGET_REASONS
        seen = log_in(topic.copy, number, is_target=True)
        if seen is not None:
            seen = replace(seen, diverged_at=diverged_at)
        found = self._compare(partition, seen)
        if found.is_loss:
            # What was seen may be older than the position: another owner of the lane has written since.
            seen = self._look_again(partition)
            found = self._compare(partition, seen)
        if self._is_former(partition, found, seen):
            partition.awaits_refresh = True
            return False
        if found.is_loss and not self._is_decided(partition, found, topic, seen):
            return False
        self._adopt(partition, seen)
        return True

    def stop_changed(self, partition: PartitionProgress) -> None:
        """Stop a partition whose target topic was found to be another one, or gone. Raises like `follow`."""
        seen = self._look_again(partition)
        found = self._compare(partition, seen)
        if found.is_loss and not self._is_former(partition, found, seen):
            _stop(partition, found)

    def _look_again(self, partition: PartitionProgress) -> LogNow | None:
        """Read the target log of a partition, and ask whether it still has the copies. Raises GaplessError.

        The log may have lost them, and have grown again, since it was seen: what was answered then says nothing of now.
        """
        log = (partition.position.target, partition.topic_partition[1])
        try:
            cut = read_cut(self._setup.target, [log[0]], timeout_seconds=_TIMEOUT_SECONDS, election_seconds=0).topics[0]
        except TopicMissingError:
            return LogNow(exists=False)
        seen, claim = log_in(cut, log[1], is_target=True), partition.claim
        if seen is None or seen.id != claim.target_id:
            return seen
        diverged = find_diverged(self._setup.target, {log: (target_claim(claim), seen)})
        return None if log in diverged.errors else replace(seen, diverged_at=diverged.ends.get(log))

    def _is_former(self, partition: PartitionProgress, found: Comparison, seen: LogNow | None) -> bool:
        """Whether a loss may be the answer of a former leader, of an older epoch than that of copies, and for a moment.

        A broker that has hung, or that cannot reach the controller, answers without what was written since.
        """
        number, claim = partition.topic_partition[1], partition.claim
        known = -1 if claim.target_epoch is None else claim.target_epoch
        if not found.is_loss or seen is None or seen.id != claim.target_id or not 0 <= seen.epoch < known:
            self._former_since.pop(partition.topic_partition, None)
            return False
        now = time.monotonic()
        if now - self._former_since.setdefault(partition.topic_partition, now) >= _FORMER_LEADER_SECONDS:
            return False
        message = (
            f"Kafka at {self._setup.target.bootstrap_servers} answers about {claim.target}/{number} as in leader epoch "
            f"{seen.epoch}, and copies were written in epoch {known}: the answer is probably that of a former leader, "
            f"such as a broker that cannot reach the controller. The partition waits for its current leader; check the "
            f"brokers of the target."
        )
        partition.error = SeenError(message=message, name=FORMER_LEADER, seen_at=now)
        return True

    @staticmethod
    def _compare(partition: PartitionProgress, seen: LogNow | None) -> Comparison:
        return compare_target("{}/{}".format(*partition.topic_partition), partition.claim, seen)

    def _is_decided(
        self, partition: PartitionProgress, found: Comparison, topic: SourceTopic, seen: LogNow | None
    ) -> bool:
        """Continue after a loss in the target if the settings say how, otherwise stop the partition."""
        if partition.topic_partition[0] == HEARTBEAT_TOPIC and seen is not None and seen.exists:
            partition.forget_target()
            return True
        copies_again = self._setup.on_target_loss is OnTargetLoss.COPY_AGAIN
        if not copies_again or seen is None or not seen.exists:
            _stop(partition, found)
            return False
        number = partition.topic_partition[1]
        first, position = topic.first_offsets[number], partition.position
        _LOG.warning(
            "copying again",
            topic=topic.name,
            partition=number,
            reason=found.state.value,
            copied_to=position.next_offset,
            restart=first,
            message=f"{found.sentence} --on-target-loss=copy-again starts at the source offset {first:,}.",
        )
        loss = TargetLoss(
            reason=found.state.value,
            target_id=position.target_id,
            copied_to=position.next_offset,
            restart=first,
            time=moment_text(datetime.now(UTC)),
        )
        partition.copy_again(topic.id, first, loss)
        partition.copy_until = topic.end_offsets[number] if self._setup.once else None
        return True

    def _adopt(self, partition: PartitionProgress, seen: LogNow | None) -> None:
        """Add what the position does not say about its target yet, as for one of an earlier release."""
        claim = partition.claim
        if seen is None or not seen.exists:
            return
        adopted = replace(claim, lanes=self._setup.lanes)
        if seen.id and seen.id != claim.target_id:
            adopted = replace(adopted, target_id=seen.id)
        claimed = target_claim(claim) or EpochClaim(-1, 0)
        if (
            claim.target_end is not None
            and (seen.epoch, claim.target_end) > claimed
            and seen.epoch_end >= claim.target_end
        ):
            adopted = replace(adopted, target_epoch=seen.epoch, target_epoch_end=claim.target_end)
        if adopted == partition.position:
            return
        if not partition.is_new and not partition.position.target_id and seen.id:
            name = "{}/{}".format(*partition.topic_partition)
            _LOG.info("position adopted", partition=name, target=claim.target, target_id=seen.id, end=claim.target_end)
        partition.adopt(adopted)


def _stop(partition: PartitionProgress, found: Comparison) -> None:
    stop = Stop(reason=found.state.value, message=found.sentence)
    if partition.stop != stop:
        topic, number = partition.topic_partition
        _LOG.warning("partition stopped", topic=topic, partition=number, reason=stop.reason, message=stop.message)
    partition.stop = stop
