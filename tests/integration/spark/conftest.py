"""Running the commands in this process with one Spark session; must not know any topic."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from gapless_api.base.exit_codes import ExitCode
from gapless_api.cli import main
from gapless_spark.runtime.session import Engine, session


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    code: int
    out: str
    err: str
    bundle: dict[str, Any] | None
    report: dict[str, Any] | None

    @property
    def gaps(self) -> dict[tuple[str, int], list[list[int]]]:
        """The missing ranges in the bundle."""
        assert self.bundle is not None
        return {(r["topic"], r["partition"]): r["gaps"] or [] for r in self.bundle["results"]}


_ONCE = ("--spark-above", "--engine")


def timeless(report: dict[str, Any] | None) -> dict[str, Any]:
    """Return the fields that two reports about the same topic must have in common."""
    return {
        name: value for name, value in (report or {}).items() if name not in {"created", "seconds", "bundle", "read_by"}
    }


class Gapless(Protocol):
    """Runs ``gapless`` with files for a bundle and a report."""

    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture(scope="session")
def spark() -> Iterator[None]:
    """One Spark session for all commands of this process."""
    with session(Engine("tests")):
        yield


@pytest.fixture
def gapless_once(
    spark: None,  # noqa: ARG001 -- the commands find it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Gapless:
    def run(*arguments: str) -> Ended:
        bundle, report = tmp_path / "bundle.json", tmp_path / "report.json"
        bundle.unlink(missing_ok=True)
        report.unlink(missing_ok=True)
        outputs = [f"--report={report}", *([] if arguments[0] == "verify" else [f"--resendFileName={bundle}"])]
        monkeypatch.setattr(sys, "argv", ["gapless", *arguments, *outputs])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        written = [json.loads(file.read_text()) if file.exists() else None for file in (bundle, report)]
        assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == [], "half-written files"
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, out, err, *written)

    return run


@pytest.fixture
def gapless(gapless_once: Gapless) -> Gapless:
    """Runs the command with the reader that it chooses; files that are about readers use both."""
    return gapless_once


@pytest.fixture
def gapless_of_both_readers(gapless_once: Gapless) -> Gapless:
    """Scans with each of the readers of a gaps topic: both must return the same result in the same words."""

    def run(*arguments: str) -> Ended:
        if arguments[0] != "scan" or any(argument.startswith(_ONCE) for argument in arguments):
            return gapless_once(*arguments)
        with_spark, without = gapless_once(*arguments, "--engine=spark"), gapless_once(*arguments)
        assert (with_spark.report or {}).get("read_by") in {"spark", None}
        assert (without.report or {}).get("read_by") in {"local", None}
        assert without.code == with_spark.code
        assert (without.bundle or {}).get("results") == (with_spark.bundle or {}).get("results")
        if without.code != ExitCode.SOURCE_UNREACHABLE:  # whose message contains a duration
            assert timeless(without.report) == timeless(with_spark.report)
        return without

    return run
