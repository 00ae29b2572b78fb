"""A small disk that a test can fill."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_BALLAST = "ballast"


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "64k") -> Iterator[Path]:
    """Mount a tmpfs of `size` in a new folder while the block lasts; skip the test if mounting is not permitted."""
    mount_point = folder / "small"
    mount_point.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mount_point], check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", mount_point], check=True)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill a disk while the block lasts."""
    ballast = disk / _BALLAST
    with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()
