"""A real API server takes all that the chart renders, keeps its admission policies, and gives only its rights."""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gapless_api.v1alpha1.diode import Diode
from gapless_operator.common.settings import Program
from gapless_operator.sending.sender_pods import container, pod_spec
from kit.cluster.places import ClusterError
from kit.cluster.product import Installation, apply_without_programs

if TYPE_CHECKING:
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
NAME = f"chart-{os.getpid()}"
SYSTEM, SENDERS, SCANS = f"{NAME}-system", f"{NAME}-senders", f"{NAME}-scans"
VALUES = {
    "fullnameOverride": NAME,
    "roles": {"downstream": {"enabled": True}, "upstream": {"enabled": True}},
    "clusterName": "south",
    "windows": [{"cluster": "north", "start": 0, "count": 6}, {"cluster": "south", "start": 6, "count": 12}],
    "sender": {"namespace": {"name": SENDERS}, "resourceQuota": {"enabled": True}},
    "scan": {"namespaces": [SCANS], "createNamespaces": True},
    "images": {"sender": {"tag": "dev"}},
    "networkPolicy": {"enabled": True},
    "metrics": {"dashboards": {"enabled": True}},
    "crds": {"enabled": False},
}
IMAGE_VERSION = "dev"
"""As in conftest.py."""
DRY_RUN = ("create", "--dry-run=server", "-o=name", "-f=-")


