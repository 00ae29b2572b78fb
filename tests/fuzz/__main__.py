"""``make fuzz``: it runs the targets one after the other, prints counts and rates, and extends the corpus.

Must not know what a target does. The fuzzer collects its inputs in build/fuzz/corpus; ``--keep`` copies a minimal set
of them with the same coverage to tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fuzz.target import CORPUS, SCRATCH_VARIABLE, Target
from fuzz.targets import TARGETS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CRASHES = HERE / "crashes"
BUILD = ROOT / "build" / "fuzz"
_MAX_MEMORY_MIB = 1024
_MAX_CORPUS_BYTES = 40_000
COMPARED = {
    "latest-records": "fuzz.latest_records",
    "java-patterns": "fuzz.java_patterns",
    "java-settings": "fuzz.java_settings",
}
"""Modules that compare with another program, Spark or Java, in batches of thousands and without atheris."""


class Run(NamedTuple):
    """The result of one target."""

    inputs: int
    seconds: float
    exit_code: int


def main() -> int:
    """Run the command line; return 0 if no defect was found."""
    arguments = _arguments()
    selected = [TARGETS[name] for name in TARGETS if arguments.target in {None, name}]
    if arguments.input:
        return _run_input(selected[0], arguments.input)
    if arguments.keep:
        for target in selected:
            _extend_corpus(target)
        return 0
    print(f"{'target':<16}{'inputs':>10}{'seconds':>9}{'per second':>12}  found")
    found = 0
    for target in selected:
        run = _run(target, arguments.runs, arguments.seconds)
        _show(target.name, run)
        if run.exit_code:
            found += 1
            _show_defect(target)
    for name, module in COMPARED.items():
        if arguments.target in {None, name}:
            run = _compare(module, arguments.runs, arguments.seconds)
            _show(name, run)
            found += run.exit_code
    return 1 if found else 0


def _show(name: str, run: Run) -> None:
    rate = run.inputs / run.seconds if run.seconds else 0
    outcome = "nothing" if run.exit_code == 0 else "A DEFECT"
    print(f"{name:<16}{run.inputs:>10}{run.seconds:>9.0f}{rate:>12.0f}  {outcome}", flush=True)


def _compare(module: str, runs: int, seconds: int) -> Run:
    compare = importlib.import_module(module).compare  # loads Spark, or starts Java
    began, done, exit_code = time.monotonic(), 0, 0
    try:
        done = compare(runs, seconds)
    except AssertionError as error:
        print(error)
        exit_code = 1
    return Run(done, time.monotonic() - began, exit_code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz the parsers of untrusted input.")
    parser.add_argument("--target", choices=[*TARGETS, *COMPARED], help="run only this target")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs for each target")
    parser.add_argument("--seconds", type=int, default=0, help="time limit for each target; 0 for none")
    parser.add_argument("--input", type=Path, help="run TARGET with this file, to reproduce a crash")
    parser.add_argument("--keep", action="store_true", help="add a minimal set of the found inputs to the corpus")
    arguments = parser.parse_args()
    if arguments.input and arguments.target not in TARGETS:
        parser.error(f"--input needs --target, and cannot be used with {' and '.join(COMPARED)}")
    return arguments


def _run_input(target: Target, file: Path) -> int:
    """Run one input in this process and without the fuzzer, so that a debugger can be used."""
    print(f"{file}: {target.outcome(file.read_bytes())}")
    return 0


def _run(target: Target, runs: int, seconds: int) -> Run:
    crashes, corpus = CRASHES / target.name, BUILD / "corpus" / target.name
    crashes.mkdir(parents=True, exist_ok=True)
    corpus.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{target.name}.log"
    options = [
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        f"-max_len={target.max_bytes}",
        f"-timeout={target.max_seconds}",
        f"-rss_limit_mb={_MAX_MEMORY_MIB}",
        *([f"-dict={_dictionary(target)}"] if target.tokens else []),
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        "-use_value_profile=0",
        str(corpus),
        str(CORPUS / target.name),
    ]
    began = time.monotonic()
    with log.open("wb") as stream:
        exit_code = _run_fuzzer(target, options, stream.fileno())
    text = log.read_text(errors="replace")
    counted = re.search(r"stat::number_of_executed_units:\s+(\d+)", text) or re.search(r"\n#(\d+)[^\n]*\Z", text)
    inputs = int(counted[1]) if counted else max(map(int, re.findall(r"^#(\d+)\t", text, re.MULTILINE)), default=0)
    return Run(inputs, time.monotonic() - began, exit_code)


def _run_fuzzer(target: Target, options: list[str], output: int) -> int:
    program = BUILD / f"{target.name}.sh"  # libFuzzer restarts this program to merge
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fuzz.run_one "$0" {target.name} "$@"\n')
    program.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="gapless-fuzz-", dir=_memory_folder()) as scratch:
        return subprocess.run(
            [str(program), *options],
            env=os.environ | {SCRATCH_VARIABLE: scratch},
            stdout=output,
            stderr=output,
            check=False,
        ).returncode


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- for a million small files


def _dictionary(target: Target) -> Path:
    """Write the target's tokens in libFuzzer's format."""
    path = BUILD / f"{target.name}.dict"
    words = ("".join(rf"\x{byte:02x}" for byte in token) for token in target.tokens)
    path.write_text("".join(f'"{word}"\n' for word in words))
    return path


def _show_defect(target: Target) -> None:
    log = BUILD / f"{target.name}.log"
    lines = log.read_text(errors="replace").splitlines()
    lines = [line for line in lines if not line.startswith(("#", "INFO", "NEW_FUNC"))]
    print("\n".join(lines[-40:]))
    newest = max((CRASHES / target.name).iterdir(), key=lambda file: file.stat().st_mtime, default=None)
    if newest is not None:
        name = newest.relative_to(ROOT)
        print(f"\nInput:     {name}\nReproduce: make fuzz FUZZ_TARGET={target.name} FUZZ_INPUT={name}\n")


def _extend_corpus(target: Target) -> None:
    """Add a minimal set of inputs with the same coverage, smallest first, up to `_MAX_CORPUS_BYTES`."""
    merged = BUILD / "merged" / target.name
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    with (BUILD / f"{target.name}.merge.log").open("wb") as stream:
        folders = (merged, CORPUS / target.name, BUILD / "corpus" / target.name)
        _run_fuzzer(target, ["-merge=1", *map(str, folders)], stream.fileno())
    existing = {file.read_bytes() for file in target.inputs()}
    size = sum(map(len, existing))
    added = 0
    for file in sorted(merged.iterdir(), key=lambda file: file.stat().st_size):
        content = file.read_bytes()
        if content in existing:
            continue
        size += len(content)
        if size > _MAX_CORPUS_BYTES:
            break
        name = hashlib.sha256(content).hexdigest()[:12]
        (CORPUS / target.name / f"{target.outcome(content)}-{name}").write_bytes(content)
        added += 1
    print(f"{target.name:<16}{added:>6} inputs added of {len(list(merged.iterdir()))}")


if __name__ == "__main__":
    sys.exit(main())
