"""Owns the evidence of a comparison of two copies of a topic, which ``gapless verify-copy --report`` writes.

Must not know how records are read or compared. The report is signed as it stands: Ed25519 over the line
``gapless copy report`` and all members without the signature (see `gapless_api.keys.signatures.signed_bytes`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.form import Form, Offset, PartitionNumber

Side = Literal["a", "b"]
Alignment = Literal["offsets", "order"]
Part = Literal["key", "value", "headers", "timestamp", "timestampType"]
"""What of a record is compared."""
DifferenceKind = Literal["onlyInA", "onlyInB", "different", "moved"]
Reason = Literal["Expired", "NotWritten", "NotArchived", "Damaged"]
Outcome = Literal["identical", "nothing-to-compare", "different", "incomplete"]
MAX_DIFFERENCES = 10_000
"""How many differences, each with a range of records, a report lists; the totals count all."""
_SIGNED_AS = "gapless copy report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets of one copy, both ends inclusive."""

    first: Offset
    last: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Consecutive records that differ in the same way."""

    partition: PartitionNumber
    kind: DifferenceKind
    """`moved` is a record that both copies have, at another place among the others."""
    parts: tuple[Part, ...]
    """Of records that are `different`: in what."""
    records: int
    a: Span | None
    """Where the records are in A; null when they are only in B."""
    b: Span | None
    """Where the records are in B; null when they are only in A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """Offsets that one copy cannot answer for, so that nothing is known of a difference."""

    partition: PartitionNumber
    side: Side
    """The copy that cannot answer."""
    reason: Reason
    """`Expired`: Kafka has deleted the records. `NotWritten`: they are behind the end of the topic. `NotArchived`: no
    segment covers them. `Damaged`: their segment is missing or damaged."""
    span: Span
    records: int | None
    """How many records are not compared; null where only the offsets are known."""
    detail: str
    """Which segment, and what is wrong with it; empty for the other reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestedRange:
    """Consecutive records of one copy, and their digest."""

    first: Offset
    """The offset of the first record."""
    last: Offset
    """The offset of the last record."""
    records: int
    digest: str
    """`sha256:` and 64 hexadecimal digits over key, value, headers and timestamp of the records in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampTypes:
    """How many records have which type of timestamp."""

    create_time: int
    log_append_time: int
    none: int
    """Records without a timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopy:
    """One partition of one copy."""

    first: Offset
    """The first offset that the copy can answer for; in Kafka the log start."""
    end: Offset
    """The last offset that it can answer for plus one; in Kafka the last stable offset."""
    records: int
    """How many were compared."""
    digest: str
    """`sha256:` and 64 hexadecimal digits over the count and digest of each range; see `ranges`."""
    timestamp_types: TimestampTypes
    ranges: tuple[DigestedRange, ...]
    """With alignment by offsets, a range ends where a multiple of 100,000 begins; by order, after 100,000 records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """One partition of both copies."""

    partition: PartitionNumber
    a: PartitionCopy | None
    """Null when A does not have the partition."""
    b: PartitionCopy | None
    equal: int
    """Records that are in both, alike and in the same order."""
    different: int
    only_in_a: int
    only_in_b: int
    moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAddress:
    """What was compared."""

    address: str
    kind: Literal["kafka", "archive"]
    cluster_id: str
    """For an archive, that of the cluster that was archived last; empty if it has none."""
    region: str
    """Of an archive; empty for Kafka."""
    topic: str
    topic_id: str
    """Empty where brokers have none."""
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTotals:
    """The counts of all partitions together."""

    records_in_a: int
    """That were compared."""
    records_in_b: int
    equal: int
    different: int
    only_in_a: int
    only_in_b: int
    moved: int
    offsets_not_compared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What was compared, and what was found."""

    created: str
    """When the comparison ended, like 2026-11-20T10:00:00Z."""
    product: str
    """The version of Gapless."""
    alignment: Alignment
    """Whether records were compared by their offsets, or by their order in the partition."""
    compared: tuple[Part, ...]
    a: CopyAddress
    b: CopyAddress
    outcome: Outcome
    exit_code: int
    message: str
    read_by: Literal["spark", "local"] | None
    """What read the records; null when there were none to read."""
    seconds: float
    totals: CopyTotals
    partitions: tuple[PartitionComparison, ...]
    differences: tuple[Difference, ...]
    differences_omitted: int
    """How many more there are than the first 10,000."""
    not_compared: tuple[NotCompared, ...]
    signature: str | None
    """In Base64; null when the report is not signed."""


COPY_REPORT = Form("report of a comparison", "gaplessCopyReport", 1, CopyReport)


def copy_report_bytes(report: CopyReport) -> bytes:
    """What the signature of a report is over."""
    from gapless_api.keys.signatures import signed_bytes  # noqa: PLC0415 -- cryptography is slow to import

    return signed_bytes(_SIGNED_AS, COPY_REPORT.to_json(replace(report, signature=None)))


def check_copy_report(report: CopyReport, keys: Mapping[str, str], *, name: str) -> str:
    """Find the trusted key that a report was signed with, and return its name.

    Args:
        report: with its signature.
        keys: Ed25519 public keys in Base64, by name.
        name: what the message calls the report.

    Raises:
        ConfigurationError: the report is not signed, or with another key, or was altered since.
    """
    from gapless_api.keys.signatures import verifier_from_base64  # noqa: PLC0415 -- cryptography is slow to import

    if report.signature is None:
        raise ConfigurationError(f"The report {name} is not signed; write it with --signing-key.")
    signed = copy_report_bytes(report)
    for key_name, key in keys.items():
        if verifier_from_base64(key)(report.signature, signed):
            return key_name
    raise ConfigurationError(
        f"The signature of the report {name} matches none of the trusted keys ({', '.join(sorted(keys))}); the report "
        f"was altered or signed with another key: do not rely on it."
    )
