"""Which partition of an internal topic coordinates a consumer group or a transactional ID."""

from __future__ import annotations

_MIN_INT_ABS = 2**31
"""The absolute value of Java's Integer.MIN_VALUE."""


def coordinator_partition(name: str, partition_count: int) -> int:
    """Return the partition whose leader coordinates a group or a transactional ID; -1 without partitions.

    The absolute value of Java's String.hashCode as Kafka's Utils.abs computes it: 0 for Integer.MIN_VALUE.
    """
    if not partition_count:
        return -1
    units = name.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8) + low) & 0xFFFFFFFF
    absolute = code if code < _MIN_INT_ABS else 2 * _MIN_INT_ABS - code
    return absolute % _MIN_INT_ABS % partition_count
