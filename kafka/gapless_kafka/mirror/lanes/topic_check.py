"""Owns the check that records were read from the topics that the positions are about, and not from recreated ones.

A topic ID never comes back. So when a topic has the known ID after its records were read, they are of that topic. The
question is put when a transaction has been read, and answered while its records are being written.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from gapless_kafka.access.errors import DENIED, NO_TOPIC, fault_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_kafka.access.connection import KafkaConnection

_ANSWER_SECONDS = 10.0
_NO_ID = "A" * 22
"""How a broker that knows no topic IDs shows one: sixteen bytes of zero."""


class TopicCheck:
    """Asks the source; one for each lane."""

    def __init__(self, connection: KafkaConnection) -> None:
        options = {
            **connection.librdkafka_options(),
            "topic.metadata.refresh.interval.ms": -1,
            "reconnect.backoff.max.ms": 2000,
            "log_level": 0,
            "error_cb": lambda _error: None,
        }
        self._admin = AdminClient(options)
        self._asked: Mapping[str, Any] = {}
        self._ids: Mapping[str, str] = {}

    def ask(self, ids: Mapping[str, str]) -> None:
        """Put the question for topics, by their names with the IDs that they should have."""
        self._ids = {topic: known for topic, known in ids.items() if known}
        self._asked = {}
        if self._ids:
            topics = TopicCollection(list(self._ids))
            self._asked = self._admin.describe_topics(topics, request_timeout=_ANSWER_SECONDS)

    def changed(self, pulse: Callable[[], None]) -> set[str]:
        """Wait for the answers: which topics were deleted, or recreated.

        Raises:
            KafkaException: Kafka does not answer.
        """
        deadline = time.monotonic() + _ANSWER_SECONDS + 1
        while not all(one.done() for one in self._asked.values()) and time.monotonic() < deadline:
            pulse()
            time.sleep(0.002)
        found = set()
        for topic, one in self._asked.items():
            try:
                described = one.result(timeout=0.1)
            except FutureTimeoutError:  # a process that was stopped for long finds no answer at once
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001
            except KafkaException as error:
                fault = fault_of(error.args[0].name())
                if fault is NO_TOPIC:
                    found.add(topic)
                elif fault is not DENIED:  # who may read and not describe is not checked
                    raise
            else:
                if str(described.topic_id or _NO_ID) not in {self._ids[topic], _NO_ID}:
                    found.add(topic)
        self._asked = {}
        return found
