"""Owns what the meaning of a reason consists of, and which kinds have reasons in common."""

from __future__ import annotations

from typing import NamedTuple

ARCHIVE, DIODE, GAP_SCAN, RESEND, RESTORE = "Archive", "Diode", "GapScan", "Resend", "Restore"
MIRROR, CONNECTION = "Mirror", "KafkaConnection"


class Meaning(NamedTuple):
    """Description of a reason."""

    kinds: tuple[str, ...]
    """Kinds whose conditions can have it."""
    meaning: str
    what_to_do: str
    """Empty when there is nothing to do."""


ALL = (ARCHIVE, DIODE, GAP_SCAN, MIRROR, RESEND, RESTORE)
WITH_PODS = (*ALL, CONNECTION)
READERS = (ARCHIVE, GAP_SCAN, MIRROR, RESEND, RESTORE)
"""Who reaches Kafka."""
STORERS = (ARCHIVE, GAP_SCAN, RESEND, RESTORE)
"""Who reaches stores."""
ON_SPARK = (ARCHIVE, GAP_SCAN, MIRROR, RESTORE)
"""Whose work runs on Spark."""
PODS = "Check the events of the pod that the message names"
