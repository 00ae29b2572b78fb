"""The names of a mirror in Kafka, and which lane a source partition belongs to; pure.

These names and this rule are a contract between all engines and releases: with another rule, partitions would be copied
from the beginning again.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

HEARTBEAT_TOPIC = "gapless_heartbeats"
"""The source topic to which the mirror writes heartbeats, so that each lane always has records to copy."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class MirrorIdentity:
    """The name of a mirror, and the names in Kafka that follow from it."""

    name: str

    @property
    def control_topic(self) -> str:
        """The topic on the target cluster with the positions; it has a partition for each lane."""
        return f"_gapless_mirror_{self.name}"

    @property
    def group(self) -> str:
        """The consumer group on the target cluster that assigns lanes to workers."""
        return f"gapless-mirror-{self.name}"

    @property
    def heartbeat_copy(self) -> str:
        """The topic on the target cluster with the copied heartbeats; no mirror copies it."""
        return f"{HEARTBEAT_TOPIC}.{self.name}"

    def transactional_id(self, lane: int) -> str:
        """Return the transactional ID of a lane, by which Kafka fences previous owners."""
        return f"gapless-mirror-{self.name}-{lane}"


def mirror_name(text: str) -> str:
    """Check the name of a mirror. Raises ValueError with the completion of "it must be …"."""
    if _NAME.fullmatch(text) is None:
        raise ValueError("up to 63 lower-case letters, digits, dots and dashes, with a letter or digit at both ends")
    return text


def lane_of(topic: str, partition: int, lanes: int) -> int:
    """Return the lane of a source partition."""
    return (zlib.crc32(topic.encode("utf-8")) + partition) % lanes
