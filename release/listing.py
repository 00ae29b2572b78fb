"""Owns what says what a release is: licences, bill of materials, digests and their signature."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

from release.steps import ReleaseError, run, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from release.packages import Target
    from release.sources import Sources

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
_LICENCES = ("licen", "notice", "copying", "authors")


def describe(sources: Sources, targets: Iterable[Target], into: Path) -> None:
    """Write from what the release was made."""
    content = {
        "version": sources.version,
        "commit": sources.commit,
        "commitTime": sources.time,
        "targets": [target.tag for target in targets],
    }
    (into / "release.json").write_text(json.dumps(content, indent=1) + "\n")


def list_materials(lock: Path, into: Path) -> None:
    """Write the bill of materials of the packages of others (CycloneDX)."""
    say("bill of materials and licences")
    run(
        *(sys.executable, "-m", "cyclonedx_py", "requirements", lock, "--output-reproducible", "--of", "JSON"),
        *("--output-file", into / "sbom.cdx.json"),
    )


def collect_licences(wheels: Path, into: Path) -> None:
    """Write the licences of all packages to one file, each text once."""
    owners: dict[str, list[str]] = {}
    stated: dict[str, str] = {}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            described = next(name for name in names if name.endswith(".dist-info/METADATA"))
            head = Parser().parsestr(archive.read(described).decode("utf-8"))
            package = f"{head['Name']} {head['Version']}"
            stated[package] = head["License-Expression"] or (head["License"] or "").split("\n")[0] or "see the text"
            for name in names:
                if ".dist-info/" in name and any(part in Path(name).name.lower() for part in _LICENCES):
                    packages = owners.setdefault(archive.read(name).decode("utf-8", "replace").strip(), [])
                    if package not in packages:
                        packages.append(package)
    listed = "\n".join(f"{package}: {licence}" for package, licence in sorted(stated.items()))
    rule = "=" * 100
    texts = [f"{rule}\n{', '.join(packages)}\n{rule}\n\n{text}\n" for text, packages in owners.items()]
    (into / "LICENCES.txt").write_text(f"{listed}\n\n" + "\n".join(texts))


def write_sums(folder: Path) -> None:
    """Write the digests of all files of a release, as `sha256sum` reads them."""
    lines = []
    for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in {SUMS, SIGNATURE}):
        with file.open("rb") as opened:
            lines.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()}  {file.relative_to(folder)}\n")
    (folder / SUMS).write_text("".join(lines))


def sign(folder: Path, key: Path) -> None:
    """Sign the digests with an Ed25519 key, and write the public key beside them. Raises ReleaseError."""
    public = folder / "release.pub"
    if not key.is_file():
        raise ReleaseError(f"KEY={key} is not a file: make one with openssl genpkey -algorithm ed25519 -out {key}.")
    run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
    write_sums(folder)
    run("openssl", "pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", folder / SUMS, "-out", folder / SIGNATURE)
