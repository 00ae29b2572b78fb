"""The check that records were read from the topics of the positions, and not from recreated ones.

Topic IDs are never reused. So if a topic has the expected ID after its records were read, they belong to that topic.
The request is sent when the records of a transaction have been read, and answered while they are being written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from gapless_kafka.access.constructors import new_admin
from gapless_kafka.access.errors import DENIED, NO_TOPIC, fault_of

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

_TIMEOUT_SECONDS = 10.0
_NO_ID = "A" * 22
"""The topic ID from a broker without topic IDs: sixteen zero bytes."""


class TopicCheck:
    """Checks topic IDs in the source; one for each lane."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.client = new_admin(connection)
        self._futures: Mapping[str, Any] = {}
        self._ids: Mapping[str, str] = {}

    def start(self, ids: Mapping[str, str]) -> None:
        """Ask for the IDs of topics.

        Args:
            ids: the expected topic IDs by name; a topic with an empty ID is not checked.
        """
        self._ids = {topic: topic_id for topic, topic_id in ids.items() if topic_id}
        self._futures = {}
        if self._ids:
            topics = TopicCollection(list(self._ids))
            self._futures = self.client.describe_topics(topics, request_timeout=_TIMEOUT_SECONDS)

    def changed_topics(self, pulse: Callable[[], None]) -> set[str]:
        """Wait for the answers, and return the topics that were deleted or recreated.

        Raises:
            KafkaException: Kafka does not answer.
        """
        deadline = time.monotonic() + _TIMEOUT_SECONDS + 1
        while not all(future.done() for future in self._futures.values()) and time.monotonic() < deadline:
            pulse()
            time.sleep(0.002)
        changed = set()
        for topic, future in self._futures.items():
            try:
                description = future.result(timeout=0.1)
            except FutureTimeoutError:  # the process was suspended until after the deadline
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001
            except KafkaException as error:
                fault = fault_of(error.args[0].name())
                if fault is NO_TOPIC:
                    changed.add(topic)
                elif fault is not DENIED:  # the check needs Describe, and copying does not
                    raise
            else:
                if str(description.topic_id or _NO_ID) not in {self._ids[topic], _NO_ID}:
                    changed.add(topic)
        self._futures = {}
        return changed
