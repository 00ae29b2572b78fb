"""The result of a scan or an audit for the operator, which `result_lines` transports.

Must not know how gaps are found. The report in a file (``--report``) is for people and scripts: it has the same names,
more members, and its own version (`SCAN_REPORT`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber

SCAN_REPORT = ("gapless_scan_report", 1)
"""The version member of the reports of ``gapless scan``, ``create`` and ``audit``."""
VERIFY_REPORT = ("gapless_verify_report", 1)
"""The version member of the reports of ``gapless verify``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFinding:
    """The missing events of one partition."""

    topic: str
    partition: PartitionNumber
    missing: int
    inferred_events: int | None
    """Missing events that are inferred; null if nothing was inferred."""
    unknown: int | None
    """Events that may have been received in records that Kafka deleted before an audit read them; null for a scan."""
    ranges: int
    first_missing: Offset | None
    last_missing: Offset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBundle:
    """The bundle that was written."""

    file: str | None
    id: str
    sha256: str
    missing: int
    """The number of offsets in it."""
    omitted: bool
    """Whether it was omitted from the log because of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBundle:
    """The older bundle of a comparison."""

    id: str | None
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationCounts:
    """The outcome of an older bundle: ``listed = closed + filled + unavailable + open + unknown``."""

    with_: ComparedBundle
    listed: int
    closed: int
    filled: int
    unavailable: int
    open: int
    unknown: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFindings:
    """The findings of a finished run."""

    missing: int
    missing_ranges: int
    inferred_events: int | None
    """Missing events that are inferred; null if nothing was inferred."""
    stale_events: int | None
    """Events in records of windows that the gap detector no longer tracks, in the bundle or not; null for an audit."""
    cleanup_policy: str | None
    """Of the gaps topic, or ``unknown`` (see `gapless_api.gaps.cleanup_policy`); null for an audit."""
    unknown: int | None
    """Events that may have been received in records that Kafka deleted before an audit read them; null for a scan."""
    partitions: tuple[PartitionFinding, ...]
    """Partitions with the most missing events first."""
    partitions_omitted: int
    bundle: NamedBundle
    reconciliation: ReconciliationCounts | None
    """Null if no older bundle was given, or the comparison failed."""
    comparison_problem: str | None
    """Why the comparison failed; null if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """The report of a scan or an audit."""

    command: str
    created: str
    topics: tuple[str, ...]
    outcome: str
    exit_code: int
    message: str
    read_by: Literal["spark", "local"] | None
    """The engine that read Kafka; null if nothing was read."""
    seconds: float
    findings: ScanFindings | None
    """Null for a run that did not finish."""
    details: Mapping[str, Any]
    """Other members of the report, for people who read the log."""


SCAN_RESULT = Form("result of a scan", "gapless_scan_result", 3, ScanReport, snake_case=True)
"""Version 1 had no version, and version 2 no ``stale_events``."""
