"""Owns how a cluster is looked at, again and again over one connection: leaders, IDs, rights, ends and coordinators.

Nothing here waits for longer than an answer may take, and what one broker does not answer hides nothing of the others.
What the answers mean is for `gapless_kafka.mirror.watch.stall` to say.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from gapless_api.base.errors import GaplessError
from gapless_kafka.access.errors import LOGIN, UNREACHABLE, fault_of, reason_in
from gapless_kafka.mirror.watch.facts import ClusterLook, KafkaFault, PartitionEnds, PartitionLook, TopicLook
from gapless_kafka.topics.topic_configuration import topic_configurations
from gapless_kafka.topics.topic_ids import url_safe_topic_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition as Place
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.watch.facts import Side

ANSWER_SECONDS = 5.0
"""What a broker is given for an answer."""
_GRACE_SECONDS = 1.0
"""So much later Kafka's client has reported that there was none."""
END_SECONDS = ANSWER_SECONDS + _GRACE_SECONDS
"""How long a question is waited for at the end: Kafka's client ends a process that drops one meanwhile."""
_CONFIGURATION_SECONDS = 300.0
"""How old the retention of a topic may be."""
_LOG_START_SECONDS = 25.0
"""How old the log start of a partition may be that is not copied to its end."""
_LOOKS_PER_DESCRIPTION = 3
"""Of how many looks one asks for the leaders, IDs and rights of all topics while nothing is amiss."""
_NOWHERE = 2**63
_KEPT_COMPLAINTS = 20


