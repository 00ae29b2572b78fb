"""Owns what became of an older bundle: which of its offsets have closed, which are open, and which are unknown.

Plain findings in, plain counts out. Must not know where a newer finding comes from. Silence is no success: an offset
that the newer finding did not look at is unknown, never closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.bundle.form import MADE_OF_RECORDS, BundleKind
from gapless_api.gaps.cleanup_policy import KEEPS_ALL
from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_api.wire.resend_report_files import ResendFindings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.bundle.form import Bundle, PartitionGaps


MAX_PARTITIONS = 100
"""How many partitions the report lists, those with the most open and unknown offsets first."""
TOOLS = "gapless bundle "
"""How the source of a bundle begins that is a part of others or put together of them, and so no look at everything."""
_BY_RECORDS = frozenset({"gapless scan", "gapless create"})
"""The sources of bundles that are made of a detector's records; the peer's bundles, without metadata, are too."""
_UNSAID = (
    "The newer bundle comes from a gaps topic that may have lost records, so what it does not list is not closed; scan "
    "the topic itself (--against=scan), or audit."
)
_NAMED_RANGES = 5
_NOTHING = OffsetRanges()


@dataclass(frozen=True, slots=True)
class NewerFinding:
    """What is missing now, and what was looked at to say so."""

    kind: BundleKind
    """`FIRST` when only the first range of each partition is told: what lies behind it then counts as not looked at."""
    results: tuple[PartitionGaps, ...]
    """In canonical order, one for each topic and partition."""
    looked_at: Mapping[TopicPartition, OffsetRanges] | None = None
    """What was looked at, where that is not simply everything within an entry's window."""
    absent: Mapping[TopicPartition, OffsetRanges] | None = None
    """What the other side has declared to be no events at all."""
    by_records: bool = False
    """Whether it is what a detector has recorded, which speaks of holes only and never of what was inferred."""
    why_unknown: str = ""
    """Why nothing is known of what was not looked at, and what to do."""

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> NewerFinding:
        """What a newer bundle says.

        Of one that a tool made of others only what it lists is known, and so it is of one that was made of a gaps topic
        which may have lost records, or whose policy is unknown.
        """
        source = {} if bundle.metadata is None else bundle.metadata.source
        made_of_others = source.get("command", "").startswith(TOOLS)
        by_records = is_made_of_records(bundle)
        only_listed = made_of_others or (by_records and not KEEPS_ALL.items() <= source.items())
        nothing = {(entry.topic, entry.partition): _NOTHING for entry in bundle.results} if only_listed else None
        why = _UNSAID if by_records and not made_of_others else ""
        return cls(bundle.kind, bundle.results, nothing, by_records=by_records, why_unknown=why)

    @classmethod
    def of_job(
        cls,
        results: tuple[PartitionGaps, ...],
        looked_at: Mapping[TopicPartition, OffsetRanges],
        absent: Mapping[TopicPartition, OffsetRanges] | None = None,
        *,
        by_records: bool = False,
        why_unknown: str = "",
    ) -> NewerFinding:
        """What a scan or an audit has found, whatever of it goes into its bundle."""
        return cls(BundleKind.ALL, results, looked_at, absent, by_records, why_unknown)


