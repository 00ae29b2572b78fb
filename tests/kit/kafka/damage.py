"""Owns damage to the log of a running broker, as by a failing disk: a batch that no consumer can decompress.

Must not know the product. A broker sends batches as they are stored, and does not read them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.kafka.cluster import KafkaCluster

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_ATTRIBUTES_AT, _RECORDS_AT = 21, 61
_COMPRESSION = 0x07


def damage(cluster: KafkaCluster, topic: str, partition: int, *, batch_at: int) -> Callable[[], None]:
    """Overwrite the compressed records of the batch that begins at offset `batch_at`; return what mends it."""
    (node,) = cluster.nodes
    log = node.log_folder / f"{topic}-{partition}" / f"{0:020d}.log"
    content, at = log.read_bytes(), 0
    while True:
        offset, length = _OFFSET_AND_LENGTH.unpack_from(content, at)
        if offset == batch_at:
            break
        at += _OFFSET_AND_LENGTH.size + length
    (attributes,) = struct.unpack_from(">h", content, at + _ATTRIBUTES_AT)
    assert attributes & _COMPRESSION, "the batch is not compressed"
    first, end = at + _RECORDS_AT, at + _OFFSET_AND_LENGTH.size + length

    def overwrite(records: bytes) -> None:
        with log.open("r+b") as file:
            file.seek(first)
            file.write(records)

    overwrite(b"\xff" * (end - first))
    return lambda: overwrite(content[first:end])
