"""Owns the commands ``gapless mirror`` and ``gapless mirror status``; must not know how workers copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gapless_api.cli.main import command_with, resolve_settings, with_settings
from gapless_mirror.cli.mirror_group import mirror_command_with
from gapless_mirror.settings.peer_settings import resolved_with_peer_files
from gapless_mirror.settings.table import MIRROR, STATUS

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=mirror_command_with(MIRROR), context_settings={"max_content_width": 110})
@with_settings(MIRROR)
def mirror(file: Path | None, **options: str | None) -> int:
    """Copy topics live to another Kafka cluster, exactly once, with their partitions, keys, headers and timestamps.

    Records and the source position after them are written in one transaction on the target cluster, so no record is
    lost or duplicated, even if a worker is killed. Workers of the same name share the partitions by Kafka's group
    protocol; when one dies, the others take over within 10 seconds. Missing topics are created with the settings and
    the partition count of the source. FILE holds settings as key=value lines, or is mm2.properties of MirrorMaker 2;
    give files of MirrorMaker 1 with --consumer-config and --producer-config.

    \b
      gapless mirror --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092 --topics=orders
      gapless mirror … --topic-prefix=log- --workers=4 --max-bytes-per-second=50MiB
      gapless mirror … --topics=orders --once --report=mirror.json
      gapless mirror … --topics=orders --rename={source}.{topic} --source-name=east
      gapless mirror mm2.properties --flow='A->B'

    With --once it copies the current records and exits, which suits a schedule; no workers of the same name may run at
    the same time. Otherwise it runs until it is stopped, and finds new topics and partitions within a minute.

    Ends with 0 done, 2 bad configuration, no such topic or another engine has taken over, 3 Kafka unreachable or
    stalled, 4 done but some partitions could not be copied completely (they are listed), 130/143 stopped by a signal
    with progress saved.
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolved_with_peer_files(MIRROR, file, options)
    from gapless_mirror.workers.command import run  # noqa: PLC0415 -- Kafka's client loads only when needed

    return run(settings)


@click.command(cls=command_with(STATUS), context_settings={"max_content_width": 110})
@with_settings(STATUS)
def status(file: Path | None, **options: str | None) -> int:
    """Show the progress of a mirror: the position, lag and losses of each source partition, and its engine.

    Reads the control topic on the target cluster and the end offsets of the source; changes nothing. FILE may be that
    of gapless mirror.

    \b
      gapless mirror status --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092
      gapless mirror status mirror.properties --json

    Ends with 0 done, 2 bad configuration or no such mirror, 3 Kafka unreachable or stalled.
    """  # noqa: D301
    settings = resolve_settings(STATUS, file, options)
    from gapless_mirror.workers.status_command import run  # noqa: PLC0415

    return run(settings)
