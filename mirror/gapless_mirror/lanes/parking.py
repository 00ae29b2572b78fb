"""The parking topic: what it must be for a record to be kept in it, and the header of a parked record.

Must not know why a record is parked. A parked record has the key, value, headers and timestamp of its original, and one
more header after these, with its origin.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.target_topics import TargetTopics

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.reading.headers import Header
    from gapless_mirror.lanes.records import LostRange
    from gapless_mirror.lanes.setup import LaneSetup

HEADER, PARKED = "gapless-parked", "Parked"
_FORM_VERSION = 1
_KEEPS_ALL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_MAX_MESSAGE_BYTES = 100 * 1024 * 1024
"""The largest request that a broker accepts by default."""
_NEWEST = str(2**63 - 1)
_WHILE_NEW = {
    "max.message.bytes": str(_MAX_MESSAGE_BYTES),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _NEWEST,
    "message.timestamp.after.max.ms": _NEWEST,
}
"""What a new parking topic has besides, as far as the brokers have these settings."""
_CHECK_SECONDS = 60.0
_TIMEOUT_SECONDS = 10.0


class Parked(NamedTuple):
    """A record that is written to the parking topic."""

    topic: str
    header: Header
    range: LostRange
    """For the position of its partition."""
    partition: int = 0
    """Of the parking topic."""


class ParkingTopic:
    """The topic of the target that has the records which their own topics refuse."""

    def __init__(self, topics: TargetTopics, name: str, mirror: str) -> None:
        """Nothing is sent before `check`; `mirror` is the name of the mirror."""
        self.name, self._mirror = name, mirror
        self._topics = topics
        self._checked_at: float | None = None

    def check(self) -> None:
        """Create the topic if it is missing, and check that it keeps all records; at most once a minute.

        Raises:
            ConfigurationError: it deletes records, or Kafka does not say whether it does, or refuses to create it.
            SourceUnreachableError: Kafka does not respond, or denies a request.
        """
        now = time.monotonic()
        if self._checked_at is not None and now - self._checked_at < _CHECK_SECONDS:
            return
        topic = self._topics.describe([self.name]).get(self.name)
        if topic is None:
            defaults = self._topics.defaults()
            more = {setting: value for setting, value in _WHILE_NEW.items() if setting in defaults}
            self._topics.create(self.name, 1, _KEEPS_ALL | more)
            topic = self._topics.describe([self.name]).get(self.name)
        configuration = {} if topic is None else topic.configuration
        wrong = [f"{setting}={value}" for setting, value in _KEEPS_ALL.items() if configuration.get(setting) != value]
        if not configuration:
            raise ConfigurationError(
                f"Kafka does not say whether the parking topic {self.name} keeps its records; grant this user the "
                f"operation DescribeConfigs on it."
            )
        if wrong:
            raise ConfigurationError(
                f"The parking topic {self.name} does not keep its records permanently; set {', '.join(wrong)} with "
                f"kafka-configs.sh, or give another parkingTopic."
            )
        self._checked_at = now

    def record(self, topic_partition: TopicPartition, lost: LostRange) -> Parked:
        """Return how a record is written, after `check`.

        Args:
            topic_partition: of the source.
            lost: the record alone.
        """
        topic, partition = topic_partition
        origin: dict[str, Any] = {
            "gaplessParked": _FORM_VERSION,
            "mirror": self._mirror,
            "topic": topic,
            "topicId": lost.source_id,
            "partition": partition,
            "offset": lost.first,
            "time": lost.time,
        }
        return Parked(self.name, (HEADER.encode(), json.dumps(origin, separators=(",", ":")).encode()), lost)


def parking_of(setup: LaneSetup) -> ParkingTopic | None:
    """Return the parking topic of a mirror; ``None`` if it parks nothing."""
    if not setup.parking_topic:
        return None
    topics = TargetTopics(setup.target, timeout_seconds=_TIMEOUT_SECONDS)
    return ParkingTopic(topics, setup.parking_topic, setup.identity.name)


def check_parking(setup: LaneSetup) -> None:
    """Check the parking topic of a mirror before it starts, if it has one. Raises like `ParkingTopic.check`."""
    parking = parking_of(setup)
    if parking is not None:
        parking.check()
