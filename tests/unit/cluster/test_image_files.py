"""Proves what can be known of the images without building them."""

from __future__ import annotations

import re
import tomllib
from datetime import datetime
from pathlib import Path

import pytest

from gapless_operator.engines.sparkapplication import SPARK_VERSION
from release.layers import LATEST

ROOT = Path(__file__).parents[3]
IMAGES = ("sender", "operator", "spark")


def locked(file: Path) -> dict[str, frozenset[str]]:
    """Each requirement of a lock file with its hashes."""
    found: dict[str, frozenset[str]] = {}
    for entry in re.sub(r" \\\n\s+", " ", file.read_text()).splitlines():
        requirement, *hashes = entry.split(" --hash=")
        if requirement.strip():
            found[requirement.split(";")[0].strip()] = frozenset(each.strip() for each in hashes)
    return found


def needed(package: str) -> set[str]:
    """Names of the packages that a pyproject.toml asks for."""
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    return {re.split(r"[^A-Za-z0-9-]", each)[0].lower() for each in project["dependencies"]} - {
        "gapless-api",
        "gapless-archive",
        "gapless-kafka",
        "gapless-mirror",
    }


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_made_of_what_the_tests_run_with_and_of_nothing_else(image: str) -> None:
    everything = locked(ROOT / "requirements.lock")
    mine = locked(ROOT / "images" / image / "requirements.lock")
    assert mine
    assert {name: everything.get(name) for name in mine} == mine, "say `make lock`"
    assert all(mine.values()), "a requirement without a hash"


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_what_its_packages_ask_for(image: str) -> None:
    names = {requirement.partition("==")[0] for requirement in locked(ROOT / "images" / image / "requirements.lock")}
    shared = set() if image == "operator" else needed("kafka") | needed("archive")
    assert needed("crds") | shared | needed(image) <= names, "say `make lock`"


@pytest.mark.parametrize(
    ("image", "unwanted"),
    [("sender", {"pyspark", "kopf", "kubernetes"}), ("operator", {"pyspark", "confluent-kafka"}), ("spark", {"kopf"})],
)
def test_an_image_has_nothing_of_the_others(image: str, unwanted: set[str]) -> None:
    names = {requirement.partition("==")[0] for requirement in locked(ROOT / "images" / image / "requirements.lock")}
    assert not names & unwanted


def test_a_spark_application_names_the_version_in_the_image() -> None:
    assert f"pyspark=={SPARK_VERSION}" in locked(ROOT / "images" / "spark" / "requirements.lock")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_a_numbered_user_on_a_base_that_can_be_chosen(image: str) -> None:
    lines = (ROOT / "images" / image / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER 65532:65532"]
    assert [line for line in lines if re.match(r"ARG BASE=python:3\.11\.\d+-slim-bookworm$", line)]
    bases = {re.sub(" AS .*", "", line) for line in lines if line.startswith("FROM ")}
    compiled = {"FROM --platform=$BUILDPLATFORM ${BUILD_BASE}"} if image != "operator" else set()
    assert bases == {"FROM ${BASE}"} | compiled
    assert ("ARG BUILD_BASE=${BASE}" in lines) == bool(compiled)
    assert any("org.opencontainers.image.licenses" in line for line in lines)
    # By it, a release knows where the base image ends.
    assert re.search(
        r"\nFROM \$\{BASE\}\nCOPY images/clean\.sh .*/opt/gapless/\n(?!.*\nFROM )", "\n".join(lines), re.DOTALL
    )


def test_a_release_keeps_the_times_of_the_jar_files_that_the_class_archive_was_made_with() -> None:
    [day] = re.findall(r"pyspark/jars .* touch --date=(\S+) ", (ROOT / "images" / "spark" / "Dockerfile").read_text())
    assert datetime.fromisoformat(f"{day}T00:00:00Z").timestamp() <= LATEST
