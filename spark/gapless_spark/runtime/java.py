"""Owns the question whether this machine has a Java that Spark 4.0 runs on; must not know Spark's settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from gapless_api.base.errors import ConfigurationError

_SUITABLE = (17, 21)
_HOW = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"


def check_java() -> None:
    """Make sure that the ``java`` which Spark will start is one that Spark 4.0 supports.

    Raises:
        ConfigurationError: there is none, it does not run, or it has another version.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if program is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise ConfigurationError(f"Spark needs Java 17 or 21 and there is no java {place}; {_HOW}.")
    version = _noted_version(Path(program)) or _told_version(program)
    if version not in _SUITABLE:
        found = f"{program} is Java {version}" if version else f"{program} does not tell its version"
        raise ConfigurationError(f"Spark needs Java 17 or 21, but {found}; {_HOW}.")


def _noted_version(program: Path) -> int | None:
    """Read the version from the file ``release`` of a JDK, which spares the start of a JVM."""
    try:
        noted = (program.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return _major(noted, r'^JAVA_VERSION="([0-9.]+)')


def _told_version(program: str) -> int | None:
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(told.stderr, r'version "([0-9.]+)')


def _major(text: str, pattern: str) -> int | None:
    """Java 8 called itself 1.8; all that matter here begin with their number."""
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1].split(".")[0]) if found else None
