"""The proof that an error of a commit says what to do."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from gapless_api.base.errors import ConfigurationError, SourceStalledError, SourceUnreachableError
from gapless_kafka.topics.group_position import _error_for


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError.UNKNOWN_MEMBER_ID, ConfigurationError, "has members, so its offsets cannot be committed; stop"),
        (KafkaError.ILLEGAL_GENERATION, ConfigurationError, "has members"),
        (KafkaError.REBALANCE_IN_PROGRESS, ConfigurationError, "has members"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, SourceUnreachableError, "denies access to the consumer group billing"),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, SourceStalledError, "stopped answering"),
    ],
)
def test_an_error_of_a_commit_says_what_to_do(code: int, kind: type[Exception], words: str) -> None:
    error = _error_for(KafkaError(code), "billing", "kafka:9092")
    assert type(error) is kind
    assert words in str(error)
    assert "billing" in str(error)
