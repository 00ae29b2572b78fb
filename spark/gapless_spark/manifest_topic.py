"""Owns how manifests are found that came over the link: in the topic that the receiver writes status texts to.

Must not know what is expected because of them. The topic holds whatever senders and the receiver say of themselves, so
that it is read once through, and only parts of manifests that are still incomplete are kept.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from gapless_api.errors import ConfigurationError, SourceStalledError, SourceUnreachableError
from gapless_api.manifest_parts import PartsHeld, parse_part
from gapless_api.manifest_reader import read_manifest_text
from gapless_spark.kafka_source import look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gapless_api.kafka_connection import KafkaConnection
    from gapless_spark.expectations import NewestExtents
    from gapless_spark.kafka_source import TopicCut

_STALLED_AFTER_SECONDS = 60.0
_AT_ONCE = 5000


def add_manifests_of_topic(  # noqa: PLR0913 -- where, whose, and who is told
    into: NewestExtents,
    connection: KafkaConnection,
    topic: str,
    *,
    verification_key: Path | None,
    timeout_seconds: float,
    warn: Callable[[str], None],
) -> None:
    """Add every manifest that lies whole in `topic`; what is damaged or wrongly signed is named to `warn`.

    Raises:
        ConfigurationError: there is no such topic, or no manifest in it can be used.
        SourceUnreachableError: Kafka cannot be reached, or stops answering.
    """
    (cut,) = look(connection, [topic], timeout_seconds=timeout_seconds).topics
    held = PartsHeld()
    last_problem = ""
    found = 0
    for value in _values(connection, cut):
        part = parse_part(value)
        text = held.add(part) if part is not None else None
        if part is None or text is None:
            continue
        where = f"{part.manifest_id} in topic {topic}"
        try:
            manifest = read_manifest_text(text, name=where, verification_key=verification_key)
        except ConfigurationError as error:
            last_problem = str(error)
            warn(last_problem)
            continue
        into.add(manifest, f"topic {topic}")
        found += 1
    later = [manifest_id for manifest_id in held.incomplete_ids if manifest_id > into.newest_id]
    if later:
        warn(f"Parts of the manifest {later[-1]} in topic {topic} are missing; have it sent again.")
    if not found:
        why = last_problem or (
            f"The topic {topic} holds no whole manifest; have one sent with gapless manifest --target-ip, and see that "
            f"the receiver's internalTopic is this topic."
        )
        raise ConfigurationError(why)


def _values(connection: KafkaConnection, cut: TopicCut) -> Iterator[bytes]:
    """The values of all records of `cut`."""
    firsts_and_ends = enumerate(zip(cut.first_offsets, cut.end_offsets, strict=True))
    ends = {number: end for number, (first, end) in firsts_and_ends if first < end}
    options = {
        **connection.librdkafka_options(),
        "group.id": connection.group_id or "gapless-audit",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    consumer = Consumer(options)
    try:
        consumer.assign([TopicPartition(cut.topic, number, cut.first_offsets[number]) for number in ends])
        heard = time.monotonic()
        while ends:
            messages = consumer.consume(_AT_ONCE, 0.2)
            heard = time.monotonic() if messages else heard
            for message in messages:
                error = message.error()
                if error is None:
                    yield message.value() or b""
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    _go_on_after(error, connection, cut.topic)
                    continue
                # At the end of a partition, the message is the one behind the last record.
                if message.offset() + (error is None) >= ends.get(message.partition(), 0):
                    ends.pop(message.partition(), None)
            if time.monotonic() - heard > _STALLED_AFTER_SECONDS:
                raise SourceStalledError(
                    f"Kafka at {connection.bootstrap_servers} stopped answering while the topic {cut.topic} was read; "
                    f"check the brokers and run again."
                )
    except KafkaException as error:
        raise SourceUnreachableError(
            f"Kafka at {connection.bootstrap_servers} refuses the topic {cut.topic} ({error.args[0].str()}); see to "
            f"the brokers and to our permissions."
        ) from None
    finally:
        consumer.close()


def _go_on_after(error: KafkaError, connection: KafkaConnection, topic: str) -> None:
    """Lost brokers and moved leaders pass; refusals do not. Raises SourceUnreachableError."""
    if error.fatal() or error.name().endswith("AUTHORIZATION_FAILED"):
        raise SourceUnreachableError(
            f"Kafka at {connection.bootstrap_servers} denies access to the topic {topic} ({error.str()}); have the "
            f"right to read it granted."
        )
