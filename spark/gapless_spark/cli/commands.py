"""The commands of the Spark jobs: their options and help texts; must not know how a job works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_spark.archiving.restore.settings import RESTORE
from gapless_spark.settings.archive import ARCHIVE
from gapless_spark.settings.compact import COMPACT
from gapless_spark.settings.tables import AUDIT, CREATE, SCAN
from gapless_spark.settings.values import file_or_object
from gapless_spark.verify.settings import VERIFY

if TYPE_CHECKING:
    from gapless_archive.store.object_store import ObjectAddress

_WIDE = {"max_content_width": 110}


class _FileOrObject(click.Path):
    """A file, or an object in a store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return file_or_object(str(super().convert(value, param, ctx)))
        except ValueError as error:
            self.fail(f"{value!r} must be {error}", param, ctx)


@click.command(cls=command_with(SCAN), context_settings=_WIDE)
@with_settings(SCAN)
def scan(file: Path | None, **options: str | None) -> int:
    """Read the gaps topic of a gap detector and write a bundle of what is missing.

    Carry the bundle to the sending side, where gapless resend sends these events again. Both forms of gap records are
    supported; the latest record of each window is used. FILE contains settings as key=value lines; files of the peer's
    create are accepted.

    \b
      gapless scan --bootstrap-servers=kafka:9092 --topic=gaps --resend-file-name=bundle.json --html=gaps.html

    The detector reports neither losses at the end of a window nor lost windows: gapless audit finds those. If no audit
    is possible, --infer adds events that may be lost in this way, marked as inferred. Events that the detector no
    longer tracks are counted, and left out of the bundle unless --include-stale is given. --html writes an HTML page,
    which loads nothing.

    Ends with 0 done, nothing missing or nothing to do (see the last line and the report), 2 bad configuration or no
    such topic, 3 Kafka unreachable or stalled, 4 done but some records cannot be read (they are listed) or an open
    transaction holds records back, 10 with --exit-code if something is missing now and all records were read, 130/143
    stopped by a signal with nothing written.
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolve_settings(SCAN, file, options)
    from gapless_spark.scan.command import run  # noqa: PLC0415 -- load Spark and the Kafka client only if needed

    return run(settings)


@click.command(cls=command_with(CREATE), context_settings=_WIDE)
@with_settings(CREATE)
def create(file: Path | None, **options: str | None) -> int:
    """Do what gapless scan does, with the settings of the peer's create, and --engine.

    For scripts that called create: change the program's name.

    \b
      gapless create create.properties --limit=first --resendFileName=bundle.json
    """  # noqa: D301
    settings = resolve_settings(CREATE, file, options)
    from gapless_spark.scan.command import run  # noqa: PLC0415

    return run(settings, command="create")


@click.command(cls=command_with(AUDIT), context_settings=_WIDE)
@with_settings(AUDIT)
def audit(file: Path | None, **options: str | None) -> int:
    """Read the received events themselves and write a bundle of the events that are missing.

    Needs no gap detector: the key of a received event is its topic_partition_offset, so the keys show what is missing.
    Give the expected offsets with --expect or an inventory of the sending side. Otherwise all offsets from the lowest
    to the highest received are expected: losses outside of these, and partitions without events, are not found.

    \b
      gapless audit --bootstrap-servers=kafka:9092 --topics=transfer --resend-file-name=bundle.json
      gapless audit … --expect transfer:0:0-999999 --expect transfer:1:0-870112
      gapless audit … --expect-inventory=transfer.inventory.json --verify-key=public.pem
      gapless audit … --state=/var/lib/gapless/transfer

    The table, the report and the page say between which times events were lost, and how many in each hour, by the
    times of the received records. --html writes that page, which loads nothing.

    --state stores what was received, and the next audit with the same state reads only new records. A state that is
    damaged, in use, or of other topics is refused. If an inventory shows by its topic ID that an upstream topic was
    recreated, the audit is also refused; --new-generation restarts it for this topic.

    Ends with 0 done, nothing missing or nothing to do (see the last line and the report), 2 bad configuration, no
    such topic or a state that cannot be used, 3 Kafka unreachable or stalled, 4 done but some events are unknown (Kafka
    deleted records before an audit read them, or an open transaction holds them back) or no record is an event, 10 with
    --exit-code if something is missing and nothing unknown, 130/143 stopped by a signal (the last line states whether
    the state was written).
    """  # noqa: D301
    settings = resolve_settings(AUDIT, file, options)
    from gapless_spark.audit.command import run  # noqa: PLC0415

    return run(settings)


@click.command(cls=command_with(VERIFY), context_settings=_WIDE)
@click.argument("old", metavar="OLD", type=_FileOrObject(dir_okay=False))
@with_settings(VERIFY)
def verify(old: Path | ObjectAddress, file: Path | None, **options: str | None) -> int:
    """Show which gaps of the bundle OLD have closed, and which are still open.

    Runs an audit or a scan, or compares with a newer bundle. Offsets that are no longer missing have closed; offsets
    that were not checked are unknown, and do not count as closed. With the reports of the resends, it distinguishes
    offsets that were filled with empty events, and those that can never be sent. An audit checks the received events; a
    scan repeats what the gap detector reported. Bundles of --limit=first are compared up to their first ranges. OLD may
    be s3://BUCKET/KEY; FILE contains settings as key=value lines, such as those of scan and audit. --html writes the
    result as an HTML page.

    \b
      gapless verify old.json --bootstrap-servers=kafka:9092 --topics=transfer --resend-report=resend.json
      gapless verify old.json --against=scan --bootstrap-servers=kafka:9092 --topics=gaps
      gapless verify old.json --against=new.json

    Ends with 0 all offsets of OLD have arrived, were filled, or were reported unavailable (see the last line), 4 some
    are open or unknown, 10 with --exit-code if some are open and none is unknown, 2 bad configuration or a bad bundle,
    3 Kafka unreachable or stalled, 130/143 stopped by a signal.
    """  # noqa: D301
    settings = resolve_settings(VERIFY, file, options)
    from gapless_spark.verify.command import run  # noqa: PLC0415

    return run(old, settings)


@click.command(cls=command_with(ARCHIVE), context_settings=_WIDE)
@with_settings(ARCHIVE)
def archive(file: Path | None, **options: str | None) -> int:
    """Copy topics to an archive of Parquet segments, so that events can be resent after Kafka has deleted them.

    The archive itself records how far each partition is archived, and every run continues from there. Only one program
    may archive a topic: the one that started later continues, and the other one exits. FILE contains settings as
    key=value lines.

    \b
      gapless archive --bootstrap-servers=kafka:9092 --topics=orders --archive=/archive --region=site-a --once
      gapless archive --bootstrap-servers=kafka:9092 --topic-prefix=log- --archive=s3://bucket/archive --region=site-a

    With --once it archives what exists now and exits, for example on a schedule. Otherwise it runs until it is stopped,
    and finds new topics and partitions within a minute.

    Ends with 0 done or nothing to do (see the last line and the report), 2 bad configuration, no such topic or
    another program archives the topic now, 3 Kafka or the store unreachable or stalled, 4 done but Kafka had deleted
    some records before they were archived (they are listed), 130/143 stopped by a signal (the last line states what was
    archived).
    """  # noqa: D301
    settings = resolve_settings(ARCHIVE, file, options)
    from gapless_spark.archiving.archive.command import run  # noqa: PLC0415

    return run(settings)


@click.command(cls=command_with(RESTORE), context_settings=_WIDE)
@with_settings(RESTORE)
def restore(file: Path | None, **options: str | None) -> int:
    """Write archived topics back to Kafka, with their partitions, keys, headers, order and timestamps.

    Missing topics are created with the archived configuration and partition count. Records and the position after them
    are written in one transaction, so a restore that was stopped continues from there, and consumers of committed
    records read no duplicates. FILE contains settings as key=value lines; names of kafka-replicator are accepted.

    \b
      gapless restore --archive=/srv/archive --bootstrap-servers=kafka:9092 --topics=orders --plan
      gapless restore --archive=/srv/archive --bootstrap-servers=kafka:9092 --topics=orders --to-topic=orders-2026
      gapless restore … --topics=orders --partitions=0,4-7 --since=2026-11-01T00:00:00Z
      gapless restore … --source=site-a/orders=orders --source=site-b/orders=orders --follow

    With --plan nothing is changed: it prints records, bytes, ranges, the topics that would be created, and the findings
    of the preflight check.

    Ends with 0 done, nothing to restore or planned, 2 bad configuration or a target that would lose or alter records,
    3 Kafka or the store unreachable or stalled, 4 done but some offsets are not in the archive or cannot be read (they
    are listed), 130/143 stopped by a signal with progress saved.
    """  # noqa: D301
    settings = resolve_settings(RESTORE, file, options)
    from gapless_spark.archiving.restore.command import run  # noqa: PLC0415

    return run(settings)


@click.command(cls=command_with(COMPACT), context_settings=_WIDE)
@with_settings(COMPACT)
def compact(file: Path | None, **options: str | None) -> int:
    """Join small segments of an archive into few large ones, and delete objects that are no longer needed.

    Consecutive segments become one segment of the next level: it is written, read back and compared with the manifests
    before one commit replaces the inputs, whose objects are kept for the grace period. Segments are joined across
    offsets without a record, but not across offsets that were never archived. A kill at any moment loses nothing.

    \b
      gapless compact --archive=/archive
      gapless compact --archive=s3://archive/site-a --topics=transfer --min-segment-size=0 --min-segment-count=2
      gapless compact --archive=s3://archive/site-a --schedule='0 3 * * *' --time-zone=Europe/Stockholm

    --older-than and --keep-bytes also remove the oldest segments, never those of topics that gapless segments hold
    holds. The settings of kafka-replicator are accepted under its names.

    Ends with 0 done or nothing to do, 2 bad configuration or a damaged chain, 3 store unreachable, 4 done but inputs
    are damaged (they are listed and kept), 130/143 stopped by a signal (commits are kept).
    """  # noqa: D301
    settings = resolve_settings(COMPACT, file, options)
    from gapless_spark.archiving.compact.command import run  # noqa: PLC0415

    return run(settings)
