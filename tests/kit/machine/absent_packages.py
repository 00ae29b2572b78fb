"""Running `gapless` in an installation from which packages are really absent; must not know which it needs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]
PARTS = ("crds", "kafka", "mirror", "archive", "sender", "spark", "operator")
"""The folders of the product's parts."""


def run_without(folder: Path, absent: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``gapless`` in `folder`, where links stand for all installed packages but those of some names.

    Args:
        folder: writable; the links are made once.
        absent: with what the names begin: of other packages, or of modules of ours.
        arguments: of ``gapless``.
    """
    site = folder / "site"
    if not site.exists():
        site.mkdir()
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.startswith(absent) and entry.suffix != ".pth":
                (site / entry.name).symlink_to(entry)
    own = [_CHECKOUT / name for name in PARTS if f"gapless_{name}" not in absent]
    paths = [str(path) for path in [*own, site]]
    program = f"import sys; sys.path[:0] = {paths!r}\nfrom gapless_api.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=folder
    )
