"""Owns cutting the end off a partition's log under the same topic ID, as after an unclean election or a replaced disk.

Must not know the product. The broker that starts again leads the partition with a higher epoch (KIP-101).
"""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from kit.kafka.cluster import KafkaCluster

_CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_OFFSET_DELTA_AT = 23


def truncate(cluster: KafkaCluster, topic: str, partition: int = 0, *, end: int = 0) -> None:
    """Restart the cluster without the records of a partition from offset `end` on; 0 for those of a replaced disk.

    The partition has one replica and one segment, which begins at offset 0, and no record batch spans `end`.
    """
    cluster.stop()
    for node in cluster.nodes:
        folder = node.log_folder / f"{topic}-{partition}"
        if not folder.is_dir():
            continue
        _cut(folder, end)
        (node.log_folder / ".kafka_cleanshutdown").unlink(missing_ok=True)
        for name in _CHECKPOINTS:
            _remove_from_checkpoint(node.log_folder / name, topic, partition)
    cluster.start()

    def has_leaders() -> bool:
        with contextlib.suppress(KafkaException):
            return cluster.watermarks(topic)[partition][1] == end
        return False

    wait_until(has_leaders, timeout_seconds=120, what=f"a leader for {topic}/{partition} with a log that ends at {end}")


def _cut(folder: Path, end: int) -> None:
    """Keep the batches before `end`; what the broker derives from them is rebuilt."""
    log = folder / f"{0:020d}.log"
    content = log.read_bytes()
    at = 0
    while at < len(content):
        offset, length = _OFFSET_AND_LENGTH.unpack_from(content, at)
        if offset >= end:
            break
        (delta,) = struct.unpack_from(">i", content, at + _LAST_OFFSET_DELTA_AT)
        if offset + delta >= end:
            raise ValueError(f"a batch of {folder.name} spans offset {end}: {offset} to {offset + delta}")
        at += _OFFSET_AND_LENGTH.size + length
    for file in folder.iterdir():
        is_derived = file.suffix in {".index", ".timeindex", ".txnindex", ".snapshot"}
        if is_derived or (not at and file.name == "leader-epoch-checkpoint"):
            file.unlink()
    log.write_bytes(content[:at])


def _remove_from_checkpoint(checkpoint: Path, topic: str, partition: int) -> None:
    if not checkpoint.exists():
        return
    version, _, *rows = checkpoint.read_text().splitlines()
    remaining = [row for row in rows if row.split()[:2] != [topic, str(partition)]]
    checkpoint.write_text("\n".join([version, str(len(remaining)), *remaining]) + "\n")
