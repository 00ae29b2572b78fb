"""Owns one run of ``gapless manifest``: puts the parts together and sees to its end.

Must not know how Kafka is read, nor what a manifest looks like.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_api.inventory.form import Isolation, new_manifest
from gapless_api.inventory.reader import read_manifest
from gapless_api.inventory.writer import signed, write_manifest
from gapless_api.offsets.windows import PartitionWindow
from gapless_kafka.connection import connection_from
from gapless_sender.base.lazy_log import begin_log
from gapless_sender.base.shutdown import Stopping
from gapless_sender.inventory.link_output import ManifestLink
from gapless_sender.inventory.partition_offsets import Absences, check_topic_ids, extents_of
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import Names

if TYPE_CHECKING:
    from pathlib import Path

    from gapless_api.base.settings import Resolved
    from gapless_api.inventory.form import Manifest
    from gapless_sender.inventory.partition_offsets import Extents


def run(found: Resolved) -> int:
    """Make the manifest that the settings describe, write it, send it; return the exit code.

    Raises:
        GaplessError: with the sentence for the user; a manifest that is in its place then is whole.
    """
    values = found.values
    begin_log(found)
    stopping = Stopping(way_on="run it again to have a manifest")
    stopping.listen()
    with ExitStack() as stack:
        link = ManifestLink.of(values, stopping)
        if link is not None:
            stack.callback(link.close)
        _check_files(values)
        connection = connection_from(values, client_id="gapless-manifest")
        source = KafkaSource(
            replace(connection, group_id=values["groupID"] or "gapless-manifest"),
            isolation_level=values["isolationLevel"],
            connect_timeout_seconds=values["connectTimeout"],
            stall_timeout_seconds=values["stallTimeout"],
            pulse=stopping.check,
        )
        stack.callback(source.close)
        source.connect()
        manifest = _made(values, source)
        if values["signingKey"] is not None:
            manifest = signed(manifest, values["signingKey"])
        if values["manifest"] is not None or link is None:
            write_manifest(values["manifest"], manifest)
        sentence = _sentence(manifest)
        if link is not None:
            sentence += f" {link.send(manifest)}"
    sys.stderr.write(f"{sentence}\n")
    return ExitCode.DONE


def _made(values: dict[str, Any], source: KafkaSource) -> Manifest:
    window = PartitionWindow(values["partitionStartValue"], values["partitionStopValue"])
    names = Names.of(window, values["topicTranslations"])
    cluster, isolation = source.cluster_id(), Isolation(values["isolationLevel"])
    created = datetime.now(UTC)  # before the first look, so that all that existed then is in the manifest
    extents = extents_of(source, _topics(values), names)
    if values["absent"]:
        extents = _with_absent(values, source, extents, _known(values, cluster, isolation))
    check_topic_ids(source, extents)
    described = {"command": "gapless manifest"}
    if values["sourceName"]:
        described["name"] = values["sourceName"]
    return new_manifest(extents.values(), created=created, cluster=cluster, isolation=isolation, source=described)


def _topics(values: dict[str, Any]) -> tuple[str, ...]:
    names: tuple[str, ...] = values["topics"] or tuple(values["topicTranslations"])
    if not names:
        raise ConfigurationError(
            "No topic is chosen; give topics, or a properties file of the live sender, which names its topic."
        )
    wires = {values["topicTranslations"].get(name, name): name for name in names}
    return tuple(wires.values())


def _known(values: dict[str, Any], cluster: str, isolation: Isolation) -> dict[tuple[str, int], Any]:
    """What the previous manifest says, by topic and partition."""
    path: Path | None = values["previous"]
    if path is None:
        return {}
    previous = read_manifest(path)
    for what, theirs, ours in (
        ("cluster", previous.mark.cluster, cluster),
        ("isolation level", str(previous.mark.isolation), str(isolation)),
    ):
        if theirs != ours:
            raise ConfigurationError(
                f"The previous manifest {path} is of the {what} {theirs}, and this one is of {ours}; leave previous "
                f"out to have everything read."
            )
    return {(extent.topic, extent.partition): extent for extent in previous.extents}


def _with_absent(
    values: dict[str, Any], source: KafkaSource, extents: Extents, known: dict[tuple[str, int], Any]
) -> Extents:
    absences = Absences(source, known, most_ranges=values["absentLimit"])
    total = absences.to_read(extents.values())
    sys.stderr.write(f"Reading all {total} offsets of {len(extents)} partitions to find the absent ones.\n")
    read = 0
    with ReadingProgress("manifest", interval_seconds=values["progressInterval"]) as progress:
        progress.begin(total)

        def advanced(offsets: int) -> None:
            nonlocal read
            read += offsets
            progress.advanced(lambda: read)

        return {place: absences.found(place, extent, advanced) for place, extent in extents.items()}


def _sentence(manifest: Manifest) -> str:
    mark, extents = manifest.mark, manifest.extents
    empty = sum(extent.last is None for extent in extents)
    absent = sum(extent.absent.count for extent in extents if extent.absent is not None)
    looked = f", {absent} offsets are no events" if any(extent.absent is not None for extent in extents) else ""
    return (
        f"Manifest {mark.id}: {mark.events} events in {len(extents)} partitions of "
        f"{len({extent.topic for extent in extents})} topics, {empty} of them empty{looked}."
    )


def _check_files(values: dict[str, Any]) -> None:
    """Find out before the work what would spoil its result."""
    check_output("manifest", values["manifest"])
    if values["signingKey"] is not None:
        from gapless_api.keys.signatures import load_signing  # noqa: PLC0415 -- cryptography is slow to import

        load_signing(values["signingKey"])
    if values["previous"] is not None and not values["absent"]:
        raise ConfigurationError("previous is given without absent, for which alone it is read; give absent, too.")
