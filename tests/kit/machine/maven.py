"""Owns the cache of what is fetched or made once per machine, and how jars come there. Must not know what they do."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_folder() -> Path:
    """Return the folder for things that are fetched or made once per machine."""
    named = os.environ.get("GAPLESS_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapless"


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that parallel test runs make a thing once and the others wait for it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def jars_of(pom: Path, folder_name: str, announcement: str) -> list[Path]:
    """Return the runtime jars that `pom` names, in a fixed order; fetch them when the cache has none.

    Args:
        pom: names the jars; the folder in the cache carries its digest, so another choice never meets the old one.
        folder_name: of the folder in the cache that holds such folders.
        announcement: what is said before jars are fetched, for a first run that takes its time.

    Raises:
        RuntimeError: Maven failed; the message holds its last words.
    """
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / folder_name / f"jars-{digest}"
    if not folder.is_dir():
        with alone(cache_folder() / f"{folder_name}-jars.lock"):
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
