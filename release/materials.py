"""The bills of materials: which packages of others a release has, for CycloneDX and SPDX, and their licences.

Must not know why a package is in it.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from release.listing import digest_of
from release.steps import run, say

if TYPE_CHECKING:
    from spdx_tools.spdx.model import Package

    from release.sources import Sources

CYCLONEDX, SPDX = "sbom.cdx.json", "sbom.spdx.json"
_LICENCES = ("licen", "notice", "copying", "authors")
_RELEASE = "SPDXRef-release"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9.]")
"""Of what the name of an element of SPDX may not have."""


def list_materials(lock: Path, into: Path) -> None:
    """Write the bill of materials of the packages of others (CycloneDX)."""
    say("bills of materials and licences")
    run(
        *(sys.executable, "-m", "cyclonedx_py", "requirements", lock, "--output-reproducible", "--of", "JSON"),
        *("--output-file", into / CYCLONEDX),
    )


def list_wheels(sources: Sources, wheels: Path, into: Path) -> None:
    """Write the bill of materials of all wheels (SPDX 2.3): each file with its digest and what it says of its licence.

    It has the time of the commit, so that it is the same for the same commit.
    """
    from spdx_tools.spdx.model import (  # noqa: PLC0415 -- of the programs that make releases
        Actor,
        ActorType,
        CreationInfo,
        Document,
        Package,
        Relationship,
        RelationshipType,
        SpdxNoAssertion,
    )
    from spdx_tools.spdx.writer.write_anything import write_file  # noqa: PLC0415

    name = f"gapless-{sources.version}"
    creation = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id="SPDXRef-DOCUMENT",
        name=name,
        document_namespace=f"https://gapless.dev/spdx/{name}-{sources.commit}",
        creators=[Actor(ActorType.TOOL, "gapless-make-release")],
        created=datetime.fromtimestamp(sources.time, UTC).replace(tzinfo=None),
    )
    release = Package(_RELEASE, "gapless", SpdxNoAssertion(), version=sources.version, files_analyzed=False)
    packages = [_package(wheel, head) for wheel, head in _described(wheels)]
    relations = [Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, _RELEASE)]
    relations += [Relationship(_RELEASE, RelationshipType.CONTAINS, each.spdx_id) for each in packages]
    document = Document(creation, packages=[release, *packages], relationships=relations)
    write_file(document, str(into / SPDX))


def _package(wheel: Path, head: Message) -> Package:
    from spdx_tools.spdx.model import (  # noqa: PLC0415
        Checksum,
        ChecksumAlgorithm,
        ExternalPackageRef,
        ExternalPackageRefCategory,
        Package,
        SpdxNoAssertion,
    )

    name, version, stated = str(head["Name"]), str(head["Version"]), _stated_licence(head)
    address = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
    return Package(
        spdx_id=f"SPDXRef-{_NOT_IN_NAMES.sub('-', wheel.name)}",
        name=name,
        version=version,
        download_location=SpdxNoAssertion(),
        file_name=f"wheels/{wheel.name}",
        files_analyzed=False,
        checksums=[Checksum(ChecksumAlgorithm.SHA256, digest_of(wheel))],
        license_declared=_expression(stated),
        license_comment=f"The package says: {stated}" if stated else None,
        external_references=[ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", address)],
    )


def _expression(stated: str) -> Any:
    """Return a licence in the terms of SPDX; no assertion for what is no expression of SPDX."""
    from license_expression import ExpressionError, get_spdx_licensing  # noqa: PLC0415
    from spdx_tools.spdx.model import SpdxNoAssertion  # noqa: PLC0415

    try:
        expression = get_spdx_licensing().parse(stated, validate=True)
    except ExpressionError:
        expression = None
    return SpdxNoAssertion() if expression is None else expression


def collect_licences(wheels: Path, into: Path) -> None:
    """Write the licences of all packages to one file, each text once."""
    owners: dict[str, list[str]] = {}
    stated: dict[str, str] = {}
    for wheel, head in _described(wheels):
        package = f"{head['Name']} {head['Version']}"
        stated[package] = _stated_licence(head) or "see the text"
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if ".dist-info/" in name and any(part in Path(name).name.lower() for part in _LICENCES):
                    packages = owners.setdefault(archive.read(name).decode("utf-8", "replace").strip(), [])
                    if package not in packages:
                        packages.append(package)
    listed = "\n".join(f"{package}: {licence}" for package, licence in sorted(stated.items()))
    rule = "=" * 100
    texts = [f"{rule}\n{', '.join(packages)}\n{rule}\n\n{text}\n" for text, packages in owners.items()]
    (into / "LICENCES.txt").write_text(f"{listed}\n\n" + "\n".join(texts))


def _described(wheels: Path) -> Iterator[tuple[Path, Message]]:
    """Yield each wheel with what it says of itself."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            described = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            yield wheel, Parser().parsestr(archive.read(described).decode("utf-8"))


def _stated_licence(head: Message) -> str:
    return str(head["License-Expression"] or (head["License"] or "").split("\n")[0])
