"""The program in one file, `gapless.pyz`: all but Spark, for one version of Python and one architecture.

It unpacks itself once per user, and starts from there. What is imported from the archive itself is deflated. All else
is packed by LZMA, which makes it a quarter smaller.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from release.steps import run, say

if TYPE_CHECKING:
    from release.packages import Target

_EXTRAS = "archive,kubernetes,qr"
_NOT_NEEDED = (
    "bin/*",
    "pyarrow/include",
    "pyarrow/includes",
    "pyarrow/src",
    "pyarrow/tests",
    "pyarrow/*.pyx",
    "pyarrow/*.pxi",
    "pyarrow/*.pxd",
    "pyarrow/*flight*",
    "pyarrow/*s3*",
    "pyarrow/*gcsfs*",
    "pyarrow/*azurefs*",
    "pyarrow/*hdfs*",
    "pyarrow/*orc*",
    "pyarrow/*substrait*",
    "pyarrow/*_cuda*",
    "pyarrow/*_tests*",
    "pyarrow/libarrow_python.so",
    "pyarrow/libarrow_python.so.*.*.*",
    "*/tests",
)
"""What the commands never import: other programs, headers, tests, and file systems and formats of pyarrow."""
_ZIPPED = "site-packages/"
_TIME = (1980, 1, 1, 0, 0, 0)


def install_site(wheels: Path, target: Target, uv: Path, site: Path) -> None:
    """Install all but Spark into a folder, and delete what the commands never import.

    Args:
        wheels: the folder with all wheels of the target.
        target: what it is for.
        uv: the program.
        site: the folder.
    """
    from_wheels = ("--no-index", "--find-links", str(wheels), "--only-binary", ":all:")
    to_site = ("--target", str(site), *target.for_uv)
    run(uv, "pip", "install", "--quiet", *from_wheels, *to_site, f"gapless[{_EXTRAS}]")
    for pattern in _NOT_NEEDED:
        for path in site.glob(pattern):
            if path.name != "gapless":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def build_program(site: Path, target: Target, into: Path) -> None:
    """Write `gapless-TARGET.pyz` into a folder.

    Args:
        site: the folder of its packages.
        target: what it is for.
        into: the folder.
    """
    say(f"the program in one file for Python {target.python} on {target.architecture} (packing takes two minutes)")
    made = into.parent / f"{target.tag}.pyz"
    preamble = Path(__file__).with_name("check_python.py")
    run(
        *(sys.executable, "-m", "shiv", "--site-packages", site, "--console-script", "gapless", "--reproducible"),
        *("--preamble", preamble, "--extend-pythonpath", "--compile-pyc", "--output-file", made),
    )
    packed = into / f"gapless-{target.tag}.pyz"
    repack(made, packed, f"#!/usr/bin/env python{target.python}\n".encode())
    made.unlink()


def repack(archive: Path, into: Path, first_line: bytes) -> None:
    """Pack the installed packages of an archive by LZMA; the result is the same for the same content."""
    with zipfile.ZipFile(archive) as source, into.open("wb") as file:
        file.write(first_line)
        with zipfile.ZipFile(file, "w") as target:
            for entry in sorted(source.infolist(), key=lambda each: each.filename):
                packed = zipfile.ZipInfo(entry.filename, _TIME)
                packed.external_attr = entry.external_attr
                is_package = entry.filename.startswith(_ZIPPED)
                packed.compress_type = zipfile.ZIP_LZMA if is_package else zipfile.ZIP_DEFLATED
                target.writestr(packed, source.read(entry))
    into.chmod(0o755)
