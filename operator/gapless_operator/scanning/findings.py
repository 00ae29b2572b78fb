"""The result of a scan: checking its digest, its counts for the status, and the ConfigMap with the bundle.

Must not know when the scan ran or what happens to its attempt.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gapless_api.base.errors import BundleError
from gapless_api.bundle.reader import read_bundle_text
from gapless_api.codec.canonical import moment_of
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.scan_status import (
    MAX_MANIFEST_LENGTH,
    MAX_STATUS_LOST_HOURS,
    MAX_STATUS_PARTITIONS,
    BundleReference,
    Change,
    GapScanStatus,
    Losses,
    LostHour,
    PartitionFindings,
)
from gapless_api.wire.form import WireError
from gapless_api.wire.lost_times import LOST_TIMES
from gapless_api.wire.result_lines import ResultLinesError, ScanResult, unpack_gzip
from gapless_operator.scanning.manifests import BUNDLE_KEY, MAX_CONFIG_MAP_BYTES, BundlePlace, bundle_map
from gapless_operator.scanning.resend_manifest import render

if TYPE_CHECKING:
    from gapless_api.bundle.form import BundleMetadata
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.wire.scan_result import PartitionFinding, ScanFindings, ScanReport
    from gapless_operator.common.plan import Manifest

_MAX_BUNDLE_BYTES = 64 * 1024 * 1024
"""Size of the unpacked bundle; a gzipped one that fits into a ConfigMap is smaller."""
_MAX_TOPIC_LENGTH = 249
"""In the status. Topics and offsets come from the keys of received records, which may contain anything."""


class ResultError(Exception):
    """A result cannot be used; has a reason and a message."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Findings(NamedTuple):
    """What a scan has found, as fields of the status."""

    missing_events: int
    missing_ranges: int
    inferred_events: int | None
    """How many of the missing events were only inferred; ``None`` when inference was off."""
    stale_events: int | None
    """Events that the gap detector no longer tracks; ``None`` for an audit."""
    unknown_events: int | None
    """Events of which it is unknown whether they were received; ``None`` for a scan of the gaps topic."""
    partitions: tuple[PartitionFindings, ...]
    read_by: Literal["spark", "local"] | None
    """``None`` when there was nothing to read, or an older image does not report it."""
    bundle: BundleReference
    resend: str | None
    """The Resend that sends what is missing; ``None`` when nothing is, or the GapScan has no template."""
    bundle_map: Manifest | None
    """The ConfigMap to write before the status names it."""
    lost: Losses | None
    """``None`` if an older image does not report it, and for a scan of the gaps topic."""
    reported: ScanFindings
    """As the scan reported it."""


def findings_of(scan: GapScan, attempt: str, result: ScanResult, *, place: BundlePlace, source_digest: str) -> Findings:
    """Check a result and convert it into fields of the status.

    Args:
        scan: whose result it is.
        attempt: name of the attempt that found it.
        result: read from the log.
        place: where the attempt put the bundle.
        source_digest: of what the attempt scanned.

    Raises:
        ResultError: it is inconsistent, or too large for a ConfigMap.
    """
    found = result.report.findings
    if found is None:
        raise ResultError(Reason.RESULT_UNREADABLE, f"The result of {attempt} has an outcome but no findings.")
    partitions = tuple(map(_findings, found.partitions))
    reported = found.bundle
    text, metadata = _bundle_text(attempt, result, reported.sha256)
    listed = reported.missing if metadata is None else metadata.missing
    reference = BundleReference(
        id=reported.id,
        sha256=reported.sha256,
        missing=clamp(listed),
        type=place.type,
        location=place.location,
        key=BUNDLE_KEY if place.type == "ConfigMap" else None,
        claim_name=place.claim_name,
        endpoint=place.endpoint,
        question=source_digest or None,
    )
    resend = _resend(scan, reference, metadata, text)
    config_map = None
    if place.type == "ConfigMap":
        if result.bundle_gzip is None and not reported.omitted:
            raise ResultError(Reason.RESULT_UNREADABLE, f"The result of {attempt} has no bundle.")
        _check_size(attempt, result.bundle_gzip, resend)
        config_map = bundle_map(scan, attempt, result.bundle_gzip or b"", resend)
    worst = sorted(partitions, key=lambda found: (-found.missing, -(found.unknown or 0), found.topic, found.partition))
    return Findings(
        missing_events=clamp(found.missing),
        missing_ranges=clamp(found.missing_ranges),
        inferred_events=None if found.inferred_events is None else clamp(found.inferred_events),
        stale_events=None if found.stale_events is None else clamp(found.stale_events),
        unknown_events=None if found.unknown is None else clamp(found.unknown),
        partitions=tuple(each for each in worst if each.missing or each.unknown)[:MAX_STATUS_PARTITIONS],
        read_by=result.report.read_by,
        bundle=reference,
        resend=resend,
        bundle_map=config_map,
        lost=_losses(result.report),
        reported=found,
    )


