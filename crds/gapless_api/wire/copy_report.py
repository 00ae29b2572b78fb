"""The report of ``gapless verify-copy``, the evidence of a comparison of two copies of a topic.

Must not know how records are read or compared. The Ed25519 signature covers the line ``gapless copy report`` and all
other members (see `gapless_api.keys.signatures.signed_bytes`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.form import Form, Offset, PartitionNumber

Side = Literal["a", "b"]
Alignment = Literal["offsets", "order"]
Part = Literal["key", "value", "headers", "timestamp", "timestampType"]
"""The parts of a record that are compared."""
Ignored = Literal["headers", "timestamp", "nullAsEmpty", "compacted"]
"""What may differ: parts of records, null and empty, and records that compaction removed from one copy."""
DifferenceKind = Literal["onlyInA", "onlyInB", "different", "moved", "compactedInA", "compactedInB"]
Reason = Literal["Expired", "NotWritten", "NotArchived", "Damaged"]
Outcome = Literal["identical", "nothing-to-compare", "different", "incomplete"]
MAX_DIFFERENCES = 10_000
"""The number of differences, each with a range of records, in a report; the totals count all."""
_SIGNATURE_LINE = "gapless copy report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets of one copy, both ends inclusive."""

    first: Offset
    last: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Consecutive records with the same kind of difference."""

    partition: PartitionNumber
    kind: DifferenceKind
    """`moved`: both copies have the record, but at different positions. `compactedInA`: only B has the records, and it
    is proved that compaction removed them from A."""
    parts: tuple[Part, ...]
    """The parts that differ, if `kind` is `different`."""
    records: int
    a: Span | None
    """Where the records are in A; null if they are only in B."""
    b: Span | None
    """Where the records are in B; null if they are only in A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """Offsets that could not be compared, because one copy does not have their records."""

    partition: PartitionNumber
    side: Side
    """The copy without the records."""
    reason: Reason
    """`Expired`: Kafka has deleted the records. `NotWritten`: they are beyond the end of the topic. `NotArchived`: no
    segment covers them. `Damaged`: their segment is missing or damaged."""
    span: Span
    records: int | None
    """How many records were not compared; null if only the offsets are known."""
    detail: str
    """The segment and its problem; empty for other reasons than `Damaged`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestedRange:
    """Consecutive records of one copy with their digest."""

    first: Offset
    """The offset of the first record."""
    last: Offset
    """The offset of the last record."""
    records: int
    digest: str
    """`sha256:` and 64 hexadecimal digits over key, value, headers and timestamp of the records in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampTypes:
    """The number of records by type of timestamp."""

    create_time: int
    log_append_time: int
    none: int
    """Records without a timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopy:
    """One partition of one copy."""

    first: Offset
    """The first offset of the copy; in Kafka the log start offset."""
    end: Offset
    """The last offset of the copy plus one; in Kafka the last stable offset."""
    records: int
    """How many were compared."""
    digest: str
    """`sha256:` and 64 hexadecimal digits over the count and digest of each range; see `ranges`."""
    timestamp_types: TimestampTypes
    ranges: tuple[DigestedRange, ...]
    """With alignment by offsets, a range ends before each multiple of 100,000; by order, after 100,000 records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """One partition of both copies."""

    partition: PartitionNumber
    a: PartitionCopy | None
    """Null if A does not have the partition."""
    b: PartitionCopy | None
    equal: int
    """Identical records in the same order."""
    different: int
    only_in_a: int
    only_in_b: int
    moved: int
    compacted_in_a: int
    """Records of B that compaction removed from A."""
    compacted_in_b: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAddress:
    """The address of a copy."""

    address: str
    kind: Literal["kafka", "archive"]
    cluster_id: str
    """For an archive, the ID of the cluster that was archived last; empty if it has none."""
    region: str
    """Of an archive; empty for Kafka."""
    topic: str
    topic_id: str
    """Empty if the brokers have none."""
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTotals:
    """The sums over all partitions."""

    records_in_a: int
    """Compared records of A."""
    records_in_b: int
    equal: int
    different: int
    only_in_a: int
    only_in_b: int
    moved: int
    compacted_in_a: int
    """Records of B that compaction removed from A; they are not in `onlyInB`."""
    compacted_in_b: int
    offsets_not_compared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """The result of a comparison."""

    created: str
    """When the comparison ended, like 2026-11-20T10:00:00Z."""
    product: str
    """The version of Gapless."""
    alignment: Alignment
    """Whether records were compared by offset, or by their order in the partition."""
    compared: tuple[Part, ...]
    ignored: tuple[Ignored, ...]
    a: CopyAddress
    b: CopyAddress
    outcome: Outcome
    exit_code: int
    message: str
    read_by: Literal["spark", "local"] | None
    """The engine that read the records; null if there were none."""
    seconds: float
    totals: CopyTotals
    partitions: tuple[PartitionComparison, ...]
    differences: tuple[Difference, ...]
    differences_omitted: int
    """The number of differences beyond the first 10,000."""
    compacted: tuple[Difference, ...]
    """Records that compaction removed from one of the copies."""
    compacted_omitted: int
    """The number of ranges in `compacted` beyond the first 10,000."""
    not_compared: tuple[NotCompared, ...]
    signature: str | None
    """In Base64; null if the report is not signed."""


