"""Owns the watch over a topic's identity: a topic that was deleted and recreated has other events under its old name.

Must not know what is read from the topics, nor where their ids are kept.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_kafka.access.connection import KafkaConnection

ASK_EVERY_SECONDS = 5.0
"""How long a new topic under an old name can go unnoticed, when nothing else points to it."""
_ASK_SOON_SECONDS = 0.5
"""After a sign of trouble; signs come in swarms."""
ANSWER_SECONDS = 10.0
_NO_ID = "A" * 22
"""How a broker that knows no topic ids shows one: sixteen bytes of zero."""


class Answer(Protocol):
    """What `concurrent.futures.Future` of confluent-kafka's admin client offers of use here."""

    def done(self) -> bool:
        """Whether `result` returns at once."""

    def result(self) -> object:
        """A description with a `topic_id`, or an exception of the client."""


class _Question(NamedTuple):
    topic: str
    asked_at: float
    answer: Answer


class TopicWatch:
    """Asks now and then which id each topic has, without waiting for the answer, and compares.

    A question that gets no answer, and a broker that refuses to say or knows no ids, change nothing: reading needs
    other rights and finds its own words.
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
        """Begin a watch.

        Args:
            ask: puts the question for one topic.
            known: the ids that topics had when the resend began, perhaps in an earlier run.
            learned: called with a topic and its id when we hear of one that is not in `known`.
            pulse: called while we wait; it may raise to end the work.
            now: seconds of a clock that nobody sets.
        """
        self._ask = ask
        self._ids = dict(known)
        self._before = frozenset(known)
        self._learned = learned
        self._pulse = pulse
        self._now = now
        self._open: list[_Question] = []
        self._due = 0.0
        self._mute = False
        """Whether we waited in vain and heard of no id since: waiting again for each partition would take hours."""
        self._confirmed_at: dict[str, float] = {}
        """When the last question was asked whose answer was the id that we know, in this run."""

    def begin(self, topic: str) -> None:
        """Ask for the id of `topic`; a later call takes the answer in."""
        self._open.append(_Question(topic, self._now(), self._ask(topic)))
        self._due = self._now() + ASK_EVERY_SECONDS

    def poll(self, topic: str) -> None:
        """Take in what has been answered, and ask anew when it is time. Raises like `settle`."""
        self._take_in()
        if self._now() >= self._due and not self._open:
            self.begin(topic)

    def ask_soon(self) -> None:
        """Something happened that a deleted topic could be the reason of: ask soon."""
        self._due = min(self._due, self._now() + _ASK_SOON_SECONDS)

    def verify(self, topic: str) -> None:
        """Ask now and wait for the answer, unless nobody answers anyway. Raises like `settle`."""
        self.begin(topic)
        if not self._mute:
            self.settle()

    def settle(self) -> bool:
        """Wait for every answer that is out, but not for ever.

        Returns:
            Whether all came.

        Raises:
            ConfigurationError: a topic is not the one that it was at the start.
        """
        deadline = self._now() + ANSWER_SECONDS
        while True:
            self._take_in()
            if not self._open or self._now() >= deadline:
                break
            self._pulse()
            time.sleep(0.002)
        unanswered, self._open = bool(self._open), []
        self._mute = self._mute or unanswered
        return not unanswered

    def _take_in(self) -> None:
        answered = [question for question in self._open if question.answer.done()]
        if answered:
            self._open = [question for question in self._open if question not in answered]
        for question in answered:
            found = topic_id_in(question.answer)
            if found is None:
                continue
            self._mute = False
            topic = question.topic
            if topic not in self._ids:
                self._ids[topic] = found
                self._learned(topic, found)
            elif self._ids[topic] != found:
                raise self._replaced(topic, found)
            self._confirmed_at[topic] = question.asked_at

    def _replaced(self, topic: str, found: str) -> ConfigurationError:
        if topic in self._confirmed_at:
            seconds = self._now() - self._confirmed_at[topic]
            what = f"the offsets name other events now, and what was sent in the last {seconds:.1f} s may be such"
        elif topic in self._before:
            what = "the offsets of the checkpoint name other events now"
        else:  # pragma: no cover -- an id that we know was either known before or confirmed
            what = "the offsets name other events now"
        return ConfigurationError(
            f"The topic {topic} was deleted and recreated (topic ID {self._ids[topic]} -> {found}): {what}; find out "
            f"what is still missing and start again with another checkpoint."
        )


def topic_id_in(answer: Answer) -> str | None:
    """The topic's id in an answer that has come; ``None`` where it holds none."""
    try:
        described = answer.result()
    # Whatever the client raises (denied, unknown at the moment, timed out) is no answer; reading finds its own words.
    except Exception:  # noqa: BLE001
        return None
    found = str(getattr(described, "topic_id", None) or _NO_ID)
    return None if found == _NO_ID else found


def as_tools_write(topic_id: str) -> str:
    """A topic's id as Kafka's own tools write it; its client, and so a `TopicWatch`, uses another Base64."""
    return topic_id.replace("+", "-").replace("/", "_")


def topic_id_query(connection: KafkaConnection) -> Callable[[str], Answer]:
    """Make what puts the question to the brokers of `connection`, over a connection of its own."""
    import logging  # noqa: PLC0415

    from confluent_kafka import TopicCollection  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- a tenth of the start-up time

    options = {
        **connection.librdkafka_options(),
        "topic.metadata.refresh.interval.ms": -1,
        "reconnect.backoff.max.ms": 2000,
        "socket.keepalive.enable": True,
        "error_cb": lambda _error: None,
    }
    admin = AdminClient(options, logger=logging.getLogger("gapless.librdkafka"))

    def ask(topic: str) -> Answer:
        # Longer than we ever wait, so that no answer and a refusal are two things.
        patience = 2 * ANSWER_SECONDS
        answers: Mapping[str, Answer] = admin.describe_topics(TopicCollection([topic]), request_timeout=patience)
        return answers[topic]

    return ask
