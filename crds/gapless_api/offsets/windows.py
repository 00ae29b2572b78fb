"""Partition windows: which downstream partitions belong to which upstream cluster; must not know who uses them.

Several upstream clusters share one downstream cluster by shifting their partition numbers. The peer calls start and
count of a window partitionStartValue and partitionStopValue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION


@dataclass(frozen=True, slots=True)
class PartitionWindow:
    """Downstream partition = upstream partition + `start`; `count` partitions, 0 for no upper end."""

    start: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 0 or self.start + self.count - 1 > MAX_PARTITION:
            raise ConfigurationError(
                f"The partition window start={self.start} count={self.count} is invalid: both must be 0 or more "
                f"and the last partition at most {MAX_PARTITION}; correct partitionStartValue and partitionStopValue."
            )

    @property
    def last(self) -> int | None:
        """The last downstream partition of the window, inclusive; ``None`` if it has no upper end."""
        return self.start + self.count - 1 if self.count else None

    def handles(self, downstream_partition: int) -> bool:
        """Whether this cluster resends a bundle entry for `downstream_partition`.

        A window without a count handles every partition, as in the peer: `to_upstream` then refuses one below `start`
        instead of skipping it, because it shows that the events were sent with another window.
        """
        return not self.count or self.start <= downstream_partition < self.start + self.count

    def to_upstream(self, downstream_partition: int) -> int:
        """Map a partition number of a bundle to the partition of this cluster.

        Raises:
            ConfigurationError: the partition would be negative.
        """
        if downstream_partition < self.start:
            raise ConfigurationError(
                f"Downstream partition {downstream_partition} maps to a negative upstream partition with "
                f"partitionStartValue {self.start}; the bundle belongs to another cluster, or the window is wrong: "
                f"give the start value of the live sender of this cluster."
            )
        return downstream_partition - self.start

    def to_downstream(self, upstream_partition: int) -> int:
        """Map a partition of this cluster to the partition number in event IDs and bundles."""
        return upstream_partition + self.start

    def covers(self, other: PartitionWindow) -> bool:
        """Whether `other` gives events the same IDs and has no partition outside of this window.

        With another `start`, every event has the ID of another partition, even if the windows have the same partitions.
        """
        return self.start == other.start and (not self.count or 0 < other.count <= self.count)

    def overlaps(self, other: PartitionWindow) -> bool:
        """Whether the windows have a downstream partition in common."""
        low, high = sorted((self, other), key=lambda window: window.start)
        return low.last is None or high.start <= low.last

    def __str__(self) -> str:
        return f"{self.start}…{'' if self.last is None else self.last}"


def check_disjoint(windows: Mapping[str, PartitionWindow]) -> None:
    """Check that the windows of clusters that share one downstream cluster do not overlap.

    Args:
        windows: the windows by cluster name.

    Raises:
        ConfigurationError: two windows overlap; the message has both names.
    """
    ordered = sorted(windows.items(), key=lambda item: (item[1].start, item[0]))
    for (name, window), (next_name, next_window) in pairwise(ordered):
        if window.overlaps(next_window):
            raise ConfigurationError(
                f"The partition windows of {name} ({window}) and {next_name} ({next_window}) overlap, so their "
                f"events would have the same IDs: give {next_name} a start beyond the last partition of {name}"
                f"{', and give ' + name + ' a count' if window.last is None else ''}."
            )
