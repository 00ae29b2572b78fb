"""The proof that an outage of Kafka is waited for, or ends loudly with the progress saved."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.kafka.broker import KafkaBroker
from kit.story.resending import Resend, ids_of

if TYPE_CHECKING:
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

EVENTS = 60_000


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as own:
        yield own


@pytest.fixture
def broker(own_broker: KafkaBroker) -> KafkaBroker:
    """A broker that a test may kill, restarted if the previous test did."""
    return own_broker.start()


@pytest.fixture
def name(broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """A topic of the test with `EVENTS` events."""
    topic = broker.create_topic(request.node.name.replace("_", "-"))
    broker.produce(topic, (b"%d " % offset + bytes(1000) for offset in range(EVENTS)))
    return topic


@pytest.fixture
def far(broker: KafkaBroker, name: str, listener: Listener, tmp_path: Path) -> Resend:
    settings = {"bootstrapServers": broker.bootstrap, "targetIP": "127.0.0.1", "targetPort": listener.port}
    more = {"topic": name, "partition": 0, "offsetFrom": 0, "checkpoint": tmp_path / "checkpoint", "eps": 10_000}
    return Resend(tmp_path, settings | more)


def test_a_broker_that_comes_back_is_waited_for(broker: KafkaBroker, far: Resend, listener: Listener) -> None:
    process = far.start()
    listener.wait_for(5000)
    broker.kill()
    time.sleep(3)
    broker.start()
    ended = far.ended(process)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == EVENTS
    assert set(Counter(ids_of(listener.settled())).values()) == {1}


def test_a_broker_that_stays_away_is_a_stall_and_the_rest_is_sent_later(
    broker: KafkaBroker, name: str, far: Resend, listener: Listener
) -> None:
    process = far.start(stallTimeout=4)
    listener.wait_for(5000)
    broker.kill()
    stalled = far.ended(process)
    assert stalled.exit_code == 3, stalled.stderr
    assert f"sent no record of {name}/0 for 4 s at offset" in stalled.stderr
    assert 0 < stalled.ledger["sent"] < EVENTS
    assert stalled.ledger["remaining"] == EVENTS - stalled.ledger["sent"]
    broker.start()
    ended = far.run(eps=0)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == EVENTS
    sent = Counter(ids_of(listener.settled()))
    assert len(sent) == EVENTS
    assert set(sent.values()) == {1}


def test_records_that_expire_while_we_read_are_told_from_those_that_never_were(
    broker: KafkaBroker, name: str, far: Resend, listener: Listener
) -> None:
    process = far.start(eps=2000)
    listener.wait_for(1000)
    broker.delete_records(name, 0, EVENTS - 5)
    ended = far.ended(process)
    assert ended.exit_code == 4, ended.stderr
    assert ended.report is not None
    assert set(ended.report["unavailable"]) == {"Expired"}
    assert ended.ledger["sent"] + ended.ledger["unavailable"] == EVENTS
    assert ended.report["partitions"][0]["ranges"]["Expired"][-1][-1] == EVENTS - 6


def test_a_topic_that_is_deleted_while_we_read_is_named_as_the_reason(
    broker: KafkaBroker, name: str, far: Resend, listener: Listener
) -> None:
    process = far.start(stallTimeout=4, eps=40_000)
    listener.wait_for(1000)
    broker.delete_topic(name)
    ended = far.ended(process)
    assert ended.exit_code == 3, ended.stderr
    assert f"sent no record of {name}/0 for 4 s at offset" in ended.stderr
    assert "Unknown topic or partition" in ended.stderr
    assert ended.ledger["remaining"] > 0
