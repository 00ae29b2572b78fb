"""Owns which partition of an internal topic holds a consumer group or a transactional ID."""

from __future__ import annotations


def coordinator_partition(name: str, partition_count: int) -> int:
    """The partition whose leader coordinates a group or a transactional ID; -1 when there are no partitions.

    Java's String.hashCode, bounded as by Kafka's Utils.abs.
    """
    if not partition_count:
        return -1
    units = name.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8) + low) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % partition_count
