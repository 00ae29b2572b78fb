"""Owns partition windows: which downstream partitions belong to which upstream cluster; must not know who uses them.

Several upstream clusters share one downstream cluster by shifting their partition numbers; the peer calls the two
numbers partitionStartValue and partitionStopValue (which is a count).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PartitionWindow:
    """Downstream partition = upstream partition + `start`; `count` partitions, 0 for no upper end."""

    start: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 0 or self.start + self.count - 1 > MAX_PARTITION:
            raise ConfigurationError(
                f"The partition window start={self.start} count={self.count} is not possible: both must be 0 or more "
                f"and the last partition at most {MAX_PARTITION}; correct partitionStartValue and partitionStopValue."
            )

    @property
    def last(self) -> int | None:
        """The last downstream partition of the window, inclusive; ``None`` when it has no upper end."""
        return self.start + self.count - 1 if self.count else None

    def handles(self, downstream_partition: int) -> bool:
        """Whether a bundle entry for `downstream_partition` is this cluster's to resend.

        A window without a count handles every partition, as the peer's does: one below `start` is then not skipped but
        refused by `to_upstream`, because it shows that the window is not the one the events were sent with.
        """
        return not self.count or self.start <= downstream_partition < self.start + self.count

    def to_upstream(self, downstream_partition: int) -> int:
        """Map a partition number of a bundle to this cluster's own.

        Raises:
            ConfigurationError: the result would be negative.
        """
        if downstream_partition < self.start:
            raise ConfigurationError(
                f"Downstream partition {downstream_partition} maps to a negative upstream partition with "
                f"partitionStartValue {self.start}; the bundle belongs to another cluster or the window is wrong: give "
                f"the start value that this cluster's live sender uses."
            )
        return downstream_partition - self.start

    def to_downstream(self, upstream_partition: int) -> int:
        """Map one of this cluster's partition numbers to the one that ids and bundles carry."""
        return upstream_partition + self.start

    def covers(self, other: PartitionWindow) -> bool:
        """Whether `other` gives events the same ids and reaches no partition that is not of this window.

        Another `start` gives every event the id of another partition, also where both windows have the same partitions.
        """
        return self.start == other.start and (not self.count or 0 < other.count <= self.count)

    def overlaps(self, other: PartitionWindow) -> bool:
        """Whether a downstream partition is in both windows."""
        low, high = sorted((self, other), key=lambda window: window.start)
        return low.last is None or high.start <= low.last

    def __str__(self) -> str:
        return f"{self.start}…{'' if self.last is None else self.last}"


def check_disjoint(windows: Mapping[str, PartitionWindow]) -> None:
    """Make sure that no two clusters that share one downstream cluster claim the same partition.

    Args:
        windows: the window of each cluster, by the cluster's name.

    Raises:
        ConfigurationError: two windows overlap; both names are in the message.
    """
    ordered = sorted(windows.items(), key=lambda item: (item[1].start, item[0]))
    for (name, window), (next_name, next_window) in pairwise(ordered):
        if window.overlaps(next_window):
            raise ConfigurationError(
                f"The partition windows of {name} ({window}) and {next_name} ({next_window}) overlap; their events "
                f"could not be told apart: give {next_name} a start beyond the last partition of {name}"
                f"{', and give ' + name + ' a count' if window.last is None else ''}."
            )
