"""The comparison of an older bundle with newer findings: which of its offsets are closed, open or unknown.

Must not know where the newer findings come from. An offset that they did not check is unknown, never closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.bundle.form import MADE_OF_RECORDS, Bundle, BundleKind, PartitionGaps
from gapless_api.bundle.origins import compare_origins, read_origin
from gapless_api.gaps.cleanup_policy import KEEPS_ALL
from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_api.wire.resend_report_files import ResendFindings

if TYPE_CHECKING:
    from gapless_api.wire.bundle_origin import BundleOrigin


MAX_PARTITIONS = 100
"""The number of partitions in a report, those with the most open and unknown offsets first."""
TOOL_PREFIX = "gapless bundle "
"""The beginning of the source command of bundles that were made from other bundles, and so list only a part."""
_BY_RECORDS = frozenset({"gapless scan", "gapless create"})
"""The source commands of bundles that list a detector's records, as bundles of the peer without metadata do."""
_RECORDS_MAY_BE_LOST = (
    "The newer bundle comes from a gaps topic that may have lost records, so offsets that it does not list are not "
    "closed; use --against=scan, or run gapless audit."
)
_MAX_NAMED_RANGES = 5
_NOTHING = OffsetRanges()


@dataclass(frozen=True, slots=True)
class NewerFinding:
    """What is missing now, and which offsets were checked."""

    kind: BundleKind
    """`FIRST` if only the first range of each partition is listed: the offsets after it then count as not checked."""
    results: tuple[PartitionGaps, ...]
    """In canonical order, one entry for each topic and partition."""
    checked: Mapping[TopicPartition, OffsetRanges] | None = None
    """The offsets that were checked, in partitions where these are not all offsets in the window of the entry."""
    absent: Mapping[TopicPartition, OffsetRanges] | None = None
    """Offsets that are no events, according to an inventory."""
    by_records: bool = False
    """Whether the findings are records of a detector, which never list inferred offsets."""
    why_unknown: str = ""
    """Why offsets that were not checked are unknown, and what to do."""
    origin: BundleOrigin | None = None
    """The logs that the findings come from; ``None`` if unknown."""
    truncated: str = ""
    """What a check of the older bundle's gaps topic has found out: how its log was truncated since; empty if it was
    not, or was not checked."""

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> NewerFinding:
        """Return the findings of a newer bundle.

        If the bundle was made from other bundles, or from a gaps topic that may have lost records, then only the
        offsets that it lists are known.

        Raises:
            ConfigurationError: its origin is damaged, or has another version.
        """
        source = {} if bundle.metadata is None else bundle.metadata.source
        made_of_others = source.get("command", "").startswith(TOOL_PREFIX)
        by_records = is_made_of_records(bundle)
        only_listed = made_of_others or (by_records and not KEEPS_ALL.items() <= source.items())
        checked = {(entry.topic, entry.partition): _NOTHING for entry in bundle.results} if only_listed else None
        why = _RECORDS_MAY_BE_LOST if by_records and not made_of_others else ""
        origin = read_origin(source)
        return cls(bundle.kind, bundle.results, checked, by_records=by_records, why_unknown=why, origin=origin)

    @classmethod
    def of_job(  # noqa: PLR0913 -- the facts of a result
        cls,
        results: tuple[PartitionGaps, ...],
        checked: Mapping[TopicPartition, OffsetRanges],
        absent: Mapping[TopicPartition, OffsetRanges] | None = None,
        *,
        by_records: bool = False,
        why_unknown: str = "",
        origin: BundleOrigin | None = None,
        truncated: str = "",
    ) -> NewerFinding:
        """Return the findings of a scan or an audit, including those that its bundle leaves out."""
        return cls(BundleKind.ALL, results, checked, absent, by_records, why_unknown, origin, truncated)


