"""Owns the commands ``gapless scan``, ``create`` and ``audit``, from settings to a job; must not know how one works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gapless_api.cli.main import command_with, resolved, with_settings
from gapless_spark.settings.tables import AUDIT, CREATE, SCAN
from gapless_spark.settings.values import file_or_object
from gapless_spark.verify.settings import VERIFY

if TYPE_CHECKING:
    from pathlib import Path

_WIDE = {"max_content_width": 110}


@click.command(cls=command_with(SCAN), context_settings=_WIDE)
@with_settings(SCAN)
def scan(file: Path | None, **options: str | None) -> int:
    """Read the gaps topic of a gap detector and write a bundle of what is missing.

    The bundle goes to the sending side, where gapless resend sends those events again. Both forms of gap records are
    read, the latest of each window counts. FILE holds settings as key=value lines; files of the peer's create are
    understood.

    \b
      gapless scan --bootstrap-servers=kafka:9092 --topic=gaps --resend-file-name=bundle.json --html=gaps.html

    The detector reports no loss at the end of a window and no lost window: gapless audit finds those. Where no audit is
    possible, --infer adds what may be lost of both, marked as inferred; --skip-stale leaves out what no detector will
    ever update. --html writes a page to read in a browser, which loads nothing.

    Ends with 0 done, nothing missing or nothing to do (the last line and the report tell which), 2 bad configuration or
    no such topic, 3 Kafka unreachable or stalled, 4 done but some records cannot be read (they are listed), 130/143
    stopped by a signal with nothing written.
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolved(SCAN, file, options)
    from gapless_spark.scan.command import run  # noqa: PLC0415 -- Spark and Kafka's client load only when needed

    return run(settings)


@click.command(cls=command_with(CREATE), context_settings=_WIDE)
@with_settings(CREATE)
def create(file: Path | None, **options: str | None) -> int:
    """Do what gapless scan does, with the settings of the peer's create, and --engine.

    For scripts that called create: change the program's name.

    \b
      gapless create create.properties --limit=first --resendFileName=bundle.json
    """  # noqa: D301
    settings = resolved(CREATE, file, options)
    from gapless_spark.scan.command import run  # noqa: PLC0415

    return run(settings, command="create")


@click.command(cls=command_with(AUDIT), context_settings=_WIDE)
@with_settings(AUDIT)
def audit(file: Path | None, **options: str | None) -> int:
    """Read the received events themselves and write a bundle of what is really missing.

    Needs no gap detector: the key of a received event is its topic_partition_offset, so what is missing follows from
    the keys. Give the expected offsets by --expect or by an inventory of the sending side. Otherwise a partition is
    expected from the lowest to the highest offset seen: losses beyond these, and silent partitions, are not found.

    \b
      gapless audit --bootstrap-servers=kafka:9092 --topics=transfer --resend-file-name=bundle.json
      gapless audit … --expect transfer:0:0-999999 --expect transfer:1:0-870112
      gapless audit … --expect-inventory=transfer.inventory.json --verify-key=public.pem
      gapless audit … --state=/var/lib/gapless/transfer

    --html writes a page to read in a browser, which loads nothing: what is missing and where, and what to do next.

    With --state what was received is remembered, and the next audit with the same state reads only new records. A state
    that is damaged, in use, or of other topics is refused. An upstream topic that was recreated, as inventories tell by
    its ID, is refused, too, or restarted with --new-generation.

    Ends with 0 done, nothing missing or nothing to do (the last line and the report tell which), 2 bad configuration,
    no such topic or a state that cannot be used, 3 Kafka unreachable or stalled, 4 done but some events are unknown
    (Kafka deleted records before an audit read them) or no record is an event, 130/143 stopped by a signal (the last
    line says whether the state was written).
    """  # noqa: D301
    settings = resolved(AUDIT, file, options)
    from gapless_spark.audit.command import run  # noqa: PLC0415

    return run(settings)


@click.command(cls=command_with(VERIFY), context_settings=_WIDE)
@click.argument("old", metavar="OLD", type=click.Path(dir_okay=False))
@with_settings(VERIFY)
def verify(old: str, file: Path | None, **options: str | None) -> int:
    """Say which gaps of the bundle OLD have closed, and which are open still.

    Looks again, with an audit or a scan, or compares with a newer bundle. An offset that is not missing any more has
    closed; one that the look did not cover is unknown and not closed. With the reports of the resends, those that were
    filled with empty events, and those that can never be sent, are told apart. An audit is proof; a scan is what the
    gap detector believes. Bundles of --limit=first are compared as far as they tell. OLD may be s3://BUCKET/KEY; FILE
    holds settings as key=value lines, such as those of scan and audit. --html writes the result as a page to
    read in a browser.

    \b
      gapless verify old.json --bootstrap-servers=kafka:9092 --topics=transfer --resend-report=resend.json
      gapless verify old.json --against=scan --bootstrap-servers=kafka:9092 --topics=gaps
      gapless verify old.json --against=new.json

    Ends with 0 when nothing of OLD is left to wait for: all has arrived, was filled, or was reported unavailable (the
    last line tells which); 4 when some is open or unknown; 2 bad configuration or a bad bundle, 3 Kafka unreachable or
    stalled, 130/143 stopped by a signal.
    """  # noqa: D301
    settings = resolved(VERIFY, file, options)
    place = file_or_object(old)
    from gapless_spark.verify.command import run  # noqa: PLC0415

    return run(place, settings)
