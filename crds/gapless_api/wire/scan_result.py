"""Owns what a scan or an audit tells the operator: its result, which travels in `result_lines`.

Must not know how anything is found. The report in a file (``--report``) is for people and scripts: it has the same
names and more members, and a version of its own (`SCAN_REPORT`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber

SCAN_REPORT = ("gapless_scan_report", 1)
"""The member of the reports of ``gapless scan``, ``create`` and ``audit`` that holds their version."""
VERIFY_REPORT = ("gapless_verify_report", 1)
"""The same for ``gapless verify``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFinding:
    """What is missing of one partition."""

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
    """How many offsets it lists."""
    omitted: bool
    """Whether it is too large for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBundle:
    """The older bundle of a comparison."""

    id: str | None
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationCounts:
    """What became of an older bundle: ``listed = closed + filled + unavailable + open + unknown``."""

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
    """What was found by a run that has finished."""

    missing: int
    missing_ranges: int
    inferred_events: int | None
    """Missing events that are inferred; null if nothing was inferred."""
    cleanup_policy: str | None
    """Of the gaps topic, or ``unknown`` (see `gapless_api.gaps.cleanup_policy`); null for an audit."""
    unknown: int | None
    """Events that may have been received in records that Kafka deleted before an audit read them; null for a scan."""
    partitions: tuple[PartitionFinding, ...]
    """Those with the most missing events first."""
    partitions_omitted: int
    bundle: NamedBundle
    reconciliation: ReconciliationCounts | None
    """Null when there was nothing to compare with, or that failed."""
    comparison_problem: str | None
    """Why comparing failed; null when it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """How a scan or an audit has ended."""

    command: str
    created: str
    topics: tuple[str, ...]
    outcome: str
    exit_code: int
    message: str
    read_by: Literal["spark", "local"] | None
    """What read Kafka; null when nothing was read."""
    seconds: float
    findings: ScanFindings | None
    """Null for a run that did not finish."""
    details: Mapping[str, Any]
    """What else the report says, for people who read the log."""


SCAN_RESULT = Form("result of a scan", "gapless_scan_result", 2, ScanReport, snake_case=True)
"""Version 1 had no version."""
