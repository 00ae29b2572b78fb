"""What a tenant tries with Archives, Restores, Mirrors, scans and Resends, and the sentence that refuses each.

Must not know who refuses it: the e2e tests show that an installation does, and `tests/cluster/operator` that nothing
else would.
"""

from __future__ import annotations

from typing import Any

from kit.cluster.product import API_VERSION, ARCHIVE_NAMESPACE, MIRROR_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE

OPEN, TARGET, PLACE = "tenant-open", "tenant-target", "tenant-place"
COMPACTION = {"schedule": {"cron": "0 0 3 * * *"}}


def body(kind: str, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def archive(**spec: Any) -> dict[str, Any]:
    usual = {"kafkaRef": {"name": OPEN}, "storageRef": {"name": PLACE}, "region": "ours", "topics": ["open"]}
    return body("Archive", ARCHIVE_NAMESPACE, "tried", {**usual, **spec})


def restore(**spec: Any) -> dict[str, Any]:
    usual = {"kafkaRef": {"name": OPEN}, "storageRef": {"name": PLACE}, "region": "ours", "topics": [{"name": "open"}]}
    return body("Restore", ARCHIVE_NAMESPACE, "tried", {**usual, **spec})


def mirror(**spec: Any) -> dict[str, Any]:
    usual = {"sourceRef": {"name": OPEN}, "targetRef": {"name": TARGET}, "topics": ["open"]}
    return body("Mirror", MIRROR_NAMESPACE, "tried", {**usual, **spec})


def scan(**spec: Any) -> dict[str, Any]:
    usual = {"kafkaRef": {"name": OPEN}, "source": {"events": {"topics": ["open"]}}}
    return body("GapScan", SCAN_NAMESPACE, "tried", {**usual, **spec})


def resend(**spec: Any) -> dict[str, Any]:
    offsets = {"topic": "open", "partition": 0, "from": 0, "to": 9}
    usual = {"diodeRef": {"name": "any"}, "kafkaRef": {"name": OPEN}, "offsets": offsets}
    return body("Resend", SENDER_NAMESPACE, "tried", {**usual, **spec})


def state_in(name: str) -> dict[str, Any]:
    return {"events": {"topics": ["open"], "state": {"storageRef": {"name": name}, "folder": "state"}}}


TOPICS, WRITTEN = (f"KafkaConnection {name} does not allow the topic" for name in (OPEN, TARGET))
LOCATION = f"StorageLocation {PLACE} does not allow the"
TOO_LARGE = "and the platform team allows"
ATTEMPTS: list[tuple[dict[str, Any], str]] = [
    (archive(topics=["payroll"], storageRef={"name": "tenant-kept"}), TOPICS),
    (archive(topics=["open", "secret"]), f"{LOCATION} archived topic secret"),
    (archive(region="theirs"), f"{LOCATION} region theirs"),
    (archive(topicPrefixes=["o"]), "all archived topics with the prefix o"),
    (archive(compaction=COMPACTION, retention={"maxAgeSeconds": 60}), "keeps records for at least 86400 seconds"),
    (archive(storageRef={"name": "tenant-kept"}, compaction=COMPACTION), "may not be used for deleting"),
    (
        archive(
            storageRef={"name": "tenant-kept"}, compaction={**COMPACTION, "delete": False}, retention={"maxBytes": 1}
        ),
        "may not be used for deleting",
    ),
    (archive(hold=False), "needs the verb release on archives.gapless.dev"),
    (archive(engine={"driver": {"cores": 128}}), TOO_LARGE),
    (archive(engine={"driver": {"memory": "900000Gi"}}), ""),
    (archive(engine={"type": "SparkApplication", "executor": {"instances": 1000}}), ""),
    (archive(engine={"image": "evil/spark:1"}), "spec.engine.image"),
    (archive(engine={"serviceAccountName": "default"}), "spec.engine.serviceAccountName names default"),
    (archive(folder="../theirs"), ""),
    (restore(region="theirs"), f"{LOCATION} region theirs"),
    (restore(topics=[{"name": "payroll", "toTopic": "open"}]), f"{LOCATION} archived topic payroll"),
    (restore(topics=[{"name": "open", "toTopic": "payroll"}]), TOPICS),
    (restore(groupOffsets={"configMap": {"name": "groups"}}), "to allowedGroups of the KafkaConnection"),
    (restore(engine={"image": "evil/spark:1"}), "spec.engine.image"),
    (restore(engine={"driver": {"cores": 128}}), TOO_LARGE),
    (mirror(topics=["payroll"]), "does not allow the topic payroll"),
    (mirror(rename="{source}.{topic}", sourceName="secret"), f"{WRITTEN} secret.open"),
    (mirror(name="team-a.orders"), "which another namespace may have"),
    (mirror(groups={"pattern": ".*"}), "to allowedGroups of the KafkaConnection"),
    (mirror(groups={"prefixes": ["billing"]}), "to allowedGroups of the KafkaConnection"),
    (mirror(engine="Spark", transform="SELECT value FROM records", transformTopics=["payroll"]), WRITTEN),
    (mirror(engine="Spark", spark={"image": "evil/spark:1"}), "spec.spark.image"),
    (mirror(workers={"count": 33}), ""),
    (mirror(workers={"memory": "65Gi"}), TOO_LARGE),
    (scan(source={"gapTopic": {"topic": "payroll"}}), TOPICS),
    (scan(source=state_in("tenant-read")), "may not be used for writing"),
    (scan(output={"storageRef": {"name": "tenant-read"}}), "may not be used for writing"),
    (scan(engine={"type": "SparkApplication", "executor": {"cores": 64}}), TOO_LARGE),
    (resend(offsets={"topic": "payroll", "partition": 0, "from": 0, "to": 9}), TOPICS),
    (resend(fallback={"storageRef": {"name": PLACE}, "region": "theirs"}), f"{LOCATION} region theirs"),
    (
        body("StorageLocation", ARCHIVE_NAMESPACE, "tried", {"persistentVolumeClaim": {"claimName": "any"}}),
        'cannot create resource "storagelocations"',
    ),
]
HELD, RUNNING = "tenant-held", "tenant-mirror"
CHANGES: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("archive", HELD, ARCHIVE_NAMESPACE, {"hold": False}, "needs the verb release"),
    ("archive", HELD, ARCHIVE_NAMESPACE, {"hold": None}, "needs the verb release"),
    (
        "archive",
        HELD,
        ARCHIVE_NAMESPACE,
        {"topics": ["open", "secret"]},
        f"{LOCATION} archived topic secret",
    ),
    ("archive", HELD, ARCHIVE_NAMESPACE, {"region": "theirs"}, "cannot be changed"),
    (
        "mirror",
        RUNNING,
        MIRROR_NAMESPACE,
        {"rename": "{source}.{topic}", "sourceName": "b"},
        f"{WRITTEN} b.open",
    ),
    ("mirror", RUNNING, MIRROR_NAMESPACE, {"topics": ["payroll"]}, "does not allow the topic payroll"),
    (
        "mirror",
        RUNNING,
        MIRROR_NAMESPACE,
        {"groups": {"pattern": ".*"}},
        "to allowedGroups of the KafkaConnection",
    ),
]
"""Kind, name and namespace of an object that is there, its new spec, and the sentence that refuses it."""


def held_archive() -> dict[str, Any]:
    """The Archive that the attempts of `CHANGES` are about."""
    return _named(archive(hold=True, suspend=True), HELD)


def running_mirror() -> dict[str, Any]:
    """The Mirror that the attempts of `CHANGES` are about."""
    return _named(mirror(suspend=True), RUNNING)


def _named(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {**whole, "metadata": {**whole["metadata"], "name": name}}
