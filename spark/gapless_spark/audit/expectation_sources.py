"""Where an audit's expectations come from: settings, files and the topic of inventories; must not know Spark.

Files are read together with the settings, so that an invalid file is reported before anything else happens.
The topic also contains other status texts of senders and the receiver, so it is read once from start to end, and only
the parts of incomplete inventories are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.parts import PartAssembler, parse_part
from gapless_api.inventory.reader import read_inventory, read_inventory_text
from gapless_kafka.reading.cuts import slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_spark.model.expectations import Expectations, add_inventories, parse_expectations
from gapless_spark.model.newest_entries import NewestEntries

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_spark.model.generations import Origin, RecreatedTopic
    from gapless_spark.model.listed_logs import ListedLog, TruncatedPartition
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.model.upstream_logs import RecordedLog
    from gapless_spark.settings.jobs import JobSettings
    from gapless_spark.settings.tables import AuditSettings


def add_inventories_of_topic(  # noqa: PLR0913 -- all that is configurable
    into: NewestEntries,
    connection: KafkaConnection,
    topic: str,
    *,
    verification_key: Path | None,
    timeout_seconds: float,
    warn: Callable[[str], None],
) -> None:
    """Add every complete inventory in `topic`; call `warn` for those that are damaged or whose signature is invalid.

    Raises:
        ConfigurationError: there is no such topic, or no inventory in it can be used.
        SourceUnreachableError: Kafka cannot be reached, or stops answering.
    """
    cut = read_cut(connection, [topic], timeout_seconds=timeout_seconds)
    parts = PartAssembler()
    last_problem = ""
    complete = 0
    for value in (
        message.value() or b"" for messages in read_slices(connection, slices_of(cut)) for message in messages
    ):
        part = parse_part(value)
        text = parts.add(part) if part is not None else None
        if part is None or text is None:
            continue
        try:
            name = f"{part.inventory_id} in topic {topic}"
            inventory = read_inventory_text(text, name=name, verification_key=verification_key)
        except ConfigurationError as error:
            last_problem = str(error)
            warn(last_problem)
            continue
        into.add(inventory, f"topic {topic}")
        complete += 1
    later = [inventory_id for inventory_id in parts.incomplete_ids if inventory_id > into.newest_id]
    if later:
        warn(f"Parts of the inventory {later[-1]} in topic {topic} are missing; send it again with gapless inventory.")
    if not complete:
        raise ConfigurationError(
            last_problem
            or f"The topic {topic} holds no complete inventory; send one with gapless inventory --target-ip, and check "
            f"that the receiver's internalTopic is this topic."
        )


class ExpectationSources:
    """The expectations that the settings of an audit name."""

    def __init__(self, chosen: AuditSettings, job_settings: JobSettings) -> None:
        """Read the files.

        Raises:
            ConfigurationError: an expectation or an inventory is invalid, or has no valid signature.
        """
        self._job_settings = job_settings
        self._topics = chosen.expect_topics
        self._given = parse_expectations(chosen.expect, chosen.expect_file)
        self._expectations = self._given
        self._key = chosen.verify_key
        self._inventories = NewestEntries()
        self._topic = chosen.expect_inventory_topic
        inventories = [(read_inventory(path, verification_key=self._key), path) for path in chosen.expect_inventory]
        for inventory, path in sorted(inventories, key=lambda each: each[0].metadata.id):
            self._inventories.add(inventory, str(path))
        self._uses_inventories = bool(self._topic or chosen.expect_inventory)
        for name, value in (("verifyKey", chosen.verify_key), ("expectTopics", chosen.expect_topics)):
            if value and not self._uses_inventories:
                raise ConfigurationError(
                    f"{name} is given without an inventory; delete it, or give expectInventory or expectInventoryTopic."
                )

    @property
    def expectations(self) -> Expectations:
        """The expected offsets, as `read` has found them."""
        return self._expectations

    def read(self, recorded: Iterable[RecordedLog] = ()) -> None:
        """Determine the expected offsets, and read the topic of inventories for that.

        Args:
            recorded: the upstream logs that an earlier audit has seen.

        Raises:
            ConfigurationError: no inventory can be used, none lists a topic of expectTopics, or it is unknown which of
                two belongs to the recreated topic.
            SourceUnreachableError: the topic of inventories cannot be read.
        """
        if not self._uses_inventories:
            return
        if self._topic is not None:
            add_inventories_of_topic(
                self._inventories,
                self._job_settings.kafka.with_client_id("gapless-audit"),
                self._topic,
                verification_key=self._key,
                timeout_seconds=self._job_settings.engine.connect_timeout_seconds,
                warn=_warn,
            )
        for topic, one_id, other_id in self._inventories.undecided:
            if self._is_selected(topic):
                raise ConfigurationError(
                    f"Two inventories of the same second list the upstream topic {topic} with the topic IDs {one_id} "
                    f"and {other_id}, so it is unknown which topic is newer; run gapless inventory again, and give "
                    f"that inventory as well."
                )
        if self._inventories.conflicts:
            shown = ", ".join(f"{topic}/{partition}" for topic, partition in self._inventories.conflicts[:20])
            _warn(f"Inventories of different clusters list the same partitions; the newest one is used: {shown}")
        self._inventories.compare_recorded(recorded)
        for found in self.truncated:
            _warn(_truncation_sentence(found))
        self._expectations = add_inventories(self._given, self._inventories, self._topics)

    @property
    def origins(self) -> dict[TopicPartition, Origin]:
        """The upstream topic of each source partition, as far as inventories contain topic IDs."""
        origins = self._inventories.origins()
        return {partition: origin for partition, origin in origins.items() if self._is_selected(partition[0])}

    @property
    def replaced(self) -> list[RecreatedTopic]:
        """The upstream topics for which inventories of two topic IDs exist."""
        return [change for change in self._inventories.replaced if self._is_selected(change.topic)]

    @property
    def truncated(self) -> list[TruncatedPartition]:
        """The truncations of upstream logs that no earlier audit has found."""
        return [found for found in self._inventories.truncated if self._is_selected(found.topic)]

    @property
    def logs(self) -> dict[TopicPartition, ListedLog]:
        """The logs of the newest inventories."""
        return {
            partition: log for partition, log in self._inventories.logs().items() if self._is_selected(partition[0])
        }

    def _is_selected(self, topic: str) -> bool:
        return not self._topics or topic in self._topics

    def add_to(self, conclusion: Conclusion) -> Conclusion:
        """Return `conclusion` with the inventories that were used."""
        if not self._uses_inventories:
            return conclusion
        entries = self._inventories.entries()
        return replace(
            conclusion,
            details={**conclusion.details, "manifests": self._inventories.sources()},
            absent={partition: entry.absent for partition, entry in entries.items() if entry.absent is not None},
        )


def _truncation_sentence(found: TruncatedPartition) -> str:
    """Return the sentence about a log that was truncated between two inventories."""
    what = f"The upstream partition {found.topic}/{found.partition}"
    if found.by_epochs:
        return (
            f"{what} was truncated at offset {found.first_difference:,} under the same topic ID, as after an unclean "
            f"leader election or on a replaced disk, between the inventories {found.earlier_id} (end "
            f"{found.earlier_end:,}) and {found.later_id} (end {found.later_end:,}): its events from this offset on "
            f"are other ones than before, so they are unknown. Resend them; an audit without a state must then "
            f"leave out the inventories from before."
        )
    return (
        f"{what} ended at {found.earlier_end:,} in the inventory {found.earlier_id}, and at {found.later_end:,} in the "
        f"later inventory {found.later_id}: its log was truncated, as after an unclean leader election, or the topic "
        f"was recreated, or a clock was wrong. Events from offset {found.later_end:,} on may be others than before, so "
        f"they are unknown; check the upstream brokers."
    )


def _warn(text: str) -> None:
    import structlog  # noqa: PLC0415 -- slow to import

    structlog.get_logger().warning(text)
