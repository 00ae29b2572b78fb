from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from kit.cluster.archives import ImageForm, write_archive

FORM = ImageForm("docker.io/kit/thing:1", ("/bin/thing",), "65535:65535", {"PATH": "/bin"})


def tree(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "thing").write_bytes(b"#!/bin/sh\n")
    (root / "bin" / "thing").chmod(0o755)
    (root / "bin" / "alias").symlink_to("thing")
    return root


def test_the_same_tree_makes_the_same_archive(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_archive(FORM, tree(tmp_path / name), tmp_path / f"{name}.tar")
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_every_blob_is_named_by_its_digest_and_the_layer_holds_the_tree(tmp_path: Path) -> None:
    write_archive(FORM, tree(tmp_path / "root"), tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        blobs = {}
        for entry in archive.getmembers():
            content = archive.extractfile(entry)
            assert content is not None
            blobs[entry.name] = content.read()
    for name, content in blobs.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    index = json.loads(blobs["index.json"])
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == FORM.name
    manifest = json.loads(blobs["blobs/sha256/" + index["manifests"][0]["digest"].removeprefix("sha256:")])
    config = json.loads(blobs["blobs/sha256/" + manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"]["User"] == "65535:65535"
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
