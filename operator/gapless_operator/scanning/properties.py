"""The properties file of ``gapless scan`` or ``gapless audit`` for a GapScan, in a ConfigMap.

Must not know when an attempt starts or how its pod finds the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.scan_source import ExpectedInventory, GapTopic
from gapless_operator.common.access import kafka_settings, store_settings
from gapless_operator.common.children import owned_manifest
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, SECRETS_FOLDER, java_memory
from gapless_operator.engines.scheduling import settings_name
from gapless_operator.scanning import scan_pod
from gapless_operator.scanning.manifests import (
    MAX_CONFIG_MAP_BYTES,
    SETTINGS_ROLE,
    bundle_file,
    bundle_place,
    older_bundle,
)
from gapless_operator.scanning.resend_manifest import MAX_INLINE_BYTES

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import ScanAccess


def settings_map(scan: GapScan, places: ScanAccess, attempt: str) -> Manifest:
    """Return the ConfigMap with the settings of an attempt; it contains no secrets."""
    content = {scan_pod.SETTINGS_FILE: properties(scan, places, attempt)}
    return owned_manifest(
        scan,
        {"apiVersion": "v1", "kind": "ConfigMap", "data": content},
        name=settings_name(attempt),
        role=SETTINGS_ROLE,
    )


def properties(scan: GapScan, places: ScanAccess, attempt: str) -> str:
    """Return the content of the properties file of an attempt."""
    spec = scan.spec
    lines = kafka_settings(places.kafka, SECRETS_FOLDER)
    lines |= _source(scan, places)
    lines["limit"] = spec.limit.lower()
    lines["sourceName"] = f"GapScan {scan.key}"
    lines["engine"] = spec.engine.reader.lower()
    lines["master"] = f"local[{spec.engine.driver.cores}]"
    lines["driverMemory"] = java_memory(spec.engine.driver.memory)
    lines |= _output(scan, places, attempt)
    if spec.signing_key_secret is not None:
        lines["signingKey"] = f"{SECRETS_FOLDER}/{scan_pod.SIGNING_KEY_FILE}"
    store = scan_pod.store_of(places)
    lines |= {} if store is None else store_settings(store, SECRETS_FOLDER)
    older = older_bundle(scan, places)
    if older is not None:
        lines["compareWith"] = older.address
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _source(scan: GapScan, places: ScanAccess) -> dict[str, str]:
    """Return the settings of what to scan."""
    gap_topic, events = scan.spec.source.gap_topic, scan.spec.source.events
    lines: dict[str, str] = {}
    if gap_topic is not None:
        lines["topic"] = gap_topic.topic
        # Only what differs from the defaults of the command: an older image does not know all of these settings.
        lines |= {"infer": "true"} if gap_topic.infer else {}
        lines |= {"inferTails": "all"} if gap_topic.infer_tails == "All" else {}
        lines |= {"includeStale": "true"} if gap_topic.include_stale else {}
        lines |= {"skipStale": "true"} if gap_topic.skip_stale else {}
        if gap_topic.detector_windows != GapTopic.model_fields["detector_windows"].default:
            lines["detectorWindows"] = str(gap_topic.detector_windows)
    if events is not None:
        lines["topics"] = ",".join(events.topics)
        if events.expect:
            lines["expect"] = ",".join(events.expect)
        if events.manifest is not None:
            lines |= _manifest(events.manifest)
        # Only if they are set: an older image knows neither.
        lines |= {"includeUnknown": "true"} if events.include_unknown else {}
        lines |= {"newGeneration": ",".join(events.new_generations)} if events.new_generations else {}
        if events.state is not None and places.state is not None:
            s3 = places.state.s3
            lines["state"] = s3.address(events.state.folder) if s3 is not None else scan_pod.STATE_FOLDER
    return lines


def _manifest(manifest: ExpectedInventory) -> dict[str, str]:
    """Return the settings of the inventory from the sending side."""
    lines: dict[str, str] = {}
    if manifest.config_map is not None:
        folder = f"{CONFIGURATION_FOLDER}/{scan_pod.MANIFESTS_FOLDER}"
        lines["expectInventory"] = ",".join(f"{folder}/{key}" for key in manifest.config_map.keys)
    if manifest.topic is not None:
        lines["expectInventoryTopic"] = manifest.topic
    if manifest.expect_topics:
        lines["expectTopics"] = ",".join(manifest.expect_topics)
    if manifest.verify_key is not None:
        lines["verifyKey"] = f"{CONFIGURATION_FOLDER}/{scan_pod.VERIFY_KEY_FILE}"
    return lines


def _output(scan: GapScan, places: ScanAccess, attempt: str) -> dict[str, str]:
    """Return the settings of the output: the bundle, and the result in the log."""
    output = places.output
    # A bundle in a StorageLocation is written to the log only if it is small enough to be inlined in a Resend.
    limit = MAX_CONFIG_MAP_BYTES if output is None else MAX_INLINE_BYTES
    lines = {"resultLines": "true", "resultBundleLimit": str(limit)}
    if output is not None and output.persistent_volume_claim is not None:
        lines["resendFileName"] = f"{scan_pod.OUTPUT_FOLDER}/{bundle_file(attempt)}"
    elif output is not None:
        lines["resendFileName"] = bundle_place(scan, places, attempt).location
    return lines
