"""Owns where an audit's expectations come from: settings, files and the topic of inventories; must not know Spark.

Files are read when the settings are, so that what is wrong with them shows before anything else happens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.reader import read_inventory
from gapless_kafka.connection import connection_from
from gapless_spark.audit.inventory_topic import add_inventories_of_topic
from gapless_spark.model.expectations import NewestEntries, parse_expectations, with_inventories

if TYPE_CHECKING:
    from pathlib import Path

    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.expectations import Expectations
    from gapless_spark.model.generations import Origin, Replaced
    from gapless_spark.model.outcome import Conclusion


class ExpectedBy:
    """What the settings of an audit say should be there."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Read what is in files.

        Raises:
            ConfigurationError: an expectation or an inventory is none, or is not signed as it must be.
        """
        self._values = values
        self._given = parse_expectations(values["expect"], values["expectFile"])
        self._expectations = self._given
        self._key: Path | None = values["verifyKey"]
        self._inventories = NewestEntries()
        self._topic: str | None = values["expectInventoryTopic"]
        for path in values["expectInventory"]:
            self._inventories.add(read_inventory(path, verification_key=self._key), str(path))
        self._asked = bool(self._topic or values["expectInventory"])
        for name in ("verifyKey", "expectTopics"):
            if values[name] and not self._asked:
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
            ConfigurationError: no inventory can be used, or none speaks of a topic of expectTopics.
            SourceUnreachableError: Kafka does not give the topic of inventories.
        """
        if not self._asked:
            return
        if self._topic is not None:
            add_inventories_of_topic(
                self._inventories,
                connection_from(self._values, client_id="gapless-audit"),
                self._topic,
                verification_key=self._key,
                timeout_seconds=self._values["connectTimeout"],
                warn=_warn,
            )
        if self._inventories.conflicts:
            shown = ", ".join(f"{topic}/{partition}" for topic, partition in self._inventories.conflicts[:20])
            _warn(f"Inventories of different clusters speak of the same partitions, and the newest counts: {shown}")
        self._expectations = with_inventories(self._given, self._inventories, self._values["expectTopics"])

    @property
    def origins(self) -> dict[TopicPartition, Origin]:
        """Which upstream topic each source partition is of, as far as inventories say."""
        return {place: origin for place, origin in self._inventories.origins().items() if self._counts(place[0])}

    @property
    def replaced(self) -> list[Replaced]:
        """The upstream topics that were recreated, as inventories of before and after show."""
        return [change for change in self._inventories.replaced if self._counts(change.topic)]

    def _counts(self, topic: str) -> bool:
        return not self._values["expectTopics"] or topic in self._values["expectTopics"]

    def named_in(self, conclusion: Conclusion) -> Conclusion:
        """The same `conclusion`, with the inventories that counted among its details."""
        if not self._asked:
            return conclusion
        entries = self._inventories.entries()
        return replace(
            conclusion,
            details={**conclusion.details, "manifests": self._inventories.members()},
            absent={place: entry.absent for place, entry in entries.items() if entry.absent is not None},
        )


def _warn(text: str) -> None:
    import structlog  # noqa: PLC0415 -- slow to import

    structlog.get_logger().warning(text)
