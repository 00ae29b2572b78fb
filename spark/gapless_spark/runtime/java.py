"""Owns the check that this machine has a Java which Spark 4.0 supports; must not know Spark's settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from gapless_api.base.errors import ConfigurationError

_SUPPORTED = (17, 21)
_HOW = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"


def check_java() -> None:
    """Check that Spark 4.0 supports the ``java`` that it will start.

    Raises:
        ConfigurationError: there is none, it does not run, or it has another version.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if program is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise ConfigurationError(f"Spark needs Java 17 or 21, but there is no java {place}; {_HOW}.")
    version = _version_of_release_file(Path(program)) or _version_of_program(program)
    if version not in _SUPPORTED:
        found = f"{program} is Java {version}" if version else f"the version of {program} is unknown"
        raise ConfigurationError(f"Spark needs Java 17 or 21, but {found}; {_HOW}.")


def _version_of_release_file(program: Path) -> int | None:
    """Read the version from the file ``release`` of a JDK, which is faster than starting a JVM."""
    try:
        text = (program.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return _major(text, r'^JAVA_VERSION="([0-9.]+)')


def _version_of_program(program: str) -> int | None:
    try:
        ended = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(ended.stderr, r'version "([0-9.]+)')


def _major(text: str, pattern: str) -> int | None:
    """Return the major version; 1 for Java 8 and older, which call themselves 1.x."""
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1].split(".")[0]) if match else None
