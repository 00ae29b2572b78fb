"""Owns a wall clock that a test can put forward and back under a running program. Must not know what the program does.

The machine's own clock is everybody's, and time namespaces have no wall clock of their own: a small library that is
loaded before all others answers instead (`wall_clock.c`).
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return shutil.which("cc")


class WallClock:
    """The clock of the programs that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        """Make the library in `folder`. Raises CalledProcessError when the compiler refuses."""
        self._seconds = folder / "clock"
        self._library = folder / "wall_clock.so"
        self._seconds.write_bytes(bytes(8))
        subprocess.run(
            [compiler() or "cc", "-O1", "-shared", "-fPIC", "-o", self._library, _SOURCE, "-ldl"], check=True
        )

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment."""
        return {"LD_PRELOAD": str(self._library), "GAPLESS_TEST_CLOCK": str(self._seconds)}

    def jump(self, seconds: int) -> None:
        """Let the clock be `seconds` before (or, below zero, behind) the machine's, at once."""
        with self._seconds.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))
