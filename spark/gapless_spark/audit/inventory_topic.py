"""Owns how inventories are found that came over the link: in the topic that the receiver writes status texts to.

Must not know what is expected because of them. The topic holds whatever senders and the receiver say of themselves, so
that it is read once through, and only parts of inventories that are still incomplete are kept.
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
    from gapless_spark.model.expectations import NewestEntries


def add_inventories_of_topic(  # noqa: PLR0913 -- where, whose, and who is told
    into: NewestEntries,
    connection: KafkaConnection,
    topic: str,
    *,
    verification_key: Path | None,
    timeout_seconds: float,
    warn: Callable[[str], None],
) -> None:
    """Add every inventory that lies whole in `topic`; what is damaged or wrongly signed is named to `warn`.

    Raises:
        ConfigurationError: there is no such topic, or no inventory in it can be used.
        SourceUnreachableError: Kafka cannot be reached, or stops answering.
    """
    cut = read_cut(connection, [topic], timeout_seconds=timeout_seconds)
    held = PartAssembler()
    last_problem = ""
    found = 0
    for value in (
        message.value() or b"" for messages in read_slices(connection, slices_of(cut)) for message in messages
    ):
        part = parse_part(value)
        text = held.add(part) if part is not None else None
        if part is None or text is None:
            continue
        where = f"{part.inventory_id} in topic {topic}"
        try:
            inventory = read_inventory_text(text, name=where, verification_key=verification_key)
        except ConfigurationError as error:
            last_problem = str(error)
            warn(last_problem)
            continue
        into.add(inventory, f"topic {topic}")
        found += 1
    later = [inventory_id for inventory_id in held.incomplete_ids if inventory_id > into.newest_id]
    if later:
        warn(f"Parts of the inventory {later[-1]} in topic {topic} are missing; have it sent again.")
    if not found:
        why = last_problem or (
            f"The topic {topic} holds no complete inventory; have one sent with gapless inventory --target-ip, and see "
            f"that the receiver's internalTopic is this topic."
        )
        raise ConfigurationError(why)
