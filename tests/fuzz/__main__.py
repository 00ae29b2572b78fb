"""Owns ``make fuzz``: runs the targets one after the other, prints counts and rates, and keeps what is worth keeping.

Must not know what a target does. What the fuzzer finds gathers in build/fuzz/corpus; ``--keep`` copies the smallest set
of it that reaches what all of it reaches to tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import hashlib
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
_MOST_MEMORY_MIB = 1024
_MOST_KEPT_BYTES = 40_000
COMPARED = "latest-records"
"""Compares both readers of a gaps topic. No target of atheris: Spark takes records by the ten thousands."""


class Run(NamedTuple):
    """What came of one target."""

    inputs: int
    seconds: float
    exit_code: int


def main() -> int:
    """Run what the command line names; the exit code is 0 when nothing was found."""
    arguments = _arguments()
    chosen = [TARGETS[name] for name in TARGETS if arguments.target in {None, name}]
    if arguments.input:
        return _once(chosen[0], arguments.input)
    if arguments.keep:
        for target in chosen:
            _keep(target)
        return 0
    print(f"{'target':<16}{'inputs':>10}{'seconds':>9}{'per second':>12}  found")
    found = 0
    for target in chosen:
        run = _run(target, arguments.runs, arguments.seconds)
        _show(target.name, run)
        if run.exit_code:
            found += 1
            _tell(target)
    if arguments.target in {None, COMPARED}:
        run = _compared(arguments.runs, arguments.seconds)
        _show(COMPARED, run)
        found += run.exit_code
    return 1 if found else 0


def _show(name: str, run: Run) -> None:
    rate = run.inputs / run.seconds if run.seconds else 0
    outcome = "nothing" if run.exit_code == 0 else "A DEFECT"
    print(f"{name:<16}{run.inputs:>10}{run.seconds:>9.0f}{rate:>12.0f}  {outcome}", flush=True)


def _compared(runs: int, seconds: int) -> Run:
    from fuzz.latest_records import compare  # noqa: PLC0415 -- needs Spark

    began, done, exit_code = time.monotonic(), 0, 0
    try:
        done = compare(runs, seconds)
    except AssertionError as error:
        print(error)
        exit_code = 1
    return Run(done, time.monotonic() - began, exit_code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description="Give the product inputs that somebody else might.")
    parser.add_argument("--target", choices=[*TARGETS, COMPARED], help="only this one")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs for each target")
    parser.add_argument("--seconds", type=int, default=0, help="stop a target after so long; 0 for never")
    parser.add_argument("--input", type=Path, help="give TARGET this one file, as a crash is reproduced")
    parser.add_argument("--keep", action="store_true", help="take the best of what was found into the corpus")
    arguments = parser.parse_args()
    if arguments.input and arguments.target not in TARGETS:
        parser.error("--input needs --target, of those that take files")
    return arguments


def _once(target: Target, file: Path) -> int:
    """In this process and without a fuzzer, so that a debugger can look at it."""
    print(f"{file}: {target.outcome(file.read_bytes())}")
    return 0


def _run(target: Target, runs: int, seconds: int) -> Run:
    crashes, found = CRASHES / target.name, BUILD / "corpus" / target.name
    crashes.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{target.name}.log"
    options = [
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        f"-max_len={target.most_bytes}",
        f"-timeout={target.most_seconds}",
        f"-rss_limit_mb={_MOST_MEMORY_MIB}",
        *([f"-dict={_dictionary(target)}"] if target.tokens else []),
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        "-use_value_profile=0",
        str(found),
        str(CORPUS / target.name),
    ]
    began = time.monotonic()
    with log.open("wb") as stream:
        exit_code = _fuzzer(target, options, stream.fileno())
    text = log.read_text(errors="replace")
    counted = re.search(r"stat::number_of_executed_units:\s+(\d+)", text) or re.search(r"\n#(\d+)[^\n]*\Z", text)
    inputs = (
        int(counted[1])
        if counted
        else max((int(one) for one in re.findall(r"^#(\d+)\t", text, re.MULTILINE)), default=0)
    )
    return Run(inputs, time.monotonic() - began, exit_code)


def _fuzzer(target: Target, options: list[str], output: int) -> int:
    program = BUILD / f"{target.name}.sh"  # by which libFuzzer starts itself once more, to merge
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fuzz.run_one "$0" {target.name} "$@"\n')
    program.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="gapless-fuzz-", dir=_memory()) as scratch:
        return subprocess.run(
            [str(program), *options],
            env=os.environ | {SCRATCH_VARIABLE: scratch},
            stdout=output,
            stderr=output,
            check=False,
        ).returncode


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- a million small files


def _dictionary(target: Target) -> Path:
    """Write the target's words as libFuzzer reads them."""
    path = BUILD / f"{target.name}.dict"
    words = ("".join(rf"\x{byte:02x}" for byte in token) for token in target.tokens)
    path.write_text("".join(f'"{word}"\n' for word in words))
    return path


def _tell(target: Target) -> None:
    log = BUILD / f"{target.name}.log"
    lines = log.read_text(errors="replace").splitlines()
    lines = [line for line in lines if not line.startswith(("#", "INFO", "NEW_FUNC"))]
    print("\n".join(lines[-40:]))
    newest = max((CRASHES / target.name).iterdir(), key=lambda file: file.stat().st_mtime, default=None)
    if newest is not None:
        name = newest.relative_to(ROOT)
        print(f"\nThe input: {name}\nAgain:     make fuzz FUZZ_TARGET={target.name} FUZZ_INPUT={name}\n")


def _keep(target: Target) -> None:
    """Copy the smallest set of inputs that reaches everything, the smallest ones first, within a bound."""
    merged = BUILD / "merged" / target.name
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    with (BUILD / f"{target.name}.merge.log").open("wb") as stream:
        folders = (merged, CORPUS / target.name, BUILD / "corpus" / target.name)
        _fuzzer(target, ["-merge=1", *map(str, folders)], stream.fileno())
    kept = sum(file.stat().st_size for file in target.inputs())
    known = {file.read_bytes() for file in target.inputs()}
    added = 0
    for file in sorted(merged.iterdir(), key=lambda one: one.stat().st_size):
        content = file.read_bytes()
        if content in known:
            continue
        kept += len(content)
        if kept > _MOST_KEPT_BYTES:
            break
        name = hashlib.sha256(content).hexdigest()[:12]
        (CORPUS / target.name / f"{target.outcome(content)}-{name}").write_bytes(content)
        added += 1
    print(f"{target.name:<16}{added:>6} inputs added of {len(list(merged.iterdir()))}")


if __name__ == "__main__":
    sys.exit(main())
