"""How a bundle leaves the cluster that found what is missing, and enters the one that sends it.

Must not know the command line, nor what a scan or a sender does.
"""

from __future__ import annotations

import base64
import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.reader import read_bundle, read_bundle_text
from gapless_api.codec.strict_json import GZIP_MAGIC
from gapless_api.v1alpha1.resource import API_VERSION
from gapless_operator.scanning.manifests import BUNDLE_KEY, MAX_CONFIG_MAP_BYTES, RESEND_KEY
from gapless_operator.shell.api.kinds import CONFIG_MAP, DIODE, GAP_SCAN, KAFKA_CONNECTION, RESEND

if TYPE_CHECKING:
    from gapless_api.bundle.form import Bundle
    from gapless_operator.cli.cluster_store import ClusterStore

_PIECE_BYTES = 1 << 20


class Exported(NamedTuple):
    """What is carried back."""

    content: bytes
    """The bundle, compressed with gzip, or the Resend as YAML."""
    missing: int
    """How many events the bundle lists."""


class Found(NamedTuple):
    """The bundle of a scan."""

    content: bytes
    """As it is in the cluster, compressed with gzip."""
    bundle: Bundle


class Way(NamedTuple):
    """How an imported bundle is sent."""

    diode: str
    """Name of the Diode."""
    kafka: str
    """Name of the KafkaConnection."""
    mode: str
    """``Plan`` or ``Send``."""
    name: str | None
    """Name of both objects; ``None`` for one that follows from the bundle, so that a repetition makes no second one."""


class Imported(NamedTuple):
    """What an import has made, or found."""

    resend: str
    """The name of the Resend."""
    missing: int
    is_new: bool


def export(store: ClusterStore, namespace: str, scan: str, *, as_resend: bool) -> Exported:
    """Read the bundle of the last successful scan, or the Resend that sends it.

    Args:
        store: the cluster.
        namespace: of the GapScan.
        scan: its name.
        as_resend: whether the Resend is wanted, which has a small bundle in itself.

    Raises:
        ConfigurationError: there is none, it is not in the cluster, or it was changed; or as `ClusterStore.objects`.
    """
    if not as_resend:
        found = bundle_of(store, namespace, scan)
        return Exported(found.content, found.bundle.missing)
    reference, body = _written(store, namespace, scan)
    text = body.get("data", {}).get(RESEND_KEY)
    if text is None:
        raise ConfigurationError(
            f"The GapScan {scan} has no Resend: nothing is missing, or it has no spec.resend. Leave out --resend "
            f"for the bundle alone."
        )
    return Exported(text.encode(), reference["missing"])


def bundle_of(store: ClusterStore, namespace: str, scan: str) -> Found:
    """Read the bundle of the last successful scan. Raises ConfigurationError; see `export`."""
    reference, body = _written(store, namespace, scan)
    content = base64.b64decode(body.get("binaryData", {}).get(BUNDLE_KEY, ""))
    bundle = read_bundle_text(content, name=f"in the ConfigMap {reference['location']}")
    if bundle.sha256 != reference["sha256"]:
        raise ConfigurationError(
            f"The bundle in the ConfigMap {reference['location']} is another one than the GapScan {scan} has written; "
            f"let it scan again."
        )
    return Found(content, bundle)