@pytest.fixture(scope="module")
def release(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """All that the chart renders but its programs, in namespaces of this run."""
    cluster = installed.cluster  # with the definitions
    values = tmp_path_factory.mktemp("chart") / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    version = json.loads(cluster.kubectl("version", "-o=json"))["serverVersion"]["gitVersion"]
    rendered = cluster.helm(
        *("template", NAME, str(ROOT / "charts" / "gapless"), "--namespace", SYSTEM),
        *("--kube-version", version, "--values", str(values)),
    )
    manifests = [each for each in yaml.safe_load_all(rendered) if each]
    apply_without_programs(cluster, manifests, SYSTEM)
    for wrong in (diode(None), {**sender_pod(), "spec": {**sender_pod()["spec"], "hostPID": True}}):
        wait_until_refused(cluster, wrong)
    yield manifests
    for each in manifests:
        if each["kind"].startswith(("ValidatingAdmission", "ClusterRole", "PriorityClass")):
            cluster.delete(each["kind"], each["metadata"]["name"], wait=False)
    cluster.kubectl("delete", "namespace", SYSTEM, SENDERS, SCANS, "--wait=false")


def wait_until_refused(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """A policy is kept a moment after it was created."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            cluster.kubectl(*DRY_RUN, stdin=json.dumps(manifest))
        except ClusterError:
            return
        time.sleep(0.3)
    raise TimeoutError(manifest["kind"])


def refusal(cluster: Cluster, manifest: dict[str, Any]) -> str:
    with pytest.raises(ClusterError) as refused:
        cluster.kubectl(*DRY_RUN, stdin=json.dumps(manifest))
    return str(refused.value)


def test_the_programs_keep_to_the_restricted_level(cluster: Cluster, release: list[dict[str, Any]]) -> None:
    for each in release:
        if each["kind"] == "Pod":
            template = {"metadata": {"name": "p", "namespace": SCANS}, "spec": each["spec"]}  # a restricted namespace
        elif each["kind"] == "Deployment":
            template = {"metadata": {"name": "p", "namespace": SCANS}, "spec": each["spec"]["template"]["spec"]}
        else:
            continue
        template["spec"].pop("serviceAccountName")  # it is elsewhere
        cluster.kubectl(*DRY_RUN, stdin=json.dumps({"apiVersion": "v1", "kind": "Pod", **template}))


# ---------------------------------------------------------------------------------------------------- windows


def diode(window: dict[str, int] | None, namespace: str = SENDERS) -> dict[str, Any]:
    [body] = yaml.safe_load_all((ROOT / "examples" / "diode.yaml").read_text())
    body["metadata"] = {"name": "hall", "namespace": namespace}
    body["spec"].pop("partitionWindow", None)
    if window is not None:
        body["spec"]["partitionWindow"] = window
    return dict(body)


@pytest.mark.usefixtures("release")
def test_a_diode_with_its_clusters_window_is_taken(cluster: Cluster) -> None:
    for window in ({"start": 6, "count": 12}, {"start": 6, "count": 3}):
        cluster.kubectl(*DRY_RUN, stdin=json.dumps(diode(window)))
    # Other namespaces are another release's business.
    cluster.kubectl(*DRY_RUN, stdin=json.dumps(diode({"start": 0, "count": 6}, SCANS)))


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(
    "window", [None, {"start": 0, "count": 6}, {"start": 6, "count": 13}, {"start": 6, "count": 0}, {"start": 7}]
)
def test_a_diode_with_another_window_is_refused_with_the_right_one(
    cluster: Cluster, window: dict[str, int] | None
) -> None:
    sentence = "The cluster south has the downstream partitions 6…17; write partitionWindow: {start: 6, count: 12}."
    assert sentence in refusal(cluster, diode(window))


# ------------------------------------------------------------------------------------------------ sender pods


def sender_pod() -> dict[str, Any]:
    """A pod as the operator makes them."""
    spec = Diode.from_resource(diode({"start": 6, "count": 12})).spec
    program = Program(image="gapless/sender:dev", service_account="gapless-sender")
    one = container(spec, program, name="send", arguments=["resend"])
    made = pod_spec(spec, program, containers=[one], init_containers=[{**one, "name": "fetch"}])
    metadata = {"name": "send", "namespace": SENDERS, "labels": {"gapless.dev/diode": "hall"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


@pytest.mark.usefixtures("release")
def test_pods_as_the_operator_makes_them_are_taken(cluster: Cluster) -> None:
    assert sender_pod()["spec"]["hostNetwork"] is True
    cluster.kubectl(*DRY_RUN, stdin=json.dumps(sender_pod()))


def first(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["containers"][0]["securityContext"]  # type: ignore[no-any-return]


HOST, USER, RIGHTS = "not its processes, memory or files", "need securityContext.runAsNonRoot", "may add nothing"


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda spec: spec.update(hostPID=True), HOST),
        (lambda spec: spec.update(hostIPC=True), HOST),
        (lambda spec: spec["volumes"].append({"name": "root", "hostPath": {"path": "/"}}), HOST),
        (lambda spec: spec["securityContext"].update(runAsNonRoot=False), USER),
        (lambda spec: spec.pop("securityContext"), USER),
        (lambda spec: spec.pop("automountServiceAccountToken"), USER),
        (lambda spec: first(spec).update(privileged=True, allowPrivilegeEscalation=True), RIGHTS),
        (lambda spec: first(spec).pop("allowPrivilegeEscalation"), RIGHTS),
        (lambda spec: first(spec)["capabilities"].update(add=["NET_RAW"]), RIGHTS),
        (lambda spec: first(spec).pop("capabilities"), RIGHTS),
        (lambda spec: spec["containers"][0].pop("securityContext"), RIGHTS),
        (lambda spec: spec["initContainers"][0].pop("securityContext"), RIGHTS),
    ],
)
def test_a_pod_that_wants_more_than_the_nodes_network_is_refused(
    cluster: Cluster, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    pod = copy.deepcopy(sender_pod())
    change(pod["spec"])
    assert sentence in refusal(cluster, pod)


# ----------------------------------------------------------------------------------------------------- rights


def may(cluster: Cluster, account: str, verb: str, resource: str, namespace: str) -> bool:
    who = f"--as={account}"
    try:
        said = cluster.kubectl("auth", "can-i", verb, resource, who, f"--namespace={namespace}")
    except ClusterError:  # kubectl ends with 1 for no
        return False
    return said.strip().startswith("yes")


@pytest.mark.usefixtures("release")
def test_the_operator_can_create_secrets_and_read_none(cluster: Cluster) -> None:
    operator = f"system:serviceaccount:{SYSTEM}:{NAME}-operator"
    assert may(cluster, operator, "create", "secrets", SENDERS)
    for namespace in (SENDERS, SCANS, SYSTEM, "default"):
        for verb in ("get", "list", "watch", "patch"):
            assert not may(cluster, operator, verb, "secrets", namespace)
    assert not may(cluster, operator, "create", "pods", SENDERS)
    assert not may(cluster, operator, "create", "jobs", SYSTEM)
    assert not may(cluster, operator, "list", "diodes", "default")


@pytest.mark.usefixtures("release")
def test_senders_have_no_rights_and_drivers_only_those_of_a_driver(cluster: Cluster) -> None:
    sender, driver = f"system:serviceaccount:{SENDERS}:gapless-sender", f"system:serviceaccount:{SCANS}:gapless-spark"
    assert not may(cluster, sender, "get", "pods", SENDERS)
    assert may(cluster, driver, "create", "pods", SCANS)
    assert may(cluster, driver, "deletecollection", "pods", SCANS)
    for resource in ("secrets", "configmaps", "services", "persistentvolumeclaims"):
        assert not may(cluster, driver, "get", resource, SCANS)
        assert not may(cluster, driver, "create", resource, SCANS)
    assert not may(cluster, driver, "list", "gapscans", SCANS)


@pytest.mark.usefixtures("release")
def test_people_who_edit_may_resend_and_scan_but_not_touch_diodes(cluster: Cluster) -> None:
    for role, kind, verbs in (("edit", "resends", "create"), ("edit", "gapscans", "create"), ("view", "diodes", "get")):
        binding = f"{NAME}-{role}"
        namespace = SCANS if kind == "gapscans" else SENDERS
        if cluster.get("rolebinding", binding, namespace) is None:
            options = (f"--clusterrole={role}", f"--user={binding}", f"--namespace={namespace}")
            cluster.kubectl("create", "rolebinding", binding, *options)
        assert may(cluster, binding, verbs, kind, namespace)
    assert may(cluster, f"{NAME}-edit", "get", "diodes", SENDERS)
    assert not may(cluster, f"{NAME}-edit", "update", "diodes", SENDERS)
    assert not may(cluster, f"{NAME}-view", "create", "resends", SENDERS)


# ----------------------------------------------------------------------------------------------- a real release


def test_a_release_passes_its_own_test_and_leaves_what_people_made(
    cluster: Cluster, release: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert release  # the definitions are there
    name = f"{NAME}-real"
    places = [f"{name}-system", f"{name}-senders", f"{name}-scans"]
    images = {image: {"tag": IMAGE_VERSION} for image in ("operator", "spark", "sender")}
    values = {
        **VALUES,
        "fullnameOverride": name,
        "image": {"pullPolicy": "Never"},
        "images": images,
        "sender": {"namespace": {"name": places[1]}},
        "scan": {"namespaces": [places[2]], "createNamespaces": True},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    options = (f"--namespace={places[0]}", f"--values={tmp_path / 'values.yaml'}", "--create-namespace")
    try:
        said = cluster.helm(
            "upgrade", "--install", name, str(ROOT / "charts" / "gapless"), *options, "--wait", "--timeout=3m"
        )
        assert "partitionWindow: {start: 6, count: 12}" in said
        said = cluster.helm("test", name, f"--namespace={places[0]}", "--logs", "--timeout=2m")
        assert "The CRDs are installed, and the operator has its permissions and is healthy." in said
        # A changed value is an upgrade like any other, and a wrong one changes nothing.
        wrong = ("--set", "clusterName=nowhere")
        with pytest.raises(ClusterError, match="The clusterName nowhere has no window"):
            cluster.helm("upgrade", name, str(ROOT / "charts" / "gapless"), *options, *wrong)
        # What people made outlives the release.
        cluster.apply({**diode({"start": 6, "count": 12}, places[1])})
        cluster.helm("uninstall", name, f"--namespace={places[0]}", "--wait", "--timeout=2m")
        assert cluster.get("diode", "hall", places[1]) is not None
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy", "clusterrole"):
            cluster.kubectl("delete", kind, f"--selector=app.kubernetes.io/instance={name}", "--wait=false")
        cluster.kubectl("delete", "namespace", "--ignore-not-found", *places, "--wait=false")