class ClusterWatch:
    """Looks at one cluster."""

    def __init__(self, side: Side, connection: KafkaConnection, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        """Connect at the first look."""
        self._side: Side = side
        self._connection = connection
        self._answer_seconds = answer_seconds
        self._complaints: list[KafkaError] = []
        self._client: Any = None
        self._last = ClusterLook(side=side)
        self._retention: dict[str, float | None] = {}
        self._retention_at = float("-inf")
        self._starts: dict[Place, int] = {}
        self._starts_at = float("-inf")
        self._description_in = 0
        """After how many further looks topics are described again."""

    def look(self, topics: Collection[str], ends: Mapping[Place, int] | None = None) -> ClusterLook:
        """What the cluster tells now.

        While it does not answer, or refuses us, the result is the last one, with the error.

        Args:
            topics: which are described.
            ends: partitions of which log starts and ends are looked up, and how long records are kept; each with the
                offset up to which it is copied.
        """
        del self._complaints[:-_KEPT_COMPLAINTS]
        try:
            self._last = self._look(topics, ends or {})
            self._client.poll(0)
            self._complaints.clear()
        except (KafkaException, FutureTimeoutError, GaplessError) as error:
            self._last = replace(self._last, fault=self._fault(error))
            self._description_in = 0
        return self._last

    def _look(self, topics: Collection[str], ends: Mapping[Place, int]) -> ClusterLook:
        if self._client is None:
            quiet = logging.getLogger("gapless.librdkafka")
            quiet.propagate = False
            quiet.setLevel(logging.CRITICAL + 1)
            options = {
                **self._connection.librdkafka_options(),
                "error_cb": self._complaints.append,
                "reconnect.backoff.max.ms": 2000,
                "topic.metadata.refresh.interval.ms": -1,
                "log_level": 0,
            }
            self._client = AdminClient(options, logger=quiet)
        client, seconds = self._client, self._answer_seconds
        cluster = self._answer(client.describe_cluster(request_timeout=seconds))
        brokers = frozenset(node.id for node in cluster.nodes)
        known = self._last.topics
        if self._description_in and brokers == self._last.brokers and known.keys() == {*topics}:
            self._description_in -= 1
            found = dict(known)
        else:
            asked = (
                client.describe_topics(
                    TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=seconds
                )
                if topics
                else {}
            )
            found = {topic: self._topic(topic, future) for topic, future in asked.items()}
            self._description_in = _LOOKS_PER_DESCRIPTION - 1
        if ends:
            found = self._with_ends(self._with_retention(found), ends, brokers)
        if any(_is_amiss(topic, brokers) for topic in found.values()):
            self._description_in = 0
        return ClusterLook(side=self._side, brokers=brokers, topics=found)

    def _topic(self, topic: str, future: Any) -> TopicLook:
        try:
            told = self._answer(future)
        except KafkaException as error:
            name = error.args[0].name()
            if fault_of(name) in {UNREACHABLE, LOGIN}:
                raise
            return self._last.topics.get(topic, TopicLook()) if fault_of(name).is_transient else TopicLook(error=name)
        identity = url_safe_topic_id(str(told.topic_id or ""))
        return TopicLook(
            id=identity if identity.strip("A") else "",
            partitions={
                one.id: PartitionLook(
                    None if one.leader is None or one.leader.id < 0 else one.leader.id,
                    replicas=tuple(node.id for node in one.replicas),
                )
                for one in told.partitions
            },
            operations=None
            if told.authorized_operations is None
            else frozenset(operation.name for operation in told.authorized_operations),
        )

    def newest_timestamps(self, topic: str) -> dict[int, float]:
        """When the newest record of each partition was made, in seconds since 1970; empty where there is none.

        It is taken from the last look, and of partitions that answer.
        """
        look = self._last.topics.get(topic)
        if look is None or self._client is None:
            return {}
        places = [
            TopicPartition(topic, number) for number, one in look.partitions.items() if one.leader in self._last.brokers
        ]
        found = self._results(places, OffsetSpec.max_timestamp(), IsolationLevel.READ_UNCOMMITTED)
        return {number: told.timestamp / 1000 for (_, number), told in found.items() if told.timestamp >= 0}

    def _with_ends(
        self, topics: Mapping[str, TopicLook], ends: Mapping[Place, int], brokers: frozenset[int]
    ) -> dict[str, TopicLook]:
        known = {(name, number): one for name, topic in topics.items() for number, one in topic.partitions.items()}
        # Kafka's client waits in vain for the leaders of the others.
        places = [TopicPartition(*place) for place in ends if place in known and known[place].leader in brokers]
        high = self._offsets(places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        # Only what is stable is copied: where everything is, no transaction is open, and no record waits to expire.
        copied = {place: end for place, end in high.items() if ends[place] == end}
        others = [place for place in places if (place.topic, place.partition) not in copied]
        stable = copied | self._offsets(others, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        starts = self._log_starts(places, high, copied)
        complete = starts.keys() & stable.keys() & high.keys()
        if len(complete) < len(ends):
            self._description_in = 0  # a leader may have moved
        return {
            name: replace(
                topic,
                partitions={
                    number: replace(one, ends=PartitionEnds(*(each[name, number] for each in (starts, stable, high))))
                    if (name, number) in complete
                    else replace(one, ends=None)
                    for number, one in topic.partitions.items()
                },
            )
            for name, topic in topics.items()
        }

    def _log_starts(
        self, places: Collection[TopicPartition], ends: Mapping[Place, int], copied: Collection[Place]
    ) -> dict[Place, int]:
        """The log starts, which move seldom; looking all of them up takes as long as the ends do."""
        now = time.monotonic()
        if now - self._starts_at > _LOG_START_SECONDS:
            self._starts = {place: start for place, start in self._starts.items() if place in copied}
            self._starts_at = now
        # A log that ends before its start is another one.
        asked = [
            place
            for place in places
            if self._starts.get((place.topic, place.partition), _NOWHERE) > ends.get((place.topic, place.partition), 0)
        ]
        self._starts |= self._offsets(asked, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        return self._starts

    def _offsets(
        self, places: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Place, int]:
        return {place: int(told.offset) for place, told in self._results(places, spec, isolation).items()}

    def _results(
        self, places: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Place, Any]:
        asked = dict.fromkeys(places, spec)
        if not asked:
            return {}
        futures = self._client.list_offsets(asked, isolation_level=isolation, request_timeout=self._answer_seconds)
        found = {}
        for place, future in futures.items():
            try:
                found[place.topic, place.partition] = self._answer(future)
            except (KafkaException, FutureTimeoutError):
                continue  # the leader of this partition does not answer, or denies it
        return found

    def _with_retention(self, topics: Mapping[str, TopicLook]) -> dict[str, TopicLook]:
        known = [name for name, topic in topics.items() if not topic.error]
        if time.monotonic() - self._retention_at > _CONFIGURATION_SECONDS or not self._retention.keys() >= {*known}:
            told = topic_configurations(self._connection, known, timeout_seconds=self._answer_seconds)
            self._retention = {name: one.retention_seconds if one is not None else None for name, one in told.items()}
            self._retention_at = time.monotonic()
        return {name: replace(topic, retention_seconds=self._retention.get(name)) for name, topic in topics.items()}

    def _answer(self, future: Any) -> Any:
        return future.result(timeout=self._answer_seconds + _GRACE_SECONDS)

    def _fault(self, error: Exception) -> KafkaFault:
        if self._client is not None:
            self._client.poll(0)  # for complaints
        if isinstance(error, GaplessError):
            return KafkaFault(self._side, "_FAIL", str(error).rstrip("."))
        told = [one for one in self._complaints if fault_of(one.name()) is LOGIN]
        told += [one for one in reversed(self._complaints) if one.name() != "_ALL_BROKERS_DOWN"]
        if isinstance(error, KafkaException):
            told.append(error.args[0])
        if not told:
            return KafkaFault(self._side, "_TIMED_OUT", f"no answer within {self._answer_seconds:.0f} s")
        return KafkaFault(self._side, told[0].name(), reason_in(told[0].str()))


def _is_amiss(topic: TopicLook, brokers: frozenset[int]) -> bool:
    """Whether a topic may look otherwise soon."""
    led = [one.leader in brokers for one in topic.partitions.values()]
    return bool(topic.error) or not led or not all(led)
