"""Owns what a release has for Kubernetes: the chart as an archive, and the CRDs as one file."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

from release.sources import CHART
from release.steps import say

if TYPE_CHECKING:
    from pathlib import Path

    from release.sources import Sources


def pack_chart(sources: Sources, into: Path) -> None:
    """Write the chart as `helm package` does, but the same at each run."""
    say("the chart and the CRDs")
    folder = sources.folder / CHART
    files = {f"gapless/{file.relative_to(folder)}": file for file in folder.rglob("*") if file.is_file()}
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=sources.time) as compressed:
        compressed.write(_pack(files, sources.time))
    (into / f"gapless-chart-{sources.chart_version}.tgz").write_bytes(packed.getvalue())


def join_definitions(sources: Sources, into: Path) -> None:
    """Write all CRDs to one file for `kubectl apply --server-side`."""
    files = sorted((sources.folder / "crds" / "manifests").glob("*.yaml"))
    texts = [file.read_text().strip("\n").removeprefix("---\n") for file in files]
    (into / "gapless-crds.yaml").write_text("---\n" + "\n---\n".join(texts) + "\n")


def _pack(files: dict[str, Path], time: int) -> bytes:
    """Return a tar archive of files by their names in it, the same at each run."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
