"""Owns how inventories that came over the link are found in the topic to which the receiver writes status texts.

Must not know what is expected because of them. The topic also contains other status texts of senders and the receiver,
so it is read once from start to end, and only the parts of incomplete inventories are held in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.parts import PartAssembler, parse_part
from gapless_api.inventory.reader import read_inventory_text
from gapless_kafka.reading.cuts import slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.reading.topic_offsets import read_cut

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_spark.model.newest_entries import NewestEntries


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
