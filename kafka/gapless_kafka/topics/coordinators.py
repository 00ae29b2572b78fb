"""Owns which partition of an internal topic holds a consumer group or a transactional ID."""

from __future__ import annotations

_LEAST = 2**31
"""How far the least integer of Java is from 0."""


def coordinator_partition(name: str, partition_count: int) -> int:
    """The partition whose leader coordinates a group or a transactional ID; -1 when there are no partitions.

    The distance from 0 of Java's String.hashCode, as Kafka's Utils.abs has it: 0 for the least integer.
    """
    if not partition_count:
        return -1
    units = name.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8) + low) & 0xFFFFFFFF
    distance = code if code < _LEAST else 2 * _LEAST - code
    return distance % _LEAST % partition_count
