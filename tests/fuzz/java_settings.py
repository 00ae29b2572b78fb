"""The comparison of files and values of Kafka's programs, as the mirror reads them, with Kafka's own readers.

One process of Java has Kafka's clients: ``Utils.loadProps``, ``JaasContext`` and ``ConfigDef.parseType``. Both read a
case in the same way, or the mirror refuses it, for one of the reasons in `_MAY_REFUSE`.
"""

from __future__ import annotations

import base64
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.config_types import boolean, integer, trimmed, words
from gapless_mirror.settings.jaas import read_jaas
from gapless_mirror.settings.java_properties import read_java_properties
from kit.kafka.jars import class_path, java

PROGRAM = Path(__file__).parents[1] / "kit" / "java" / "Settings.java"
BATCH = 2_000
_SPACES = (" ", "\t", "\f", "\n", "\r", "\r\n", "\x00", "\x0b", "\x1c", "\x1f", "\x7f", "\x85", "\xa0", " " * 3)
_ESCAPES = ("\\", "\\\\", "\\\n", "\\\r\n", "\\\n \t", "\\ ", "\\=", "\\:", "\\t", "\\n", "\\f", "\\r", "\\b", "\\#")
_CODES = ("\\u0041", "\\u00e9", "\\uD83D\\uDE00", "\\uD83D", "\\uDE00", "\\u", "\\u12", "\\u12g4", "\\U0041", "\\u0000")
_WORDS = ("a", "b", "username", "password", "clusters", "A->B.enabled", "1", "-", "_", "$", ".", "\xe9", "\xfc", "\xff")
_SIGNS = ("=", ":", "#", "!", ";", ",", '"', "'", "/", "*")
_JAAS = (
    *(" ", "\n", "\t", "=", "=", ";", ";", '"', "'", "\\", "\r", "-", "_", "$", ".", "/", "//", "/*", "*/", "#", ","),
    *(
        "a",
        "b",
        "x1",
        "12",
        "-5",
        ".5",
        "1.2.3",
        "é",
        "\u0100",
        "\U0001f600",
        "\x7f",
        "\x85",
        "\xa0",
        "\x00",
        "{",
        "$(",
    ),
)
_QUOTED = (
    *"ab1= ;/-'\"",
    "\\n",
    "\\t",
    "\\v",
    "\\a",
    "\\\\",
    '\\"',
    "\\'",
    "\\101",
    "\\47",
    "\\400",
    "\\8",
    "\\u0041",
    "é",
)
_NUMBERS = (*"0123456789", "+", "-", "_", " ", ".", "e3", "0x", "L", "\u0663", "2147483647", "2147483648", "32767")
_LONG = ("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-2147483648", "00000000000000000001")
_BOOLEANS = (
    "true",
    "false",
    "TRUE",
    "False",
    "yes",
    "no",
    "1",
    "0",
    "tru",
    "fal\u017fe",
    "t",
    " ",
    "\t",
    "\x00",
    "\xa0",
)


class Case(NamedTuple):
    """A text for one of the readers."""

    kind: str
    text: str


class Difference(NamedTuple):
    """A case that both read differently."""

    case: Case
    ours: str
    theirs: str


class Counts(NamedTuple):
    """What came of the cases."""

    same: int = 0
    both_refuse: int = 0
    only_ours_refuses: int = 0


def compare(runs: int, seconds: int, *, seed: int | None = None) -> int:
    """Compare `runs` cases, or for some seconds if not 0; return how many were compared.

    Raises:
        AssertionError: with the differences of a batch.
    """
    counts = counted(runs, seconds, seed=seed)
    print(
        f"{counts.same:,} the same, {counts.both_refuse:,} refused by both, {counts.only_ours_refuses:,} by the mirror"
    )
    assert counts.same * 3 > sum(counts), "most cases are refused, which tests little"
    return sum(counts)


