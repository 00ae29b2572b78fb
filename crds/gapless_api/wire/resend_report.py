"""The report of ``gapless resend``: the complete one, a file, and the short one, a log line.

Must not know how the report is compiled. The complete one may have ten million ranges, so this module writes them one
by one, and `resend_report_files` reads them one by one; everything else is small.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Annotated

from gapless_api.wire.form import Flat, Form, Offset, PartitionNumber, to_plain
from gapless_api.wire.totals import Totals

Ranges = Iterable[Sequence[int]]
"""First and last offsets (inclusive), ascending; can be iterated repeatedly."""

_RANGES_PER_PIECE = 10_000
MAX_DAMAGED = 100
"""The number of damaged objects of an archive in a report."""


class Outcome(StrEnum):
    """How a resend ended."""

    DONE = "Done"
    """Everything planned was sent (or filtered or filled)."""
    NOTHING_TO_DO = "NothingToDo"
    INCOMPLETE = "Incomplete"
    """Finished, but some events could not be sent; they are listed."""
    STOPPED = "Stopped"
    """By a signal; the checkpoint has the progress."""
    FAILED = "Failed"


class RangeKind(StrEnum):
    """The outcome of a range of offsets."""

    SENT = "sent"
    """Sent unchanged."""
    FILTERED = "filtered"
    """Sent as empty events, because the input filter denies them."""
    FILLED = "filled"
    """Sent as empty events, because the original events are not available."""
    OUTSIDE_TIME_RANGE = "outsideTimeRange"
    """Checked, but not selected."""
    EXPIRED = "Expired"
    """Deleted by Kafka before they were read."""
    NON_EXISTENT = "NonExistent"
    """Never written, or removed by compaction: later offsets exist."""
    NOT_YET_WRITTEN = "NotYetWritten"
    """Beyond the end of the partition."""
    TOO_LARGE = "TooLarge"
    """Require more datagrams than the receiver reassembles."""
    ARCHIVE_DAMAGED = "ArchiveDamaged"
    """Deleted by Kafka, and in the archive only in a missing or damaged segment."""


_MAY_CHANGE = (RangeKind.NOT_YET_WRITTEN, RangeKind.ARCHIVE_DAMAGED)
UNAVAILABLE = (RangeKind.EXPIRED, RangeKind.NON_EXISTENT, RangeKind.TOO_LARGE, *_MAY_CHANGE)
"""Reasons why an event could not be sent."""
NEVER = tuple(kind for kind in UNAVAILABLE if kind not in _MAY_CHANGE)
"""Reasons why an event can never be sent; events may still be written, and an archive may be repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBundle:
    """The bundle of a resend."""

    file: str
    type: str
    id: str | None
    """Null for a bundle of another program."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraffic:
    """Traffic on the link."""

    datagrams: int
    """That the kernel accepted."""
    payload_bytes: int
    system_calls: int
    refused: int
    """How often a host replied that no program listens at the target."""
    retries: int
    left_interface: int
    """Accepted datagrams that have left the interface: all but its drops, which may have been of other programs."""
    interface_drops: int
    """Datagrams, of any program, that the interface dropped or failed to send meanwhile (tx_dropped, tx_errors)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedEntry:
    """A bundle entry for another cluster."""

    topic: str
    partition: PartitionNumber
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedObject:
    """An object of the archive that is missing or damaged."""

    object: str
    """Including the address of the archive."""
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFigures:
    """The counts of one partition, without its ranges."""

    topic: str
    """As the downstream side names it."""
    partition: PartitionNumber
    upstream_topic: str
    upstream_partition: PartitionNumber
    ledger: Annotated[Totals, Flat]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableRange:
    """Offsets that could not be sent."""

    topic: str
    partition: PartitionNumber
    first: Offset
    """Inclusive."""
    last: Offset
    """Inclusive."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHead:
    """The common part of both forms: the numbers of a resend, or of one of its shards."""

    outcome: Outcome
    exit_code: int
    reason: str | None
    """The condition reason of a failure; null if there was none."""
    message: str
    shard: int | None
    """Number of the shard, from 0; null for all shards together."""
    shards: int
    mode: str | None
    """bundle, offsets or time; null if the work ended before this was known."""
    bundle: ReadBundle | None
    started: str
    """RFC 3339, with the offset of the time zone."""
    seconds: float
    events_per_second: float
    ledger: Totals
    unavailable: Mapping[str, int]
    """The number of events that could not be sent, by reason."""
    from_archive: int
    """Events that were read from the archive, because Kafka no longer has them."""
    damaged: tuple[DamagedObject, ...]
    """Objects of the archive that this run could not read; the first 100."""
    link: LinkTraffic
    keys_announced: int
    skipped: tuple[SkippedEntry, ...]
    """Entries of the bundle outside the partition window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """The counts of one partition, and its ranges by outcome."""

    figures: PartitionFigures
    ranges: Mapping[str, Ranges]
    """By `RangeKind`. There may be ten million, so they are formatted one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendReport:
    """The complete report."""

    head: ReportHead
    partitions: Sequence[PartitionReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortReport:
    """The report without the ranges of partitions; lists are shortened, totals are complete."""

    head: Annotated[ReportHead, Flat]
    skipped_omitted: int
    partitions: tuple[PartitionFigures, ...]
    """Partitions with the most unavailable events first."""
    partitions_omitted: int
    unavailable_ranges: tuple[UnavailableRange, ...]
    unavailable_ranges_omitted: int


FULL_REPORT_HEAD = Form("resend report", "gaplessReport", 4, ReportHead, kind="full")
"""The complete report without its partitions: see `report_text` and `resend_report_files`."""
FULL_REPORT_PARTITION = Form("resend report", "gaplessReport", 4, PartitionFigures)
SHORT_REPORT = Form("resend report", "gaplessReport", 4, ShortReport, event="report", kind="short")


def report_text(report: ResendReport) -> Iterator[str]:
    """Yield the JSON of the complete `report` in pieces."""
    yield json.dumps(FULL_REPORT_HEAD.to_json(report.head), indent=1).removesuffix("\n}")
    yield ',\n "partitions": ['
    separator = "\n"
    for partition in report.partitions:
        yield f"{separator}  {json.dumps(to_plain(partition.figures)).removesuffix('}')}, "
        yield '"ranges": {'
        comma = ""
        for kind, ranges in partition.ranges.items():
            yield f"{comma}\n   {json.dumps(kind)}: ["
            yield from _pairs(iter(ranges))
            yield "]"
            comma = ","
        yield "}}"
        separator = ",\n"
    yield "]\n}\n"


def _pairs(ranges: Iterator[Sequence[int]]) -> Iterator[str]:
    comma = ""
    while pairs := [f"[{first},{last}]" for first, last in islice(ranges, _RANGES_PER_PIECE)]:
        yield comma + ",".join(pairs)
        comma = ","
