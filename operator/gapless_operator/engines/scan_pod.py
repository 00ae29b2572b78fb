"""Owns what every pod of a scan has, whichever engine starts it: settings, secrets, output, a root it cannot write.

Must not know which engine that is, nor what the settings say. All that is only read is one projected volume, because a
volume cannot be mounted into another one that is read-only. What is written has one volume for each claim, because a
pod with two volumes of one claim may never start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_operator.common.access import (
    config_map_source,
    kafka_arguments,
    kafka_secrets,
    secret_sources,
    store_secrets,
)
from gapless_operator.common.children import container_security, pod_security

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.scan_source import AuditState
    from gapless_api.v1alpha1.storage_location import S3Location
    from gapless_operator.common.access import SecretFile
    from gapless_operator.common.references import ScanPlaces
    from gapless_operator.engines.engine import Run

CONFIGURATION_FOLDER = "/etc/gapless"
SETTINGS_FILE = "scan.properties"
SECRETS_FOLDER = f"{CONFIGURATION_FOLDER}/secrets"
OLDER_FILE = "older.bundle.json.gz"
"""The bundle to compare with, where it comes out of a ConfigMap."""
MANIFESTS_FOLDER, VERIFY_KEY_FILE = "manifests", "verify.pem"
SIGNING_KEY_FILE = "signing.pem"
OUTPUT_FOLDER, STATE_FOLDER = "/output", "/state"

_MODE = 0o440
_OVERHEAD, _LEAST_OVERHEAD_MIB = 0.4, 768
"""What a pod with all of Spark in it needs beside its heap: Java's code, classes and buffers some 400 MiB, Python's
driver 170, and one worker that reads Kafka 310, for which the heap leaves room: it holds little. More where there is
more to be found, which the driver holds."""
_WORKER_MIB = 320
"""What each further core needs, because it has a worker of its own, with a queue of Kafka's client."""


def state_of(scan: GapScan) -> AuditState | None:
    """Where an audit keeps its state, if it does."""
    return scan.spec.source.events.state if scan.spec.source.events is not None else None


def store_of(places: ScanPlaces) -> S3Location | None:
    """The store that the pods reach; bundles and state are in the same one where both are in one."""
    return next((place.s3 for place in (places.output, places.state) if place is not None and place.s3), None)


class _Folder(NamedTuple):
    volume: str
    """Its name in the pod."""
    mounted_at: str
    claim: str
    path: str
    """In the volume; empty for its root."""


def _folders(scan: GapScan, places: ScanPlaces) -> list[_Folder]:
    """What a driver writes."""
    found = []
    output = places.output.persistent_volume_claim if places.output is not None else None
    kept = places.state.persistent_volume_claim if places.state is not None else None
    if output is not None:
        found.append(_Folder("output", OUTPUT_FOLDER, output.claim_name, output.path(scan.spec.output.folder)))
    state = state_of(scan)
    if state is not None and kept is not None:
        shared = output is not None and output.claim_name == kept.claim_name
        path = kept.path(state.folder or "")
        found.append(_Folder("output" if shared else "state", STATE_FOLDER, kept.claim_name, path))
    return found


def _read_only(scan: GapScan, run: Run) -> list[dict[str, Any]]:
    """What a driver reads besides secrets, as sources of a projected volume."""
    sources = [config_map_source(run.settings_map, {SETTINGS_FILE: SETTINGS_FILE})]
    if run.older_entry is not None:
        name, entry = run.older_entry
        # Optional: a scan is worth more than its comparison, which then says what it lacks.
        sources.append(config_map_source(name, {entry: OLDER_FILE}, optional=True))
    events = scan.spec.source.events
    manifest = events.manifest if events is not None else None
    if manifest is not None and (given := manifest.config_map) is not None:
        sources.append(config_map_source(given.name, {key: f"{MANIFESTS_FOLDER}/{key}" for key in given.keys}))
    if manifest is not None and manifest.verify_key is not None:
        named = manifest.verify_key.config_map
        sources.append(config_map_source(named.name, {named.key: VERIFY_KEY_FILE}))
    return sources


def secret_items(places: ScanPlaces, *, driver: bool) -> list[SecretFile]:
    """Which entries of which Secrets a pod needs. Executors only read Kafka."""
    files = kafka_secrets(places.kafka)
    store = store_of(places)
    return [*files, *store_secrets(store)] if driver and store is not None else files


def _signing_key(scan: GapScan) -> list[SecretFile]:
    """The entry with the key that signs the bundle; executors write none."""
    secret = scan.spec.signing_key_secret
    return [] if secret is None else [(secret.name, SIGNING_KEY_FILE, secret.key)]


def volumes(scan: GapScan, run: Run, *, driver: bool) -> list[dict[str, Any]]:
    """The volumes of a driver, or of an executor, which needs the secrets alone."""
    sources = _read_only(scan, run) if driver else []
    sources += secret_sources([*secret_items(run.places, driver=driver), *(_signing_key(scan) if driver else ())])
    found: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if sources:
        found.append({"name": "configuration", "projected": {"defaultMode": _MODE, "sources": sources}})
    claims = {folder.volume: folder.claim for folder in (_folders(scan, run.places) if driver else ())}
    return [*found, *({"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items())]


def mounts(scan: GapScan, run: Run, *, driver: bool) -> list[dict[str, Any]]:
    """Where the same volumes are mounted."""
    found: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 -- the container's own
    if driver or secret_items(run.places, driver=driver):
        found.append({"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True})
    for folder in _folders(scan, run.places) if driver else ():
        mount = {"name": folder.volume, "mountPath": folder.mounted_at}
        found.append(mount | ({"subPath": folder.path} if folder.path else {}))
    return found


def arguments(run: Run) -> list[str]:
    """Of ``gapless``; what must hold whatever the settings say stands here and not there."""
    return [run.command, f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}", *kafka_arguments(run.places.kafka)]


def container(scan: GapScan, run: Run, *, name: str, driver: bool) -> dict[str, Any]:
    """What a container of a scan has beyond image and command."""
    return {
        "name": name,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(scan, run, driver=driver),
        # Java and Python look for a home of their user, and Spark writes below where it is; the root cannot be written.
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
        "workingDir": "/tmp",  # noqa: S108
    }


def pod(scan: GapScan, run: Run, containers: list[dict[str, Any]], *, driver: bool) -> dict[str, Any]:
    """What a pod of a scan has beyond who may start it; fit for the pod security level "restricted"."""
    return {
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": containers,
        "volumes": volumes(scan, run, driver=driver),
    }


def mebibytes(memory: str) -> int:
    """Read an amount such as 512Mi or 2Gi."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)


def pod_memory(heap: str, *, cores: int) -> str:
    """What a pod needs in which Spark runs in local mode with a Java heap of `heap`."""
    size = mebibytes(heap)
    return f"{size + max(_LEAST_OVERHEAD_MIB, int(size * _OVERHEAD)) + _WORKER_MIB * (cores - 1)}Mi"


def java_memory(heap: str) -> str:
    """The same heap as Java and Spark write it."""
    return f"{mebibytes(heap)}m"
