"""Running the command `gapless resend` and reading its report; must not import the product."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.story.commands import GAPLESS

PROGRAM = Path(sys.executable).parent / "gapless"
_RATES = ("eps", "bitsPerSecond", "budgetEps", "budgetBitsPerSecond", "rateFile", "linkProfile", "plan")
"""Settings with which a resend is not unlimited, or needs no rate."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of one run."""

    exit_code: int
    stdout: str
    stderr: str
    report: dict[str, Any] | None

    @property
    def ledger(self) -> dict[str, int]:
        """The ledger of the report, after checking that its parts add up to the plan."""
        assert self.report is not None, self.stderr
        ledger: dict[str, int] = self.report["ledger"]
        parts = ("sent", "filtered", "filled", "unavailable", "remaining")
        assert ledger["planned"] == sum(ledger[part] for part in parts), ledger
        for partition in self.report["partitions"]:
            assert partition["planned"] == sum(partition[part] for part in parts), partition
            sizes = {kind: sum(b - a + 1 for a, b in ranges) for kind, ranges in partition["ranges"].items()}
            assert sizes.get("sent", 0) == partition["sent"], partition
            assert sizes.get("filtered", 0) == partition["filtered"], partition
            assert sizes.get("filled", 0) == partition["filled"], partition
        return ledger


@dataclass(slots=True)
class Resend:
    """The command, with the settings that its runs share."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def command(self, **settings: Any) -> list[str]:
        """Return the command line, with settings spelled as the peer does; None omits one.

        Without a rate it is ``unlimited``.
        """
        merged = {"report": self.folder / "report.json", "progressInterval": 0, **self.settings, **settings}
        if not any(merged.get(name) for name in _RATES):
            merged.setdefault("unlimited", True)
        options = {name: value for name, value in merged.items() if value is not None}
        return [str(PROGRAM), "resend", *(f"--{name.rstrip('_')}={_text(value)}" for name, value in options.items())]

    def start(
        self, *, environment: Mapping[str, str] | None = None, own_group: bool = False, **settings: Any
    ) -> subprocess.Popen[str]:
        """Start it without waiting; with `own_group` in its own process group, as a shell does."""
        return subprocess.Popen(
            self.command(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
            process_group=0 if own_group else None,
        )

    def run(
        self, *, environment: Mapping[str, str] | None = None, timeout_seconds: float = 90, **settings: Any
    ) -> Ended:
        """Run it and wait."""
        report = Path(str(settings.get("report", self.folder / "report.json")))
        report.unlink(missing_ok=True)
        completed = GAPLESS.run(
            *self.command(**settings)[1:],
            env={**os.environ, **(environment or {})},
            cwd=self.folder,
            timeout_seconds=timeout_seconds,
        )
        return Ended(completed.returncode, completed.stdout, completed.stderr, _report(report))

    def ended(
        self, process: subprocess.Popen[str], *, report: Path | None = None, timeout_seconds: float = 90
    ) -> Ended:
        """Wait for the process from `start`."""
        stdout, stderr = process.communicate(timeout=timeout_seconds)
        return Ended(process.returncode, stdout, stderr, _report(report or self.folder / "report.json"))

    def bundle(self, gaps: Mapping[tuple[str, int], list[list[int]]], kind: str = "all") -> Path:
        """Write a bundle in the peer's format."""
        results = [
            {"gaps": ranges, "partition": partition, "topic": topic, "window_max": 999, "window_min": 0}
            for (topic, partition), ranges in gaps.items()
        ]
        path = self.folder / "bundle.json"
        path.write_text(json.dumps({"type": kind, "results": results}))
        return path


def _report(file: Path) -> dict[str, Any] | None:
    return json.loads(file.read_text()) if file.exists() else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def ids_of(datagrams: list[bytes]) -> list[str]:
    """Return the event IDs of first fragments, in the order of arrival."""
    ids = []
    for datagram in datagrams:
        length = int.from_bytes(datagram[5:7], "big")
        identity = datagram[7 : 7 + length].decode()
        if datagram[1:3] == b"\x00\x01" and identity not in {"STATUS", "KEY_UPDATE#"}:
            ids.append(identity)
    return ids


def events_of(datagrams: list[bytes]) -> list[bytes]:
    """Return the datagrams that are neither status texts nor keys."""
    return [datagram for datagram in datagrams if datagram[0] not in {2, 3}]


def every_id(topic: str, offsets: range, partitions: int = 1) -> set[str]:
    """Return the event IDs for `offsets` in each of the first `partitions` of a topic."""
    return {f"{topic}_{partition}_{offset}" for partition in range(partitions) for offset in offsets}
