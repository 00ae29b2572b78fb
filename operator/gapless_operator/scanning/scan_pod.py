"""The files and folders in the pods of a scan; must not know how an engine starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.access import SecretFile, config_map_source, kafka_arguments, kafka_secrets, store_secrets
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, Content, Folder

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.scan_source import AuditState
    from gapless_api.v1alpha1.storage_location import S3Location
    from gapless_operator.common.references import ScanAccess

SCAN_ROLE = "scan"
SETTINGS_FILE = "scan.properties"
OLDER_FILE = "older.bundle.json.gz"
"""The bundle to compare with, if it is in a ConfigMap."""
MANIFESTS_FOLDER, VERIFY_KEY_FILE = "manifests", "verify.pem"
SIGNING_KEY_FILE = "signing.pem"
OUTPUT_FOLDER, STATE_FOLDER = "/output", "/state"


def state_of(scan: GapScan) -> AuditState | None:
    """Return where an audit keeps its state, if it does."""
    return scan.spec.source.events.state if scan.spec.source.events is not None else None


def store_of(places: ScanAccess) -> S3Location | None:
    """Return the store that the pods use; bundles and state are in the same one if both are in a store."""
    return next((place.s3 for place in (places.output, places.state) if place is not None and place.s3), None)


def driver_content(
    scan: GapScan, places: ScanAccess, *, settings_map: str, older_entry: tuple[str, str] | None
) -> Content:
    """Return what is mounted into a driver.

    Args:
        scan: the GapScan.
        places: Kafka and storage that the spec names.
        settings_map: name of the ConfigMap with the command's settings.
        older_entry: ConfigMap and entry with the bundle to compare with; ``None`` if it is elsewhere, or for none.
    """
    store = store_of(places)
    return Content(
        sources=tuple(_configuration_sources(scan, settings_map, older_entry)),
        secrets=(
            *kafka_secrets(places.kafka),
            *(store_secrets(store) if store is not None else ()),
            *_signing_key(scan),
        ),
        folders=tuple(_folders(scan, places)),
    )


def executor_content(places: ScanAccess) -> Content:
    """Return what is mounted into an executor, which only reads Kafka."""
    return Content(secrets=tuple(kafka_secrets(places.kafka)))


def arguments(command: str, places: ScanAccess) -> tuple[str, ...]:
    """Return the arguments of ``gapless``, which the settings file cannot override."""
    return (command, f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}", *kafka_arguments(places.kafka))


def _folders(scan: GapScan, places: ScanAccess) -> list[Folder]:
    """Return the folders that a driver writes to."""
    folders = []
    output = places.output.persistent_volume_claim if places.output is not None else None
    state_volume = places.state.persistent_volume_claim if places.state is not None else None
    if output is not None:
        folders.append(Folder("output", OUTPUT_FOLDER, output.claim_name, output.path(scan.spec.output.folder)))
    state = state_of(scan)
    if state is not None and state_volume is not None:
        is_shared = output is not None and output.claim_name == state_volume.claim_name
        path = state_volume.path(state.folder)
        folders.append(Folder("output" if is_shared else "state", STATE_FOLDER, state_volume.claim_name, path))
    return folders


def _configuration_sources(
    scan: GapScan, settings_map: str, older_entry: tuple[str, str] | None
) -> list[dict[str, Any]]:
    """Return what is mounted into a driver besides Secrets."""
    sources = [config_map_source(settings_map, {SETTINGS_FILE: SETTINGS_FILE})]
    if older_entry is not None:
        name, entry = older_entry
        # Optional: without the older bundle the scan still runs, and reports that it was not compared.
        sources.append(config_map_source(name, {entry: OLDER_FILE}, optional=True))
    events = scan.spec.source.events
    manifest = events.manifest if events is not None else None
    if manifest is not None and (inventory := manifest.config_map) is not None:
        files = {key: f"{MANIFESTS_FOLDER}/{key}" for key in inventory.keys}
        sources.append(config_map_source(inventory.name, files))
    if manifest is not None and manifest.verify_key is not None:
        key_map = manifest.verify_key.config_map
        sources.append(config_map_source(key_map.name, {key_map.key: VERIFY_KEY_FILE}))
    return sources


def _signing_key(scan: GapScan) -> list[SecretFile]:
    """Return the Secret entry with the key that signs the bundle."""
    secret = scan.spec.signing_key_secret
    return [] if secret is None else [(secret.name, SIGNING_KEY_FILE, secret.key)]
