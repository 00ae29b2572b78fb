"""Owns how ``gapless segments delete``, ``hold`` and ``release`` speak; must not know what is removed, and how."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from gapless_api.base.errors import ConfigurationError
from gapless_archive.cli.texts import size_text
from gapless_archive.compaction.removal import delete_garbage, expire, hold
from gapless_archive.compaction.retention import Retention, plan_expiry
from gapless_archive.selection import selection_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.base.settings import Resolved
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment


def run(settings: Resolved) -> int:
    """Show what goes, ask, and remove it. Raises GaplessError."""
    values = settings.values
    retention = retention_from(values)
    if not retention.is_set:
        raise ConfigurationError("Nothing is chosen; give --older-than, --keep-bytes or --all.")
    if retention.everything and not values["topics"]:
        raise ConfigurationError("--all needs the names of the topics; give --topics.")
    selection = selection_from(values)
    place = selection.open()
    chains = selection.chains(place)
    now = datetime.now(UTC)
    count = 0
    for chain in chains:
        state = chain.load()
        if state.is_held:
            click.echo(f"{chain.topic} ({chain.topic_id}): held, so nothing goes.")
            continue
        going = plan_expiry(state, retention, now, partitions=selection.partitions)
        count += len(going)
        _show(chain, going)
    if values["plan"]:
        return 0
    if count:
        _confirm(count, yes=values["yes"])
    removed = sum(len(expire(chain, retention, now, partitions=selection.partitions)) for chain in chains)
    grace = timedelta(seconds=values["gracePeriod"])
    deleted = sum(delete_garbage(chain, grace, datetime.now(UTC)) for chain in chains)
    click.echo(f"Removed {removed:,} segments and deleted {deleted:,} objects.")
    return 0


def retention_from(values: Mapping[str, Any]) -> Retention:
    """What a command's settings keep."""
    age = values["olderThan"]
    return Retention(
        older_than=None if age is None else timedelta(seconds=age),
        keep_bytes=values["keepBytes"],
        everything=bool(values.get("all")),
    )


def run_hold(settings: Resolved, *, is_held: bool) -> int:
    """Hold or release the chosen topics. Raises GaplessError."""
    values = {**settings.values, "partitions": None}
    if not values["topics"]:
        raise ConfigurationError("No topics are named; give --topics.")
    selection = selection_from(values)
    word = "held" if is_held else "released"
    for chain in selection.chains(selection.open()):
        changed = hold(chain, is_held=is_held)
        click.echo(f"{chain.topic} ({chain.topic_id}): {word}{'' if changed else ' before'}.")
    return 0


def _show(chain: Chain, going: Sequence[Segment]) -> None:
    by_partition: dict[int, list[Segment]] = {}
    for segment in going:
        by_partition.setdefault(segment.partition, []).append(segment)
    for partition, some in by_partition.items():
        records, stored = sum(one.records for one in some), sum(one.stored_bytes for one in some)
        last = max(one.last for one in some)
        click.echo(
            f"{chain.topic} ({chain.topic_id}), partition {partition}: {len(some):,} segments up to offset {last:,} "
            f"with {records:,} records, {size_text(stored)} stored."
        )
    if not going:
        click.echo(f"{chain.topic} ({chain.topic_id}): nothing goes.")


def _confirm(count: int, *, yes: bool) -> None:
    """Ask. Raises ConfigurationError where nobody can answer, and click.Abort for no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{count:,} segments would be removed and there is no terminal to ask; give --yes to remove them, or "
            f"--plan to show them only."
        )
    click.confirm(f"Remove these {count:,} segments from the archive?", abort=True, err=True)
