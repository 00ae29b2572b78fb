"""Owns the record of what a person types and sees, as a page of documentation; must not know what a command is for.

`python -m kit.story.walkthrough RECORD PAGE` makes a page of a record: what differs from run to run (ages, dates,
addresses) is replaced, so that the page stays as it is while the product does.
"""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH = 118
_CHANGING = (
    (re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"), "2026-11-21T03:00:00Z"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} at [0-9:]+"), "2026-11-21 at 03:00"),
    (re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}"), "20261121-030000-0a1b2c3d"),
    (re.compile(r"(?<=[ ])(?:[0-9]+h)?(?:[0-9]+m)?[0-9]+[sm](?= |$)", re.MULTILINE), "…"),
    (re.compile(r"\b[0-9]+(?:[.][0-9]+){3}:[0-9]+\b"), "kafka:9092"),
    (re.compile(r"(?<=port: )[0-9]{4,5}\b"), "1234"),
    (re.compile(r"(?<=Port:  )[0-9]{4,5}\b"), "1234"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0a1b2c3d…"),
    (re.compile(r"MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}="), "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "0a1b2c3d-…"),
)


class Walkthrough:
    """Writes files, commands and answers down.

    Args:
        record: where; begun anew.
        folder: where the files are that a person writes and carries.
        run: runs kubectl with arguments and returns what it printed.
    """

    def __init__(self, record: Path, folder: Path, run: Callable[..., str]) -> None:
        self._record = record
        self._folder = folder
        self._run = run
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("")

    def stage(self, title: str, *paragraphs: str) -> None:
        """Begin a stage, and say what it is about."""
        self.write("\n\n".join((f"\n## {title}", *(textwrap.fill(text, _WIDTH) for text in paragraphs))) + "\n")

    def file(self, name: str, text: str, *, shown: bool = True) -> Path:
        """Write a file of the person's, and show it."""
        path = self._folder / name
        path.write_text(text)
        if shown:
            self.write(f"\n`{name}`:\n\n```yaml\n{text.rstrip()}\n```\n")
        return path

    def type(self, line: str, answer: str = "") -> None:
        """Record a line that was typed, and its answer."""
        self.write(f"\n```console\n$ {line}\n{answer}{'' if not answer or answer.endswith(chr(10)) else chr(10)}```\n")

    def kubectl(self, *arguments: str, into: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl, record it, and return what it printed. ``NAME.yaml`` is a file of the person's.

        Args:
            arguments: of kubectl.
            into: the file of the person's that the answer goes into.
            timeout_seconds: how long it may take.
        """
        given = [str(self._folder / one) if one.endswith(".yaml") else one for one in arguments]
        said = self._run(*given, timeout_seconds=timeout_seconds)
        line = f"kubectl {shlex.join(arguments)}"
        if into is None:
            self.type(line, said.replace(f"{self._folder}/", ""))
        else:
            self.type(f"{line} > {into}")
            self.file(into, said, shown=False)
        return said

    def write(self, text: str) -> None:
        """Write as it is."""
        with self._record.open("a") as stream:
            stream.write(text)


def steady(text: str) -> str:
    """Replace what changes from run to run."""
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text


def main() -> None:
    """Make a page of a record."""
    record, page = (Path(name) for name in sys.argv[1:3])
    page.write_text(steady(record.read_text()).lstrip("\n"))


if __name__ == "__main__":
    main()
