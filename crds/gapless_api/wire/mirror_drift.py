"""Owns the report of ``gapless mirror diff --json``; must not know how topics are compared."""

from dataclasses import dataclass

from gapless_api.wire.form import Form


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
class DriftReport:
    """The differences between the topics of the source and of the target."""

    topics_compared: int
    topics: tuple[TopicDrift, ...]
    """Topics that differ."""
    settings_unknown: tuple[str, ...]
    """Source topics whose settings, or those of their copies, could not be read."""


DRIFT_REPORT = Form("mirror drift report", "gaplessMirrorDrift", 1, DriftReport)
