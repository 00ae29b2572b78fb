"""The times in our layers do not say when an image was built; all else stays, and so do the layers of its base."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release.layers import settle_times
from release.steps import ReleaseError

RELEASED = 1_700_000_000
"""2023-11-14T22:13:20Z."""
FIXED = 1_577_836_800
"""2020-01-01T00:00:00Z."""
CAPABILITY = "SCHILY.xattr.security.capability"


def member(name: str, time: float, **fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.mtime = time
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def layer(built: float, folder: str = "opt/gapless") -> bytes:
    """Return a layer with what an image can have, as one engine packs it at a time."""
    packed = io.BytesIO()
    headers = {CAPABILITY: "kept", "mtime": f"{built}", "atime": f"{built}"}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member(folder, built, type=tarfile.DIRTYPE, mode=0o1777, uid=65532))
        archive.addfile(member("opt/old", 5, size=3), io.BytesIO(b"old"))
        archive.addfile(member("opt/new", built, size=3, mode=0o755, pax_headers=headers), io.BytesIO(b"new"))
        archive.addfile(member("opt/hard", built, type=tarfile.LNKTYPE, linkname="opt/new"))
        archive.addfile(member("opt/soft", built, type=tarfile.SYMTYPE, linkname="new"))
        archive.addfile(member("opt/.wh.gone", built))
    return packed.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(member(name, 0, size=len(content)), io.BytesIO(content))


def saved(into: Path, layers: list[bytes], created: str) -> Path:
    """Write an archive as ``docker save`` does."""
    history = [{"created": "2020-01-01T00:00:00Z", "created_by": "base"}, {"created": created, "created_by": "RUN x"}]
    diff_ids = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    config = {"created": created, "history": history, "rootfs": {"type": "layers", "diff_ids": diff_ids}, "os": "linux"}
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    with tarfile.open(into, "w") as archive:
        for name, each in zip(names, layers, strict=True):
            add(archive, name, each)
        add(archive, "ab.json", json.dumps(config).encode())
        add(
            archive, "manifest.json", json.dumps([{"Config": "ab.json", "RepoTags": ["x:1"], "Layers": names}]).encode()
        )
    return into


def read(file: Path) -> tuple[dict[str, Any], dict[str, Any], list[bytes]]:
    with tarfile.open(file) as archive:
        content = {each.name: archive.extractfile(each) for each in archive}
        parts = {name: each.read() for name, each in content.items() if each is not None}
    [manifest] = json.loads(parts["manifest.json"])
    return manifest, json.loads(parts[manifest["Config"]]), [parts[name] for name in manifest["Layers"]]


def test_what_was_built_at_another_time_is_the_same_image(tmp_path: Path) -> None:
    # The first took a layer from the cache of a build before the commit.
    first = saved(tmp_path / "first.tar", [layer(RELEASED - 500.25)], "2023-01-01T10:00:00.123Z")
    second = saved(tmp_path / "second.tar", [layer(RELEASED + 99)], "2026-07-01T10:00:00Z")
    for each in (first, second):
        settle_times(each, RELEASED, each.with_suffix(".settled"))
    assert read(first.with_suffix(".settled")) == read(second.with_suffix(".settled"))
    manifest, config, [settled] = read(first.with_suffix(".settled"))
    assert manifest["RepoTags"] == ["x:1"]
    assert {each["created"] for each in (config, *config["history"])} == {"2023-11-14T22:13:20Z"}
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(settled).hexdigest()}"]


def view(packed: bytes) -> list[tuple[object, ...]]:
    """Return all of the members of a layer but their times."""
    seen: list[tuple[object, ...]] = []
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for each in archive:
            content = archive.extractfile(each) if each.isreg() else None
            fields = (each.name, each.type, each.mode, each.uid, each.linkname, each.pax_headers.get(CAPABILITY))
            seen.append((*fields, content and content.read()))
    return seen


def test_only_times_change(tmp_path: Path) -> None:
    built = layer(RELEASED + 5.25)
    settle_times(saved(tmp_path / "image.tar", [built], "2026-01-01T10:00:00Z"), RELEASED, tmp_path / "settled.tar")
    [settled] = read(tmp_path / "settled.tar")[2]
    assert view(settled) == view(built)
    assert ("opt/new", tarfile.REGTYPE, 0o755, 0, "", "kept", b"new") in view(settled)
    with tarfile.open(fileobj=io.BytesIO(settled)) as archive:
        times = {each.name: each.mtime for each in archive}
    new = ("opt/gapless", "opt/new", "opt/hard", "opt/soft", "opt/.wh.gone")
    assert times == {**dict.fromkeys(new, FIXED), "opt/old": 5}


def test_the_layers_of_the_base_image_stay(tmp_path: Path) -> None:
    base, ours = layer(RELEASED, "opt/another"), layer(RELEASED)
    settle_times(
        saved(tmp_path / "image.tar", [base, ours, base], "2026-01-01T10:00:00Z"), RELEASED, tmp_path / "settled"
    )
    layers = read(tmp_path / "settled")[2]
    assert layers[0] == base
    assert base not in layers[1:]
    assert ours not in layers


def test_an_archive_of_two_images_is_one_sentence(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "two.tar", "w") as archive:
        add(archive, "manifest.json", b"[{}, {}]")
    with pytest.raises(ReleaseError, match=r"two\.tar is not the archive of one image"):
        settle_times(tmp_path / "two.tar", RELEASED, tmp_path / "settled.tar")