COPY_REPORT = Form("report of a comparison", "gaplessCopyReport", 2, CopyReport)


def read_copy_report(content: Any) -> CopyReport:
    """Read a report of this version, or of version 1, which knew nothing of compaction. Raises WireError."""
    return COPY_REPORT.from_json(_upgrade(content))


def _upgrade(content: Any) -> Any:
    """Convert a report of version 1 to version 2; return anything else unchanged."""
    if not isinstance(content, dict) or content.get(COPY_REPORT.marker) != 1 or not _V2.isdisjoint(content):
        return content
    counts = {"compactedInA": 0, "compactedInB": 0}
    upgraded = {**content, COPY_REPORT.marker: 2, "ignored": [], "compacted": [], "compactedOmitted": 0}
    if isinstance(content.get("totals"), dict):
        upgraded["totals"] = {**counts, **content["totals"]}
    if isinstance(content.get("partitions"), list):
        upgraded["partitions"] = [
            {**counts, **each} if isinstance(each, dict) else each for each in content["partitions"]
        ]
    if isinstance(content.get("compared"), list):
        upgraded["ignored"] = [part for part in ("headers", "timestamp") if part not in content["compared"]]
    return upgraded


_V2 = frozenset({"ignored", "compacted", "compactedOmitted"})
"""The members that version 1 does not have."""


def signed_copy_report_bytes(content: Any) -> bytes:
    """Return the bytes that the signature covers of a report as it was read, of version 1 or 2."""
    from gapless_api.keys.signatures import signed_bytes  # noqa: PLC0415 -- cryptography is slow to import

    return signed_bytes(_SIGNATURE_LINE, {**content, "signature": None})


def copy_report_bytes(report: CopyReport) -> bytes:
    """Return the bytes that the signature of a report covers."""
    from gapless_api.keys.signatures import signed_bytes  # noqa: PLC0415 -- cryptography is slow to import

    return signed_bytes(_SIGNATURE_LINE, COPY_REPORT.to_json(replace(report, signature=None)))


def check_copy_report(content: Mapping[str, Any], keys: Mapping[str, str], *, name: str) -> str:
    """Return the name of the trusted key with which a report was signed.

    Args:
        content: the report with its signature, as it was read; `read_copy_report` accepts it.
        keys: Ed25519 public keys in Base64, by name.
        name: the name of the report in messages.

    Raises:
        ConfigurationError: the report is not signed, was signed with another key, or was altered since.
    """
    from gapless_api.keys.signatures import verifier_from_base64  # noqa: PLC0415 -- cryptography is slow to import

    signature = content["signature"]
    if signature is None:
        raise ConfigurationError(f"The report {name} is not signed; write it with --signing-key.")
    signed = signed_copy_report_bytes(content)
    for key_name, key in keys.items():
        if verifier_from_base64(key)(signature, signed):
            return key_name
    raise ConfigurationError(
        f"The signature of the report {name} matches none of the trusted keys ({', '.join(sorted(keys))}); the report "
        f"was altered or signed with another key: do not rely on it."
    )
