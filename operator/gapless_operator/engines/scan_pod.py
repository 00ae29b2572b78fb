"""Owns what every pod of a scan has, whichever engine starts it: settings, secrets, output, a root it cannot write.

Must not know which engine that is, nor what the settings say. Settings and secrets are one projected volume, because a
volume cannot be mounted into another one that is read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.children import container_security, pod_security

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan

CONFIGURATION_FOLDER = "/etc/gapless"
SETTINGS_FILE = "scan.properties"
SECRETS_FOLDER = f"{CONFIGURATION_FOLDER}/secrets"
OUTPUT_FOLDER = "/output"

CA, CERTIFICATE, KEY, KEY_PASSWORD = "kafka-ca.crt", "kafka-client.crt", "kafka-client.key", "kafka-key-password"
SASL_PASSWORD = "kafka-password"  # noqa: S105 -- the name of a file
S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY = "s3-access-key-id", "s3-secret-access-key"

_MODE = 0o440
_JAVA_OVERHEAD, _LEAST_OVERHEAD_MIB = 0.4, 384
"""What Spark adds to a heap for Python and Java's own needs (spark.kubernetes.memoryOverheadFactor of PySpark)."""


def secret_items(scan: GapScan, *, driver: bool) -> dict[str, dict[str, str]]:
    """Which entries of which Secrets a pod needs: by Secret, the entry of each file. Executors only read Kafka."""
    wanted: list[tuple[str, str, str]] = []
    kafka = scan.spec.kafka
    if kafka.tls is not None and kafka.tls.ca_secret is not None:
        wanted.append((kafka.tls.ca_secret.name, CA, kafka.tls.ca_secret.key))
    if kafka.tls is not None and (client := kafka.tls.client_secret) is not None:
        wanted += [(client.name, CERTIFICATE, client.certificate_key), (client.name, KEY, client.key_key)]
        if client.password_key is not None:
            wanted.append((client.name, KEY_PASSWORD, client.password_key))
    if kafka.sasl is not None:
        wanted.append((kafka.sasl.password_secret.name, SASL_PASSWORD, kafka.sasl.password_secret.key))
    if driver and scan.spec.output.s3 is not None and (s3 := scan.spec.output.s3.credentials_secret) is not None:
        wanted += [
            (s3.name, S3_ACCESS_KEY_ID, s3.access_key_id_key),
            (s3.name, S3_SECRET_ACCESS_KEY, s3.secret_access_key_key),
        ]
    found: dict[str, dict[str, str]] = {}
    for secret, file, entry in wanted:
        found.setdefault(secret, {})[file] = entry
    return found


def volumes(scan: GapScan, settings_map: str, *, driver: bool) -> list[dict[str, Any]]:
    """The volumes of a driver, or of an executor, which needs the secrets alone."""
    sources: list[dict[str, Any]] = []
    if driver:
        item = {"key": SETTINGS_FILE, "path": SETTINGS_FILE}
        sources.append({"configMap": {"name": settings_map, "items": [item]}})
    for secret, files in secret_items(scan, driver=driver).items():
        items = [{"key": entry, "path": f"secrets/{file}"} for file, entry in files.items()]
        sources.append({"secret": {"name": secret, "items": items}})
    found: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if sources:
        found.append({"name": "configuration", "projected": {"defaultMode": _MODE, "sources": sources}})
    claim = scan.spec.output.persistent_volume_claim
    if driver and claim is not None:
        found.append({"name": "output", "persistentVolumeClaim": {"claimName": claim.claim_name}})
    return found


def mounts(scan: GapScan, *, driver: bool) -> list[dict[str, Any]]:
    """Where the same volumes are mounted."""
    found: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 -- the container's own
    if driver or secret_items(scan, driver=driver):
        found.append({"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True})
    claim = scan.spec.output.persistent_volume_claim
    if driver and claim is not None:
        mount = {"name": "output", "mountPath": OUTPUT_FOLDER}
        found.append(mount | ({"subPath": claim.folder} if claim.folder else {}))
    return found


def container(scan: GapScan, *, name: str, driver: bool) -> dict[str, Any]:
    """What a container of a scan has beyond image and command."""
    return {
        "name": name,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(scan, driver=driver),
        # Java and Python look for a home of their user, and Spark writes below where it is; the root cannot be written.
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
        "workingDir": "/tmp",  # noqa: S108
    }


def pod(scan: GapScan, settings_map: str, containers: list[dict[str, Any]], *, driver: bool) -> dict[str, Any]:
    """What a pod of a scan has beyond who may start it; fit for the pod security level "restricted"."""
    return {
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": containers,
        "volumes": volumes(scan, settings_map, driver=driver),
    }


def mebibytes(memory: str) -> int:
    """Read an amount such as 512Mi or 2Gi."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)


def pod_memory(heap: str) -> str:
    """What a pod needs whose Java heap is `heap`."""
    size = mebibytes(heap)
    return f"{size + max(_LEAST_OVERHEAD_MIB, int(size * _JAVA_OVERHEAD))}Mi"


def java_memory(heap: str) -> str:
    """The same heap as Java and Spark write it."""
    return f"{mebibytes(heap)}m"
