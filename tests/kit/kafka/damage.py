"""Damage to the log of a running broker, as by a failing disk: batches that no consumer can read, or read rightly.

Must not know the product. A broker sends batches as they are stored, and does not read them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_ATTRIBUTES_AT, _RECORDS_AT = 21, 61
_COMPRESSION = 0x07


def damage(cluster: KafkaCluster, topic: str, partition: int, *, batch_at: int) -> Callable[[], None]:
    """Overwrite the compressed records of the batch that begins at offset `batch_at`; return what mends it."""
    log, content, attributes, first, end = _find_batch(cluster, topic, partition, batch_at)
    assert attributes & _COMPRESSION, "the batch is not compressed"
    return _overwrite(log, content, first, b"\xff" * (end - first))


def alter(
    cluster: KafkaCluster, topic: str, partition: int, *, batch_at: int, old: bytes, new: bytes
) -> Callable[[], None]:
    """Replace bytes in the records of an uncompressed batch, which stays readable, and return what mends it.

    Only the checksum of the batch shows it.
    """
    log, content, attributes, first, end = _find_batch(cluster, topic, partition, batch_at)
    assert not attributes & _COMPRESSION, "the batch is compressed"
    assert len(old) == len(new)
    at = content.index(old, first, end)
    return _overwrite(log, content, at, new)


def _find_batch(cluster: KafkaCluster, topic: str, partition: int, batch_at: int) -> tuple[Path, bytes, int, int, int]:
    """Return the log, its content, the attributes of a batch, and where its records begin and end."""
    (node,) = cluster.nodes
    log = node.log_folder / f"{topic}-{partition}" / f"{0:020d}.log"
    content, at = log.read_bytes(), 0
    while True:
        offset, length = _OFFSET_AND_LENGTH.unpack_from(content, at)
        if offset == batch_at:
            break
        at += _OFFSET_AND_LENGTH.size + length
    (attributes,) = struct.unpack_from(">h", content, at + _ATTRIBUTES_AT)
    return log, content, attributes, at + _RECORDS_AT, at + _OFFSET_AND_LENGTH.size + length


def _overwrite(log: Path, content: bytes, at: int, new: bytes) -> Callable[[], None]:
    def overwrite(part: bytes) -> None:
        with log.open("r+b") as file:
            file.seek(at)
            file.write(part)

    overwrite(new)
    return lambda: overwrite(content[at : at + len(new)])
