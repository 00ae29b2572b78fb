"""Owns the times in an image: none is later than the release, so that the same content makes the same image.

Must not know which images there are, nor how one is built. Reads and writes archives of ``docker save``.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from release.listing import digest_of
from release.steps import ReleaseError

_TIMES = ("mtime", "atime", "ctime")
"""What a member of an archive may say about times beside its own field."""


def settle_times(archive: Path, time: int, into: Path) -> None:
    """Write an image again, in which what is later than `time` is of that time.

    Layers without anything later keep their digests, as those of a base image do.

    Args:
        archive: of one image.
        time: of the release, in seconds since 1970.
        into: the new archive.

    Raises:
        ReleaseError: the archive is not one of one image.
    """
    latest = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with (
        tarfile.open(archive) as packed,
        tarfile.open(into, "w") as settled,
        TemporaryDirectory(dir=into.parent) as made,
    ):
        try:
            [image] = json.load(_content(packed, "manifest.json"))
            config = json.load(_content(packed, image["Config"]))
            sources = [_content(packed, name) for name in image["Layers"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ReleaseError(f"{archive.name} is not the archive of one image ({error}).") from None
        digests = []
        for source in sources:
            layer = Path(made) / "layer"
            _settle_layer(source, time, layer)
            digests.append(digest_of(layer))
            settled.add(layer, f"{digests[-1]}.tar")
        config["rootfs"]["diff_ids"] = [f"sha256:{digest}" for digest in digests]
        for dated in (config, *config.get("history", ())):
            dated["created"] = min(dated.get("created", latest), latest)
        _add(settled, "config.json", config)
        layers = [f"{digest}.tar" for digest in digests]
        _add(settled, "manifest.json", [{**image, "Config": "config.json", "Layers": layers}])


def _settle_layer(source: IO[bytes], time: int, into: Path) -> None:
    with tarfile.open(fileobj=source) as layer:
        if all(member.mtime <= time for member in layer):
            source.seek(0)
            with into.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            return
        with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as settled:
            for member in layer:
                member.mtime = min(int(member.mtime), time)
                member.pax_headers = {name: each for name, each in member.pax_headers.items() if name not in _TIMES}
                settled.addfile(member, layer.extractfile(member) if member.isreg() else None)


def _content(packed: tarfile.TarFile, name: str) -> IO[bytes]:
    content = packed.extractfile(name)
    if content is None:
        raise ValueError(f"{name} is a folder")
    return content


def _add(packed: tarfile.TarFile, name: str, content: Any) -> None:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    member = tarfile.TarInfo(name)
    member.size = len(text)
    packed.addfile(member, io.BytesIO(text))
