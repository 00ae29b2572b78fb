"""Running programs and printing progress for the cluster's code; must not know which programs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kit.cluster.places import ClusterError

_OUTPUT_SHOWN = 2000


def say(text: str) -> None:
    """Print progress."""
    print(f"==> {text}", file=sys.stderr, flush=True)


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Print a step before the block, and its duration if that was more than five seconds."""
    say(text)
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    if took > 5:
        say(f"    done in {took:.0f} s")


def run(
    arguments: Sequence[str | Path],
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: str | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """Run a program and return its output.

    Args:
        arguments: the program and its arguments.
        what: the subject of the error message: "{what} failed: …".
        environment: replaces this process's environment.
        folder: working folder.
        stdin: input of the program.
        timeout_seconds: limit for the program.

    Raises:
        ClusterError: it failed; contains the end of its output.
    """
    try:
        completed = subprocess.run(
            arguments,
            check=False,
            capture_output=True,
            text=True,
            env=dict(environment) if environment is not None else None,
            cwd=folder,
            input=stdin,
            timeout=timeout_seconds,
        )
    except FileNotFoundError:
        raise ClusterError(f"{what} failed: {arguments[0]} is not on the PATH.") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{what} failed: it took longer than {timeout_seconds:.0f} s.") from None
    if completed.returncode != 0:
        output = (completed.stderr.strip() or completed.stdout.strip())[-_OUTPUT_SHOWN:]
        raise ClusterError(f"{what} failed with exit status {completed.returncode}: {output}")
    return completed.stdout


def works(*arguments: str | Path, timeout_seconds: float = 20.0) -> bool:
    """Whether the program exists and succeeds."""
    try:
        return subprocess.run(arguments, check=False, capture_output=True, timeout=timeout_seconds).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