def counted(runs: int, seconds: int, *, seed: int | None = None) -> Counts:
    """Compare like `compare`, and return what came of the cases. Raises AssertionError."""
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    began, counts = time.monotonic(), Counts()
    with tempfile.TemporaryDirectory(prefix="gapless-fuzz-", dir=_memory_folder()) as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        with java_process(theirs) as process:
            while sum(counts) < runs and (not seconds or time.monotonic() - began < seconds):
                source = random.Random(f"{seed}-{sum(counts)}")
                cases = [case(source) for _ in range(min(BATCH, runs - sum(counts)))]
                found, batch = differences(cases, answers(process, cases), ours)
                assert not found, f"seed {seed}-{sum(counts)}: {len(found)} differences, such as {found[:5]}"
                counts = Counts(*map(sum, zip(counts, batch, strict=True)))
    return counts


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- for a million small files


def java_process(file: Path) -> subprocess.Popen[bytes]:
    """Start the program with Kafka's readers; it writes properties to `file` before it reads them."""
    command = [java(), "-Xshare:auto", "-cp", class_path(), PROGRAM, file]
    return subprocess.Popen(
        [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def answers(process: subprocess.Popen[bytes], cases: Sequence[Case]) -> list[str]:
    """Ask Kafka's readers about each case."""
    assert process.stdin is not None
    assert process.stdout is not None
    found = []
    for start in range(0, len(cases), 50):  # fewer bytes than the pipes hold
        part = cases[start : start + 50]
        lines = (f"{each.kind}\t{base64.b64encode(_content(each)).decode()}" for each in part)
        process.stdin.write("\n".join([*lines, "flush", ""]).encode())
        process.stdin.flush()
        found += [process.stdout.readline().decode().rstrip("\n") for _ in part]
    return found


def _content(each: Case) -> bytes:
    return each.text.encode("latin-1" if each.kind == "properties" else "utf-16-be")


def differences(cases: Sequence[Case], theirs: Sequence[str], file: Path) -> tuple[list[Difference], Counts]:
    """Return where the mirror reads anything else than Kafka, and what came of the cases."""
    found, counts = [], [0, 0, 0]
    for each, answer in zip(cases, theirs, strict=True):
        mine = our_answer(each, file)
        expected = _normal(each, answer)
        if mine == expected:
            counts[mine.startswith("refused")] += 1
        elif mine == "refused" and _MAY_REFUSE[each.kind](each.text, expected):
            counts[2] += 1
        else:
            found.append(Difference(each, mine, expected))
    return found, Counts(*counts)


def _normal(each: Case, answer: str) -> str:
    """Return an answer of Java in the form of `our_answer`."""
    head, *parts = answer.split(" ")
    if not head.startswith("="):
        return answer
    if each.kind not in {"properties", "jaas"}:
        return repr([_decoded(part) for part in parts])
    pairs = {_decoded(key): _decoded(value) for key, value in (part.split(":") for part in parts)}
    if each.kind == "jaas":
        return repr((_decoded(head[1:]).rpartition(".")[2], sorted(pairs.items())))
    trimmed_pairs = ((key, trimmed(value)) for key, value in pairs.items())
    return repr(sorted((key, value) for key, value in trimmed_pairs if key))


def _decoded(word: str) -> str:
    return base64.b64decode(word).decode("utf-16-be", "surrogatepass")


def our_answer(each: Case, file: Path) -> str:
    """Return how the mirror reads a case."""
    try:
        if each.kind == "properties":
            file.write_bytes(_content(each))
            pairs = ((key, found.raw_value) for key, found in read_java_properties(file).items())
            return repr(sorted((key, value) for key, value in pairs if key))  # Kafka has no property without a name
        if each.kind == "jaas":
            module = read_jaas(each.text)
            return repr((module.name, sorted(module.options.items())))
        return repr([*map(str, _VALUES[each.kind](each.text))])
    except (ConfigurationError, ValueError):
        return "refused"


_VALUES: Mapping[str, Callable[[str], list[str]]] = {
    "BOOLEAN": lambda text: [str(boolean(text)).lower()],
    "INT": lambda text: [str(integer(text))],
    "LONG": lambda text: [str(integer(text, bits=64))],
    "LIST": words,
    "STRING": lambda text: [trimmed(text)],
    "PASSWORD": lambda text: [trimmed(text)],
}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_UTF_8 = re.compile("[\xc2-\xf4][\x80-\xbf]")
_CONTINUED = re.compile(r"\\(?:\r\n|\n|\r)[ \t\f]*")
_NO_NAME = "(no name)"


_MAY_REFUSE: Mapping[str, Callable[[str, str], bool]] = {
    "properties": lambda text, _: _HALF.search(text) is not None or _UTF_8.search(_CONTINUED.sub("", text)) is not None,
    "jaas": lambda _, expected: _NO_NAME in expected,
    **dict.fromkeys(("BOOLEAN", "INT", "LONG"), lambda text, _: not text.isascii()),
    **dict.fromkeys(("LIST", "STRING", "PASSWORD"), lambda _, __: False),
}
"""By kind, for a text and what Kafka reads: half a character, or UTF-8, which Kafka reads as Latin-1; an option whose
name is a number or a sign, which Kafka drops; letters and digits that are not ASCII."""


def case(source: random.Random) -> Case:
    """Return a case; some are invalid."""
    kind = source.choices(("properties", "jaas", *_VALUES), (8, 8, 1, 1, 1, 2, 1, 1))[0]
    if kind == "properties":
        return Case(kind, _file(source))
    if kind == "jaas":
        return Case(kind, _login(source))
    if kind in {"INT", "LONG"}:
        text = _some(source, _NUMBERS, 4) if source.random() < 0.8 else source.choice((*_NUMBERS, *_LONG))
        return Case(kind, source.choice(("", "", " ", "\x00", "-")) + text)
    if kind == "BOOLEAN":
        return Case(kind, source.choice(("", " ", "\xa0")) + source.choice(_BOOLEANS) + source.choice(("", "\t", "x")))
    return Case(kind, _some(source, (*_SPACES, *_WORDS, *",,,,", "\u2003", "\U0001f600"), 8))


def _some(source: random.Random, parts: Sequence[str], most: int) -> str:
    return "".join(source.choice(parts) for _ in range(source.randint(0, most)))


def _file(source: random.Random) -> str:
    lines = []
    for _ in range(source.randint(1, 4)):
        codes = _CODES if source.random() < 0.1 else _CODES[:3]
        parts = (*_SPACES, *_ESCAPES, *codes, *_WORDS, *_WORDS, *_SIGNS[:4], "\xc3\xa9" if len(codes) > 3 else "e")
        lines.append(_some(source, parts, 10))
    return source.choice(("\n", "\r", "\r\n")).join(lines)


def _login(source: random.Random) -> str:
    module = _mostly(source, ("a.b.PlainLoginModule", "Scram_1", "'x y'", "$a"), ("-a", "1", "="))
    flag = _mostly(source, ("required", "REQUIRED", "Optional", "requ\u0131red", "'requisite'"), ("never", "1"))
    between = source.choice((" ", " ", "\n", "/* x */", " // x\n", "/ x\n", "\t", "/*/ x */"))
    options = [_option(source) for _ in range(source.randint(0, 3))]
    end = _mostly(source, (";", " ;", ";\n", "; // x"), ("", ";;", _some(source, _JAAS, 3) + ";"))
    return module + " " + between.join([flag, *options]) + end


def _option(source: random.Random) -> str:
    name = _mostly(source, ("username", "password", "a.b", "_x-1", "'a b'", "a$", "\xe9"), ("5", "==", "-", ""))
    equals = _mostly(source, ("=", "=", " = ", "\n=\t", "=/* x */"), ("", "=="))
    quote = source.choice("\"'")
    quoted = quote + _some(source, _QUOTED, 6).replace(quote, "") + quote
    return name + equals + _mostly(source, (quoted, quoted, "ab", "x-1"), (_some(source, _JAAS, 3),))


def _mostly(source: random.Random, good: Sequence[str], others: Sequence[str]) -> str:
    return source.choice(good if source.random() < 0.94 else others)
