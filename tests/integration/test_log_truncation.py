"""The proof that a log that was truncated under the same topic ID is noticed, also when it has grown again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.log_truncation import LogPosition, find_truncated
from gapless_kafka.reading.topic_offsets import read_cut
from kit.kafka.broker import KafkaBroker
from kit.kafka.transactions import end_transaction, in_transaction
from kit.kafka.truncation import truncate

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


def position_at_end(connection: KafkaConnection, topic: str, partition: int = 0) -> LogPosition:
    (cut,) = read_cut(connection, [topic], timeout_seconds=30).topics
    return LogPosition(topic, partition, cut.end_offsets[partition], cut.leader_epochs[partition])


def test_a_log_that_was_truncated_is_found_shorter_as_long_and_longer_than_the_position(own: KafkaBroker) -> None:
    connection = KafkaConnection(bootstrap_servers=own.bootstrap, client_id="tests")
    lost, kept = own.create_topic("lost", 2), own.create_topic("kept")
    for _ in range(2):
        own.produce(lost, [b"old"] * 50)
        own.produce(lost, [b"old"] * 50, partition=1)
        own.produce(kept, [b"old"] * 50)
    own.delete_records(kept, 0, 30)
    before = [position_at_end(connection, lost, number) for number in (0, 1)] + [position_at_end(connection, kept)]
    middle = before[0]._replace(next_offset=50)
    assert find_truncated(connection, before) == {}
    truncate(own, lost, end=50)
    for produced in (0, 50, 70):
        own.produce(lost, [b"new"] * produced)
        assert find_truncated(connection, before) == {(lost, 0): 50}
        assert find_truncated(connection, [middle]) == {}
    now = position_at_end(connection, lost)
    truncate(own, lost)  # a replaced disk
    own.produce(lost, [b"newer"] * 200)
    assert find_truncated(connection, [now, before[1]]) == {(lost, 0): 0}
    assert find_truncated(connection, [middle]) == {(lost, 0): 0}


def test_restarts_and_deleted_records_and_transactions_truncate_nothing(own: KafkaBroker) -> None:
    connection = KafkaConnection(bootstrap_servers=own.bootstrap, client_id="tests")
    topic = own.create_topic("restarted")
    own.produce(topic, [b"x"] * 10)
    open_one = in_transaction(own, topic, [(None, b"y")] * 5)
    positions = [position_at_end(connection, topic)]
    own.restart()
    end_transaction(open_one, commit=False)
    positions.append(position_at_end(connection, topic))
    own.restart()
    own.produce(topic, [b"x"])
    positions.append(position_at_end(connection, topic))
    for _ in range(2):
        for position in positions:
            assert find_truncated(connection, [position]) == {}
        own.delete_records(topic, 0, 17)
