"""The record of commands and their output as a documentation page; must not know what a command is for.

`python -m kit.story.walkthrough RECORD PAGE` turns a record into a page: it replaces values that differ from run to run
(ages, dates, addresses), so that the page changes only when the product does.
"""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

_WIDTH = 118
_VOLATILE = (
    (re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"), "2026-11-21T03:00:00Z"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} at [0-9:]+"), "2026-11-21 at 03:00"),
    (re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}"), "20261121-030000-0a1b2c3d"),
    (re.compile(r"(?<=[ ])(?:[0-9]+h)?(?:[0-9]+m)?[0-9]+[sm](?= |$)", re.MULTILINE), "…"),
    (re.compile(r"\b[0-9]+(?:[.][0-9]+){3}:[0-9]+\b"), "kafka:9092"),
    (re.compile(r"(?<=port: )[0-9]{4,5}\b"), "1234"),
    (re.compile(r"(?<=Port:  )[0-9]{4,5}\b"), "1234"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0a1b2c3d…"),
    (re.compile(r"MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}="), "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="),
    (re.compile(r"\b(transfer|gaps|internal)[0-9]+\b"), r"\g<1>1"),  # numbered in the order of the tests
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "0a1b2c3d-…"),
)


class Walkthrough:
    """Records files, commands and their output.

    Args:
        record: output file; truncated.
        folder: the user's working folder.
        run: runs kubectl with arguments and returns its output.
    """

    def __init__(self, record: Path, folder: Path, run: Callable[..., str]) -> None:
        self._record = record
        self._folder = folder
        self._run = run
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("")

    def stage(self, title: str, *paragraphs: str) -> None:
        """Begin a section with a heading and an introduction."""
        self.write("\n\n".join((f"\n## {title}", *(textwrap.fill(text, _WIDTH) for text in paragraphs))) + "\n")

    def file(self, name: str, text: str, *, shown: bool = True) -> Path:
        """Write a file into the user's folder, and show it."""
        path = self._folder / name
        path.write_text(text)
        if shown:
            self.write(f"\n`{name}`:\n\n```yaml\n{text.rstrip()}\n```\n")
        return path

    def type(self, line: str, answer: str = "") -> None:
        """Record a typed line and its output."""
        self.write(f"\n```console\n$ {line}\n{answer}{'' if not answer or answer.endswith(chr(10)) else chr(10)}```\n")

    def kubectl(self, *arguments: str, into: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl, record it, and return its output. ``NAME.yaml`` is a file in the user's folder.

        Args:
            arguments: of kubectl.
            into: file in the user's folder that gets the output.
            timeout_seconds: limit for the command.
        """
        resolved = [str(self._folder / name) if name.endswith(".yaml") else name for name in arguments]
        output = self._run(*resolved, timeout_seconds=timeout_seconds)
        line = f"kubectl {shlex.join(arguments)}"
        if into is None:
            self.type(line, output.replace(f"{self._folder}/", ""))
        else:
            self.type(f"{line} > {into}")
            self.file(into, output, shown=False)
        return output

    def write(self, text: str) -> None:
        """Append text to the record."""
        with self._record.open("a") as stream:
            stream.write(text)


def normalize(text: str) -> str:
    """Replace values that differ from run to run."""
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def main() -> None:
    """Write the page of a record."""
    record, page = (Path(name) for name in sys.argv[1:3])
    page.write_text(normalize(record.read_text()).lstrip("\n"))


if __name__ == "__main__":
    main()
