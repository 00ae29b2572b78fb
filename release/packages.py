"""The Python packages of a release: our wheels and sdists, and the wheels of others, checked by their hashes."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from release.sources import PARTS, Sources
from release.steps import ReleaseError, run, say

ARCHITECTURES = ("x86_64", "aarch64")
VERSIONS = ("3.11", "3.12", "3.13")
"""Of Python; of 3.14 some packages have no wheels yet."""
_SOURCE_ONLY = "pyspark"
"""A package without a wheel on the index; it is built here, and serves all targets."""
_GLIBC = (28, 27, 26, 24, 17, 12, 5)
"""Minor versions of glibc 2 that a wheel may need: 2.28 is that of the oldest systems that we name."""
_ITS_LINES = re.compile(rf"(?ms)^{_SOURCE_ONLY}==.*?(?=^\S|\Z)")
"""What a lock file says of it: the version, and the hashes on the lines that follow."""


@dataclass(frozen=True)
class Target:
    """What a wheel or a program is for."""

    python: str
    """Such as 3.11."""
    architecture: str

    @classmethod
    def own(cls) -> Target:
        """Return that of this process."""
        return cls("{}.{}".format(*sys.version_info), platform.machine())

    @property
    def tag(self) -> str:
        """Its name in the names of files."""
        return f"cp{self.python.replace('.', '')}-{self.architecture}"

    @property
    def platforms(self) -> list[str]:
        """The platform tags of wheels that run there."""
        numbered = [f"manylinux_2_{minor}_{self.architecture}" for minor in _GLIBC]
        return [*numbered, f"manylinux2014_{self.architecture}", f"manylinux1_{self.architecture}"]

    @property
    def for_uv(self) -> tuple[str, ...]:
        """Its name for uv."""
        return ("--python-version", self.python, "--python-platform", f"{self.architecture}-manylinux_2_28")


def build_own(sources: Sources, uv: Path, into: Path) -> None:
    """Build a wheel and an sdist of each part."""
    say(f"our packages, version {sources.version}")
    for part in PARTS:
        run(
            *(uv, "build", "--quiet", "--wheel", "--sdist", "--no-build-isolation", "--python", sys.executable),
            *("--out-dir", into, sources.folder / part),
            variables={"SOURCE_DATE_EPOCH": str(sources.time)},
        )
    (into / ".gitignore").unlink(missing_ok=True)


def fetch_others(lock: Path, targets: Iterable[Target], uv: Path, into: Path) -> None:
    """Get the wheels that a lock file names, for all targets.

    Args:
        lock: with versions and hashes for all platforms.
        targets: what they are for.
        uv: the program.
        into: the folder for the wheels.

    Raises:
        ReleaseError: the index has no wheel for a target, or one with another hash.
    """
    listed = into.parent / "listed.txt"
    for target in targets:
        say(f"packages of others for Python {target.python} on {target.architecture}")
        wanted = ("--generate-hashes", "--no-deps", "--no-header", "--no-annotate", "--no-emit-index-url")
        run(uv, "pip", "compile", "--quiet", *wanted, *target.for_uv, lock, "--output-file", listed)
        listed.write_text(_ITS_LINES.sub("", listed.read_text()))
        platforms = [option for platform in target.platforms for option in ("--platform", platform)]
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--only-binary=:all:", "--python-version", target.python, *platforms),
            *("--dest", into, "--requirement", listed),
        )
    listed.unlink(missing_ok=True)


def build_spark(lock: Path, sources: Sources, into: Path) -> None:
    """Build the wheel of PySpark from its sdist. It is the same for all targets."""
    say("PySpark, whose wheel is built from 434 MB")
    found = _ITS_LINES.search(lock.read_text())
    if found is None:
        raise ReleaseError(f"{lock} does not name {_SOURCE_ONLY}.")
    wanted = into.parent / "wanted.txt"
    wanted.write_text(found.group())
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--no-build-isolation", "--require-hashes", "--wheel-dir", into, "--requirement", wanted),
        variables={"SOURCE_DATE_EPOCH": str(sources.time)},
    )
    wanted.unlink()
