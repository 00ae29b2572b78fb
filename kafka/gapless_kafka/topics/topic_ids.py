"""The watch over topic IDs: a topic that was deleted and recreated has other events under the same name.

Must not know what is read from the topics, nor where their IDs are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

ASK_EVERY_SECONDS = 5.0
"""How long a recreated topic can go unnoticed, when nothing else points to it."""
_ASK_SOON_SECONDS = 0.5
"""After an error that a recreated topic may explain; such errors come in bursts."""
ANSWER_SECONDS = 10.0
_NO_ID = "A" * 22
"""The topic ID where brokers have none: sixteen bytes of zero in Base64."""


class Answer(Protocol):
    """The part of `concurrent.futures.Future` that is used here."""

    def done(self) -> bool:
        """Whether `result` returns at once."""

    def result(self) -> object:
        """A description with a `topic_id`, or an exception of the client."""


class _Query(NamedTuple):
    topic: str
    sent_at: float
    answer: Answer


class TopicWatch:
    """Requests topic IDs from time to time without waiting, and compares them with the expected ones.

    A query without a response, and a broker that denies it or has no topic IDs, change nothing: reading needs other
    operations and raises its own errors.
    """

    def __init__(
        self,
        ask: Callable[[str], Answer],
        *,
        known: Mapping[str, str],
        learned: Callable[[str, str], None],
        pulse: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start a watch; nothing is sent yet.

        Args:
            ask: sends the query for one topic.
            known: the topic IDs at the start of the resend, perhaps in an earlier run.
            learned: called with a topic and its ID when it is not in `known`.
            pulse: called while waiting; it may raise to cancel the work.
            now: seconds of a monotonic clock.
        """
        self._ask = ask
        self._ids = dict(known)
        self._from_checkpoint = frozenset(known)
        self._learned = learned
        self._pulse = pulse
        self._now = now
        self._pending: list[_Query] = []
        self._next_query_at = 0.0
        self._is_silent = False
        """Whether the last wait timed out and no ID has arrived since: to wait for each partition would take hours."""
        self._confirmed_at: dict[str, float] = {}
        """When the last query was sent that returned the expected ID, in this run."""

    def begin(self, topic: str) -> None:
        """Send a query for the ID of `topic`; a later call processes the response."""
        self._pending.append(_Query(topic, self._now(), self._ask(topic)))
        self._next_query_at = self._now() + ASK_EVERY_SECONDS

    def poll(self, topic: str) -> None:
        """Process responses that have arrived, and send the next query when it is due. Raises like `settle`."""
        self._process_responses()
        if self._now() >= self._next_query_at and not self._pending:
            self.begin(topic)

    def ask_soon(self) -> None:
        """Send the next query early, because a recreated topic may explain an error."""
        self._next_query_at = min(self._next_query_at, self._now() + _ASK_SOON_SECONDS)

    def verify(self, topic: str) -> None:
        """Send a query and wait for the response, unless the last wait timed out. Raises like `settle`."""
        self.begin(topic)
        if not self._is_silent:
            self.settle()

    def settle(self) -> bool:
        """Wait for all pending responses, up to `ANSWER_SECONDS`.

        Returns:
            Whether all arrived.

        Raises:
            ConfigurationError: a topic was recreated since the start.
        """
        deadline = self._now() + ANSWER_SECONDS
        while True:
            self._process_responses()
            if not self._pending or self._now() >= deadline:
                break
            self._pulse()
            time.sleep(0.002)
        timed_out, self._pending = bool(self._pending), []
        self._is_silent = self._is_silent or timed_out
        return not timed_out

    def _process_responses(self) -> None:
        answered = [query for query in self._pending if query.answer.done()]
        if answered:
            self._pending = [query for query in self._pending if query not in answered]
        for query in answered:
            topic_id = topic_id_in(query.answer)
            if topic_id is None:
                continue
            self._is_silent = False
            topic = query.topic
            if topic not in self._ids:
                self._ids[topic] = topic_id
                self._learned(topic, topic_id)
            elif self._ids[topic] != topic_id:
                raise self._recreated(topic, topic_id)
            self._confirmed_at[topic] = query.sent_at

    def _recreated(self, topic: str, topic_id: str) -> ConfigurationError:
        if topic in self._confirmed_at:
            seconds = self._now() - self._confirmed_at[topic]
            effect = f"its offsets now name other events, which may have been sent in the last {seconds:.1f} s"
        elif topic in self._from_checkpoint:
            effect = "the offsets of the checkpoint now name other events"
        else:  # pragma: no cover -- an expected ID is either from the checkpoint or confirmed
            effect = "its offsets now name other events"
        return ConfigurationError(
            f"The topic {topic} was deleted and recreated (topic ID {self._ids[topic]} -> {topic_id}): {effect}; find "
            f"out what is still missing and start again with another checkpoint."
        )


def topic_id_in(answer: Answer) -> str | None:
    """Return the topic ID in a completed response; ``None`` where it has none."""
    try:
        description = answer.result()
    # Any exception of the client (denied, unknown topic, timeout) counts as no response; reading raises its own errors.
    except Exception:  # noqa: BLE001
        return None
    topic_id = str(getattr(description, "topic_id", None) or _NO_ID)
    return None if topic_id == _NO_ID else topic_id


def url_safe_topic_id(topic_id: str) -> str:
    """Return a topic ID as Kafka's own tools print it; its client, and so a `TopicWatch`, uses another Base64."""
    return topic_id.replace("+", "-").replace("/", "_")


def described_topic_id(description: Any) -> str:
    """Return the topic ID in a description, as Kafka's own tools print it; empty where brokers have none."""
    topic_id = str(description.topic_id or _NO_ID)
    return "" if topic_id == _NO_ID else url_safe_topic_id(topic_id)


def topic_id_query(connection: KafkaConnection) -> Callable[[str], Answer]:
    """Return a function that sends the query for one topic, over a connection of its own."""
    from confluent_kafka import TopicCollection  # noqa: PLC0415 -- a tenth of the start-up time

    from gapless_kafka.access.constructors import new_admin  # noqa: PLC0415

    admin = new_admin(connection, {"socket.keepalive.enable": True})

    def ask(topic: str) -> Answer:
        # Longer than any wait here, so that a timeout and a refusal stay distinct.
        timeout = 2 * ANSWER_SECONDS
        futures: Mapping[str, Answer] = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout)
        return futures[topic]

    return ask
