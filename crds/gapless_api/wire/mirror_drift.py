"""Owns the report of ``gapless mirror diff --json``; must not know how topics are compared."""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between a topic and its copy."""

    what: str
    """`topic`, `partitions`, or the name of a setting."""
    source: str | None
    """What the copy should have; null when the source does not have the setting."""
    target: str | None
    """What the copy has; null when the target does not have the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDrift:
    """A topic whose copy differs."""

    topic: str
    """Of the source."""
    target: str
    """The topic that it is copied to."""
    differences: tuple[Drift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """In what the topics of the target differ from those of the source."""

    topics_compared: int
    topics: tuple[TopicDrift, ...]
    """Those that differ."""
    settings_unknown: tuple[str, ...]
    """Source topics whose settings, or those of their copies, Kafka does not show us."""


DRIFT_REPORT = Form("mirror drift report", "gaplessMirrorDrift", 1, DriftReport)