@dataclass(frozen=True, slots=True)
class PartitionReconciliation:
    """The outcome of one partition: ``listed = closed + filled + unavailable + open + unknown``."""

    topic: str
    partition: int
    listed: int
    """The number of offsets in the older bundle."""
    closed: int
    """Checked, and no longer missing."""
    filled: int
    """Like `closed`, but with empty events that a resend sent in their place."""
    unavailable: int
    """Not received and permanently unavailable, according to a resend or an inventory."""
    open: int
    """Still missing."""
    unknown: int
    """Not checked."""
    new: int
    """Missing now, but not in the older bundle."""
    first_open: tuple[OffsetRange, ...] = ()
    """The first open ranges, both ends inclusive."""
    first_unknown: tuple[OffsetRange, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the partition as JSON for reports."""
        return {
            **{name: getattr(self, name) for name in ("topic", "partition", *COUNTS)},
            "first_open": [list(offsets) for offsets in self.first_open],
            "first_unknown": [list(offsets) for offsets in self.first_unknown],
        }


COUNTS = ("listed", "closed", "filled", "unavailable", "open", "unknown", "new")
"""The counts of a reconciliation, as reports name them."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The outcome of all offsets of an older bundle."""

    bundle_id: str | None
    """``None`` for a bundle of another program."""
    bundle_sha256: str
    partitions: tuple[PartitionReconciliation, ...]
    """All partitions of the older bundle and of the newer findings, sorted."""
    why_unknown: str = ""
    """Why offsets are unknown, and what to do; empty if the newer findings do not say."""
    caution: str = ""
    """What could not be verified about the closed offsets; empty for nothing."""

    def total(self, count: str) -> int:
        """Return the sum of a count over all partitions."""
        return sum(getattr(partition, count) for partition in self.partitions)

    @property
    def settled(self) -> bool:
        """Whether nothing of the older bundle is open or unknown."""
        return not any(partition.open or partition.unknown for partition in self.partitions)

    def as_json(self, *, most_partitions: int = MAX_PARTITIONS) -> dict[str, Any]:
        """Return the member ``reconciliation`` of a report."""
        urgent = sorted(self.partitions, key=lambda each: (-each.open - each.unknown, each.topic, each.partition))
        return {
            "with": {"id": self.bundle_id, "sha256": self.bundle_sha256},
            "settled": self.settled,
            **{count: self.total(count) for count in COUNTS},
            "sentence": self.sentence(),
            "caution": self.caution,
            "partitions": [partition.as_json() for partition in urgent[:most_partitions]],
            "partitions_omitted": max(len(urgent) - most_partitions, 0),
        }

    def sentence(self) -> str:
        """Return a summary for people, without the name of the bundle."""
        listed, still_open, unknown = self.total("listed"), self.total("open"), self.total("unknown")
        more = f" {_amount(self.total('new'))} missing now that it does not list." if self.total("new") else ""
        more += f" {self.caution}" if self.caution else ""
        if not listed:
            return f"The older bundle lists no missing offsets.{more}"
        outcomes = (
            (self.total("closed"), "arrived"),
            (self.total("filled"), "closed with an empty event"),
            (self.total("unavailable"), "permanently unavailable upstream"),
        )
        summary = ", ".join(f"{count} {words}" for count, words in outcomes if count)
        if self.settled:
            lead = (
                f"All {listed} offsets of the older bundle have closed"
                if not self.total("unavailable")
                else f"None of the {listed} offsets of the older bundle is still open"
            )
            return f"{lead}: {summary}.{more}"
        remaining = [f"still open: {still_open}"] if still_open else []
        if unknown:
            remaining.append(f"not checked: {unknown}")
        done = f" ({summary})" if summary else ""
        why = f" {self.why_unknown}" if unknown and self.why_unknown else ""
        return f"Of {listed} offsets of the older bundle {', '.join(remaining)}{done}.{why}{more}"


def is_made_of_records(bundle: Bundle) -> bool:
    """Whether `bundle` lists only records of a detector, and what was inferred from them."""
    if bundle.metadata is None:
        return True
    source = bundle.metadata.source
    return source.get("command") in _BY_RECORDS or MADE_OF_RECORDS.items() <= source.items()


def reconcile(old: Bundle, newer: NewerFinding, resends: ResendFindings | None = None) -> Reconciliation:
    """Compare the bundle `old` with newer findings and with the reports of resends.

    An offset that is missing now is open, unless a resend reported it as unavailable. An offset that was checked and is
    not missing is closed, or filled if a resend reported that. An offset that was not checked is unknown, unless it was
    reported as unavailable. Records do not close inferred offsets, or those that an audit found: the detector may never
    have known that they are missing. Nor do they close any if the gaps topic was recreated or has lost records since
    the older bundle, which also shows in a partition that they follow less far.

    One linear pass for each partition; no list of ranges is kept.

    Raises:
        ConfigurationError: the origin of the older bundle is damaged, or has another version.
    """
    reported = resends or ResendFindings()
    now = {(entry.topic, entry.partition): entry for entry in newer.results}
    before = {(entry.topic, entry.partition): entry.ranges for entry in old.results}
    both_by_records = newer.by_records and is_made_of_records(old)
    source = {} if old.metadata is None else old.metadata.source
    difference = compare_origins(
        read_origin(source), newer.origin, by_records=both_by_records, truncated=newer.truncated
    )
    lost = difference.why_unknown
    reached = {(entry.topic, entry.partition): entry.window_max for entry in old.results} if both_by_records else {}
    unrecorded: dict[TopicPartition, OffsetRanges] = {}
    if newer.by_records and not is_made_of_records(old):
        unrecorded = before
    elif newer.by_records and old.metadata is not None:
        unrecorded = {(entry.topic, entry.partition): entry.ranges for entry in old.metadata.inferred}
    partitions = []
    for key in sorted({*now, *before}):
        entry = now.get(key)
        checked = _NOTHING if entry is None else _checked(entry, newer)
        if key in unrecorded:
            checked -= unrecorded[key]
        if difference.gap_topics or key in difference.recreated:
            checked = _NOTHING
        elif entry is not None and entry.window_max < reached.get(key, 0):
            checked, lost = _NOTHING, lost or _shorter_sentence(key, reached[key], entry.window_max)
        missing = _NOTHING if entry is None else entry.ranges
        unavailable = reported.unavailable.get(key, _NOTHING) | (newer.absent or {}).get(key, _NOTHING)
        filled = reported.filled.get(key, _NOTHING)
        partitions.append(_partition(key, before.get(key, _NOTHING), missing, checked, unavailable, filled))
    metadata = old.metadata
    closes = any(partition.closed or partition.filled for partition in partitions)
    return Reconciliation(
        metadata.id if metadata is not None else None,
        old.sha256,
        tuple(partitions),
        lost or newer.why_unknown,
        difference.caution if closes else "",
    )


def _shorter_sentence(key: TopicPartition, before: int, now: int) -> str:
    return (
        f"The records of partition {key[0]}/{key[1]} ended at offset {before:,} before and end at {now:,} now: the "
        f"gaps topic has lost records, so a missing record closes no gap; run gapless audit to find out what has "
        f"arrived."
    )


def failed_comparison(problem: str) -> dict[str, Any]:
    """Return the member ``reconciliation`` of a report if the older bundle cannot be read."""
    return {"with": None, "problem": problem}


def _checked(entry: PartitionGaps, newer: NewerFinding) -> OffsetRanges:
    """Return the offsets of a partition that the newer findings cover."""
    limit = MAX_OFFSET
    if newer.kind is BundleKind.FIRST and len(entry.ranges):
        limit = entry.ranges[0].last
    exact = (newer.checked or {}).get((entry.topic, entry.partition))
    if exact is not None:
        return exact if limit == MAX_OFFSET else exact.clip(0, limit)  # may reach beyond the window
    first, last = entry.window_min, min(entry.window_max, limit)
    return OffsetRanges([(first, last)]) if first <= last else _NOTHING


def _partition(  # noqa: PLR0913, PLR0917 -- all facts about one partition
    key: TopicPartition,
    listed: OffsetRanges,
    missing: OffsetRanges,
    checked: OffsetRanges,
    unavailable: OffsetRanges,
    filled: OffsetRanges,
) -> PartitionReconciliation:
    total = listed.count
    still_open = listed & missing
    new = missing.count - still_open.count
    unknown = _unchecked(listed, checked) - missing
    unavailable_count = 0
    if len(unavailable):
        unavailable_count = (still_open & unavailable).count + (unknown & unavailable).count
        still_open, unknown = still_open - unavailable, unknown - unavailable
    open_count, unknown_count = still_open.count, unknown.count
    first_open, first_unknown = tuple(still_open.head(_MAX_NAMED_RANGES)), tuple(unknown.head(_MAX_NAMED_RANGES))
    del still_open, unknown  # to free their memory
    filled_count = (((listed & filled) & checked) - missing).count if len(filled) else 0
    return PartitionReconciliation(
        *key,
        listed=total,
        closed=total - filled_count - unavailable_count - open_count - unknown_count,
        filled=filled_count,
        unavailable=unavailable_count,
        open=open_count,
        unknown=unknown_count,
        new=new,
        first_open=first_open,
        first_unknown=first_unknown,
    )


def _unchecked(listed: OffsetRanges, checked: OffsetRanges) -> OffsetRanges:
    """Return `listed` without `checked`; fast if one range covers everything, as is usual."""
    covers = len(checked) == 1 and len(listed) and checked.first_offset <= listed.first_offset
    return _NOTHING if covers and listed.last_offset <= checked.last_offset else listed - checked


def _amount(number: int) -> str:
    return "1 offset is" if number == 1 else f"{number} offsets are"