@dataclass(frozen=True, slots=True)
class PartitionReconciliation:
    """What became of the offsets of one partition: ``listed = closed + filled + unavailable + open + unknown``."""

    topic: str
    partition: int
    listed: int
    """How many offsets the older bundle lists."""
    closed: int
    """Looked at, and not missing any more."""
    filled: int
    """The same, with empty events that a resend sent in their place."""
    unavailable: int
    """Not received and permanently unavailable, according to a resend or an inventory."""
    open: int
    """Still missing."""
    unknown: int
    """Not looked at."""
    new: int
    """Missing now, and not listed by the older bundle."""
    first_open: tuple[OffsetRange, ...] = ()
    """The first ranges that are open, both ends inclusive."""
    first_unknown: tuple[OffsetRange, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The partition as reports show it."""
        return {
            **{name: getattr(self, name) for name in ("topic", "partition", *COUNTS)},
            "first_open": [list(found) for found in self.first_open],
            "first_unknown": [list(found) for found in self.first_unknown],
        }


COUNTS = ("listed", "closed", "filled", "unavailable", "open", "unknown", "new")
"""What became of the ranges of an older bundle, as reports name it."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What became of an older bundle."""

    bundle_id: str | None
    """``None`` for a bundle of another program."""
    bundle_sha256: str
    partitions: tuple[PartitionReconciliation, ...]
    """Every partition that the older bundle or the newer finding names, in their order."""
    why_unknown: str = ""
    """Why something is unknown, and what to do, as far as the newer finding tells."""

    def total(self, count: str) -> int:
        """The sum of one of the counts over all partitions."""
        return sum(getattr(partition, count) for partition in self.partitions)

    @property
    def settled(self) -> bool:
        """Whether nothing of the older bundle is open or unknown."""
        return not any(partition.open or partition.unknown for partition in self.partitions)

    def as_json(self, *, most_partitions: int = MAX_PARTITIONS) -> dict[str, Any]:
        """The member ``reconciliation`` of a report."""
        urgent = sorted(self.partitions, key=lambda found: (-found.open - found.unknown, found.topic, found.partition))
        return {
            "with": {"id": self.bundle_id, "sha256": self.bundle_sha256},
            "settled": self.settled,
            **{count: self.total(count) for count in COUNTS},
            "sentence": self.sentence(),
            "partitions": [partition.as_json() for partition in urgent[:most_partitions]],
            "partitions_omitted": max(len(urgent) - most_partitions, 0),
        }

    def sentence(self) -> str:
        """Say it to a person, without the bundle's name."""
        listed, left = self.total("listed"), {name: self.total(name) for name in ("open", "unknown")}
        more = f" {_amount(self.total('new'))} missing now that it does not list." if self.total("new") else ""
        if not listed:
            return f"The older bundle lists no missing offsets.{more}"
        ways = (
            (self.total("closed"), "arrived"),
            (self.total("filled"), "closed with an empty event"),
            (self.total("unavailable"), "permanently unavailable upstream"),
        )
        told = ", ".join(f"{count} {words}" for count, words in ways if count)
        if self.settled:
            lead = (
                f"All {listed} offsets of the older bundle have closed"
                if not self.total("unavailable")
                else f"Nothing of the {listed} offsets of the older bundle is left to wait for"
            )
            return f"{lead}: {told}.{more}"
        waiting = [f"still open: {left['open']}"] if left["open"] else []
        if left["unknown"]:
            waiting.append(f"not checked: {left['unknown']}")
        done = f" ({told})" if told else ""
        why = f" {self.why_unknown}" if left["unknown"] and self.why_unknown else ""
        return f"Of {listed} offsets of the older bundle {', '.join(waiting)}{done}.{why}{more}"


def is_made_of_records(bundle: Bundle) -> bool:
    """Whether all that `bundle` lists is what a detector has recorded, or was inferred from that."""
    if bundle.metadata is None:
        return True
    source = bundle.metadata.source
    return source.get("command") in _BY_RECORDS or MADE_OF_RECORDS.items() <= source.items()


def reconcile(old: Bundle, newer: NewerFinding, resends: ResendFindings | None = None) -> Reconciliation:
    """Compare the bundle `old` with what is missing now and with what resends have reported.

    An offset that is missing now is open unless a resend has reported it unavailable; one that was looked at and is not
    missing has closed, or was filled if a resend says so; one that was not looked at is unknown unless it was reported
    unavailable. What was only inferred, and what an audit found, closes by no record: the detector may never have known
    that it is missing.

    One linear pass for each partition; no list of ranges is kept.
    """
    findings = resends or ResendFindings()
    now = {(entry.topic, entry.partition): entry for entry in newer.results}
    before = {(entry.topic, entry.partition): entry.ranges for entry in old.results}
    unrecorded: dict[TopicPartition, OffsetRanges] = {}
    if newer.by_records and not is_made_of_records(old):
        unrecorded = before
    elif newer.by_records and old.metadata is not None:
        unrecorded = {(entry.topic, entry.partition): entry.ranges for entry in old.metadata.inferred}
    partitions = []
    for place in sorted({*now, *before}):
        entry = now.get(place)
        looked = _NOTHING if entry is None else _looked_at(entry, newer)
        if place in unrecorded:
            looked -= unrecorded[place]
        missing = _NOTHING if entry is None else entry.ranges
        gone = findings.unavailable.get(place, _NOTHING) | (newer.absent or {}).get(place, _NOTHING)
        empty = findings.filled.get(place, _NOTHING)
        partitions.append(_partition(place, before.get(place, _NOTHING), missing, looked, gone, empty))
    metadata = old.metadata
    return Reconciliation(
        metadata.id if metadata is not None else None, old.sha256, tuple(partitions), newer.why_unknown
    )


def failed_comparison(problem: str) -> dict[str, Any]:
    """The member ``reconciliation`` of a report whose older bundle cannot be read."""
    return {"with": None, "problem": problem}


def _looked_at(entry: PartitionGaps, newer: NewerFinding) -> OffsetRanges:
    """What a newer finding can speak of in one partition."""
    told_to = MAX_OFFSET
    if newer.kind is BundleKind.FIRST and len(entry.ranges):
        told_to = entry.ranges[0].last
    exact = (newer.looked_at or {}).get((entry.topic, entry.partition))
    if exact is not None:
        return exact if told_to == MAX_OFFSET else exact.clip(0, told_to)  # also what was received beyond the window
    first, last = entry.window_min, min(entry.window_max, told_to)
    return OffsetRanges([(first, last)]) if first <= last else _NOTHING


def _partition(  # noqa: PLR0913, PLR0917 -- what is known of one partition
    place: TopicPartition,
    listed: OffsetRanges,
    missing: OffsetRanges,
    looked: OffsetRanges,
    out_of_reach: OffsetRanges,
    empty: OffsetRanges,
) -> PartitionReconciliation:
    total = listed.count
    left = listed & missing
    new = missing.count - left.count
    unseen = _without(listed, looked) - missing
    unavailable = 0
    if len(out_of_reach):
        unavailable = (left & out_of_reach).count + (unseen & out_of_reach).count
        left, unseen = left - out_of_reach, unseen - out_of_reach
    still_open, unknown = left.count, unseen.count
    first_open, first_unknown = tuple(left.head(_NAMED_RANGES)), tuple(unseen.head(_NAMED_RANGES))
    del left, unseen
    filled = 0
    if len(empty):
        filled = (((listed & empty) & looked) - missing).count
    return PartitionReconciliation(
        *place,
        listed=total,
        closed=total - filled - unavailable - still_open - unknown,
        filled=filled,
        unavailable=unavailable,
        open=still_open,
        unknown=unknown,
        new=new,
        first_open=first_open,
        first_unknown=first_unknown,
    )


def _without(listed: OffsetRanges, looked: OffsetRanges) -> OffsetRanges:
    """`listed` less what was looked at; quick for the usual case, in which that is everything."""
    covers = len(looked) == 1 and len(listed) and looked.first_offset <= listed.first_offset
    return _NOTHING if covers and listed.last_offset <= looked.last_offset else listed - looked


def _amount(number: int) -> str:
    return "1 offset is" if number == 1 else f"{number} offsets are"
