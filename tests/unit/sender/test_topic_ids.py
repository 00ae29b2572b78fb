"""The proof that a topic which was recreated is noticed, and that no answer is no reason to stop."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.topic_ids import ANSWER_SECONDS, ASK_EVERY_SECONDS, TopicWatch

FIRST, SECOND = str(Uuid(1, 2)), str(Uuid(3, 4))


@dataclass
class Brokers:
    """What brokers would answer, and a clock that only moves when it is waited for."""

    ids: dict[str, Uuid | Exception | None] = field(default_factory=dict)
    silent: bool = False
    seconds: float = 0.0
    asked: list[str] = field(default_factory=list)
    learned: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, topic: str) -> Future[object]:
        self.asked.append(topic)
        answer: Future[object] = Future()
        found = self.ids.get(topic)
        if self.silent:
            return answer
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(SimpleNamespace(topic_id=found))
        return answer

    def watch(self, **known: str) -> TopicWatch:
        def pulse() -> None:
            self.seconds += 1.0

        return TopicWatch(
            self.ask,
            known=known,
            learned=lambda topic, found: self.learned.append((topic, found)),
            pulse=pulse,
            now=lambda: self.seconds,
        )


def test_an_id_is_learned_once_and_a_topic_that_stays_is_no_trouble() -> None:
    brokers = Brokers({"t": Uuid(1, 2)})
    watch = brokers.watch()
    watch.verify("t")
    watch.verify("t")
    assert brokers.learned == [("t", FIRST)]


def test_a_topic_that_was_made_anew_is_named_with_both_ids_and_what_may_be_wrong() -> None:
    brokers = Brokers({"t": Uuid(1, 2)})
    watch = brokers.watch()
    watch.verify("t")
    brokers.seconds, brokers.ids["t"] = 7.5, Uuid(3, 4)
    with pytest.raises(ConfigurationError) as caught:
        watch.verify("t")
    said = str(caught.value)
    assert f"The topic t was deleted and recreated (topic ID {FIRST} -> {SECOND})" in said
    assert "which may have been sent in the last 7.5 s" in said


def test_a_topic_that_is_another_one_than_in_the_checkpoint_is_refused() -> None:
    watch = Brokers({"t": Uuid(3, 4)}).watch(t=FIRST)
    watch.begin("t")
    with pytest.raises(ConfigurationError, match="the offsets of the checkpoint now name other events"):
        watch.settle()


def test_a_glance_asks_once_in_a_while_and_sooner_after_a_sign() -> None:
    brokers = Brokers({"t": Uuid(1, 2)})
    watch = brokers.watch()
    watch.begin("t")
    for _ in range(1000):
        watch.poll("t")
    assert len(brokers.asked) == 1
    brokers.seconds = ASK_EVERY_SECONDS
    watch.poll("t")
    assert len(brokers.asked) == 2
    watch.ask_soon()
    watch.poll("t")
    assert len(brokers.asked) == 2, "signs come in swarms"
    brokers.seconds += ASK_EVERY_SECONDS / 5
    brokers.ids["t"] = Uuid(3, 4)
    watch.poll("t")
    with pytest.raises(ConfigurationError, match="recreated"):
        watch.poll("t")


@pytest.mark.parametrize(
    "found", [None, Uuid(0, 0), KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), TimeoutError()]
)
def test_brokers_that_know_no_ids_or_do_not_say_them_change_nothing(found: Uuid | Exception | None) -> None:
    brokers = Brokers({"t": found})
    watch = brokers.watch()
    watch.begin("t")
    assert watch.settle()
    resumed = brokers.watch(t=FIRST)
    resumed.verify("t")
    assert brokers.learned == []


def test_silence_is_waited_for_but_not_for_ever_and_stays_known() -> None:
    brokers = Brokers(silent=True)
    watch = brokers.watch()
    watch.begin("t")
    assert not watch.settle()
    assert brokers.seconds >= ANSWER_SECONDS
    waited_until = brokers.seconds
    for _ in range(3):
        watch.verify("t")
    assert brokers.asked == ["t"] * 4, "asked again, and not waited for"
    assert brokers.seconds == waited_until
    brokers.silent, brokers.ids["t"] = False, Uuid(1, 2)
    watch.verify("t")
    watch.poll("t")
    brokers.ids["t"] = Uuid(3, 4)
    with pytest.raises(ConfigurationError, match="recreated"):
        watch.verify("t")
