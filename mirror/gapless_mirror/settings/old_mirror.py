"""How the two properties files of Kafka's old mirror, kafka-mirror-maker.sh, are translated to settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.refusals import Refusals
from gapless_mirror.settings.client_properties import CONSUMER, MIRROR, PRODUCER
from gapless_mirror.settings.config_types import integer
from gapless_mirror.settings.java_properties import Property, read_java_properties
from gapless_mirror.settings.login_properties import SECURITY
from gapless_mirror.settings.translation import ClientRules, Translation, settle, translate

_FETCH = ("fetch.message.max.bytes", "max.partition.fetch.bytes")
_REQUEST = "max.request.size"
_DEFAULT_LIMIT = 1_048_576
"""Of Kafka's consumers and producers."""


def translate_old_mirror(
    consumer: Path | None, producer: Path | None, *, given: Collection[str] = (), ignore_unknown: bool = False
) -> Translation:
    """Translate the files of ``--consumer.config`` and ``--producer.config``.

    Args:
        consumer: the file for the source.
        producer: the file for the target.
        given: settings that are given elsewhere, which take precedence.
        ignore_unknown: whether unknown properties are ignored.

    Raises:
        ConfigurationError: a file cannot be read, properties are unknown or refused, or a combination cannot work.
    """
    reading = read_java_properties(consumer) if consumer is not None else {}
    writing = read_java_properties(producer) if producer is not None else {}
    from_consumer = translate(reading.values(), ClientRules({**CONSUMER, **MIRROR}, "source", given))
    from_producer = translate(writing.values(), ClientRules({**PRODUCER, **MIRROR}, "target", given))
    texts = from_consumer.texts | from_producer.texts
    unknown = [*from_consumer.unknown, *from_producer.unknown]
    refusals = Refusals([*from_consumer.refusals.sentences, *from_producer.refusals.sentences])
    with refusals.collect():
        refuse_limits(reading, writing, producer=producer)
    translation = Translation(texts, from_consumer.ignored | from_producer.ignored, unknown, refusals)
    settle(translation, [*CONSUMER, *PRODUCER, *MIRROR, *SECURITY], ignore_unknown=ignore_unknown)
    return translation


def refuse_limits(reading: Mapping[str, Property], writing: Mapping[str, Property], *, producer: Path | None) -> None:
    """Refuse a consumer that fetches larger records than the producer may send. Raises ConfigurationError."""
    fetches = [reading[key] for key in _FETCH if key in reading]
    request = writing.get(_REQUEST)
    if not fetches or (request is None and producer is None):
        return
    fetch = fetches[-1]
    limit = _bytes(request) if request is not None else _DEFAULT_LIMIT
    if _bytes(fetch) > limit:
        origin = request.origin if request is not None else f"the default in {producer}"
        raise ConfigurationError(
            f"The consumer fetches records of up to {_bytes(fetch):,} bytes ({fetch.key} {fetch.origin}), and the "
            f"producer sends none above {limit:,} ({_REQUEST}, {origin}): a record between the two would stop the "
            f"mirror. Raise {_REQUEST}, and max.message.bytes of the target topics, or lower {fetch.key}."
        )


def _bytes(found: Property) -> int:
    try:
        return integer(found.value)
    except ValueError:
        raise ConfigurationError(f"The property {found.key} ({found.origin}) must be a number of bytes.") from None
