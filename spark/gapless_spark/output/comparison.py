"""Owns how the older bundle of ``compareWith`` is fetched, and what a scan or an audit reports of it.

Must not know what makes a gap closed (see `gapless_api.bundle.reconciliation`), nor how the newer finding came about.
A job that runs on a schedule must give its bundle whatever became of the last one, so nothing here makes a job fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError, StoppedError
from gapless_api.base.files import temporary_folder
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.reconciliation import NewerFinding, failed_comparison, reconcile
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.store.object_store import ObjectAddress, open_store
from gapless_spark.model.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.bundle.form import Bundle
    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.store.access import S3Access
    from gapless_spark.model.outcome import Conclusion


def compared(conclusion: Conclusion, place: Path | ObjectAddress | None, access: S3Access) -> dict[str, Any]:
    """The member ``reconciliation`` of the report; nothing when no older bundle is named. Raises StoppedError only."""
    if place is None:
        return {}
    try:
        older = older_bundle(place, access)
    except StoppedError:
        raise
    except GaplessError as error:
        return {"reconciliation": failed_comparison(str(error))}
    return {"reconciliation": reconcile(older, finding_of(conclusion)).as_json()}


def finding_of(conclusion: Conclusion) -> NewerFinding:
    """What a job has found, whatever of it its bundle is told to keep.

    Records that cannot be read may be about any window: only what is missing is then known, and nothing has closed.
    """
    if conclusion.outcome is Outcome.UNREADABLE_RECORDS:
        nothing = {(entry.topic, entry.partition): OffsetRanges() for entry in conclusion.results}
        return NewerFinding.of_job(conclusion.results, nothing, why_unknown="Not all records could be read.")
    checked = {**conclusion.checked, **_left_out(conclusion)}
    by_records = "infer" in conclusion.details
    return NewerFinding.of_job(
        conclusion.results,
        checked,
        conclusion.absent,
        by_records=by_records,
        why_unknown=conclusion.why_unknown,
    )


def _left_out(conclusion: Conclusion) -> dict[TopicPartition, OffsetRanges]:
    """Partitions of which a scan has left out stale records: what those list is not missing because nobody looked."""
    if not conclusion.details.get("skip_stale"):
        return {}
    return {
        (found["topic"], found["partition"]): OffsetRanges()
        for found in conclusion.partitions
        if found.get("stale_events")
    }


def older_bundle(place: Path | ObjectAddress, access: S3Access) -> Bundle:
    """Read the bundle at `place`; a store is reached by `access`. Raises GaplessError."""
    if isinstance(place, Path):
        return read_bundle(place)
    from gapless_archive.bundles import fetch_bundle  # noqa: PLC0415 -- only for stores

    with temporary_folder("gapless-older-") as folder:
        return fetch_bundle(open_store(place.bucket, access), place, Path(folder) / "bundle.json")


def say_comparison(reconciliation: Mapping[str, Any], stream: IO[str]) -> None:
    """Write what became of the older bundle as one line."""
    for found in reconciliation.values():
        said = found.get("sentence") or f"The older bundle was not compared: {found['problem']}"
        stream.write(f"{said}\n")
        stream.flush()
