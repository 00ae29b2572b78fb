"""Moving the records of a small topic to high offsets, as after years of use. Must not know the product.

A record batch begins with its base offset, which its checksum does not cover (KIP-98).
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster

_CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")
_FIRST_SEGMENT = "0" * 20
_HEAD = struct.Struct(">qi")
"""Base offset and length of a record batch."""


def move_offsets(cluster: KafkaCluster, topic: str, *, by: int) -> None:
    """Restart the cluster with `by` added to all offsets of a topic that has one replica and one segment."""
    cluster.stop()
    for node in cluster.nodes:
        partitions = sorted(folder for folder in node.log_folder.glob(f"{topic}-*") if folder.is_dir())
        for folder in partitions:
            _move_partition(folder, by)
        for name in _CHECKPOINTS if partitions else ():
            _remove_from_checkpoint(node.log_folder / name, topic)
    cluster.start()

    def has_leaders() -> bool:
        with contextlib.suppress(KafkaException):
            return bool(cluster.watermarks(topic))
        return False

    wait_until(has_leaders, what=f"a leader for every partition of {topic}")


def _move_partition(folder: Path, by: int) -> None:
    for file in folder.glob("*.snapshot"):
        file.unlink()  # rebuilt from the records
    for file in folder.glob(f"{_FIRST_SEGMENT}.*"):
        if file.suffix == ".log":
            _move_batches(file, by)
        file.rename(folder / f"{by:020d}{file.suffix}")
    epochs = folder / "leader-epoch-checkpoint"
    version, count, *rows = epochs.read_text().splitlines()
    moved = [f"{epoch} {int(first) + by}" for epoch, first in (row.split() for row in rows)]
    epochs.write_text("\n".join([version, count, *moved]) + "\n")


def _move_batches(file: Path, by: int) -> None:
    content = bytearray(file.read_bytes())
    at = 0
    while at < len(content):
        offset, length = _HEAD.unpack_from(content, at)
        _HEAD.pack_into(content, at, offset + by, length)
        at += _HEAD.size + length
    file.write_bytes(content)


def _remove_from_checkpoint(checkpoint: Path, topic: str) -> None:
    version, _, *rows = checkpoint.read_text().splitlines()
    remaining = [row for row in rows if row.split()[0] != topic]
    checkpoint.write_text("\n".join([version, str(len(remaining)), *remaining]) + "\n")
