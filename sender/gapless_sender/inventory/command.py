"""One run of ``gapless inventory``: connects the parts, sends the result over the link, reports the outcome.

A status text is one datagram: all texts have the same id, so the receiver would mix up fragments of two. No session key
is announced, so that an encrypted live stream to the same receiver is not disturbed.
Must not know how Kafka is read, nor the format of an inventory.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output
from gapless_api.base.quantities import quantity
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_api.inventory.form import Inventory, Isolation, new_inventory
from gapless_api.inventory.parts import part_texts
from gapless_api.inventory.reader import read_inventory
from gapless_api.inventory.writer import inventory_pieces, sign_inventory, write_inventory
from gapless_api.offsets.windows import PartitionWindow
from gapless_kafka.access.connection import KafkaConnection, connection_from
from gapless_sender.base.lazy_log import start_log
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.inventory.partition_offsets import (
    AbsentOffsetReader,
    EntriesByPartition,
    add_epochs,
    check_topic_ids,
    query_entries,
)
from gapless_sender.link.opening import open_link
from gapless_sender.pace.chosen_rate import check_rate, with_profile
from gapless_sender.pace.pacing import Clock, Pace
from gapless_sender.settings.inventory import InventorySettings
from gapless_sender.settings.link import LinkSettings
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import PartitionMapping
from gapless_sender.wire.packets import HEADER_BYTES, STATUS_ID, rfc3339, status_packet

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.link.udp_link import UdpLink


class InventoryLink:
    """The link to the receiver of an inventory."""

    def __init__(self, link: UdpLink, settings: InventorySettings, link_settings: LinkSettings, clock: Clock) -> None:
        self._link = link
        self._sender = settings.id
        self._copies = link_settings.copies
        self._payload_size = link_settings.payload_size or link.mtu_payload_size()
        self._pace = Pace(settings.datagrams_per_second, clock=clock)

    @classmethod
    def of(cls, settings: InventorySettings, link_settings: LinkSettings, clock: Clock) -> Self | None:
        """Open the link that the settings describe; ``None`` when the inventory is not sent.

        Raises:
            ConfigurationError: the settings of the link are incomplete or conflict.
            LinkError: datagrams would not leave this machine.
        """
        needed = {"targetIP": settings.target_ip, "targetPort": settings.target_port}
        if not any(value is not None for value in needed.values()):
            return None
        for name, value in needed.items():
            if value is None:
                raise ConfigurationError(f"To send the inventory, {name} is missing; set targetIP and targetPort.")
        link = open_link(link_settings, clock, order="strict")
        try:
            link.begin()  # now, because reading may take hours
            return cls(link, settings, link_settings, clock)
        except BaseException:
            link.close()
            raise

    def send(self, inventory: Inventory) -> str:
        """Send `inventory` and return the message about it.

        Raises:
            ConfigurationError: it is too large to be sent.
            LinkError: the link accepts no datagrams.
        """
        texts = part_texts(
            inventory.metadata.id,
            inventory_pieces(inventory),
            opening=f"{rfc3339(datetime.now().astimezone())} {self._sender}",
            text_bytes=self._payload_size - HEADER_BYTES - len(STATUS_ID),
        )

        def send_all() -> None:
            for _ in range(self._copies):  # one after the other: a burst of losses must not take all copies of a part
                for text in texts:
                    self._pace.admit(1, 0)
                    self._link.send([status_packet(text, self._payload_size)])

        send_all()
        self._link.confirm(send_all)
        self._link.settle_replies()
        times = "once" if self._copies == 1 else f"{self._copies} times"
        message = f"Sent as {len(texts)} status text{'' if len(texts) == 1 else 's'}, {times}."
        return " Warning: ".join((message, *self._link.warnings()))

    def close(self) -> None:
        """Close the link."""
        self._link.close()


KAFKA_NAME = "gapless-manifest"
"""Client ID and group ID; they keep their old name because quotas and ACLs of a cluster may refer to it."""


def run(found: Resolved) -> int:
    """Make the inventory that the settings describe, write it, send it; return the exit code.

    Raises:
        GaplessError: with the message for the user; the file of the inventory is complete or not written.
    """
    start_log(found)
    values = with_profile(found, found.values, counts_datagrams=True)
    settings = InventorySettings.of(values)
    shutdown = Shutdown(hint="run the command again to make the inventory")
    shutdown.listen()
    topics = _topics(settings)
    with ExitStack() as stack:
        link = InventoryLink.of(settings, LinkSettings.of(values), shutdown)
        if link is not None:
            check_rate(found, is_limited=bool(settings.datagrams_per_second), unlimited=found.values["unlimited"])
            stack.callback(link.close)
        _check_files(settings)
        connection = connection_from(found.values, client_id=KAFKA_NAME)
        connection = replace(connection, group_id=connection.group_id or KAFKA_NAME)
        source = KafkaSource(
            connection,
            isolation_level=settings.isolation_level,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            stall_timeout_seconds=settings.stall_timeout_seconds,
            pulse=shutdown.check,
        )
        stack.callback(source.close)
        source.connect()
        inventory = _take_inventory(settings, topics, source, connection)
        if settings.signing_key is not None:
            inventory = sign_inventory(inventory, settings.signing_key)
        if settings.inventory is not None or link is None:
            write_inventory(settings.inventory, inventory)
        message = _summary(inventory)
        if link is not None:
            message += f" {link.send(inventory)}"
    sys.stderr.write(f"{message}\n")
    return ExitCode.DONE


def _take_inventory(
    settings: InventorySettings, topics: tuple[str, ...], source: KafkaSource, connection: KafkaConnection
) -> Inventory:
    window = PartitionWindow(settings.window_start, settings.window_count)
    mapping = PartitionMapping.of(window, settings.topic_translations)
    cluster, isolation = source.topics.cluster_id(), Isolation(settings.isolation_level)
    created = datetime.now(UTC)  # before the first query, so that all that existed then is in the inventory
    entries = add_epochs(connection, query_entries(source, topics, mapping), settings.connect_timeout_seconds)
    if settings.absent:
        entries = _add_absent(settings, source, entries, _previous_entries(settings, cluster, isolation))
    check_topic_ids(source, entries)
    described = {"command": "gapless inventory"}
    if settings.source_name:
        described["name"] = settings.source_name
    return new_inventory(entries.values(), created=created, cluster=cluster, isolation=isolation, source=described)


def _topics(settings: InventorySettings) -> tuple[str, ...]:
    names: tuple[str, ...] = settings.topics or tuple(settings.topic_translations)
    if not names:
        raise ConfigurationError(
            "No topic is selected; set topics, or give a properties file of the live sender, which names its topic."
        )
    by_downstream = {settings.topic_translations.get(name, name): name for name in names}
    return tuple(by_downstream.values())


def _previous_entries(settings: InventorySettings, cluster: str, isolation: Isolation) -> dict[TopicPartition, Any]:
    """Return the entries of the previous inventory, by topic and partition."""
    path = settings.previous
    if path is None:
        return {}
    previous = read_inventory(path)
    for what, theirs, ours in (
        ("cluster", previous.metadata.cluster, cluster),
        ("isolation level", str(previous.metadata.isolation), str(isolation)),
    ):
        if theirs != ours:
            raise ConfigurationError(
                f"The previous inventory {path} has the {what} {theirs}, but this one has {ours}; remove previous to "
                f"read everything."
            )
    return {(entry.topic, entry.partition): entry for entry in previous.entries}


def _add_absent(
    settings: InventorySettings, source: KafkaSource, entries: EntriesByPartition, previous: dict[TopicPartition, Any]
) -> EntriesByPartition:
    reader = AbsentOffsetReader(source, previous, max_ranges=settings.absent_limit)
    total = reader.count_offsets(entries.values())
    sys.stderr.write(
        f"Reading {quantity(total, 'offset')} of {quantity(len(entries), 'partition')} to find the absent ones.\n"
    )
    read = 0
    with ReadingProgress("inventory", interval_seconds=settings.progress_seconds) as progress:
        progress.begin(total)

        def advanced(offsets: int) -> None:
            nonlocal read
            read += offsets
            progress.update(lambda: read)

        return {partition: reader.read(partition, entry, advanced) for partition, entry in entries.items()}


def _summary(inventory: Inventory) -> str:
    metadata, entries = inventory.metadata, inventory.entries
    empty = sum(entry.last is None for entry in entries)
    absent = sum(entry.absent.count for entry in entries if entry.absent is not None)
    note = f", {absent:,} offsets without an event" if any(entry.absent is not None for entry in entries) else ""
    return (
        f"Inventory {metadata.id}: {quantity(metadata.events, 'event')} in {quantity(len(entries), 'partition')} of "
        f"{quantity(len({entry.topic for entry in entries}), 'topic')}, {empty} of them empty{note}."
    )


def _check_files(settings: InventorySettings) -> None:
    """Check before the work what would make it fail at its end."""
    check_output("inventory", settings.inventory)
    if settings.signing_key is not None:
        from gapless_api.keys.signatures import signer_from_file  # noqa: PLC0415 -- cryptography is slow to import

        signer_from_file(settings.signing_key)
    if settings.previous is not None and not settings.absent:
        raise ConfigurationError("previous has an effect only with absent; set absent, too, or remove previous.")
