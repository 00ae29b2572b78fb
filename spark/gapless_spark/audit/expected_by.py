"""Owns where an audit's expectations come from: settings, files and the topic of inventories; must not know Spark.

Files are read when the settings are, so that what is wrong with them shows before anything else happens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.reader import read_inventory
from gapless_spark.audit.inventory_topic import add_inventories_of_topic
from gapless_spark.model.expectations import NewestEntries, add_inventories, parse_expectations

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.expectations import Expectations
    from gapless_spark.model.generations import Origin, RecreatedTopic
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.settings.typed import AuditSettings, JobSettings


class ExpectedBy:
    """What the settings of an audit say should be there."""

    def __init__(self, chosen: AuditSettings, told: JobSettings) -> None:
        """Read what is in files.

        Raises:
            ConfigurationError: an expectation or an inventory is none, or is not signed as it must be.
        """
        self._told = told
        self._topics = chosen.expect_topics
        self._given = parse_expectations(chosen.expect, chosen.expect_file)
        self._expectations = self._given
        self._key = chosen.verify_key
        self._inventories = NewestEntries()
        self._topic = chosen.expect_inventory_topic
        for path in chosen.expect_inventory:
            self._inventories.add(read_inventory(path, verification_key=self._key), str(path))
        self._asked = bool(self._topic or chosen.expect_inventory)
        for name, value in (("verifyKey", chosen.verify_key), ("expectTopics", chosen.expect_topics)):
            if value and not self._asked:
                raise ConfigurationError(
                    f"{name} is given without an inventory; delete it, or give expectInventory or expectInventoryTopic."
                )

    @property
    def expectations(self) -> Expectations:
        """What should be there, as it was when it was read last."""
        return self._expectations

    def read(self) -> None:
        """Find out what should be there, inventories that came over the link included.

        Raises:
            ConfigurationError: no inventory can be used, none speaks of a topic of expectTopics, or it is unknown
                which of two is of the recreated topic.
            SourceUnreachableError: Kafka does not give the topic of inventories.
        """
        if not self._asked:
            return
        if self._topic is not None:
            add_inventories_of_topic(
                self._inventories,
                self._told.kafka.of_client("gapless-audit"),
                self._topic,
                verification_key=self._key,
                timeout_seconds=self._told.engine.connect_timeout_seconds,
                warn=_warn,
            )
        for topic, one_id, other_id in self._inventories.undecided:
            if self._counts(topic):
                raise ConfigurationError(
                    f"Two inventories of the same second give the upstream topic {topic} the topic IDs {one_id} and "
                    f"{other_id}, and which of them is the recreated one is unknown; run gapless inventory again, "
                    f"and give that inventory, too."
                )
        if self._inventories.conflicts:
            shown = ", ".join(f"{topic}/{partition}" for topic, partition in self._inventories.conflicts[:20])
            _warn(f"Inventories of different clusters speak of the same partitions, and the newest counts: {shown}")
        self._expectations = add_inventories(self._given, self._inventories, self._topics)

    @property
    def origins(self) -> dict[TopicPartition, Origin]:
        """Which upstream topic each source partition is of, as far as inventories say."""
        return {place: origin for place, origin in self._inventories.origins().items() if self._counts(place[0])}

    @property
    def replaced(self) -> list[RecreatedTopic]:
        """The upstream topics that were recreated, as inventories of before and after show."""
        return [change for change in self._inventories.replaced if self._counts(change.topic)]

    def _counts(self, topic: str) -> bool:
        return not self._topics or topic in self._topics

    def named_in(self, conclusion: Conclusion) -> Conclusion:
        """The same `conclusion`, with the inventories that counted among its details."""
        if not self._asked:
            return conclusion
        entries = self._inventories.entries()
        return replace(
            conclusion,
            details={**conclusion.details, "manifests": self._inventories.sources()},
            absent={place: entry.absent for place, entry in entries.items() if entry.absent is not None},
        )


def _warn(text: str) -> None:
    import structlog  # noqa: PLC0415 -- slow to import

    structlog.get_logger().warning(text)
