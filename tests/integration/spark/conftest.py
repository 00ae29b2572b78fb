"""Owns how these tests run the commands in this process, on one Spark session; must not know any topic."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from gapless_api import cli
from gapless_spark.session import Engine, session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    bundle: dict[str, Any] | None
    report: dict[str, Any] | None

    @property
    def gaps(self) -> dict[tuple[str, int], list[list[int]]]:
        """Missing ranges of the bundle."""
        assert self.bundle is not None
        return {(r["topic"], r["partition"]): r["gaps"] or [] for r in self.bundle["results"]}


class Gapless(Protocol):
    """Runs ``gapless`` with a bundle and a report in files of its own."""

    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture(scope="session")
def spark() -> Iterator[None]:
    """One Spark session for all commands of this process."""
    with session(Engine("tests")):
        yield


@pytest.fixture
def gapless(
    spark: None,  # noqa: ARG001 -- the commands find it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Gapless:
    def run(*arguments: str) -> Ended:
        bundle, report = tmp_path / "bundle.json", tmp_path / "report.json"
        bundle.unlink(missing_ok=True)
        report.unlink(missing_ok=True)
        monkeypatch.setattr(sys, "argv", ["gapless", *arguments, f"--resendFileName={bundle}", f"--report={report}"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        written = [json.loads(file.read_text()) if file.exists() else None for file in (bundle, report)]
        assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == [], "half-written files"
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, said.out, said.err, *written)

    return run
