"""Owns the settings that a Mirror gives to ``gapless mirror``, and what its pods get; must not know when one begins.

The limits stand in a file of their own, which workers read again while they run: a change of them replaces no pod.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.mirror import MAX_MIRROR_NAME_LENGTH
from gapless_operator.common.access import config_map_source, kafka_secrets, kafka_settings
from gapless_operator.common.children import child_name, digest, owned_manifest
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, SECRETS_FOLDER, Content, java_memory
from gapless_operator.engines.scheduling import settings_name
from gapless_operator.engines.tracks import SETTINGS_ROLE
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
"""Parts of the spec whose change replaces no pod: what is re-read, what stops all of them, what never changes."""
_OF_WORKERS, _OF_SPARK = frozenset({"workers"}), frozenset({"spark"})
_DELIVERIES = {"ExactlyOnce": "exactly-once", "AtLeastOnce": "at-least-once"}
_ON_DATA_LOSS = {"Fail": "fail", "SkipAndRecord": "skip-and-record"}


def mirror_name(mirror: Mirror) -> str:
    """The name of a Mirror in the target cluster: the same for ever, and another one for each Mirror of the cluster.

    A namespace has no dot in its name, so that two Mirrors cannot have one name between them.
    """
    if mirror.spec.name is not None:
        return mirror.spec.name
    plain = mirror.key.replace("/", ".")
    if len(plain) <= MAX_MIRROR_NAME_LENGTH:
        return plain
    mark = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return f"{plain[: MAX_MIRROR_NAME_LENGTH - len(mark) - 1].rstrip('.-')}-{mark}"


def target_topics(spec: MirrorSpec) -> tuple[str, ...]:
    """The topics that are written, of those that the spec names."""
    source = spec.source_name or ""
    return tuple(spec.rename.replace("{source}", source).replace("{topic}", topic) for topic in spec.topics)


def work_digest(mirror: Mirror, access: MirrorAccess, program: Program) -> str:
    """A digest of what an attempt does, by which one that does something else is noticed, and another image, too."""
    left_out = _NO_NEW_PODS | (_OF_WORKERS if mirror.spec.on_spark else _OF_SPARK)
    spec = {name: value for name, value in mirror.spec.to_dict().items() if name not in left_out}
    image = (mirror.spec.spark.image if mirror.spec.on_spark else None) or program.image
    return digest([spec, image, access.source.to_dict(), access.target.to_dict()])


def command_arguments(access: MirrorAccess) -> tuple[str, ...]:
    """Of ``gapless``; what must hold whatever the settings say stands here and not there."""
    return (
        "mirror",
        f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}",
        f"--source-allowed-topics={access.source.topics}",
        f"--target-allowed-topics={access.target.topics}",
    )


def settings_map(mirror: Mirror, access: MirrorAccess, attempt: str) -> Manifest:
    """The ConfigMap with the settings of an attempt; there is nothing secret in it."""
    lines = {
        **_cluster_lines("source", access.source),
        **_cluster_lines("target", access.target),
        "name": mirror_name(mirror),
        **_choice_lines(mirror.spec),
        **_copying_lines(mirror.spec),
        # A heartbeat is written to the source, which the platform team must have opened for that.
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
    """The name of the ConfigMap with the limits, the same for all attempts."""
    return child_name(mirror, LIMITS_ROLE)


def limits_map(mirror: Mirror) -> Manifest:
    """The ConfigMap with the limits, which pods that run read again; each worker has its part."""
    limits = mirror.spec.limits
    shares = 1 if mirror.spec.on_spark else mirror.spec.workers.count
    given = {"maxBytesPerSecond": limits.max_bytes_per_second, "maxRecordsPerSecond": limits.max_records_per_second}
    lines = {name: str(max(value // shares, 1)) for name, value in given.items() if value is not None}
    return owned_manifest(
        mirror,
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {LIMITS_FILE: _text(lines)}},
        name=limits_name(mirror),
        role=LIMITS_ROLE,
    )


def content_of(mirror: Mirror, access: MirrorAccess, attempt: str) -> Content:
    """What is put into a worker, or into the driver of Spark."""
    sources = (
        config_map_source(settings_name(attempt), {SETTINGS_FILE: SETTINGS_FILE}),
        config_map_source(limits_name(mirror), {LIMITS_FILE: LIMITS_FILE}),
    )
    return Content(sources=sources, secrets=executor_content(access).secrets)


def executor_content(access: MirrorAccess) -> Content:
    """What is put into an executor, which reads and writes records itself."""
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
        "sourceName": spec.source_name or "",
    }
    return {name: value for name, value in chosen.items() if value} | {"rename": spec.rename}


def _copying_lines(spec: MirrorSpec) -> dict[str, str]:
    lines = {
        "lanes": str(spec.lanes),
        "delivery": _DELIVERIES[spec.delivery],
        "onDataLoss": _ON_DATA_LOSS[spec.on_data_loss],
        "provenance": spec.provenance.lower(),
        "createTopics": _boolean(spec.create_topics),
        "limitsFile": f"{CONFIGURATION_FOLDER}/{LIMITS_FILE}",
    }
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
        return {"engine": "workers", "metricsPort": str(METRICS_PORT)}
    driver = spec.spark.driver
    return {"engine": "spark", "master": f"local[{driver.cores}]", "driverMemory": java_memory(driver.memory)}


def _boolean(value: bool) -> str:  # noqa: FBT001 -- it is what is written
    return "true" if value else "false"


def _text(lines: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in lines.items())
