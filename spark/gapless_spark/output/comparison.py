"""How the older bundle of ``compareWith`` is fetched, and how a scan or an audit reports the comparison with it.

Must not know when a gap is closed (see `gapless_api.bundle.reconciliation`), nor how the newer result was found. A job
on a schedule must write its bundle whatever happened to the previous one, so a failed comparison does not fail the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError, StoppedError
from gapless_api.base.files import temporary_folder
from gapless_api.bundle.origins import read_origin, truncated_sentence
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.reconciliation import NewerFinding, failed_comparison, reconcile
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.page.next_steps import UNREAD
from gapless_archive.store.object_store import ObjectAddress, open_store
from gapless_kafka.reading.log_truncation import LogPosition, find_truncated
from gapless_spark.model.outcome import Conclusion, Outcome

if TYPE_CHECKING:
    from gapless_api.bundle.form import Bundle
    from gapless_archive.store.access import S3Access
    from gapless_kafka.access.connection import KafkaConnection

log = structlog.get_logger("comparison")


def compare_with_older(
    conclusion: Conclusion, place: Path | ObjectAddress | None, access: S3Access, connection: KafkaConnection
) -> dict[str, Any]:
    """Return the member ``reconciliation`` of the report; empty without an older bundle. Raises only StoppedError."""
    if place is None:
        return {}
    try:
        older = older_bundle(place, access)
        found = reconcile(older, newer_finding(conclusion, truncated=find_truncation(older, conclusion, connection)))
    except StoppedError:
        raise
    except GaplessError as error:
        return {"reconciliation": failed_comparison(str(error))}
    return {"reconciliation": found.as_json()}


def find_truncation(older: Bundle, conclusion: Conclusion, connection: KafkaConnection) -> str:
    """Return how the gaps topic of `older` was truncated since then, also if it has grown again; empty if it was not.

    Its leaders are asked where the epoch of the older scan ends, unless no leader has changed since. A result that was
    written to a file cannot be checked so.

    Raises:
        GaplessError: Kafka cannot be asked, or the origin of `older` is damaged.
    """
    before, now = (
        read_origin(source) for source in ({} if older.metadata is None else older.metadata.source, conclusion.source)
    )
    epochs = {log.id: log.leader_epochs for log in now.gap_topics} if now is not None else {}
    positions = [
        LogPosition(log.topic, partition, end, epoch)
        for log in (before.gap_topics if before is not None else ())
        if log.id and log.id in epochs
        for partition, (end, epoch) in enumerate(zip(log.end_offsets, log.leader_epochs, strict=False))
        if end and epochs[log.id][partition : partition + 1] != (epoch,)
    ]
    ends = {(position.topic, position.partition): position.next_offset for position in positions}
    for (topic, partition), end in sorted(find_truncated(connection, positions).items()):
        return truncated_sentence(topic, partition, ends[topic, partition], end)
    return ""


def newer_finding(conclusion: Conclusion, *, truncated: str = "") -> NewerFinding:
    """Return the complete result of a job, even if its bundle contains only a part of it.

    Records that are unreadable, or that an open transaction holds back, may belong to any window of a scan: then only
    the missing offsets are known, and no gap counts as closed.

    Args:
        conclusion: the result.
        truncated: see `find_truncation`.
    """
    if conclusion.outcome is Outcome.UNREADABLE_RECORDS or conclusion.details.get(UNREAD):
        unchecked = {(entry.topic, entry.partition): OffsetRanges() for entry in conclusion.results}
        return NewerFinding.of_job(conclusion.results, unchecked, why_unknown="Not all records could be read.")
    by_records = "infer" in conclusion.details
    return NewerFinding.of_job(
        conclusion.results,
        conclusion.checked,
        conclusion.absent,
        by_records=by_records,
        why_unknown=conclusion.why_unknown,
        origin=read_origin(conclusion.source),
        truncated=truncated,
    )


def older_bundle(place: Path | ObjectAddress, access: S3Access) -> Bundle:
    """Read the bundle at `place`, which may be in an object store. Raises GaplessError."""
    bundle = _older_bundle(place, access)
    if bundle.repeated:
        log.warning("the older bundle lists offsets more than once", message=bundle.repeated_sentence)
    return bundle


def _older_bundle(place: Path | ObjectAddress, access: S3Access) -> Bundle:
    if isinstance(place, Path):
        return read_bundle(place)
    from gapless_archive.bundles import fetch_bundle  # noqa: PLC0415 -- only for stores

    with temporary_folder("gapless-older-") as folder:
        return fetch_bundle(open_store(place.bucket, access), place, Path(folder) / "bundle.json")


def print_comparison(reconciliation: Mapping[str, Any], stream: IO[str]) -> None:
    """Print the result of the comparison as one line."""
    for result in reconciliation.values():
        sentence = result.get("sentence") or f"The older bundle was not compared: {result['problem']}"
        stream.write(f"{sentence}\n")
        stream.flush()
