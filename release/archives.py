"""How files are packed into one, the same at each run; must not know what they are."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_archive(files: Mapping[str, Path], time: int, into: Path) -> None:
    """Write files to a compressed tar archive.

    Args:
        files: by their names in it.
        time: of each of them, in seconds since 1970.
        into: the archive.
    """
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=time) as compressed:
        compressed.write(_pack(files, time))
    into.write_bytes(packed.getvalue())


def files_in(folder: Path, name: str) -> dict[str, Path]:
    """Return all files of a folder by their names in an archive in which the folder is called `name`."""
    return {f"{name}/{file.relative_to(folder)}": file for file in folder.rglob("*") if file.is_file()}


def _pack(files: Mapping[str, Path], time: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
