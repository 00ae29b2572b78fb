"""Cutting the end off a partition's log under the same topic ID, as after an unclean election or a replaced disk.

Must not know the product. The broker that starts again leads the partition with a higher epoch (KIP-101).
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
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_OFFSET_DELTA_AT = 23
_TRANSACTIONS = "__transaction_state"
_STATUS_AT = 16
"""Of a transaction, in the value of its record: after a version, the producer's ID and epoch, and a timeout."""
_BEING_ENDED = {2, 3}
"""PrepareCommit and PrepareAbort: the producer has its answer, and the markers may still be written."""


def truncate(cluster: KafkaCluster, topic: str, partition: int = 0, *, end: int = 0) -> None:
    """Restart the cluster without the records of a partition from offset `end` on; 0 for those of a replaced disk.

    The partition has one replica and one segment, which begins at offset 0, and no record batch spans `end`.
    """
    wait_until(lambda: not _has_markers_to_write(cluster), what="the markers of ended transactions")
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

    wait_until(has_leaders, what=f"a leader for {topic}/{partition} with a log that ends at {end}")


def _has_markers_to_write(cluster: KafkaCluster) -> bool:
    """Whether the coordinator would write markers again after a restart, behind the cut."""
    if _TRANSACTIONS not in cluster.admin().list_topics(timeout=10).topics:
        return False
    newest = {each.key(): each.value() for each in cluster.read(_TRANSACTIONS, committed_only=False)}
    return any(value is not None and value[_STATUS_AT] in _BEING_ENDED for value in newest.values())


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
