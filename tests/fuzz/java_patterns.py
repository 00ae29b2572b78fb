"""The comparison of translated topic expressions with Java's own ``Pattern``, in one process of Java.

Expressions are built from the pieces of Java's grammar, and so are the names; a difference is printed with its seed.
"""

from __future__ import annotations

import base64
import random
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gapless_mirror.settings.java_patterns import python_pattern

PROGRAM = Path(__file__).parents[1] / "kit" / "java" / "Patterns.java"
BATCH = 2_000
NAMES = 10
_ATOMS = (
    *("a", "b", "c", "A", "B", "-", "_", "0", "1", "ab", "orders", r"\.", r"\-", ".", ".*", ".+", "^", "$", "&", "]"),
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\h", r"\V", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\x61", r"\u0062"),
    *(r"\0141", r"\x{62}", r"\cA", r"\t", r"\p{Alpha}", r"\P{Lower}", r"\p{Punct}", r"\pL", r"\p{Lu}", r"\p{IsDigit}"),
    *(r"\Qa.b\E", r"\Q[\E", r"\Q", r"\E", r"\y", r"\1", r"\R", "{", "}", "*", ")", "(", "[", "|", ",", " ", "\\"),
)
_QUANTIFIERS = ("*", "+", "?", "{2}", "{0,2}", "{1,}", "{3,1}", "{,2}", "{", "{99999999999999999999}")
_INSIDE = (
    *("a", "b", "c", "a-c", "A-Z", "0-9", "-", "^", "&", ".", "_", r"\d", r"\W", r"\-", r"\]", r"\p{Upper}", r"\Qa]\E"),
    *("a-", "-c", "[", "]", "z-a", r"\w-c", r"a-\d", r"\x61-\x63", "$", "(", "|"),
)
_OPENINGS = ("(", "(?:", "(?i)", "(?i:", "(?-i:", "(?s)", "(?=", "(?!", "(?>", "(?<n>", "(?<=", "(?<!", "(?x)", "(?u)(")
_LETTERS = "abcAB01.-_"


class Difference(NamedTuple):
    """An expression that both read differently."""

    expression: str
    translated: str
    names: list[str]


def compare(runs: int, seconds: int, *, seed: int | None = None) -> int:
    """Compare `runs` pairs of expressions and names, or for some seconds if not 0; return how many were compared.

    Raises:
        AssertionError: with the differences of a batch.
    """
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    began, done, accepted = time.monotonic(), 0, 0
    with java_process() as java:
        while done < runs and (not seconds or time.monotonic() - began < seconds):
            source = random.Random(f"{seed}-{done}")
            cases = [(expression(source), names(source)) for _ in range(min(BATCH, -(-(runs - done) // NAMES)))]
            found, translated = differences(cases, answers(java, cases))
            assert not found, f"seed {seed}-{done}: {found[:5]}"
            done += len(cases) * NAMES
            accepted += translated
    assert accepted * NAMES * 4 > done, "most expressions are refused, which tests little"
    return done


def differences(cases: Sequence[tuple[str, list[str]]], java: Sequence[str]) -> tuple[list[Difference], int]:
    """Return the differences from Java's answers, and how many expressions were translated."""
    found, translated = [], 0
    for (text, candidates), answer in zip(cases, java, strict=True):
        try:
            ours = python_pattern(text)
        except ValueError:
            continue  # nothing is copied with it; the message names the position
        translated += 1
        pattern = re.compile(ours)
        bits = "".join("01"[pattern.fullmatch(name) is not None] for name in candidates)
        if answer != f"={bits}":
            wrong = [name for name, one, other in zip(candidates, bits, answer[1:], strict=False) if one != other]
            found.append(Difference(text, ours, wrong or [answer]))
    return found, translated


def java_process() -> subprocess.Popen[bytes]:
    """Start the program that asks Java."""
    return subprocess.Popen(
        ["java", "-Xshare:auto", "-Xss4m", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def answers(java: subprocess.Popen[bytes], cases: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Ask Java about each expression and its names."""
    assert java.stdin is not None
    assert java.stdout is not None
    found = []
    for start in range(0, len(cases), 50):  # fewer bytes than the pipes hold
        part = cases[start : start + 50]
        lines = ("\t".join(map(_encoded, (text, *candidates))) for text, candidates in part)
        java.stdin.write("\n".join([*lines, "flush", ""]).encode())
        java.stdin.flush()
        found += [java.stdout.readline().decode().strip() for _ in part]
    return found


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def expression(source: random.Random, depth: int = 0) -> str:
    """Return an expression of Java; some of them are invalid."""
    parts = []
    for _ in range(source.randint(1, 4)):
        kind = source.random()
        if kind < 0.2 and depth < 3:
            part = f"{source.choice(_OPENINGS)}{expression(source, depth + 1)})"
        elif kind < 0.4:
            part = _class(source)
        elif kind < 0.5:
            part = "|"
        else:
            part = source.choice(_ATOMS[:50] if source.random() < 0.95 else _ATOMS)
        if source.random() < 0.3:
            part += source.choice(_QUANTIFIERS[:6] if source.random() < 0.95 else _QUANTIFIERS)
            part += source.choice(("", "", "?", "+"))
        parts.append(part)
    return "".join(parts)


def _class(source: random.Random, depth: int = 0) -> str:
    inner = []
    for _ in range(source.randint(1, 3)):
        if source.random() < 0.25 and depth < 2:
            inner.append(_class(source, depth + 1))
        else:
            inner.append(source.choice(_INSIDE[:16] if source.random() < 0.9 else _INSIDE))
        if source.random() < 0.15:
            inner.append("&&")
    return f"[{'^' if source.random() < 0.3 else ''}{''.join(inner)}]"


def names(source: random.Random) -> list[str]:
    """Return legal names of topics."""
    return [
        source.choice(("orders", "ab", "a.b"))
        if source.random() < 0.1
        else "".join(source.choice(_LETTERS) for _ in range(source.randint(1, 5)))
        for _ in range(NAMES)
    ]
