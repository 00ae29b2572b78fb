"""Owns what a fuzz target is, and what may come of an input. Must not know any target, nor how inputs are made.

An input is accepted, or refused with the class of error that the target documents. Everything else is a defect: another
exception, a message that is not one short printable sentence, too much time or too much memory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import GaplessError

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parent / "corpus"
SCRATCH_VARIABLE = "GAPLESS_FUZZ_SCRATCH"
_LONGEST_MESSAGE = 2000


class Outcome(StrEnum):
    """What the product made of an input; names in the corpus begin with it."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Target:
    """One door of the product through which bytes of others come in."""

    name: str
    take: Callable[[bytes], None]
    """Gives an input to the product, and checks what comes out where there is something to compare with."""
    refusals: tuple[type[Exception], ...]
    """The documented errors."""
    tokens: tuple[bytes, ...] = ()
    """Words of the format, which a mutator would take long to find."""
    most_bytes: int = 4096
    most_seconds: int = 10
    """An input that takes longer is a hang; generous, because other work may have the processor."""

    def outcome(self, content: bytes) -> Outcome:
        """Give `content` to the product. Raises whatever a defect raises."""
        try:
            self.take(content)
        except self.refusals as error:
            if isinstance(error, GaplessError):
                _check_sentence(str(error))
            return Outcome.REFUSED
        return Outcome.ACCEPTED

    def inputs(self) -> list[Path]:
        """The inputs that are checked in."""
        return sorted((CORPUS / self.name).iterdir())


def expected_outcome(file: Path) -> Outcome:
    """What an input of the corpus must come to, by its name."""
    return Outcome(file.name.partition("-")[0])


def as_file(content: bytes, name: str = "input") -> Path:
    """Put `content` where the product reads files; the next call with the same `name` replaces it."""
    path = scratch_folder() / name
    path.write_bytes(content)
    return path


@cache
def scratch_folder() -> Path:
    """A folder of this process: the one that who started it has made and will remove, or one of its own."""
    given = os.environ.get(SCRATCH_VARIABLE)
    if given:
        return Path(given)
    made = Path(tempfile.mkdtemp(prefix="gapless-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _check_sentence(message: str) -> None:
    assert message.isprintable(), f"a message with control characters: {message!r}"
    assert len(message) <= _LONGEST_MESSAGE, f"a message of {len(message)} characters: {message[:200]!r}"
    assert message.endswith("."), f"no sentence: {message!r}"
