"""The sources of a release: a commit with the release's version in each part. Must not know what is built."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from release.steps import ReleaseError, run, say

PARTS = ("crds", "kafka", "mirror", "archive", "sender", "spark", "operator", "gapless")
"""The folders of the packages; the last one needs all others in exactly its version."""
CHART = Path("charts/gapless")
UNKNOWN = "unknown"
"""The commit of sources without a history."""
_TIME = "1580601600"
"""2020-02-02, as of wheels for which no time is given."""
_NOT_SOURCES = ("__pycache__", "*.egg-info", "build", "dist", ".*")
_VERSION = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")


@dataclass(frozen=True)
class Sources:
    """A commit in a folder."""

    folder: Path
    commit: str
    time: int
    """Of the commit, in seconds since 1970: the time of each file in the release."""
    version: str
    """Of the release."""

    @property
    def chart_version(self) -> str:
        """The version as a semantic one, which a chart needs."""
        return self.version.replace("rc", "-rc")


def export(repository: Path, folder: Path, version: str) -> Sources:
    """Write the last commit of `repository` to `folder`, as sources of a release.

    What is changed and not committed is left out, so that the same commit and version make the same release. Without a
    history, as in an archive of the sources, the files are taken as they are, with the time ``SOURCE_DATE_EPOCH``.

    Raises:
        ReleaseError: the version cannot be one.
    """
    if _VERSION.fullmatch(version) is None:
        raise ReleaseError(f"VERSION={version} is not a version: write for example 0.2.0, or 0.2.0rc1.")
    folder.mkdir(parents=True)
    try:
        commit, time = run("git", "-C", repository, "log", "-1", "--format=%H %ct").split()
        _unpack(repository, commit, folder)
    except ReleaseError:
        say("no history: the files are taken as they are")
        commit, time = UNKNOWN, os.environ.get("SOURCE_DATE_EPOCH", _TIME)
        shutil.copytree(repository, folder, ignore=shutil.ignore_patterns(*_NOT_SOURCES), dirs_exist_ok=True)
    sources = Sources(folder, commit, int(time), version)
    _set_version(sources)
    return sources


def _unpack(repository: Path, commit: str, folder: Path) -> None:
    archive = folder / "sources.tar"
    run("git", "-C", repository, "archive", "--format=tar", f"--output={archive}", commit)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


def _set_version(sources: Sources) -> None:
    folder, version = sources.folder, sources.version
    for part in PARTS:
        file = folder / part / "pyproject.toml"
        text = re.sub(r'(?m)^version = "[^"]+"$', f'version = "{version}"', file.read_text(), count=1)
        file.write_text(re.sub(r'(gapless-[a-z]+(?:\[[a-z0-9,]+\])?)==[^"]+"', rf'\1=={version}"', text))
    chart = folder / CHART / "Chart.yaml"
    text = re.sub(r"(?m)^version: .+$", f"version: {sources.chart_version}", chart.read_text())
    chart.write_text(re.sub(r"(?m)^appVersion: .+$", f'appVersion: "{version}"', text))
