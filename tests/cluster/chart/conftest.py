"""The fixtures of the tests that render the chart with the real helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.cluster.build import HELM

CHART = Path(__file__).parents[3] / "charts" / "gapless"
KUBERNETES = "1.36.0"

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Helm:
    """The real helm, which is built once per machine."""

    program: Path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False, timeout=60)

    def template(
        self,
        *files: Path,
        values: dict[str, Any] | None = None,
        show: str = "",
        namespace: str = "gapless-system",
        kubernetes: str = KUBERNETES,
        apis: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Render the chart as release `gapless`; `values` override `files`."""
        options: list[str | Path] = ["--namespace", namespace, "--kube-version", kubernetes]
        for file in files:
            options += ["--values", file]
        for key, value in (values or {}).items():
            options += ["--set-json", f"{key}={json.dumps(value)}"]
        for api in apis:
            options += ["--api-versions", api]
        if show:
            options += ["--show-only", show]
        return self.run("template", "gapless", CHART, *options)

    def manifests(
        self, *files: Path, values: dict[str, Any] | None = None, show: str = "", apis: Sequence[str] = ()
    ) -> list[Manifest]:
        """Render the chart, check that this succeeds, and return the manifests."""
        rendered = self.template(*files, values=values, show=show, apis=apis)
        assert rendered.returncode == 0, rendered.stderr
        # With the pure Python loader, parsing would take four fifths of the time of these tests.
        return [document for document in yaml.load_all(rendered.stdout, Loader=yaml.CSafeLoader) if document]

    def refusal(self, **values: Any) -> str:
        """Render the chart, check that this fails, and return the error."""
        rendered = self.template(values=values)
        assert rendered.returncode != 0
        return rendered.stderr


@pytest.fixture(scope="session")
def helm() -> Helm:
    return Helm(HELM.build())