def clamp(number: int) -> int:
    """Limit a number to the 64 bits of an integer in a status; the sum over many partitions may be larger."""
    return min(number, MAX_OFFSET)


def gap_topic_of(report: ScanReport) -> str:
    """Return the topic that a scan of gap records read, for messages."""
    return report.topics[0] if report.topics else "of the gaps"


def status_fields(findings: Findings, before: GapScanStatus, at: datetime) -> dict[str, Any]:
    """Return the fields of the status about what was found."""
    change = None
    if before.missing_events is not None:
        change = Change(
            events=findings.missing_events - before.missing_events,
            ranges=findings.missing_ranges - (before.missing_ranges or 0),
        )
    return {
        "last_scan_time": at,
        "read_by": findings.read_by,
        "missing_events": findings.missing_events,
        "missing_ranges": findings.missing_ranges,
        "inferred_events": findings.inferred_events,
        "stale_events": findings.stale_events,
        "unknown_events": findings.unknown_events,
        "partitions": findings.partitions,
        "lost": findings.lost,
        "change": change,
        "bundle": findings.bundle,
        "resend_manifest": findings.resend,
    }


def _bundle_text(attempt: str, result: ScanResult, sha256: str) -> tuple[bytes | None, BundleMetadata | None]:
    """Unpack and check the bundle, if the result carries it."""
    if result.bundle_gzip is None:
        return None, None
    try:
        text = unpack_gzip(result.bundle_gzip, max_bytes=_MAX_BUNDLE_BYTES)
        metadata = read_bundle_text(text, name=f"of {attempt}").metadata
    except (ResultLinesError, BundleError) as error:
        raise ResultError(Reason.RESULT_UNREADABLE, f"The bundle of {attempt} cannot be read: {error}") from None
    if metadata is None or metadata.sha256 != sha256:
        raise ResultError(Reason.RESULT_UNREADABLE, f"The sha256 of the bundle of {attempt} does not match its report.")
    return text, metadata


def _check_size(attempt: str, bundle_gzip: bytes | None, resend: str | None) -> None:
    """Refuse a bundle that is too large for a ConfigMap, or that the pod omitted for that reason."""
    size = len(bundle_gzip or b"") + len((resend or "").encode())
    if bundle_gzip is None or size > MAX_CONFIG_MAP_BYTES:
        limit = MAX_CONFIG_MAP_BYTES // 1024
        how_large = (
            f"more than {limit} KiB after compression"
            if bundle_gzip is None
            else f"{size // 1024} KiB after compression, and the limit for a ConfigMap is {limit} KiB"
        )
        raise ResultError(
            Reason.RESULT_TOO_LARGE,
            f"The bundle of {attempt} is {how_large}; name a StorageLocation in output.storageRef.",
        )


def _resend(
    scan: GapScan, reference: BundleReference, metadata: BundleMetadata | None, text: bytes | None
) -> str | None:
    template = scan.spec.resend
    if template is None or not reference.missing:
        return None
    where = f"the ConfigMap {reference.location}" if reference.type == "ConfigMap" else reference.location
    rendered = render(scan, template, reference=reference, metadata=metadata, text=text, location=where)
    return rendered if len(rendered) <= MAX_MANIFEST_LENGTH else None


def _losses(report: ScanReport) -> Losses | None:
    """Return when events were lost, if the report says it in a version that can be read."""
    try:
        lost = LOST_TIMES.from_json(report.details.get("lost"))
    except WireError:
        return None
    hours = [(moment_of(each.hour), each) for each in lost.hours[-MAX_STATUS_LOST_HOURS:]]
    losses = Losses(
        after=moment_of(lost.after or ""),
        before=moment_of(lost.before or ""),
        hours=tuple(
            LostHour(hour=hour, missing=clamp(each.missing), expected=clamp(each.expected))
            for hour, each in hours
            if hour is not None
        ),
    )
    return None if losses == Losses() else losses


def _findings(entry: PartitionFinding) -> PartitionFindings:
    return PartitionFindings(
        topic=entry.topic[:_MAX_TOPIC_LENGTH],
        partition=entry.partition,
        missing=clamp(entry.missing),
        inferred=None if entry.inferred_events is None else clamp(entry.inferred_events),
        unknown=None if entry.unknown is None else clamp(entry.unknown),
        ranges=entry.ranges,
        first_missing=entry.first_missing,
        last_missing=entry.last_missing,
    )
