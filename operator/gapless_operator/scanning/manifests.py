"""The names of a GapScan's children, the places of bundles, and the digests that distinguish attempts.

Must not know when an attempt starts or what a result means.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.access import storage_parts, work_parts
from gapless_operator.common.children import digest, owned_manifest
from gapless_operator.engines.pod import CONFIGURATION_FOLDER
from gapless_operator.scanning import scan_pod

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import ScanAccess
    from gapless_operator.engines.engine import Attempt

SETTINGS_ROLE, BUNDLE_ROLE = "scan-settings", "bundle"
BUNDLE_KEY, RESEND_KEY = "bundle.json.gz", "resend.yaml"
MAX_CONFIG_MAP_BYTES = 900 * 1024
"""Of a gzipped bundle and its Resend. The API server accepts 1 MiB, and does not count base64 (binaryData)."""
QUESTION_ANNOTATION = f"{GROUP}/question"
"""Digest of what an attempt scans; only results of attempts with the same digest can be compared."""
OUTPUT_ANNOTATION = f"{GROUP}/output"
"""Where an attempt puts the bundle, as JSON: the spec and what it names may have changed when the attempt ends."""


def bundle_name(attempt: str) -> str:
    """Return the name of the ConfigMap with the bundle of an attempt."""
    return f"{attempt}-bundle"


def bundle_file(attempt: str) -> str:
    """Return the name of the bundle's file in a volume or a store."""
    return f"{attempt}.json"


def command(scan: GapScan) -> str:
    """Return the command of ``gapless`` that the scan runs."""
    return "audit" if scan.spec.source.events is not None else "scan"


def work_digest(scan: GapScan, places: ScanAccess) -> str:
    """Return a digest of what an attempt would do; a running attempt with another digest is outdated."""
    spec = scan.spec.to_dict()
    stores = [None if part is None else storage_parts(part) for part in (places.output, places.state)]
    parts = ["source", "limit", "engine", "output", "signingKeySecret"]
    parts += [] if scan.spec.pod_template is None else ["podTemplate"]
    return digest([{name: spec.get(name) for name in parts}, work_parts(places.kafka), *stores])


class BundlePlace(NamedTuple):
    """Where the bundle of an attempt is, with the names of status.bundle."""

    type: Literal["ConfigMap", "PersistentVolumeClaim", "S3"]
    location: str
    claim_name: str | None = None
    endpoint: str | None = None

    def written(self) -> str:
        """Return it as an attempt's annotation contains it."""
        return json.dumps(self)

    @classmethod
    def of(cls, attempt: Attempt | None, name: str) -> BundlePlace:
        """Read the annotation of an attempt; without the attempt, it is a ConfigMap."""
        text = attempt.meta.annotations.get(OUTPUT_ANNOTATION, "") if attempt is not None else ""
        return cls(*json.loads(text)) if text else cls("ConfigMap", bundle_name(name))


def bundle_place(scan: GapScan, places: ScanAccess, attempt: str) -> BundlePlace:
    """Return where an attempt is to put its bundle."""
    folder, output = scan.spec.output.folder, places.output
    path = "/".join(filter(None, (folder, bundle_file(attempt))))
    if output is not None and (s3 := output.s3) is not None:
        return BundlePlace("S3", s3.address(path), endpoint=s3.endpoint)
    if output is not None and (volume := output.persistent_volume_claim) is not None:
        return BundlePlace("PersistentVolumeClaim", volume.path(path), claim_name=volume.claim_name)
    return BundlePlace("ConfigMap", bundle_name(attempt))


def source_digest_of(attempt: Attempt | None) -> str:
    """Return the digest of what an attempt scans; empty without one."""
    return attempt.meta.annotations.get(QUESTION_ANNOTATION, "") if attempt is not None else ""


class OlderBundle(NamedTuple):
    """The bundle that a scan is compared with, as its pod finds it."""

    address: str
    """Path or s3://bucket/object."""
    entry: tuple[str, str] | None
    """The ConfigMap and the entry that it is mounted from."""


def source_digest(scan: GapScan, places: ScanAccess) -> str:
    """Return a digest of what a scan reads; the results of scans with different digests cannot be compared.

    The expected offsets are not part of it: the comparison itself reports for each offset whether it was checked.
    Inference is part of it, because inferred events would seem to have arrived once it is off.
    """
    source = scan.spec.source
    content: dict[str, Any] = {"brokers": places.kafka.bootstrap_servers}
    if source.gap_topic is not None:
        content |= {"gaps": source.gap_topic.topic, "infer": source.gap_topic.infer}
        content |= {"inferTails": "All"} if source.gap_topic.infer_tails == "All" else {}
    if source.events is not None:
        content["events"] = sorted(source.events.topics)
    return digest(content)


def older_bundle(scan: GapScan, places: ScanAccess) -> OlderBundle | None:
    """Return the bundle of the last successful scan; ``None`` without one, or if the pod cannot reach it."""
    bundle = scan.status.bundle
    if bundle is None or bundle.question != source_digest(scan, places):
        return None
    if bundle.type == "ConfigMap":
        if bundle.key is None:
            return None
        return OlderBundle(f"{CONFIGURATION_FOLDER}/{scan_pod.OLDER_FILE}", (bundle.location, bundle.key))
    if bundle.type == "S3":
        store = scan_pod.store_of(places)
        return OlderBundle(bundle.location, None) if store is not None and store.endpoint == bundle.endpoint else None
    output = places.output.persistent_volume_claim if places.output is not None else None
    folder, _, file = bundle.location.rpartition("/")
    if output is None or (output.claim_name, output.path(scan.spec.output.folder)) != (bundle.claim_name, folder):
        return None
    return OlderBundle(f"{scan_pod.OUTPUT_FOLDER}/{file}", None)


def bundle_map(scan: GapScan, attempt: str, bundle_gzip: bytes, resend: str | None) -> Manifest:
    """Return the ConfigMap with the bundle of an attempt, and with the Resend that sends it."""
    return owned_manifest(
        scan,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "binaryData": {BUNDLE_KEY: base64.b64encode(bundle_gzip).decode("ascii")},
        }
        | ({"data": {RESEND_KEY: resend}} if resend is not None else {}),
        name=bundle_name(attempt),
        role=BUNDLE_ROLE,
    )
