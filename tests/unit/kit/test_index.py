"""The index of the kit names every module of it, and nothing else."""

import re
from pathlib import Path

KIT = Path(__file__).parents[2] / "kit"


def test_the_index_has_one_line_for_each_module() -> None:
    listed = []
    folder = KIT
    for line in (KIT / "README.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## (\w+)/", line):
            folder = KIT / heading[1]
        elif line == "## Top":
            folder = KIT
        elif entry := re.match(r"\| `(\w+\.py)` \| ", line):
            listed.append(folder / entry[1])
    assert sorted(listed) == sorted(path for path in KIT.rglob("*.py") if path.name != "__init__.py")
