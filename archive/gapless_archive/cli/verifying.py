"""Owns how ``gapless segments verify`` tells what it has found; must not know how an archive is checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import UndeliveredError
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_archive.cli.texts import size_text
from gapless_archive.inspection.verification import Verification, verify_topic
from gapless_archive.selection import selection_from

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_archive.inspection.verification import Damage

_MOST_SHOWN = 5


def run(settings: Resolved) -> int:
    """Verify the chosen topics.

    Raises:
        UndeliveredError: something is damaged; it was printed.
        GaplessError: the archive could not be read.
    """
    selection = selection_from(settings.values)
    place = selection.open()
    found = Verification()
    topics = [(chain, chain.load()) for chain in selection.chains(place, changes=False)]
    chosen = selection.partitions
    with ReadingProgress("segments verify", interval_seconds=settings.values["progressInterval"]) as progress:
        progress.begin(
            sum(
                segment.end - segment.first
                for _, state in topics
                for segment in state.all_segments()
                if chosen is None or segment.partition in chosen
            )
        )
        done = 0

        def advanced(offsets: int) -> None:
            nonlocal done
            done += offsets
            progress.update(lambda: done)

        for chain, state in topics:
            verify_topic(chain, state, found, partitions=chosen, advanced=advanced)
    if settings.values["json"]:
        click.echo(json.dumps(_as_json(place.name, found), indent=2))
    else:
        for damage in found.damaged:
            click.echo(f"{damage.sentence} {_affected(damage)}")
        for orphan in found.orphans:
            click.echo(f"{place.name}/{orphan} belongs to no segment; gapless compact deletes it.")
    sentence = (
        f"{found.records:,} records with {size_text(found.bytes)} in {found.segments:,} segments and {found.objects:,} "
        f"objects are undamaged"
    )
    if found.damaged:
        raise UndeliveredError(
            f"{len(found.damaged):,} of {found.segments:,} segments or objects are damaged or missing; bring them back "
            f"from a copy. {sentence}."
        )
    if not settings.values["json"]:
        click.echo(f"{sentence}.")
    return 0


def _affected(damage: Damage) -> str:
    shown = [f"{part.partition}/{part.first}-{part.last}" for part in damage.affected[:_MOST_SHOWN]]
    more = len(damage.affected) - len(shown)
    return f"Affected: {', '.join(shown)}{f' and {more:,} more' if more else ''}."


def _as_json(archive: str, found: Verification) -> dict[str, object]:
    return {
        "archive": archive,
        "segments": found.segments,
        "objects": found.objects,
        "records": found.records,
        "bytes": found.bytes,
        "damaged": [
            {
                "object": damage.object,
                "message": damage.sentence,
                "affected": [part._asdict() for part in damage.affected],
            }
            for damage in found.damaged
        ],
        "orphans": found.orphans,
    }
