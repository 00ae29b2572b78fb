"""The times in an image, which say nothing of when it was built, so that the same content makes the same image.

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
_OURS = "opt/gapless"
"""The folder in the first layer on a base image."""
LATEST = 1_577_836_800
"""2020-01-01: before any build, also one whose layers an engine takes from its cache, and the same in each release."""


def settle_times(archive: Path, time: int, into: Path) -> None:
    """Write an image again, with times that do not depend on when it was built.

    The image is of the release's time; files in our layers are of 2020-01-01, or older. So a layer that is the same in
    two releases has the same digest. Layers of the base image stay as they are.

    Args:
        archive: of one image.
        time: of the release, in seconds since 1970.
        into: the new archive.

    Raises:
        ReleaseError: the archive is not one of one image.
    """
    created = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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
        digests, is_ours = [], False
        for source in sources:
            layer = Path(made) / "layer"
            is_ours = is_ours or _is_ours(source)
            (_settle_layer if is_ours else _copy_layer)(source, layer)
            digests.append(digest_of(layer))
            settled.add(layer, f"{digests[-1]}.tar")
        config["rootfs"]["diff_ids"] = [f"sha256:{digest}" for digest in digests]
        for dated in (config, *config.get("history", ())):
            dated["created"] = created
        _add(settled, "config.json", config)
        layers = [f"{digest}.tar" for digest in digests]
        _add(settled, "manifest.json", [{**image, "Config": "config.json", "Layers": layers}])


def _is_ours(source: IO[bytes]) -> bool:
    with tarfile.open(fileobj=source) as layer:
        found = any(member.name.removeprefix("./").startswith(_OURS) for member in layer)
    source.seek(0)
    return found


def _copy_layer(source: IO[bytes], into: Path) -> None:
    with into.open("wb") as copy:
        shutil.copyfileobj(source, copy)


def _settle_layer(source: IO[bytes], into: Path) -> None:
    with tarfile.open(fileobj=source) as layer, tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as settled:
        for member in layer:
            member.mtime = min(int(member.mtime), LATEST)
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
