"""How programs are run for a release, and what is said meanwhile; must not know which."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path


class ReleaseError(Exception):
    """Why no release was made, in one sentence."""


def say(text: str) -> None:
    """Say what is done now."""
    print(f"==> {text}", flush=True)


def build_go(package: str, module: Path, program: Path, why: str, *, architecture: str = "") -> Path:
    """Build a Go program, whose modules `module` pins, and return its path.

    Args:
        package: its import path.
        module: the folder of the Go module.
        program: where to write it.
        why: what needs it, and how to do without, as the end of a sentence.
        architecture: amd64 or arm64; empty for that of this machine.

    Raises:
        ReleaseError: there is no Go, or its modules cannot be fetched.
    """
    if shutil.which("go") is None:
        raise ReleaseError(f"There is no Go, which {why}.")
    flags = ("-trimpath", "-ldflags=-s -w", "-o", program)
    variables = {"CGO_ENABLED": "0", **({"GOARCH": architecture} if architecture else {})}
    run("go", "build", *flags, package, folder=module, variables=variables)
    return program


def run(*command: str | Path, folder: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
    """Run a program and return its output. Raises ReleaseError with the end of what it said."""
    try:
        ended = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env={**os.environ, **(variables or {})},
            check=False,
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise ReleaseError(f"{command[0]} cannot be run ({error.strerror}).") from None
    if ended.returncode:
        said = "\n".join((ended.stderr or ended.stdout).strip().splitlines()[-15:])
        raise ReleaseError(f"{command[0]} ended with exit code {ended.returncode}:\n{said}")
    return ended.stdout
