"""A small disk that a test can fill."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_BALLAST = "ballast"

# Holds the disk until its input is closed, which the kernel does also for a test process that somebody kills.
_HOLD = 'mount -t tmpfs -o "size=$1" tmpfs "$2" || exit 1; echo mounted; read -r _; umount "$2" || umount --lazy "$2"'


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "64k") -> Iterator[Path]:
    """Mount a tmpfs of `size` in a new folder while the block and this process last; skip without the right."""
    mount_point = folder / "small"
    mount_point.mkdir()
    holder = subprocess.Popen(
        ["sh", "-c", _HOLD, "sh", size, mount_point],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with holder:
        assert holder.stdin
        assert holder.stdout
        if not holder.stdout.readline():
            pytest.skip("mounting needs root")
        try:
            yield mount_point
        finally:
            holder.stdin.close()
            assert holder.wait() == 0


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
