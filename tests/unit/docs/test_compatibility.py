"""The page about versions names those that the tests run with, and those that the packages demand."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from kit.cluster.images import PYTHON
from kit.kafka.jars import KAFKA_VERSION

ROOT = Path(__file__).parents[3]
GO = ROOT / "tests" / "kit" / "cluster" / "go"


def row(name: str) -> list[str]:
    """The cells of a row: tested, needed, other versions."""
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    (found,) = [line for line in page.splitlines() if line.startswith((f"| {name} |", f"| {name},"))]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


def module(folder: Path, path: str) -> str:
    """The version of a module that a Go module needs."""
    found = re.search(rf"\b{re.escape(path)} v(\S+)", (folder / "go.mod").read_text())
    assert found is not None
    return found[1]


def lowest(name: str) -> str:
    chart = yaml.safe_load((ROOT / "charts" / "gapless" / "Chart.yaml").read_text())
    return str(re.fullmatch(r">=(\d+\.\d+)\.0-0", chart[name])[1])  # type: ignore[index]


def spark() -> str:
    project = tomllib.loads((ROOT / "spark" / "pyproject.toml").read_text())["project"]
    return str(project["optional-dependencies"]["spark"][0].removeprefix("pyspark=="))


@pytest.mark.parametrize(
    ("name", "tested"),
    [
        ("Kafka", KAFKA_VERSION),
        ("Python", PYTHON),
        ("Spark (PySpark)", spark()),
        ("Kubernetes", module(GO / "kube", "k8s.io/kubernetes")),
        ("Helm", module(ROOT / "release" / "helm", "helm.sh/helm/v3")),
        ("Spark operator", module(GO / "spark-operator", "github.com/kubeflow/spark-operator/v2")),
    ],
)
def test_what_is_tested_is_what_the_tests_run_with(name: str, tested: str) -> None:
    assert row(name)[0].split()[0] == tested


def test_what_is_needed_is_what_packages_and_chart_demand() -> None:
    assert row("Kubernetes")[1] == lowest("kubeVersion")
    project = tomllib.loads((ROOT / "gapless" / "pyproject.toml").read_text())["project"]
    python = row("Python")
    assert project["requires-python"] == f">={python[1].split()[0]}"
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert (named[0], named[-1]) == tuple(python[1].split(" to "))
