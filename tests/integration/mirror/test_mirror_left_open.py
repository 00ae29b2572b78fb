"""The proof that a transaction which Kafka leaves open (KAFKA-20734) costs nothing, and doubles nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from gapless_mirror.lanes.records import map_key
from integration.mirror.conftest import RECORDS, Mirror, Scene, await_interruption, fill
from integration.mirror.test_mirror_stalls import events, wait_with_log
from kit.kafka.cluster import KafkaCluster
from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import HANGING_SECONDS, wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration
LAST = 2
"""The broker that is away when a transaction ends."""
PARTITIONS = 4


@pytest.fixture(scope="module")
def target_kafka() -> Iterator[KafkaCluster]:
    """Three brokers, of which one can be away."""
    with KafkaCluster(3) as cluster:
        yield cluster


def has_ended(mirror: Mirror, reason: str) -> bool:
    """Return whether a stall for this reason has ended; one for another reason may come first."""
    return reason in {each["reason"] for each in events(mirror, "stall ends")}


def end_with_a_broker_away(scene: Scene, name: str, *, away: Sequence[tuple[str, int]], commits: bool) -> None:
    """Let a transaction that copies records be committed, or aborted, while the last broker is away.

    Args:
        scene: of one mirror.
        name: the topic.
        away: topics on the last broker, and how many partitions each has. Kafka leaves a partition out when the broker
            that ends the transaction knows of no leader.
        commits: whether the transaction is committed.
    """
    mirror = scene.start(f"--topics={name}", "--lanes=1", interrupted=("SIGSTOP", 2))
    scene.wait_for(name, PARTITIONS * len(RECORDS))
    fill(scene, name, PARTITIONS)
    await_interruption(mirror)
    scene.target.stop(LAST)
    try:
        for topic, partitions in away:
            scene.target.await_leaders(topic, partitions, some=False)
        if commits:
            mirror.process.send_signal(signal.SIGCONT)
            # A request that a client has sent to a broker that went away it repeats after a minute.
            wait_until(lambda: "\ncommit " in mirror.log, what="the commit")
            mirror.kill()
            assert "\ncommit made" in mirror.log, mirror.log
        else:
            mirror.kill()
            fence(scene)
    finally:
        scene.target.start()


def test_a_transaction_that_the_mirror_cannot_end_is_named(scene: Scene, topic: TopicFactory) -> None:
    """As when the target has lost __transaction_state: here another program has it open."""
    name, control = topic(PARTITIONS), f"_gapless_mirror_{scene.name}"
    fill(scene, name, PARTITIONS)
    scene.target.create_topic(control, cleanup_policy="compact")
    foreign = in_transaction(scene.target, control, [(map_key("", 0, 0), None)])
    # Three seconds of standstill are a stall.
    mirror = scene.start(f"--topics={name}", "--lanes=1", "--look-interval=0.5s", "--progress-interval=1")
    wait_with_log(mirror, lambda: '"reason":"TransactionOpen"' in mirror.log, "the reason", HANGING_SECONDS)
    assert '"state":"idle"' not in mirror.log
    assert "abort it in each of these partitions with kafka-transactions.sh --bootstrap-server" in mirror.log
    assert f"({control}/0 from offset 0)" in mirror.log
    end_transaction(foreign, commit=False)
    scene.wait_for(name, PARTITIONS * len(RECORDS))
    wait_with_log(mirror, lambda: has_ended(mirror, "TransactionOpen"), "the end of the stall", HANGING_SECONDS)
    assert mirror.stop() == 143, mirror.log
    assert scene.copied(name)


def fence(scene: Scene) -> None:
    """Do what the next owner of the lane does first; Kafka aborts the transaction then."""
    options = scene.target.client_options(**{"transactional.id": f"gapless-mirror-{scene.name}-0"})
    Producer(options).init_transactions(60)


@pytest.mark.parametrize(
    ("topic_is_away", "control_is_away", "commits"),
    [
        pytest.param(True, True, True, id="commit: records and position are left open"),
        pytest.param(False, True, True, id="commit: the records are there, the position is left open"),
        pytest.param(True, False, True, id="commit: the position is there, the records are left open"),
        pytest.param(True, True, False, id="abort: records and position are left open"),
        pytest.param(False, True, False, id="abort: the position is left open"),
    ],
)
def test_a_transaction_that_kafka_left_open_is_settled(
    scene: Scene,
    topic: TopicFactory,
    topic_is_away: bool,  # noqa: FBT001
    control_is_away: bool,  # noqa: FBT001
    commits: bool,  # noqa: FBT001
) -> None:
    name = topic(PARTITIONS)
    control = f"_gapless_mirror_{scene.name}"
    scene.target.create_topic(name, PARTITIONS, only_on=LAST if topic_is_away else 0)
    scene.target.create_topic(control, only_on=LAST if control_is_away else 0, cleanup_policy="compact")
    fill(scene, name, PARTITIONS)
    away = [(name, PARTITIONS)] * topic_is_away + [(control, 1)] * control_is_away
    end_with_a_broker_away(scene, name, away=away, commits=commits)
    after = scene.run(f"--topics={name}", "--lanes=1", "--once")
    fill(scene, name, PARTITIONS)
    last = scene.run(f"--topics={name}", "--lanes=1", "--once")
    assert (after.wait(), last.wait()) == (0, 0), after.log + last.log
    assert scene.copied(name)
    assert "A transaction of this mirror hangs" not in after.log, (
        "Kafka answers before all is ended; that is waited for"
    )
    settled = ["transaction settled" in one.log for one in (after, last)]
    assert settled == [control_is_away, False], after.log + last.log
