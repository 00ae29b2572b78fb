"""The settings, Secrets and volumes of the pods that run ``gapless restore``; must not know when they start."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.base.allowed_groups import AllowedGroups
from gapless_api.base.errors import ConfigurationError
from gapless_operator.archiving.archive_storage import (
    archive_arguments,
    archive_folders,
    archive_secrets,
    archive_settings,
)
from gapless_operator.archiving.restore.context import PLAN_ROLE
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
    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
    from gapless_api.v1alpha1.restore import Restore, RestoreOffsets, RestoreSpec
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import ArchiveAccess
    from gapless_operator.common.settings import Program

SETTINGS_FILE, GROUP_OFFSETS_FILE = "archive.properties", "offsets.csv"
_ADJUSTMENTS = {"No": "false", "WhileRestoring": "true", "Keep": "keep"}
_ON_BAD_RECORD = {"Fail": "fail", "SkipAndRecord": "skip-and-record"}
_DELIVERIES = {"ExactlyOnce": "exactly-once", "AtLeastOnce": "at-least-once"}


def work_digest(restore: Restore, access: ArchiveAccess, program: Program) -> str:
    """Return a digest of what may change while an attempt runs; when it changes, the attempt is replaced.

    An attempt that follows the archive also depends on the image of the installation, so that an upgrade replaces it.
    """
    spec = restore.spec.to_dict()
    image = (restore.spec.engine.image or program.image) if restore.spec.mode == "Follow" else None
    named = [
        storage_parts(access.archive.location),
        work_parts(access.kafka),
        *archive_arguments(access.archive),
        *access.kafka.allowed_groups,
    ]
    template = [] if restore.spec.pod_template is None else [restore.spec.pod_template]
    return digest([spec.get("engine"), image, *named, *template])


def allowed_groups(spec: RestoreSpec, kafka: KafkaConnectionSpec) -> AllowedGroups:
    """Return the consumer groups whose positions a Restore may commit: that which it names, and the listed ones.

    Raises:
        ConfigurationError: there are none, though the Restore has positions of groups.
    """
    groups = spec.group_offsets
    name = (groups.group_name if groups is not None else None) or ""
    is_exact = name == name.strip() and not name.endswith("*")  # otherwise the command reads another name, or a prefix
    allowed = AllowedGroups((*([name] if name and is_exact else []), *kafka.allowed_groups))
    if groups is not None and not allowed.entries:
        raise ConfigurationError(
            f"spec.groupOffsets names no consumer group, and its ConfigMap may name those of others; give "
            f"spec.groupOffsets.groupName, or ask the platform team to add the groups to allowedGroups of the "
            f"KafkaConnection {spec.kafka_ref.name}."
        )
    return allowed


def command_arguments(spec: RestoreSpec, access: ArchiveAccess) -> tuple[str, ...]:
    """Return the arguments of ``gapless``, with those that settings must not override."""
    arguments = [*kafka_arguments(access.kafka), *archive_arguments(access.archive)]
    if spec.group_offsets is not None:
        arguments.append(f"--allowed-groups={allowed_groups(spec, access.kafka)}")
    return ("restore", f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}", *arguments)


def targets(spec: RestoreSpec) -> tuple[str, ...]:
    """Return the topics that are written."""
    return tuple(topic.to_topic or topic.name for topic in spec.topics)


def settings_map(restore: Restore, access: ArchiveAccess, attempt: str, role: str) -> Manifest:
    """Return the ConfigMap with the settings of an attempt, which contain no secrets."""
    lines = {
        **kafka_settings(access.kafka, SECRETS_FOLDER),
        **archive_settings(access.archive, writes=False),
        **_selection(restore.spec, access.archive.region),
        **_target(restore.spec),
        **_writing(restore.spec, role),
    }
    content = {SETTINGS_FILE: "".join(f"{name}={value}\n" for name, value in lines.items())}
    return owned_manifest(
        restore,
        {"apiVersion": "v1", "kind": "ConfigMap", "data": content},
        name=settings_name(attempt),
        role=SETTINGS_ROLE,
    )


def driver_content(restore: Restore, access: ArchiveAccess, attempt: str) -> Content:
    """Return the files, Secrets and volumes of a driver."""
    sources = [config_map_source(settings_name(attempt), {SETTINGS_FILE: SETTINGS_FILE})]
    if (groups := restore.spec.group_offsets) is not None:
        sources.append(config_map_source(groups.config_map.name, {groups.config_map.key: GROUP_OFFSETS_FILE}))
    executor = executor_content(access)
    return Content(sources=tuple(sources), secrets=executor.secrets, folders=executor.folders)


def executor_content(access: ArchiveAccess) -> Content:
    """Return the Secrets and volumes of an executor, which reads segments and writes records itself."""
    return Content(
        secrets=(*kafka_secrets(access.kafka), *archive_secrets(access.archive)),
        folders=archive_folders(access.archive, read_only=True),
    )


def _selection(spec: RestoreSpec, region: str) -> dict[str, str]:
    """Return the settings for what is restored."""
    sources = [f"{region}/{topic.name}" + (f"={topic.to_topic}" if topic.to_topic else "") for topic in spec.topics]
    lines = {
        "source": ",".join(sources),
        "generation": spec.generation,
        "partitions": ",".join(map(str, spec.partitions)),
        "offsets": _offsets(spec.offsets),
        "since": _time(spec.since),
        "until": _time(spec.until),
    }
    return {name: value for name, value in lines.items() if value}


def _target(spec: RestoreSpec) -> dict[str, str]:
    """Return the settings for the target topics."""
    groups = spec.group_offsets
    lines = {
        "remapPartitions": spec.remap_partitions,
        "createTopics": None if spec.create_topics else "false",
        "replicationFactor": str(spec.replication_factor or ""),
        "adjustRetention": _ADJUSTMENTS[spec.adjust_retention],
        "timestamps": spec.timestamps.lower(),
        "groupOffsets": None if groups is None else f"{CONFIGURATION_FOLDER}/{GROUP_OFFSETS_FILE}",
        "groupName": None if groups is None else groups.group_name,
    }
    return {name: value for name, value in lines.items() if value}


def _writing(spec: RestoreSpec, role: str) -> dict[str, str]:
    """Return the settings for writing records."""
    return {
        "plan": "true" if role == PLAN_ROLE else "false",
        "follow": "true" if spec.mode == "Follow" else "false",
        "delivery": _DELIVERIES[spec.delivery],
        "onLost": spec.on_lost.lower(),
        "onBadRecord": _ON_BAD_RECORD[spec.on_bad_record],
        "lostSegmentTimeout": f"{spec.lost_segment_timeout_seconds}s",
        "lateSegmentRetries": str(spec.late_segment_retries),
        "engine": spec.engine.reader.lower(),
        "master": f"local[{spec.engine.driver.cores}]",
        "driverMemory": java_memory(spec.engine.driver.memory),
    }


def _offsets(offsets: RestoreOffsets | None) -> str:
    if offsets is None or (offsets.from_ is None and offsets.to is None):
        return ""
    return f"{offsets.from_ or 0}-{'' if offsets.to is None else offsets.to}"


def _time(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
