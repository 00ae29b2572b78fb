"""Requests of the admin client are sent again after transient errors, and the last reason is named at the end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.admin import Admin, call_admin
from gapless_kafka.access.connection import KafkaConnection

NO_LEADERS = KafkaError(KafkaError._NOENT, "Failed to query partition leaders: No leaders found")


@pytest.fixture
def connection() -> Iterator[KafkaConnection]:
    """To a port that accepts connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield KafkaConnection(bootstrap_servers=f"127.0.0.1:{listener.getsockname()[1]}", client_id="test")


def ended(result: int | KafkaError) -> Future[int]:
    """A request that has ended."""
    future: Future[int] = Future()
    if isinstance(result, KafkaError):
        future.set_exception(KafkaException(result))
    else:
        future.set_result(result)
    return future


def answering(answers: list[int | KafkaError]) -> Any:
    return lambda admin: admin.result(ended(answers.pop(0)), "the topic t")


def test_no_leaders_are_found_for_a_moment_and_the_request_is_sent_again(connection: KafkaConnection) -> None:
    assert call_admin(connection, answering([NO_LEADERS, NO_LEADERS, 7]), timeout_seconds=10) == 7


def test_the_broker_that_was_asked_dies_and_another_one_answers(connection: KafkaConnection) -> None:
    assert call_admin(connection, answering([KafkaError(KafkaError._TRANSPORT), 7]), timeout_seconds=10) == 7


def test_no_broker_answers_in_time_which_is_named(connection: KafkaConnection) -> None:
    def request(admin: Admin) -> int:
        return int(admin.result(ended(KafkaError(KafkaError._TIMED_OUT)), "the topic t"))

    with pytest.raises(SourceUnreachableError, match=r"cannot be reached \(.*\); check the bootstrap servers"):
        call_admin(connection, request, timeout_seconds=0.5)


def test_no_leaders_are_ever_found_which_is_named(connection: KafkaConnection) -> None:
    def request(admin: Admin) -> int:
        return int(admin.result(ended(NO_LEADERS), "the topic t"))

    with pytest.raises(SourceUnreachableError, match="No leaders found"):
        call_admin(connection, request, timeout_seconds=0.5)


def test_each_attempt_may_take_twice_as_long_as_the_one_before(connection: KafkaConnection) -> None:
    attempts: list[float] = []

    def request(admin: Admin) -> int:
        attempts.append(admin.request_seconds)
        return int(admin.result(ended(NO_LEADERS if len(attempts) == 1 else 7), "the topic t"))

    assert call_admin(connection, request, timeout_seconds=30) == 7
    assert attempts == [1, 2]
