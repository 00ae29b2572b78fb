"""Writing a folder as an OCI image archive for containerd and Docker; must not know what is in the folder."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.cluster.architectures import ARCHITECTURES, machine


@dataclass(frozen=True)
class ImageForm:
    """The configuration of an image."""

    name: str
    """Including the registry, such as docker.io/gapless-kit/busybox:1."""
    command: tuple[str, ...]
    user: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Return how it is started, as the configuration of an image says it."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return {"Cmd": list(self.command), "User": self.user, "Env": variables, "WorkingDir": "/"}


def write_archive(form: ImageForm, root: Path, archive: Path) -> None:
    """Write the tree below `root` as a reproducible one-layer image, and rename it to `archive` when it is complete."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    layer = blob(_layer(root), "application/vnd.oci.image.layer.v1.tar")
    platform_fields = {"architecture": ARCHITECTURES.get(machine(), machine()), "os": "linux"}
    config = blob(
        _json(
            {**platform_fields, "config": form.settings(), "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
        ),
        "application/vnd.oci.image.config.v1+json",
    )
    manifest_kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = blob(
        _json({"schemaVersion": 2, "mediaType": manifest_kind, "config": config, "layers": [layer]}), manifest_kind
    )
    names = {"io.containerd.image.name": form.name, "org.opencontainers.image.ref.name": form.name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": names, "platform": platform_fields}]}
    temporary = archive.with_suffix(".new")
    with tarfile.open(temporary, "w") as tar:
        _put(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for digest, content in blobs.items():
            _put(tar, f"blobs/sha256/{digest}", content)
        _put(tar, "index.json", _json(index))
    temporary.rename(archive)


def pack_root(form: ImageForm, root: Path, architecture: str, archive: Path) -> None:
    """Write a tar file of a root file system as a one-layer image for an architecture, as ``docker save`` does."""
    with root.open("rb") as layer:
        digest = hashlib.file_digest(layer, "sha256").hexdigest()
    config = {
        "architecture": ARCHITECTURES.get(architecture, architecture),
        "os": "linux",
        "config": form.settings(),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    with tarfile.open(archive, "w") as tar:
        tar.add(root, "layer.tar")
        _put(tar, "config.json", _json(config))
        _put(tar, "manifest.json", _json([{"Config": "config.json", "RepoTags": [form.name], "Layers": ["layer.tar"]}]))


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _put(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))


def _layer(root: Path) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(root)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            if entry.isreg():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return written.getvalue()
