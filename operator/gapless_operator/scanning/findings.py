"""Owns what becomes of a scan's result: checked by its digest, counted, and put where the GapScan's output says.

Must not know when the scan ran or what happens to its attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gapless_api.base.errors import BundleError
from gapless_api.bundle.reader import read_bundle_text
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.scan_status import (
    MAX_MANIFEST_LENGTH,
    MAX_STATUS_PARTITIONS,
    BundleReference,
    Change,
    PartitionFindings,
)
from gapless_api.wire.result_lines import ResultLinesError, ScanResult, unpacked
from gapless_operator.scanning.manifests import BUNDLE_KEY, LARGEST_CONFIG_MAP_BYTES, bundle_map
from gapless_operator.scanning.resend_manifest import render

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.bundle.form import BundleMetadata
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.scan_status import GapScanStatus
    from gapless_api.wire.scan_result import PartitionFinding, ScanFindings, ScanReport
    from gapless_operator.common.plan import Manifest
    from gapless_operator.scanning.manifests import BundlePlace

_LARGEST_BUNDLE_BYTES = 64 * 1024 * 1024
"""Unpacked; more than ranges that fit in gzipped can be."""
_LONGEST_TOPIC = 249
"""In the status. Topics and offsets of findings are what the keys of received records say, whoever wrote those."""


class ResultError(Exception):
    """A result cannot be used; has the reason and the sentence of it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Findings(NamedTuple):
    """What a scan has found, in the words of the status."""

    missing_events: int
    missing_ranges: int
    inferred_events: int | None
    """How many of the missing events nobody reported; ``None`` when nothing was to be inferred."""
    unknown_events: int | None
    """Of how many events nobody can know whether they were received; ``None`` for a scan of the gaps topic."""
    partitions: tuple[PartitionFindings, ...]
    read_by: Literal["spark", "local"] | None
    """``None`` when nothing was there to read, or the image of the scan does not say."""
    bundle: BundleReference
    resend: str | None
    """The Resend that sends what is missing; ``None`` when nothing is, or the GapScan has no template."""
    bundle_map: Manifest | None
    """The ConfigMap to write before the status names it."""
    reported: ScanFindings
    """As the scan itself says it."""


def findings_of(scan: GapScan, attempt: str, result: ScanResult, *, place: BundlePlace, question: str) -> Findings:
    """Check a result and put it into the words of the status.

    Args:
        scan: whose result it is.
        attempt: name of the attempt that found it.
        result: as it came out of the log.
        place: where the attempt put the bundle.
        question: digest of where the attempt looked.

    Raises:
        ResultError: it contradicts itself, or is too large for where it should go.
    """
    found = result.report.findings
    if found is None:
        raise ResultError(Reason.RESULT_UNREADABLE, f"The result of {attempt} has an outcome and no findings.")
    partitions = tuple(map(_findings, found.partitions))
    named = found.bundle
    text, metadata = _bundle_text(attempt, result, named.sha256)
    listed = named.missing if metadata is None else metadata.missing
    reference = BundleReference(
        id=named.id,
        sha256=named.sha256,
        missing=counted(listed),
        type=place.type,
        location=place.location,
        key=BUNDLE_KEY if place.type == "ConfigMap" else None,
        claim_name=place.claim_name,
        endpoint=place.endpoint,
        question=question or None,
    )
    resend = _resend(scan, reference, metadata, text)
    kept = None
    if place.type == "ConfigMap":
        if result.bundle_gzip is None and not named.omitted:
            raise ResultError(Reason.RESULT_UNREADABLE, f"The result of {attempt} has no bundle.")
        _check_size(attempt, result.bundle_gzip, resend)
        kept = bundle_map(scan, attempt, result.bundle_gzip or b"", resend)
    worst = sorted(partitions, key=lambda found: (-found.missing, -(found.unknown or 0), found.topic, found.partition))
    return Findings(
        missing_events=counted(found.missing),
        missing_ranges=counted(found.missing_ranges),
        inferred_events=None if found.inferred_events is None else counted(found.inferred_events),
        unknown_events=None if found.unknown is None else counted(found.unknown),
        partitions=tuple(each for each in worst if each.missing or each.unknown)[:MAX_STATUS_PARTITIONS],
        read_by=result.report.read_by,
        bundle=reference,
        resend=resend,
        bundle_map=kept,
        reported=found,
    )


def counted(number: int) -> int:
    """`number` as a status holds it, whose integers have 64 bits; events of many partitions together may be more."""
    return min(number, MAX_OFFSET)


def gap_topic_of(report: ScanReport) -> str:
    """The topic that a scan of gap records read, for sentences."""
    return report.topics[0] if report.topics else "of the gaps"


def status_fields(found: Findings, before: GapScanStatus, at: datetime) -> dict[str, Any]:
    """The fields of the status that say what was found."""
    change = None
    if before.missing_events is not None:
        change = Change(
            events=found.missing_events - before.missing_events,
            ranges=found.missing_ranges - (before.missing_ranges or 0),
        )
    return {
        "last_scan_time": at,
        "read_by": found.read_by,
        "missing_events": found.missing_events,
        "missing_ranges": found.missing_ranges,
        "inferred_events": found.inferred_events,
        "unknown_events": found.unknown_events,
        "partitions": found.partitions,
        "change": change,
        "bundle": found.bundle,
        "resend_manifest": found.resend,
    }


def _bundle_text(attempt: str, result: ScanResult, sha256: str) -> tuple[bytes | None, BundleMetadata | None]:
    """Unpack and check the bundle, if the result carries it."""
    if result.bundle_gzip is None:
        return None, None
    try:
        text = unpacked(result.bundle_gzip, most_bytes=_LARGEST_BUNDLE_BYTES)
        metadata = read_bundle_text(text, name=f"of {attempt}").metadata
    except (ResultLinesError, BundleError) as error:
        raise ResultError(Reason.RESULT_UNREADABLE, f"The bundle of {attempt} cannot be read: {error}") from None
    if metadata is None or metadata.sha256 != sha256:
        raise ResultError(
            Reason.RESULT_UNREADABLE, f"The bundle of {attempt} is not the one that its report names (sha256)."
        )
    return text, metadata


def _check_size(attempt: str, bundle_gzip: bytes | None, resend: str | None) -> None:
    """Refuse what no ConfigMap takes; a bundle that the pod left out is one."""
    size = len(bundle_gzip or b"") + len((resend or "").encode())
    if bundle_gzip is None or size > LARGEST_CONFIG_MAP_BYTES:
        limit = LARGEST_CONFIG_MAP_BYTES // 1024
        how_large = (
            f"more than {limit} KiB after compression"
            if bundle_gzip is None
            else f"{size // 1024} KiB after compression, and a ConfigMap takes {limit} KiB"
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


def _findings(entry: PartitionFinding) -> PartitionFindings:
    return PartitionFindings(
        topic=entry.topic[:_LONGEST_TOPIC],
        partition=entry.partition,
        missing=counted(entry.missing),
        inferred=None if entry.inferred_events is None else counted(entry.inferred_events),
        unknown=None if entry.unknown is None else counted(entry.unknown),
        ranges=entry.ranges,
        first_missing=entry.first_missing,
        last_missing=entry.last_missing,
    )
