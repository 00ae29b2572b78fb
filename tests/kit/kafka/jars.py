"""Owns the jars of the test broker in the cache and its class archive. Must not know topics, listeners or clients."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kit.machine.maven import alone, cache_folder, jars_of

if TYPE_CHECKING:
    from collections.abc import Iterator

KAFKA_VERSION = "4.3.1"
_POM = Path(__file__).with_name("pom.xml")

SMALL_AND_QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of every JVM of the kit; the class archive is only valid with the same collector."""


def java() -> Path:
    """Return the java program: of JAVA_HOME if set, else of the PATH.

    Raises:
        FileNotFoundError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise FileNotFoundError("The test broker needs Java 17 or newer: run `make deps` or install a JRE.")
    return Path(found).resolve()


def _pom_digest() -> str:
    return hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]


def broker_jars() -> list[Path]:
    """Return the jars of the broker in a fixed order; fetch them when the cache has none. Raises RuntimeError."""
    return jars_of(_POM, f"kafka-{KAFKA_VERSION}", f"Kafka {KAFKA_VERSION} (44 MB of jars, by Maven)")


def class_path() -> str:
    """Return the class path; always in one order, because the class archive is tied to it."""
    return os.pathsep.join(str(jar) for jar in broker_jars())


def class_archive() -> Path:
    """Return where the class archive for this java and these jars belongs; it may not exist yet."""
    program = java()
    status = program.stat()
    identity = f"{program}|{status.st_mtime_ns}|{_pom_digest()}|{SMALL_AND_QUICK}"
    name = f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
    return cache_folder() / f"kafka-{KAFKA_VERSION}" / name


@contextmanager
def archive_being_made() -> Iterator[Path | None]:
    """Give the one caller that shall make the class archive a temporary path for it, everyone else None.

    The archive is put in place when the block ends and the file is there. Whoever comes meanwhile waits, which costs
    the same as starting without the archive.
    """
    target = class_archive()
    if target.exists():
        yield None
        return
    with alone(cache_folder() / "kafka-archive.lock"):
        if target.exists():
            yield None
            return
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            yield temporary
            if temporary.exists():
                temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)
