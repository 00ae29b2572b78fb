"""A run of the gap detector over the events of one partition, without Kafka. Must not know the product."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.peer.gap_detector import GapDetector, GapReport, Verdict


@dataclass
class DetectorRun:
    """The offsets that arrived in one partition, and the reports of the detector."""

    arrived: list[int]
    emit_after: frozenset[int] = frozenset()
    """Indexes of the events after which the detector reports, in addition to the report at the end."""
    latest: dict[int, GapReport] = field(default_factory=dict)
    """The last record of each window that was reported."""
    remembered: list[int] = field(default_factory=list)
    created: list[int] = field(default_factory=list)
    """First offsets of the windows in the order of their creation."""
    came_too_late: bool = False
    """Whether an event arrived that was older than all windows in memory."""

    def run(self, *, window_size: int, max_windows: int = 5) -> DetectorRun:
        """Feed all offsets to a detector."""
        detector = GapDetector(window_size, max_windows)

        def keep(reports: list[GapReport]) -> None:
            self.latest.update({report.window_min: report for report in reports})

        for number, offset in enumerate(self.arrived):
            known = set(detector.windows)
            self.came_too_late |= detector.check(offset) is Verdict.BELOW_RANGE
            self.created += [first for first in detector.windows if first not in known]
            keep(detector.take_purged())
            if number in self.emit_after:
                keep(detector.emit())
        keep(detector.emit())
        self.remembered = detector.windows
        return self

    def records(self, topic: str, partition: int) -> list[tuple[bytes, bytes]]:
        """Return key and value of the latest record of each window."""
        return [(report.key(topic, partition).encode(), report.value()) for report in self.latest.values()]

    @property
    def windows_were_created_in_order_and_once(self) -> bool:
        """Whether no event arrived so late that the detector created an evicted window again."""
        return self.created == sorted(set(self.created))
