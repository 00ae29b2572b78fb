"""The proof that the publication of offsets goes on after any failure of one commit."""

from __future__ import annotations

import pytest

from gapless_api.base.errors import GaplessError, SourceStalledError
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.topics import group_position
from gapless_kafka.topics.group_position import PositionPublisher


@pytest.mark.parametrize("error", [KeyError("the content of a record"), SourceStalledError("Kafka is away.")])
def test_offsets_of_a_failed_commit_are_published_with_the_next_ones(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    published: list[dict[tuple[str, int], int]] = []
    failures: list[GaplessError] = []

    def publish(_: object, __: str, offsets: dict[tuple[str, int], int], *, timeout_seconds: float) -> None:
        assert timeout_seconds == 60
        if not failures:
            raise error
        published.append(offsets)

    monkeypatch.setattr(group_position, "publish_position", publish)
    connection = KafkaConnection(bootstrap_servers="127.0.0.1:9")
    publisher = PositionPublisher(connection, "g", timeout_seconds=60, failed=failures.append)
    publisher.publish({("a", 0): 1, ("b", 0): 1})
    publisher.finish()
    assert len(failures) == 1
    assert "the content of a record" not in str(failures[0])
    publisher.publish({("a", 0): 2})
    publisher.finish()
    assert published == [{("a", 0): 2, ("b", 0): 1}]
