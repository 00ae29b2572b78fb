"""The cache of downloads and builds that a machine needs once, its locks, and the jars from Maven in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for downloads and builds that a machine needs once."""
    configured = os.environ.get("GAPLESS_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapless"


@contextmanager
def file_lock(lock: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, so that of several processes one does the work and the others wait."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def jars_of(pom: Path, folder_name: str, announcement: str) -> list[Path]:
    """Return the runtime dependencies of `pom` in a fixed order, from the cache or from Maven.

    Args:
        pom: names the jars; its digest is part of the folder name, so a changed file gets a new folder.
        folder_name: the parent folder in the cache.
        announcement: printed before a download.

    Raises:
        RuntimeError: Maven failed; contains the end of its output.
    """
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / folder_name / f"jars-{digest}"
    if not folder.is_dir():
        with file_lock(cache_folder() / f"{folder_name}-jars.lock"):
            if not folder.is_dir():
                print(f"==> {announcement} into {folder}", file=sys.stderr, flush=True)
                _fetch(pom, folder)
    return sorted(folder.glob("*.jar"))


def _fetch(pom: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as temporary:
        jars = Path(temporary) / "jars"
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        maven = subprocess.run(["mvn", "-q", "-B", "-f", pom, *goal], check=False, capture_output=True, text=True)
        if maven.returncode != 0 or not any(jars.glob("*.jar")):
            raise RuntimeError(f"Maven could not fetch the jars of {pom.name}: {(maven.stdout + maven.stderr)[-2000:]}")
        jars.rename(folder)
