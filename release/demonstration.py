"""The demonstration in a release: its program, the kit that it runs on, and Kafka; must not know what it shows."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from release.steps import run, say

if TYPE_CHECKING:
    from release.sources import Sources

_KIT = Path("tests/kit")
_PARTS = (
    "certificates.py",
    "kafka",
    "machine",
    "network",
    "peer",
    "story/__init__.py",
    "story/archive_act.py",
    "story/demo.py",
)
_LIST_JARS = "from kit.kafka.jars import broker_jars; print(*broker_jars(), sep='\\n')"


def pack_demonstration(sources: Sources, into: Path) -> None:
    """Write the program ``gapless-demo``, and the folder ``demo`` with what it needs beside the wheels.

    Raises:
        ReleaseError: there is no Maven, or it cannot fetch the jars of Kafka.
    """
    say("the demonstration, with the jars of Kafka (44 MB, by Maven)")
    demo = into / "demo"
    for part in _PARTS:
        source, target = sources.folder / _KIT / part, demo / "kit" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
    jars = [
        Path(line) for line in run(sys.executable, "-c", _LIST_JARS, variables=_environment(sources)).split("\n")[:-1]
    ]
    place = Path(*jars[0].parent.parts[-2:])
    (demo / place).mkdir(parents=True)
    for jar in jars:
        shutil.copyfile(jar, demo / place / jar.name)
    text = (Path(__file__).parent / "demo" / "gapless-demo").read_text(encoding="utf-8")
    program = into / "gapless-demo"
    program.write_text(text.replace("@VERSION@", sources.version).replace("@JARS@", str(place)))
    program.chmod(0o755)


def _environment(sources: Sources) -> dict[str, str]:
    return {"PYTHONPATH": str(sources.folder / _KIT.parent), "PYTHONDONTWRITEBYTECODE": "1"}
