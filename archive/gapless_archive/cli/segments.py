"""The commands ``gapless segments``; must not know how an archive is read or changed."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_archive.cli.segments_settings import DELETE, HOLD, JSON, LIST, SHOW, VERIFY

_WIDE = {"max_content_width": 110}


@click.group()
def segments() -> None:
    """List, verify and delete the segments of an archive.

    An archive is a folder or s3://BUCKET/PREFIX, as gapless archive writes it.
    """


@segments.command("list", cls=command_with(LIST), context_settings=_WIDE)
@with_settings(LIST)
def list_segments(file: Path | None, **options: str | None) -> int:
    """List topics, their generations and partitions, with covered and lost offsets.

    Covered offsets have a record, or will never have one. Lost offsets were deleted by Kafka before they were archived.
    """
    settings = resolve_settings(LIST, file, options)
    from gapless_archive.cli.listing import run_list  # noqa: PLC0415 -- --help needs no archive

    return run_list(settings, as_json=settings.values[JSON.name])


@segments.command("show", cls=command_with(SHOW), context_settings=_WIDE)
@click.argument("what", metavar="WHAT")
@with_settings(SHOW)
def show(what: str, file: Path | None, **options: str | None) -> int:
    """Show the manifests of segments. WHAT is TOPIC/PARTITION/OFFSET, or the key of an object in the archive.

    \b
      gapless segments show transfer/3/1045002 --archive=s3://archive/site-a
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolve_settings(SHOW, file, options)
    from gapless_archive.cli.listing import run_show  # noqa: PLC0415

    return run_show(what, settings, as_json=settings.values[JSON.name])


@segments.command("verify", cls=command_with(VERIFY), context_settings=_WIDE)
@with_settings(VERIFY)
def verify(file: Path | None, **options: str | None) -> int:
    """Read all records of the archive and compare them with the manifests: count, order, offsets, times and digest.

    Reports every damaged or missing object with the affected offsets, and lists objects that no commit names.

    Exit codes: 0 no damage, 2 bad configuration or a damaged chain, 3 store unreachable, 4 damaged or missing objects.
    """
    settings = resolve_settings(VERIFY, file, options)
    from gapless_archive.cli.verifying import run  # noqa: PLC0415

    return run(settings)


@segments.command("delete", cls=command_with(DELETE), context_settings=_WIDE)
@with_settings(DELETE)
def delete(file: Path | None, **options: str | None) -> int:
    """Remove the oldest segments, by age or by size, or all segments of topics.

    Shows the segments first, and requires confirmation. Segments are removed from the beginning of each partition, and
    never from topics on hold. Their objects are deleted after the grace period, by this command or by gapless compact.

    \b
      gapless segments delete --archive=/archive --topics=transfer --older-than=90d --plan
      gapless segments delete --archive=/archive --topics=transfer --keep-bytes=2TiB --yes
      gapless segments delete --archive=/archive --topics=old --all --grace-period=0
    """  # noqa: D301
    settings = resolve_settings(DELETE, file, options)
    from gapless_archive.cli.deleting import run  # noqa: PLC0415

    return run(settings)


@segments.command("hold", cls=command_with(HOLD), context_settings=_WIDE)
@with_settings(HOLD)
def hold(file: Path | None, **options: str | None) -> int:
    """Put topics on hold: nothing of them is deleted until they are released.

    gapless compact still joins their segments, but keeps the objects of the joined segments.
    """
    settings = resolve_settings(HOLD, file, options)
    from gapless_archive.cli.deleting import run_hold  # noqa: PLC0415

    return run_hold(settings, is_held=True)


@segments.command("release", cls=command_with(HOLD), context_settings=_WIDE)
@with_settings(HOLD)
def release(file: Path | None, **options: str | None) -> int:
    """Release topics from a hold."""
    settings = resolve_settings(HOLD, file, options)
    from gapless_archive.cli.deleting import run_hold  # noqa: PLC0415

    return run_hold(settings, is_held=False)
