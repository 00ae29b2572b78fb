"""What a lane concludes from a target log that seems to have lost copies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_mirror.lanes import target_loss
from gapless_mirror.lanes.divergence import Divergence
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.progress import PartitionProgress
from gapless_mirror.lanes.records import LanePosition
from gapless_mirror.lanes.setup import LaneSetup, OnTargetLoss
from gapless_mirror.lanes.sources import SourceTopic
from gapless_mirror.lanes.target_loss import FORMER_LEADER, TargetLosses

WRITTEN_IN, WRITTEN_TO = 6, 100
"""The leader epoch and the end of the last copies."""
Follow = Callable[..., bool]


def target(*, epoch: int, end: int) -> TopicCut:
    return TopicCut("t", (0,), (end,), 0, "T", high_watermarks=(end,), leader_epochs=(epoch,))


def new_partition() -> PartitionProgress:
    position = LanePosition(
        target="t",
        source_id="S",
        epoch=1,
        start=0,
        next_offset=90,
        records=90,
        target_id="T",
        target_end=WRITTEN_TO,
        target_epoch=WRITTEN_IN,
        target_epoch_end=WRITTEN_TO,
    )
    return PartitionProgress(("s", 0), position, 90, 0.0)


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Follow:
    """Let a partition follow its target, which answers twice in the same way, `at` a time in seconds."""
    setup = LaneSetup(
        identity=MirrorIdentity("m"),
        lanes=1,
        source=KafkaConnection(bootstrap_servers="source:9092"),
        target=KafkaConnection(bootstrap_servers="target:9092"),
        engine="workers",
        epoch=1,
        commit_interval_seconds=0.0,
        on_target_loss=OnTargetLoss.COPY_AGAIN,
    )
    losses = TargetLosses(setup)

    def answered(partition: PartitionProgress, *, epoch: int, end: int, at: float) -> bool:
        copy = target(epoch=epoch, end=end)
        monkeypatch.setattr(target_loss, "read_cut", lambda *_, **__: Cut("c", (copy,)))
        monkeypatch.setattr(target_loss, "find_diverged", lambda *_: Divergence({}, {}))
        monkeypatch.setattr(target_loss.time, "monotonic", lambda: at)
        topic = SourceTopic("s", "S", "t", (0,), (200,), (200,), copy=copy)
        return losses.follow(partition, topic, None)

    return answered


def test_the_answer_of_a_former_leader_is_no_loss(follow: Follow) -> None:
    partition = new_partition()
    for seconds in (0, 30, 59):
        assert not follow(partition, epoch=WRITTEN_IN - 1, end=WRITTEN_TO - 10, at=seconds)
        assert (partition.stop, partition.next_offset, partition.awaits_refresh) == (None, 90, True)
        assert partition.error is not None
        assert partition.error.name == FORMER_LEADER
        assert "leader epoch 5, and copies were written in epoch 6" in partition.error.message
    assert follow(partition, epoch=WRITTEN_IN, end=WRITTEN_TO, at=61)
    assert (partition.stop, partition.next_offset) == (None, 90)
    # The next time begins anew.
    assert not follow(partition, epoch=WRITTEN_IN - 1, end=WRITTEN_TO - 10, at=62)
    assert (partition.stop, partition.next_offset) == (None, 90)


def test_an_epoch_that_was_set_back_for_a_minute_is_a_loss(follow: Follow) -> None:
    partition = new_partition()
    assert not follow(partition, epoch=WRITTEN_IN - 1, end=WRITTEN_TO - 10, at=0)
    assert follow(partition, epoch=WRITTEN_IN - 1, end=WRITTEN_TO - 10, at=60)
    assert partition.next_offset == 0, "it is copied again"


@pytest.mark.parametrize("epoch", [WRITTEN_IN, WRITTEN_IN + 1, -1])
def test_a_truncation_in_a_later_epoch_is_a_loss_at_once(follow: Follow, epoch: int) -> None:
    partition = new_partition()
    assert follow(partition, epoch=epoch, end=WRITTEN_TO - 10, at=0)
    assert partition.next_offset == 0, "it is copied again"
