"""The settings, Secrets and volumes of the pods that run ``gapless archive`` and ``gapless compact``.

Must not know when an attempt starts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gapless_operator.archiving.archive.context import ARCHIVE_ROLE
from gapless_operator.archiving.archive_storage import (
    archive_arguments,
    archive_folders,
    archive_secrets,
    archive_settings,
    compaction_arguments,
)
from gapless_operator.common.access import (
    config_map_source,
    kafka_arguments,
    kafka_secrets,
    kafka_settings,
    storage_parts,
    work_parts,
)
from gapless_operator.common.children import digest, owned_manifest
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, SECRETS_FOLDER, Content, java_memory
from gapless_operator.engines.scheduling import settings_name
from gapless_operator.lifecycle.tracks import SETTINGS_ROLE

if TYPE_CHECKING:
    from gapless_api.v1alpha1.archive import Archive, ArchiveSpec, SegmentLimits, TopicSegmentLimits
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import ArchiveAccess
    from gapless_operator.common.settings import Program

HELD = "held"
"""The digest of a compaction that deletes nothing, because it started while the Archive was on hold."""
SETTINGS_FILE, THRESHOLDS_FILE = "archive.properties", "thresholds.json"
_WORK_PARTS = (
    *("kafkaRef", "storageRef", "folder", "region", "topics", "topicPrefixes", "topicPattern", "exclude", "segments"),
    "engine",
)
_OPTIONAL_PARTS = ("hold", "podTemplate")
"""Without them, the digest is as in versions that did not know them."""


def work_digest(archive: Archive, access: ArchiveAccess, program: Program) -> str:
    """Return a digest of everything that an attempt at archiving depends on; when it changes, the attempt is replaced.

    A continuous attempt also depends on the image of the installation, so that an upgrade replaces it.
    """
    spec = archive.spec.to_dict()
    parts = [*_WORK_PARTS, *(name for name in _OPTIONAL_PARTS if spec.get(name) is not None)]
    is_once = archive.spec.schedule is not None
    image = None if is_once else archive.spec.engine.image or program.image
    named = [storage_parts(access.archive.location), work_parts(access.kafka), *archive_arguments(access.archive)]
    return digest([{name: spec.get(name) for name in parts}, is_once, image, *named])


def compaction_digest(access: ArchiveAccess, *, is_held: bool) -> str:
    """Return a digest of what a compaction is told about the location; one of a held archive begins with `HELD`."""
    arguments = compaction_arguments(access.archive)
    return (HELD if is_held else "") + (digest(arguments) if arguments else "")


def command_arguments(access: ArchiveAccess, role: str) -> tuple[str, ...]:
    """Return the arguments of ``gapless``, with those that settings must not override."""
    if role == ARCHIVE_ROLE:
        arguments = [*kafka_arguments(access.kafka), *archive_arguments(access.archive)]
    else:
        arguments = compaction_arguments(access.archive)
    return (role, f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}", *arguments)


def settings_map(archive: Archive, access: ArchiveAccess, attempt: str, role: str) -> Manifest:
    """Return the ConfigMap with the settings of an attempt, which contain no secrets."""
    is_main = role == ARCHIVE_ROLE
    lines = _archive_lines(archive, access) if is_main else _compact_lines(archive)
    lines = {**lines, **archive_settings(access.archive, writes=True), **_engine_lines(archive)}
    content = {SETTINGS_FILE: "".join(f"{name}={value}\n" for name, value in lines.items())}
    if is_main and archive.spec.segments.per_topic:
        content[THRESHOLDS_FILE] = _thresholds(archive.spec.segments.per_topic)
    return owned_manifest(
        archive,
        {"apiVersion": "v1", "kind": "ConfigMap", "data": content},
        name=settings_name(attempt),
        role=SETTINGS_ROLE,
    )


def driver_content(archive: Archive, access: ArchiveAccess, attempt: str, role: str) -> Content:
    """Return the files, Secrets and volumes of a driver."""
    files = {SETTINGS_FILE: SETTINGS_FILE}
    if role == ARCHIVE_ROLE and archive.spec.segments.per_topic:
        files[THRESHOLDS_FILE] = THRESHOLDS_FILE
    source = config_map_source(settings_name(attempt), files)
    return Content(sources=(source,), secrets=_secrets(access, role), folders=archive_folders(access.archive))


def executor_content(access: ArchiveAccess, role: str) -> Content:
    """Return the Secrets and volumes of an executor, which reads and writes segments itself."""
    return Content(secrets=_secrets(access, role), folders=archive_folders(access.archive))


def _secrets(access: ArchiveAccess, role: str) -> tuple[Any, ...]:
    kafka = kafka_secrets(access.kafka) if role == ARCHIVE_ROLE else []
    return (*kafka, *archive_secrets(access.archive))


def _archive_lines(archive: Archive, access: ArchiveAccess) -> dict[str, str]:
    spec = archive.spec
    lines = kafka_settings(access.kafka, SECRETS_FOLDER) | _topic_lines(spec)
    if spec.layout == "KafkaReplicator":
        lines["layout"] = "kafka-replicator"
    if spec.hold is not None:
        lines["hold"] = "true" if spec.hold else "false"
    lines["once"] = "true" if spec.schedule is not None else "false"
    lines |= {name: str(value) for name, value in _limits(spec.segments).items()}
    if spec.segments.per_topic:
        lines["topicThresholds"] = f"{CONFIGURATION_FOLDER}/{THRESHOLDS_FILE}"
    return lines


def _topic_lines(spec: ArchiveSpec) -> dict[str, str]:
    """Return the topics of the Archive. Others in the same region may belong to another Archive."""
    lines = {
        "topics": ",".join(spec.topics),
        "topicPrefix": ",".join(spec.topic_prefixes),
        "topicPattern": spec.topic_pattern or "",
        "exclude": ",".join(spec.exclude),
    }
    return {name: value for name, value in lines.items() if value}


def _compact_lines(archive: Archive) -> dict[str, str]:
    compaction, retention, hold = archive.spec.compaction, archive.spec.retention, archive.spec.hold
    if compaction is None:
        raise ValueError("the Archive has no spec.compaction")
    lines = {
        **_topic_lines(archive.spec),
        "ignoreMissingTopics": "true",
        "minLevel": str(compaction.min_level),
        "maxLevel": str(compaction.max_level),
        "minSegmentAge": f"{compaction.min_segment_age_seconds}s",
        "minSegmentCount": str(compaction.min_segment_count),
        "minSegmentSize": str(compaction.min_segment_bytes),
        "maxSegmentCount": str(compaction.max_segment_count),
        "maxSegmentSize": str(compaction.max_segment_bytes),
        "delete": "true" if compaction.delete and not hold else "false",
        "gracePeriod": f"{compaction.grace_period_seconds}s",
    }
    if compaction.level_storage_class:
        pairs = (f"{each.level}={each.storage_class}" for each in compaction.level_storage_class)
        lines["levelStorageClass"] = ",".join(pairs)
    if retention is not None and not hold:
        lines |= {} if retention.max_age_seconds is None else {"olderThan": f"{retention.max_age_seconds}s"}
        lines |= {} if retention.max_bytes is None else {"keepBytes": str(retention.max_bytes)}
    return lines


def _engine_lines(archive: Archive) -> dict[str, str]:
    engine = archive.spec.engine
    return {
        "engine": engine.reader.lower(),
        "master": f"local[{engine.driver.cores}]",
        "driverMemory": java_memory(engine.driver.memory),
    }


def _limits(limits: SegmentLimits | TopicSegmentLimits) -> dict[str, int | str]:
    values: dict[str, int | str | None] = {
        "maxSegmentRecords": limits.max_records,
        "maxSegmentBytes": limits.max_bytes,
        "maxSegmentAge": None if limits.max_age_seconds is None else f"{limits.max_age_seconds}s",
    }
    return {name: value for name, value in values.items() if value is not None}


def _thresholds(per_topic: tuple[TopicSegmentLimits, ...]) -> str:
    return json.dumps({limits.topic: _limits(limits) for limits in per_topic}, indent=1) + "\n"
