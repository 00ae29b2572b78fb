"""The report of ``gapless mirror diff --json``; must not know how topics and positions are compared."""

from dataclasses import dataclass

from gapless_api.wire.form import Form, PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between a topic and its copy."""

    what: str
    """`topic`, `partitions`, or the name of a setting."""
    source: str | None
    """The value that the target should have; null if the source does not have the setting."""
    target: str | None
    """The value in the target; null if the target does not have the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDrift:
    """A topic whose copy differs."""

    topic: str
    """Topic of the source."""
    target: str
    """Topic of the target."""
    differences: tuple[Drift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDifference:
    """A position of the mirror that no longer describes both logs."""

    topic: str
    """Topic of the source."""
    partition: PartitionNumber
    target: str
    """Topic of the target."""
    state: str
    """`Unknown`, or the reason for which copying stops, such as `TargetRecreated`."""
    message: str
    """What is different, and the command that decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """The differences between the topics of the source and of the target, and of positions from both."""

    topics_compared: int
    topics: tuple[TopicDrift, ...]
    """Topics that differ."""
    settings_unknown: tuple[str, ...]
    """Source topics whose settings, or those of their copies, could not be read."""
    positions_compared: int
    """Positions of the mirror in these topics; 0 before its first run."""
    positions: tuple[PositionDifference, ...]
    """Positions from which copying cannot continue."""


DRIFT_REPORT = Form("mirror drift report", "gaplessMirrorDrift", 2, DriftReport)