def _written(store: ClusterStore, namespace: str, scan: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a GapScan says of its bundle, and the ConfigMap in which it is."""
    reference = store.object(GAP_SCAN, namespace, scan).get("status", {}).get("bundle")
    if reference is None:
        raise ConfigurationError(
            f"The GapScan {scan} has no bundle: no scan has succeeded; see gapless cluster status."
        )
    if reference["type"] != "ConfigMap":
        volume = f" of the volume {reference['claimName']}" if reference.get("claimName") else ""
        raise ConfigurationError(
            f"The bundle of the GapScan {scan} is not in the cluster: copy {reference['location']}{volume}."
        )
    return reference, store.object(CONFIG_MAP, namespace, reference["location"])


def import_bundle(store: ClusterStore, namespace: str, file: Path, way: Way) -> Imported:
    """Create a ConfigMap with a bundle, and the Resend that sends it; what exists already with the same bundle stays.

    Args:
        store: the cluster.
        namespace: of the Diode.
        file: the bundle.
        way: how it is sent.

    Raises:
        ConfigurationError: the file is not a bundle, or too large; an object is missing, or one of the same name is
            another; or as `ClusterStore.objects`.
    """
    bundle = read_bundle(file)
    store.object(DIODE, namespace, way.diode)
    store.object(KAFKA_CONNECTION, namespace, way.kafka)
    content = _compressed(file)
    if len(content) > MAX_CONFIG_MAP_BYTES:
        raise ConfigurationError(
            f"The bundle {file} has more than the {MAX_CONFIG_MAP_BYTES:,} bytes of a ConfigMap, also compressed; put "
            f"it into a StorageLocation, and write a Resend with bundle.storageRef and path."
        )
    chosen = way.name or f"bundle-{bundle.sha256[:12]}"
    spec = {
        "diodeRef": {"name": way.diode},
        "kafkaRef": {"name": way.kafka},
        "bundle": {"configMap": {"name": chosen, "key": BUNDLE_KEY}, "sha256": bundle.sha256},
        "mode": way.mode,
    }
    found = store.find(RESEND, namespace, chosen)
    if found is not None:
        _check_same(chosen, spec, found["spec"])
        return Imported(chosen, bundle.missing, is_new=False)
    metadata = {"name": chosen, "namespace": namespace}
    packed = base64.b64encode(content).decode("ascii")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {BUNDLE_KEY: packed}}
    is_written = store.create_if_absent(config_map)
    if not is_written:
        _check_unchanged(store.object(CONFIG_MAP, namespace, chosen), {BUNDLE_KEY: packed})
    try:
        store.create_if_absent({"apiVersion": API_VERSION, "kind": "Resend", "metadata": metadata, "spec": spec})
    except ConfigurationError:
        if is_written:
            store.remove(CONFIG_MAP, namespace, chosen)
        raise
    return Imported(chosen, bundle.missing, is_new=True)


def _compressed(file: Path) -> bytes:
    """Return a file in gzip form, as far as it fits into a ConfigMap and a little more; it may be of any size."""
    output = io.BytesIO()
    with file.open("rb") as content:
        is_compressed = content.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        content.seek(0)
        if is_compressed:
            return content.read(MAX_CONFIG_MAP_BYTES + 1)
        with gzip.GzipFile(fileobj=output, mode="wb", mtime=0) as packed:
            while output.tell() <= MAX_CONFIG_MAP_BYTES and (piece := content.read(_PIECE_BYTES)):
                packed.write(piece)
    return output.getvalue()


def _check_unchanged(config_map: dict[str, Any], content: dict[str, str]) -> None:
    """Raise ConfigurationError unless a ConfigMap has this content, and will stay."""
    name = config_map["metadata"]["name"]
    if config_map.get("binaryData") != content:
        raise ConfigurationError(f"The ConfigMap {name} exists with other content; give another name with --name.")
    if config_map["metadata"].get("deletionTimestamp"):
        raise ConfigurationError(f"The ConfigMap {name} is being deleted: import the bundle again when it is gone.")


def _check_same(name: str, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise ConfigurationError unless a Resend sends the same bundle over the same Diode."""
    for field in ("diodeRef", "kafkaRef"):
        if found.get(field) != wanted[field]:
            raise ConfigurationError(f"The Resend {name} exists with another {field}; give another name with --name.")
    if found.get("bundle", {}).get("sha256") != wanted["bundle"]["sha256"]:
        raise ConfigurationError(f"The Resend {name} exists with another bundle; give another name with --name.")
