"""Owns which of a gaps topic's records are the latest of their windows when they are few enough for one process.

Must not know how records are read or decoded. It finds what `latest_records` finds with Spark, by the same rules: see
`gapless_api.gaps.keys` for which keys are about one window, and `gap_windows.Age` for which record is the later one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.gaps.keys import identity_of
from gapless_spark.model.gap_windows import Age, LatestRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

_BYTES_OF_A_WINDOW = 600
"""What Python needs for each beside its value; one of 65,536 offsets with gaps everywhere has 8 KiB."""


class FewWindows(NamedTuple):
    """What was found."""

    latest: list[LatestRecord]
    """One for each key, and one of those without a key."""
    further_without_key: int


class _Seen(NamedTuple):
    """The latest record of a key in one partition of the gaps topic."""

    age: Age
    key: bytes | None
    value: bytes | None


def latest_of_few(batches: Iterable[list[Message]], most_bytes: int) -> FewWindows | None:
    """Leave the latest record of each window, of each foreign key, and of those without a key.

    Args:
        batches: records, those of a partition in their order.
        most_bytes: about so much may be held meanwhile.

    Returns:
        What was found; ``None`` when it would have been too much.
    """
    by_partition: defaultdict[Any, dict[bytes | None, Message]] = defaultdict(dict)
    without_key = 0
    held = 0
    for messages in batches:
        for message in messages:
            key = message.key()
            by_partition[message.partition()][key] = message
            held += _BYTES_OF_A_WINDOW + len(message)
            without_key += key is None
        if held > most_bytes:  # Counted as if each was of another window, so it has to be counted anew.
            kept = [message for of_partition in by_partition.values() for message in of_partition.values()]
            held = _BYTES_OF_A_WINDOW * len(kept) + sum(map(len, kept))
            if held > most_bytes // 2:
                return None
    latest: dict[bytes | None, _Seen] = {}
    for of_partition in by_partition.values():
        for key, message in of_partition.items():
            identity = identity_of(key) if key is not None else None
            seen = _seen(key, message)
            if identity not in latest or seen.age > latest[identity].age:
                latest[identity] = seen
    return FewWindows(
        [LatestRecord(seen.key, seen.value, seen.age.partition, seen.age.offset) for seen in latest.values()],
        max(without_key - 1, 0),
    )


def _seen(key: bytes | None, message: Any) -> _Seen:
    return _Seen(Age(message.timestamp()[1], message.partition(), message.offset()), key, message.value())
