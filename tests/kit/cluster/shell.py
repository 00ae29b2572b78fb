"""Owns how the cluster's code runs programs and says what it does; must not know which programs."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.cluster.places import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_LAST_WORDS = 2000


def say(text: str) -> None:
    """Tell the person who waits."""
    print(f"==> {text}", file=sys.stderr, flush=True)


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that of several processes one does a thing and the others wait and find it done."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Say what is being done, and how long it took when that was noticeable."""
    say(text)
    begun = time.monotonic()
    yield
    took = time.monotonic() - begun
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
    """Run a program and return what it printed.

    Args:
        arguments: the program and its arguments.
        what: what is being attempted, as the subject of the error: "{what} failed: …".
        environment: all of it, when not this process's own.
        folder: where to run it.
        stdin: what it reads.
        timeout_seconds: how long it may take.

    Raises:
        ClusterError: it failed; with its last words.
    """
    try:
        done = subprocess.run(
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
        raise ClusterError(f"{what} failed: there is no program {arguments[0]} on the PATH.") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{what} failed: it took longer than {timeout_seconds:.0f} s.") from None
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip())[-_LAST_WORDS:]
        raise ClusterError(f"{what} failed with exit status {done.returncode}: {words}")
    return done.stdout


def works(*arguments: str | Path, timeout_seconds: float = 20.0) -> bool:
    """Whether the program is there and ends well."""
    try:
        return subprocess.run(arguments, check=False, capture_output=True, timeout=timeout_seconds).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
