"""The output of ``gapless segments verify``; must not know how segments are verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import UndeliveredError
from gapless_api.base.quantities import quantity
from gapless_api.cli.json_output import print_json
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_archive.cli.segments_settings import VerifySettings
from gapless_archive.cli.texts import size_text
from gapless_archive.inspection.verification import Damage, Verification, verify_topic
from gapless_archive.segments.peer_adoption import read_state
from gapless_archive.selection import selection_from

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved

_MAX_SHOWN_RANGES = 5


def run(settings: Resolved) -> int:
    """Verify the selected topics.

    Raises:
        UndeliveredError: objects are damaged or missing; they were printed.
        GaplessError: the archive could not be read.
    """
    output = VerifySettings.of(settings.values)
    selection = selection_from(settings.values)
    place = selection.open()
    result = Verification()
    topics = [(chain, read_state(chain)) for chain in selection.chains(place, changes=False)]
    partitions = selection.partitions
    with ReadingProgress("segments verify", interval_seconds=output.progress_interval_seconds) as progress:
        progress.begin(
            sum(
                segment.end - segment.first
                for _, state in topics
                for segment in state.all_segments()
                if partitions is None or segment.partition in partitions
            )
        )
        done = 0

        def on_progress(offsets: int) -> None:
            nonlocal done
            done += offsets
            progress.update(lambda: done)

        for chain, state in topics:
            verify_topic(chain, state, result, partitions=partitions, on_progress=on_progress)
    if output.json:
        print_json(_as_json(place.name, result), "damaged")
    else:
        for damage in result.damaged:
            click.echo(f"{damage.message} {_affected(damage)}")
        for orphan in result.orphans:
            click.echo(f"{place.name}/{orphan} belongs to no segment; gapless compact deletes it.")
        for misnamed in result.misnamed:
            click.echo(
                f"{place.name}/{misnamed.object} holds offsets up to {misnamed.last}, beyond its key. Gapless reads "
                f"them; kafka-replicator does not."
            )
    summary = (
        f"{quantity(result.records, 'record')} with {size_text(result.bytes)} in "
        f"{quantity(result.segments, 'segment')} and {quantity(result.objects, 'object')} are undamaged"
    )
    if result.damaged:
        raise UndeliveredError(
            f"{len(result.damaged):,} of {result.segments:,} segments or objects are damaged or missing; restore them "
            f"from a backup. {summary}."
        )
    if not output.json:
        click.echo(f"{summary}.")
    return 0


def _affected(damage: Damage) -> str:
    shown = [f"{part.partition}/{part.first}-{part.last}" for part in damage.affected[:_MAX_SHOWN_RANGES]]
    more = len(damage.affected) - len(shown)
    return f"Affected: {', '.join(shown)}{f' and {more:,} more' if more else ''}."


def _as_json(archive: str, result: Verification) -> dict[str, object]:
    return {
        "archive": archive,
        "segments": result.segments,
        "objects": result.objects,
        "records": result.records,
        "bytes": result.bytes,
        "damaged": [
            {
                "object": damage.object,
                "message": damage.message,
                "affected": [part._asdict() for part in damage.affected],
            }
            for damage in result.damaged
        ],
        "orphans": result.orphans,
        "misnamed": [misnamed._asdict() for misnamed in result.misnamed],
    }
