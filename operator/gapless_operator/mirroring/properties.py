"""The settings, ConfigMaps and Secrets that the pods of a Mirror get; must not know when an attempt starts.

The limits are a separate file, which workers read again while they run, so a change of them replaces no pod.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.common import MAX_MIRROR_NAME_LENGTH
from gapless_operator.common.access import config_map_source, kafka_secrets, kafka_settings, work_parts
from gapless_operator.common.children import child_name, digest, owned_manifest
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, SECRETS_FOLDER, Content, java_memory
from gapless_operator.engines.scheduling import settings_name
from gapless_operator.lifecycle.tracks import SETTINGS_ROLE
from gapless_operator.mirroring.sql_container import SOCKET, sql_image
from gapless_operator.mirroring.workers import METRICS_PORT

if TYPE_CHECKING:
    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
    from gapless_api.v1alpha1.mirror import Mirror, MirrorSpec
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import MirrorAccess
    from gapless_operator.common.settings import Program

SETTINGS_FILE, LIMITS_FILE = "mirror.properties", "limits.properties"
LIMITS_ROLE = "limits"
_NO_NEW_PODS = frozenset({"limits", "suspend", "name"})
"""Spec fields whose change replaces no pod: limits are read again, suspend stops all pods, and name is immutable."""
_OF_WORKERS, _OF_SPARK = frozenset({"workers"}), frozenset({"spark"})
_DELIVERIES = {"ExactlyOnce": "exactly-once", "AtLeastOnce": "at-least-once"}
_ON_DATA_LOSS = {"Fail": "fail", "SkipAndRecord": "skip-and-record"}
_ON_BAD_RECORD = {**_ON_DATA_LOSS, "Park": "park"}
_ON_TARGET_LOSS = {"Fail": "fail", "CopyAgain": "copy-again"}


def mirror_name(mirror: Mirror) -> str:
    """Return the name of a Mirror in the target cluster, which never changes and is unique for each Mirror.

    Names of namespaces contain no dots, so two Mirrors cannot get the same name.
    """
    if mirror.spec.name is not None:
        return mirror.spec.name
    plain = mirror.key.replace("/", ".")
    if len(plain) <= MAX_MIRROR_NAME_LENGTH:
        return plain
    suffix = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return f"{plain[: MAX_MIRROR_NAME_LENGTH - len(suffix) - 1].rstrip('.-')}-{suffix}"


def check_name(mirror: Mirror, target: KafkaConnectionSpec) -> None:
    """Check that the positions of a Mirror are its own, and not those of a Mirror in another namespace.

    Raises:
        ConfigurationError: the name belongs to another namespace, or to none.
    """
    name, own = mirror.spec.name, f"{mirror.metadata.namespace}."
    if name is not None and not name.startswith(own) and name not in target.allowed_mirror_names:
        raise ConfigurationError(
            f"spec.name is {name}, which another namespace may have; begin it with {own}, or ask the platform team to "
            f"add it to allowedMirrorNames of the KafkaConnection {mirror.spec.target_ref.name}."
        )


def check_groups(spec: MirrorSpec, target: KafkaConnectionSpec) -> None:
    """Check that the groups which a Mirror does not name may be committed; its workers check each of them again.

    Raises:
        ConfigurationError: a prefix selects groups that the connection does not allow, or the pattern any.
    """
    groups, allowed = spec.groups, target.groups
    if groups is None:
        return
    refused = [f"the prefix {prefix}" for prefix in groups.prefixes if not allowed.allow_prefix(prefix)]
    if groups.pattern is not None and not allowed.entries:
        refused.append("a pattern")
    if refused:
        raise ConfigurationError(
            f"spec.groups selects consumer groups by {refused[0]}, which may be those of others; list them in "
            f"spec.groups.names, or ask the platform team to add them to allowedGroups of the KafkaConnection "
            f"{spec.target_ref.name}."
        )


def target_topics(spec: MirrorSpec) -> tuple[str, ...]:
    """Return all topics of the target that the spec names, as does the policy for them."""
    source = spec.source_name or ""
    copies = (spec.rename.replace("{source}", source).replace("{topic}", topic) for topic in spec.topics)
    parking = () if spec.parking_topic is None else (spec.parking_topic,)
    return (*copies, *spec.transform_topics, *parking)


def work_digest(mirror: Mirror, access: MirrorAccess, program: Program, spark: Program) -> str:
    """Return a digest of the spec, the clusters and the images; a running attempt with another digest is replaced.

    Args:
        mirror: the resource.
        access: to both clusters.
        program: of what copies.
        spark: of Spark, which evaluates SQL beside workers.
    """
    has_sql = mirror.spec.transform is not None
    unused = _OF_WORKERS if mirror.spec.on_spark else frozenset() if has_sql else _OF_SPARK
    spec = {name: value for name, value in mirror.spec.to_dict().items() if name not in _NO_NEW_PODS | unused}
    image = (mirror.spec.spark.image if mirror.spec.on_spark else None) or program.image
    if has_sql:
        image = f"{image} {sql_image(mirror.spec, spark)}"
    return digest([spec, image, work_parts(access.source), work_parts(access.target), *access.target.allowed_groups])


def command_arguments(spec: MirrorSpec, access: MirrorAccess) -> tuple[str, ...]:
    """Return the arguments of ``gapless``, including those that the settings must not override."""
    selects_groups = spec.groups is not None and (spec.groups.prefixes or spec.groups.pattern)
    return (
        "mirror",
        f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}",
        f"--source-allowed-topics={access.source.topics}",
        f"--target-allowed-topics={access.target.topics}",
        *([f"--allowed-groups={access.target.groups}"] if selects_groups else ()),
    )


def settings_map(mirror: Mirror, access: MirrorAccess, attempt: str) -> Manifest:
    """Return the ConfigMap with the settings of an attempt; it contains no secrets."""
    lines = {
        **_cluster_lines("source", access.source),
        **_cluster_lines("target", access.target),
        "name": mirror_name(mirror),
        **_choice_lines(mirror.spec),
        **_copying_lines(mirror.spec),
        # Heartbeats are written to the source, whose KafkaConnection must allow writing.
        "heartbeat": _boolean(mirror.spec.heartbeat and "Write" in access.source.access),
        **_group_lines(mirror.spec),
        **_engine_lines(mirror.spec),
    }
    return owned_manifest(
        mirror,
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {SETTINGS_FILE: _text(lines)}},
        name=settings_name(attempt),
        role=SETTINGS_ROLE,
    )


def limits_name(mirror: Mirror) -> str:
    """Return the name of the ConfigMap with the limits, which all attempts share."""
    return child_name(mirror, LIMITS_ROLE)


def limits_map(mirror: Mirror) -> Manifest:
    """Return the ConfigMap with the limits, divided among the workers; running pods read it again."""
    limits = mirror.spec.limits
    shares = 1 if mirror.spec.on_spark else mirror.spec.workers.count
    limits_by_name = {
        "maxBytesPerSecond": limits.max_bytes_per_second,
        "maxRecordsPerSecond": limits.max_records_per_second,
    }
    lines = {name: str(max(value // shares, 1)) for name, value in limits_by_name.items() if value is not None}
    return owned_manifest(
        mirror,
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {LIMITS_FILE: _text(lines)}},
        name=limits_name(mirror),
        role=LIMITS_ROLE,
    )


def content_of(mirror: Mirror, access: MirrorAccess, attempt: str) -> Content:
    """Return the files and Secrets of a worker, or of the Spark driver."""
    sources = (
        config_map_source(settings_name(attempt), {SETTINGS_FILE: SETTINGS_FILE}),
        config_map_source(limits_name(mirror), {LIMITS_FILE: LIMITS_FILE}),
    )
    return Content(sources=sources, secrets=executor_content(access).secrets)


def executor_content(access: MirrorAccess) -> Content:
    """Return the Secrets of an executor, which connects to both clusters itself."""
    return Content(
        secrets=(*kafka_secrets(access.source, folder="source/"), *kafka_secrets(access.target, folder="target/"))
    )


def _cluster_lines(cluster: str, kafka: KafkaConnectionSpec) -> dict[str, str]:
    lines = kafka_settings(kafka, f"{SECRETS_FOLDER}/{cluster}")
    return {f"{cluster}{name[0].upper()}{name[1:]}": value for name, value in lines.items()}


def _choice_lines(spec: MirrorSpec) -> dict[str, str]:
    chosen = {
        "topics": ",".join(spec.topics),
        "topicPrefix": ",".join(spec.topic_prefixes),
        "topicPattern": spec.topic_pattern or "",
        "exclude": ",".join(spec.exclude),
        "startAtGroup": spec.start_at_group or "",
        "startAtTarget": "true" if spec.start_at_target else "",
        "copyAgain": "true" if spec.copy_again else "",
        "sourceName": spec.source_name or "",
        "targetName": spec.target_name or "",
    }
    return {name: value for name, value in chosen.items() if value} | {"rename": spec.rename}


def _copying_lines(spec: MirrorSpec) -> dict[str, str]:
    lines = {
        "lanes": str(spec.lanes),
        "delivery": _DELIVERIES[spec.delivery],
        "onDataLoss": _ON_DATA_LOSS[spec.on_data_loss],
        "onBadRecord": _ON_BAD_RECORD[spec.on_bad_record],
        "onTargetLoss": _ON_TARGET_LOSS[spec.on_target_loss],
        "provenance": spec.provenance.lower(),
        "createTopics": _boolean(spec.create_topics),
        "limitsFile": f"{CONFIGURATION_FOLDER}/{LIMITS_FILE}",
    }
    if spec.parking_topic is not None:
        lines["parkingTopic"] = spec.parking_topic
    if spec.compression is not None:
        lines["compression"] = spec.compression
    if spec.transform is not None:
        lines["transform"] = " ".join(spec.transform.splitlines())
        if spec.transform_topics:
            lines["transformTopics"] = ",".join(spec.transform_topics)
    return lines


def _group_lines(spec: MirrorSpec) -> dict[str, str]:
    groups = spec.groups
    if groups is None:
        return {}
    chosen = {
        "groups": ",".join(groups.names),
        "groupPrefix": ",".join(groups.prefixes),
        "groupPattern": groups.pattern or "",
    }
    return {name: value for name, value in chosen.items() if value} | {"groupInterval": f"{groups.interval_seconds}s"}


def _engine_lines(spec: MirrorSpec) -> dict[str, str]:
    if not spec.on_spark:
        socket = {} if spec.transform is None else {"transformSocket": SOCKET}
        return {"engine": "workers", "metricsPort": str(METRICS_PORT), **socket}
    driver = spec.spark.driver
    return {"engine": "spark", "master": f"local[{driver.cores}]", "driverMemory": java_memory(driver.memory)}


def _boolean(value: bool) -> str:  # noqa: FBT001 -- the value to write
    return "true" if value else "false"


def _text(lines: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in lines.items())
