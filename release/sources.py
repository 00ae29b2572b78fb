"""Owns the sources of a release: a commit with the release's version in each part. Must not know what is built."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from release.steps import ReleaseError, run, say

PARTS = ("crds", "kafka", "archive", "sender", "spark", "operator", "gapless")
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
        for name in (*PARTS, "charts", "release"):
            shutil.copytree(repository / name, folder / name, ignore=shutil.ignore_patterns(*_NOT_SOURCES))
    _set_version(folder, version)
    return Sources(folder, commit, int(time), version)


def _unpack(repository: Path, commit: str, folder: Path) -> None:
    archive = folder / "sources.tar"
    run("git", "-C", repository, "archive", "--format=tar", f"--output={archive}", commit)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


def _set_version(folder: Path, version: str) -> None:
    for part in PARTS:
        file = folder / part / "pyproject.toml"
        text = re.sub(r'(?m)^version = "[^"]+"$', f'version = "{version}"', file.read_text(), count=1)
        file.write_text(re.sub(r'(gapless-[a-z]+(?:\[[a-z0-9,]+\])?)==[^"]+"', rf'\1=={version}"', text))
    chart = folder / CHART / "Chart.yaml"
    of_chart = version.replace("rc", "-rc")  # the chart has a semantic version
    text = re.sub(r"(?m)^version: .+$", f"version: {of_chart}", chart.read_text())
    chart.write_text(re.sub(r"(?m)^appVersion: .+$", f'appVersion: "{version}"', text))


def pack(files: dict[str, Path], time: int) -> bytes:
    """Return a tar archive of files by their names in it, the same at each run."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
