"""The worked GitOps example does what its README says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gapless_api.v1alpha1.kinds import KINDS
from kit.cluster.build import KUBE

if TYPE_CHECKING:
    from conftest import Helm

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
FLEET = ROOT / "examples" / "gitops"
CLUSTERS = ("north", "south", "hall")
MODELS = {kind.KIND: kind for kind in KINDS}


def load(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def windows() -> dict[str, dict[str, int]]:
    [fleet] = load(FLEET / "fleet" / "windows.yaml")
    return {entry["cluster"]: {"start": entry["start"], "count": entry["count"]} for entry in fleet["windows"]}


@pytest.fixture
def render(helm: Helm) -> Any:
    def manifests(cluster: str) -> list[dict[str, Any]]:
        values = FLEET / "clusters" / cluster / "release" / "values.yaml"
        return helm.manifests(FLEET / "fleet" / "windows.yaml", values)

    return manifests


@pytest.fixture(scope="session")
def kustomize() -> Any:
    KUBE.build()

    def build(folder: Path) -> list[dict[str, Any]]:
        kubectl = KUBE.file.with_name("kubectl")
        built = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        return [document for document in yaml.safe_load_all(built.stdout) if document]

    return build


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_each_cluster_installs_with_its_own_window(render: Any, cluster: str) -> None:
    [fleet] = [m for m in render(cluster) if m["metadata"]["name"] == "gapless-fleet"]
    own = yaml.safe_load(fleet["data"].get("partitionWindow", "null"))
    assert own == windows().get(cluster)


@pytest.mark.parametrize("cluster", ["north", "south"])
def test_each_diode_has_its_clusters_window(kustomize: Any, cluster: str) -> None:
    objects = kustomize(FLEET / "clusters" / cluster / "objects")
    [diode] = [each for each in objects if each["kind"] == "Diode"]
    assert diode["spec"]["partitionWindow"] == windows()[cluster]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_object_is_valid_and_in_a_namespace_that_is_served(render: Any, kustomize: Any, cluster: str) -> None:
    [deployment] = [m for m in render(cluster) if m["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    for body in kustomize(FLEET / "clusters" / cluster / "objects"):
        MODELS[body["kind"]].from_resource(body)
        assert f"--namespace={body['metadata']['namespace']}" in arguments


def test_a_resend_in_git_is_neither_pruned_nor_expired(kustomize: Any) -> None:
    resends = [each for each in kustomize(FLEET / "clusters" / "north" / "objects") if each["kind"] == "Resend"]
    assert resends
    for resend in resends:
        assert "ttlSecondsAfterFinished" not in resend["spec"]
        assert resend["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false"
        assert resend["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/prune"] == "disabled"


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_flux_gets_the_values_and_the_shared_list_as_they_are(kustomize: Any, cluster: str) -> None:
    folder = FLEET / "clusters" / cluster / "release"
    built = kustomize(folder)
    [release] = [each for each in built if each["kind"] == "HelmRelease"]
    maps = {each["metadata"]["name"]: each["data"] for each in built if each["kind"] == "ConfigMap"}
    given = [maps[source["name"]][source["valuesKey"]] for source in release["spec"]["valuesFrom"]]
    assert given == [(FLEET / "fleet" / "windows.yaml").read_text(), (folder / "values.yaml").read_text()]
    sources = {each["metadata"]["name"] for each in built if each["kind"] == "GitRepository"}
    assert release["spec"]["chart"]["spec"]["sourceRef"]["name"] in sources
    assert (ROOT / release["spec"]["chart"]["spec"]["chart"] / "Chart.yaml").exists()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_entry_points_lead_to_folders_and_files_that_exist(cluster: str) -> None:
    for kustomization in load(FLEET / "clusters" / cluster / "flux.yaml"):
        assert (FLEET / kustomization["spec"]["path"] / "kustomization.yaml").exists()
    [application] = load(FLEET / "clusters" / cluster / "argocd.yaml")
    chart, fleet, objects = application["spec"]["sources"]
    assert (ROOT / chart["path"] / "Chart.yaml").exists()
    assert [FLEET / name.removeprefix(f"${fleet['ref']}/") for name in chart["helm"]["valueFiles"]] == [
        FLEET / "fleet" / "windows.yaml",
        FLEET / "clusters" / cluster / "release" / "values.yaml",
    ]
    assert (FLEET / objects["path"] / "kustomization.yaml").exists()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_flux_waits_with_the_expressions_of_the_chart(cluster: str) -> None:
    objects = load(FLEET / "clusters" / cluster / "flux.yaml")[1]
    shipped = load(ROOT / "charts" / "gapless" / "files" / "flux" / "healthCheckExprs.yaml")
    assert [objects["spec"]["healthCheckExprs"]] == shipped


def run_check(folder: Path, helm: Helm) -> subprocess.CompletedProcess[str]:
    programs = os.pathsep.join([str(Path(sys.executable).parent), str(helm.program.parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": programs, "GAPLESS_CHART": str(ROOT / "charts" / "gapless")}
    return subprocess.run([folder / "ci" / "check"], capture_output=True, text=True, check=False, env=environment)


def test_ci_accepts_the_example_as_the_readme_shows(helm: Helm) -> None:
    checked = run_check(FLEET, helm)
    assert checked.returncode == 0, checked.stderr
    shown = (FLEET / "README.md").read_text().partition("$ ci/check\n")[2].partition("```")[0]
    assert checked.stdout.startswith(shown)
    assert checked.stdout.count("helm template with clusters/") == 3
    [workflow] = load(FLEET / "ci" / "github-actions.yaml")
    assert workflow["jobs"]["check"]["steps"][-1] == {"run": "ci/check"}


@pytest.mark.parametrize(
    ("path", "change", "sentence"),
    [
        ("fleet/windows.yaml", ("start: 6", "start: 5"), "north (0…5) and south (5…16) overlap"),
        ("fleet/windows.yaml", ("cluster: south", "cluster: suoth"), "The clusterName south in"),
        ("clusters/south/release/values.yaml", ("south", "north"), "both install the sending cluster north"),
        (
            "clusters/hall/release/values.yaml",
            ("clusterName: hall", "windows: [{cluster: a, start: 0, count: 0}]"),
            "differ",
        ),
    ],
)
def test_ci_refuses_what_would_mix_up_events(
    helm: Helm, tmp_path: Path, path: str, change: tuple[str, str], sentence: str
) -> None:
    folder = tmp_path / "gitops"
    shutil.copytree(FLEET, folder)
    text = (folder / path).read_text()
    assert change[0] in text
    (folder / path).write_text(text.replace(*change))
    checked = run_check(folder, helm)
    assert checked.returncode == 2
    assert sentence in checked.stderr
