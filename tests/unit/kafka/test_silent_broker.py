"""A broker that accepts connections and answers nothing is unreachable, whatever is asked."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.topics.leaderless import denied_topics
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_configuration import topic_configurations


@pytest.fixture
def silent() -> Iterator[KafkaConnection]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield KafkaConnection(bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    "ask",
    [
        lambda kafka: topic_configurations(kafka, ["orders"], timeout_seconds=0.5),
        lambda kafka: denied_topics(kafka, ["orders"], timeout_seconds=0.5),
        lambda kafka: TargetTopics(kafka, timeout_seconds=0.5).describe(["orders"]),
    ],
    ids=["configurations", "denied", "described"],
)
def test_no_answer_in_time_is_one_error_of_ours(
    silent: KafkaConnection, ask: Callable[[KafkaConnection], object]
) -> None:
    with pytest.raises(SourceUnreachableError, match=silent.bootstrap_servers):
        ask(silent)
