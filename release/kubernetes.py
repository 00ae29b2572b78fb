"""What a release has for Kubernetes: the chart as an archive, the CRDs as one file, and manifests of each role."""

from __future__ import annotations

from pathlib import Path

from release.archives import files_in, write_archive
from release.sources import CHART, Sources
from release.steps import build_go, run, say

NAMESPACE = "gapless-system"
"""Of the operator, in the manifests of the roles."""
_ROLES = {"receiving": "downstream", "sending": "upstream"}
"""The sides of a diode, by the roles of the chart."""
_OLDEST_KUBERNETES = "1.31.0"
"""The manifests have what the oldest supported Kubernetes has."""


def pack_chart(sources: Sources, into: Path) -> None:
    """Write the chart as `helm package` does, but the same at each run."""
    say("the chart and the CRDs")
    chart = files_in(sources.folder / CHART, "gapless")
    write_archive(chart, sources.time, into / f"gapless-chart-{sources.chart_version}.tgz")


def join_definitions(sources: Sources, into: Path) -> None:
    """Write all CRDs to one file for `kubectl apply --server-side`."""
    files = sorted((sources.folder / "crds" / "manifests").glob("*.yaml"))
    texts = [file.read_text().strip("\n").removeprefix("---\n") for file in files]
    (into / "gapless-crds.yaml").write_text("---\n" + "\n---\n".join(texts) + "\n")


def build_helm(folder: Path) -> Path:
    """Build helm. Raises ReleaseError: there is no Go, or its modules cannot be fetched."""
    say("helm (two minutes the first time)")
    why = "renders the manifests for kubectl; leave them out: --no-manifests"
    return build_go("helm.sh/helm/v3/cmd/helm", Path(__file__).with_name("helm"), folder / "helm", why)


def render_roles(sources: Sources, helm: Path, into: Path) -> None:
    """Write the chart for each side of a diode, with its CRDs, for `kubectl apply --server-side`.

    Raises:
        ReleaseError: helm refuses the chart.
    """
    for side, role in _ROLES.items():
        rendered = run(
            *(helm, "template", "gapless", sources.folder / CHART, "--namespace", NAMESPACE, "--no-hooks"),
            *("--kube-version", _OLDEST_KUBERNETES, "--set", f"roles.{role}.enabled=true"),
        )
        namespace = f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n"
        (into / f"gapless-install-{side}.yaml").write_text(namespace + rendered)
