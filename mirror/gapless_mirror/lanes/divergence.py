"""Whether the logs of a position still have the records that they had, by the leader epochs that it names.

A log that was truncated under its topic ID, and has grown again, only differs in its leader epochs (KIP-101, KIP-320).
Both sides are asked in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.reading.log_truncation import LogPosition, find_truncated

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.claims import LogNow
    from gapless_mirror.lanes.records import LanePosition


class EpochClaim(NamedTuple):
    """A leader epoch, and an offset that a log had reached in it."""

    epoch: int
    end: int


class Divergence(NamedTuple):
    """What the leaders have answered."""

    ends: dict[TopicPartition, int]
    """The logs that have other records now, and the offsets where these begin."""
    errors: dict[TopicPartition, str]
    """The logs whose leaders have not answered, each with the reason."""

    def is_same(self, log: TopicPartition) -> bool:
        """Whether a log that was asked about has the records that it had."""
        return log not in self.ends and log not in self.errors

    def why_unanswered(self, log: TopicPartition) -> str:
        """Say why nothing is known of a log; empty if it is known."""
        return f"does not answer about {log[0]}/{log[1]} ({self.errors[log]})" if log in self.errors else ""


def source_claim(position: LanePosition) -> EpochClaim | None:
    """Return what a position says about the source; the highest offset includes all lower ones."""
    if position.source_epoch is not None and position.source_end is not None:
        return EpochClaim(position.source_epoch, position.source_end)
    if position.leader_epoch is None or position.epoch_end is None:
        return None
    return EpochClaim(position.leader_epoch, position.epoch_end)


def target_claim(position: LanePosition) -> EpochClaim | None:
    """Return what a position says about the target."""
    if position.target_epoch is None or position.target_epoch_end is None:
        return None
    return EpochClaim(position.target_epoch, position.target_epoch_end)


def find_diverged(
    connection: KafkaConnection, claims: Mapping[TopicPartition, tuple[EpochClaim | None, LogNow | None]]
) -> Divergence:
    """Ask the leaders of the logs that may have been truncated.

    A log whose leader epoch is still that of the claim was not. One that ends before the claim is asked about, too: it
    may have grown again, and its records from the cut on are others.

    Args:
        connection: to the cluster.
        claims: by the partition of the log: what is claimed about it, and the log now.

    Raises:
        GaplessError: the cluster does not answer at all.
    """
    errors: dict[TopicPartition, str] = {}
    positions = [
        LogPosition(*log, claim.end, claim.epoch)
        for log, (claim, now) in claims.items()
        if claim is not None and now is not None and now.exists and now.epoch != claim.epoch and now.start <= claim.end
    ]
    return Divergence(find_truncated(connection, positions, errors), errors)
