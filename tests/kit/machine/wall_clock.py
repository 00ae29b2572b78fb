"""A wall clock that a test can move while a program runs. Must not know what the program does.

The machine's clock is shared, and time namespaces do not cover CLOCK_REALTIME, so a preloaded library (`wall_clock.c`)
replaces the calls.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


def compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return shutil.which("cc")


class WallClock:
    """The wall clock of programs that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        """Compile the library in `folder`. Raises CalledProcessError when that fails."""
        self._seconds = folder / "clock"
        self._library = folder / "wall_clock.so"
        self._seconds.write_bytes(bytes(8))
        subprocess.run(
            [compiler() or "cc", "-O1", "-shared", "-fPIC", "-o", self._library, _SOURCE, "-ldl"], check=True
        )

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for a program."""
        return {"LD_PRELOAD": str(self._library), "GAPLESS_TEST_CLOCK": str(self._seconds)}

    def jump(self, seconds: int) -> None:
        """Set the clock `seconds` ahead of the machine's, or behind if negative; takes effect at once."""
        with self._seconds.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))
