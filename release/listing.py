"""What says what a release is: its commit, the provenance of its files, their digests and the signature."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from release.sources import UNKNOWN, Sources
from release.steps import ReleaseError, run

if TYPE_CHECKING:
    from release.packages import Target

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
PROVENANCE = "provenance.json"
_STATEMENT, _PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
_BUILD = "urn:gapless:make-release:1"
"""What makes a release from a commit: this folder. Another way to make one has another number."""


def describe(sources: Sources, targets: Iterable[Target], into: Path) -> None:
    """Write from what the release was made."""
    content = {
        "version": sources.version,
        "commit": sources.commit,
        "commitTime": sources.time,
        "targets": [target.tag for target in targets],
    }
    (into / "release.json").write_text(json.dumps(content, indent=1) + "\n")


def state_provenance(sources: Sources, targets: Iterable[Target], lock: Path, into: Path) -> None:
    """Write from what and how each file of a release was made, as a statement of in-toto (SLSA provenance 1).

    It has no time and no name of a machine, so that it is the same for the same commit.
    """
    materials: list[dict[str, Any]] = [{"name": f"release/{lock.name}", "digest": {"sha256": digest_of(lock)}}]
    if sources.commit != UNKNOWN:
        materials.append({"name": "sources", "digest": {"gitCommit": sources.commit}})
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in _digests(into)],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {"version": sources.version, "targets": [each.tag for each in targets]},
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": _BUILD}},
        },
    }
    (into / PROVENANCE).write_text(json.dumps(statement, indent=1) + "\n")


def write_sums(folder: Path) -> None:
    """Write the digests of all files of a release, as `sha256sum` reads them."""
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in _digests(folder)))


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of each file, sorted, but for the digests themselves and their signature."""
    for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in {SUMS, SIGNATURE}):
        yield str(file.relative_to(folder)), digest_of(file)


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sign(folder: Path, key: Path) -> None:
    """Sign the digests with an Ed25519 key, and write the public key beside them. Raises ReleaseError."""
    public = folder / "release.pub"
    if not key.is_file():
        raise ReleaseError(f"KEY={key} is not a file: make one with openssl genpkey -algorithm ed25519 -out {key}.")
    run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
    write_sums(folder)
    run("openssl", "pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", folder / SUMS, "-out", folder / SIGNATURE)
