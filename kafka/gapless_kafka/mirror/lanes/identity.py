"""Owns the names of a mirror in Kafka, and which lane a source partition belongs to; pure.

These names and this rule are the contract between all engines and all releases: another rule would copy a partition
from the beginning again.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

HEARTBEAT_TOPIC = "gapless_heartbeats"
"""The topic of the source through which something comes at all times."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class MirrorIdentity:
    """A mirror, by its name."""

    name: str

    @property
    def control_topic(self) -> str:
        """The topic on the target cluster that holds positions, with a partition for each lane."""
        return f"_gapless_mirror_{self.name}"

    @property
    def group(self) -> str:
        """The consumer group on the target cluster by which workers share the lanes."""
        return f"gapless-mirror-{self.name}"

    @property
    def heartbeat_copy(self) -> str:
        """The topic on the target cluster with the heartbeats of this mirror, which no mirror copies any further."""
        return f"{HEARTBEAT_TOPIC}.{self.name}"

    def transactional_id(self, lane: int) -> str:
        """The ID under which Kafka fences the owner of a lane."""
        return f"gapless-mirror-{self.name}-{lane}"


def mirror_name(text: str) -> str:
    """Check the name of a mirror. Raises ValueError with the end of the sentence "it must be …"."""
    if _NAME.fullmatch(text) is None:
        raise ValueError("up to 63 lower-case letters, digits, dots and dashes, with a letter or digit at both ends")
    return text


def lane_of(topic: str, partition: int, lanes: int) -> int:
    """The lane of a source partition."""
    return (zlib.crc32(topic.encode("utf-8")) + partition) % lanes
