"""The cached jars of the test broker and its class archive. Must not know topics, listeners or clients."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.machine.maven import cache_folder, file_lock, jars_of

KAFKA_VERSION = "4.3.1"
_POM = Path(__file__).with_name("pom.xml")

JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of every JVM of the kit: small and fast to start. The class archive is valid only with the same collector."""


def java() -> Path:
    """Return the java program from JAVA_HOME if that is set, else from the PATH.

    Raises:
        FileNotFoundError: Java is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if program is None:
        raise FileNotFoundError("The test broker needs Java 17 or newer: run `make deps` or install a JRE.")
    return Path(program).resolve()


def _pom_digest() -> str:
    return hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]


def broker_jars() -> list[Path]:
    """Return the broker's jars in a fixed order, from the cache or from Maven. Raises RuntimeError."""
    return jars_of(_POM, f"kafka-{KAFKA_VERSION}", f"Kafka {KAFKA_VERSION} (44 MB of jars, by Maven)")


def class_path() -> str:
    """Return the class path, always in the same order, because the class archive depends on it."""
    return os.pathsep.join(str(jar) for jar in broker_jars())


def class_archive() -> Path:
    """Return the path of the class archive for this Java and these jars; the file may not exist yet."""
    program = java()
    status = program.stat()
    identity = f"{program}|{status.st_mtime_ns}|{_pom_digest()}|{JVM_OPTIONS}"
    name = f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
    return cache_folder() / f"kafka-{KAFKA_VERSION}" / name


@contextmanager
def class_archive_to_create() -> Iterator[Path | None]:
    """Yield a temporary path for the class archive to the one caller that creates it, and None if it exists.

    The file is renamed to its final path when the block ends. Other callers wait meanwhile, which costs the same as
    starting without the archive.
    """
    target = class_archive()
    if target.exists():
        yield None
        return
    with file_lock(cache_folder() / "kafka-archive.lock"):
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
