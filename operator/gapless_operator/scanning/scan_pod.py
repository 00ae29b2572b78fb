"""Owns what is put into the pods of a scan, and where they find it; must not know how an engine starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.access import config_map_source, kafka_arguments, kafka_secrets, store_secrets
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, Content, Folder

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.scan_source import AuditState
    from gapless_api.v1alpha1.storage_location import S3Location
    from gapless_operator.common.access import SecretFile
    from gapless_operator.common.references import ScanAccess

SCAN_ROLE = "scan"
SETTINGS_FILE = "scan.properties"
OLDER_FILE = "older.bundle.json.gz"
"""The bundle to compare with, where it comes out of a ConfigMap."""
MANIFESTS_FOLDER, VERIFY_KEY_FILE = "manifests", "verify.pem"
SIGNING_KEY_FILE = "signing.pem"
OUTPUT_FOLDER, STATE_FOLDER = "/output", "/state"


def state_of(scan: GapScan) -> AuditState | None:
    """Where an audit keeps its state, if it does."""
    return scan.spec.source.events.state if scan.spec.source.events is not None else None


def store_of(places: ScanAccess) -> S3Location | None:
    """The store that the pods reach; bundles and state are in the same one where both are in one."""
    return next((place.s3 for place in (places.output, places.state) if place is not None and place.s3), None)


def driver_content(
    scan: GapScan, places: ScanAccess, *, settings_map: str, older_entry: tuple[str, str] | None
) -> Content:
    """What is put into a driver.

    Args:
        scan: the GapScan.
        places: Kafka and storage, as the spec names them.
        settings_map: name of the ConfigMap with the command's settings.
        older_entry: ConfigMap and entry with the bundle to compare with; ``None`` for none, or one that is elsewhere.
    """
    store = store_of(places)
    return Content(
        sources=tuple(_read_only(scan, settings_map, older_entry)),
        secrets=(
            *kafka_secrets(places.kafka),
            *(store_secrets(store) if store is not None else ()),
            *_signing_key(scan),
        ),
        folders=tuple(_folders(scan, places)),
    )


def executor_content(places: ScanAccess) -> Content:
    """What is put into an executor, which only reads Kafka."""
    return Content(secrets=tuple(kafka_secrets(places.kafka)))


def arguments(command: str, places: ScanAccess) -> tuple[str, ...]:
    """Of ``gapless``; what must hold whatever the settings say stands here and not there."""
    return (command, f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}", *kafka_arguments(places.kafka))


def _folders(scan: GapScan, places: ScanAccess) -> list[Folder]:
    """What a driver writes."""
    found = []
    output = places.output.persistent_volume_claim if places.output is not None else None
    kept = places.state.persistent_volume_claim if places.state is not None else None
    if output is not None:
        found.append(Folder("output", OUTPUT_FOLDER, output.claim_name, output.path(scan.spec.output.folder)))
    state = state_of(scan)
    if state is not None and kept is not None:
        shared = output is not None and output.claim_name == kept.claim_name
        path = kept.path(state.folder or "")
        found.append(Folder("output" if shared else "state", STATE_FOLDER, kept.claim_name, path))
    return found


def _read_only(scan: GapScan, settings_map: str, older_entry: tuple[str, str] | None) -> list[dict[str, Any]]:
    """What a driver reads besides secrets."""
    sources = [config_map_source(settings_map, {SETTINGS_FILE: SETTINGS_FILE})]
    if older_entry is not None:
        name, entry = older_entry
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


def _signing_key(scan: GapScan) -> list[SecretFile]:
    """The entry with the key that signs the bundle; executors write none."""
    secret = scan.spec.signing_key_secret
    return [] if secret is None else [(secret.name, SIGNING_KEY_FILE, secret.key)]
