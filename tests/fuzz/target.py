"""The definition of a fuzz target and of its outcomes. Must not know any target, or how inputs are generated.

An input is accepted, or refused with one of the target's documented errors. Everything else is a defect: another
exception, a message that is not one short printable sentence, too much time or too much memory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from gapless_api.base.errors import GaplessError

CORPUS = Path(__file__).parent / "corpus"
SCRATCH_VARIABLE = "GAPLESS_FUZZ_SCRATCH"
_MAX_MESSAGE = 2000


class Outcome(StrEnum):
    """The result for an input; file names in the corpus begin with it."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Target:
    """One parser of untrusted input."""

    name: str
    run: Callable[[bytes], None]
    """Passes an input to the product, and checks the result if there is a reference."""
    refusals: tuple[type[Exception], ...]
    """The documented errors."""
    tokens: tuple[bytes, ...] = ()
    """Tokens of the format, which a mutator would take long to find."""
    max_bytes: int = 4096
    max_seconds: int = 10
    """An input that takes longer is a hang; generous, because the machine may be busy."""

    def outcome(self, content: bytes) -> Outcome:
        """Run the target with `content`. Raises every error that is not documented."""
        try:
            self.run(content)
        except self.refusals as error:
            if isinstance(error, GaplessError):
                _check_sentence(str(error))
            return Outcome.REFUSED
        return Outcome.ACCEPTED

    def inputs(self) -> list[Path]:
        """Return the inputs in the repository."""
        return sorted((CORPUS / self.name).iterdir())


def expected_outcome(file: Path) -> Outcome:
    """Return the expected outcome of a corpus file, which its name begins with."""
    return Outcome(file.name.partition("-")[0])


def as_file(content: bytes, name: str = "input") -> Path:
    """Write `content` to a file for the product; the next call with the same `name` replaces it."""
    path = scratch_folder() / name
    path.write_bytes(content)
    return path


@cache
def scratch_folder() -> Path:
    """Return the folder in the environment, which the parent process removes, or a temporary one of this process."""
    configured = os.environ.get(SCRATCH_VARIABLE)
    if configured:
        return Path(configured)
    folder = Path(tempfile.mkdtemp(prefix="gapless-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _check_sentence(message: str) -> None:
    assert message.isprintable(), f"a message with control characters: {message!r}"
    assert len(message) <= _MAX_MESSAGE, f"a message of {len(message)} characters: {message[:200]!r}"
    assert message.endswith("."), f"not a sentence: {message!r}"
