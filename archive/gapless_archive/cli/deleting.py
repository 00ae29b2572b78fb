"""``gapless segments delete``, ``hold`` and ``release``; must not know how segments are chosen and removed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import quantity
from gapless_archive.cli.segments_settings import DeleteSettings
from gapless_archive.cli.texts import size_text
from gapless_archive.compaction.removal import delete_garbage, expire, hold
from gapless_archive.compaction.retention import Retention, plan_expiry
from gapless_archive.selection import selection_from

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment


def run(settings: Resolved) -> int:
    """Show the segments that expire, ask for confirmation, and remove them. Raises GaplessError."""
    options = DeleteSettings.of(settings.values)
    retention = retention_from(settings.values)
    if not retention.is_set:
        raise ConfigurationError("Nothing is selected; give --older-than, --keep-bytes or --all.")
    selection = selection_from(settings.values)
    if retention.everything and not selection.topics:
        raise ConfigurationError("--all needs the names of the topics; give --topics.")
    place = selection.open()
    chains = selection.chains(place)
    now = datetime.now(UTC)
    count = 0
    for chain in chains:
        state = chain.load()
        if state.is_held:
            click.echo(f"{chain.topic} ({chain.topic_id}): on hold; no segments are removed.")
            continue
        expired = plan_expiry(state, retention, now, partitions=selection.partitions)
        count += len(expired)
        _show(chain, expired)
    if options.plan:
        return 0
    if count:
        _confirm(count, yes=options.yes)
    removed = sum(len(expire(chain, retention, now, partitions=selection.partitions)) for chain in chains)
    grace = timedelta(seconds=options.grace_period_seconds)
    deleted = sum(delete_garbage(chain, grace, datetime.now(UTC)) for chain in chains)
    click.echo(f"Removed {quantity(removed, 'segment')} and deleted {quantity(deleted, 'object')}.")
    return 0


def retention_from(values: Mapping[str, Any]) -> Retention:
    """Build the retention from a command's settings. Raises ConfigurationError."""
    age, least = values["olderThan"], values["minRetention"]
    retention = Retention(
        older_than=None if age is None else timedelta(seconds=age),
        keep_bytes=values["keepBytes"],
        everything=bool(values.get("all")),
        least_age=None if least is None else timedelta(seconds=least),
    )
    retention.check()
    return retention


def run_hold(settings: Resolved, *, is_held: bool) -> int:
    """Put the selected topics on hold, or release them. Raises GaplessError."""
    selection = selection_from({**settings.values, "partitions": None})
    if not selection.topics:
        raise ConfigurationError("No topics are selected; give --topics.")
    state = "on hold" if is_held else "released"
    for chain in selection.chains(selection.open()):
        changed = hold(chain, is_held=is_held)
        click.echo(f"{chain.topic} ({chain.topic_id}): {'' if changed else 'already '}{state}.")
    return 0


def _show(chain: Chain, expired: Sequence[Segment]) -> None:
    by_partition: dict[int, list[Segment]] = {}
    for segment in expired:
        by_partition.setdefault(segment.partition, []).append(segment)
    for partition, segments in by_partition.items():
        records = sum(segment.records for segment in segments)
        stored = sum(segment.stored_bytes for segment in segments)
        last = max(segment.last for segment in segments)
        click.echo(
            f"{chain.topic} ({chain.topic_id}), partition {partition}: {quantity(len(segments), 'segment')} up to "
            f"offset {last:,} with {quantity(records, 'record')}, {size_text(stored)} stored."
        )
    if not expired:
        click.echo(f"{chain.topic} ({chain.topic_id}): no segments to remove.")


def _confirm(count: int, *, yes: bool) -> None:
    """Ask for confirmation. Raises ConfigurationError without a terminal, and click.Abort for no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{quantity(count, 'segment')} would be removed, and there is no terminal for a confirmation; give --yes "
            f"to remove them, or --plan to only show them."
        )
    click.confirm(f"Remove {quantity(count, 'segment')} from the archive?", abort=True, err=True)
