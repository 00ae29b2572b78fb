"""The chart's admission policies in a real API server: what people, pods and controllers may ask for, and what not."""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_operator.common.settings import Program
from gapless_operator.connections.pod import doctor_job
from gapless_operator.sending.sender_pods import container, pod_spec
from kit.cluster.api_server import ApiError, ApiServer
from kit.cluster.build import HELM

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CHART = Path(__file__).parents[3] / "charts" / "gapless"
SYSTEM, SENDERS, SCANS = "policy-system", "policy-senders", "policy-scans"
ARCHIVES, MIRRORS = "policy-archives", "policy-mirrors"
VALUES = {
    "fullnameOverride": "policy",
    "roles": {role: {"enabled": True} for role in ("downstream", "upstream", "archive", "mirror")},
    "archive": {"namespaces": [ARCHIVES], "createNamespaces": True},
    "mirror": {"namespaces": [MIRRORS], "createNamespaces": True},
    "podLimits": {"cores": 4, "memory": "8Gi", "pods": 10},
    "podTemplates": {"big": {"nodeSelector": {"pool": "big"}}, "night": {}},
    "sender": {"namespace": {"name": SENDERS}, "allowedImages": ["registry.example/sender:2"]},
    "scan": {
        "namespaces": [SCANS],
        "createNamespaces": True,
        "allowedImages": ["registry.example/spark:2"],
        "allowedServiceAccounts": ["own"],
        "signingKeySecrets": ["signing"],
    },
    "crds": {"enabled": False},
}
KINDS = {"Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole"}
USER, EDITOR, COUNSEL = "user-with-gapless-edit", "user-with-edit", "user-who-releases"
JOBS = "system:serviceaccount:kube-system:job-controller"
OPERATOR = f"system:serviceaccount:{SYSTEM}:policy-operator"
DRIVER = f"system:serviceaccount:{ARCHIVES}:gapless-spark"
BOUND = (
    (USER, "policy-edit"),
    (EDITOR, "policy-edit"),
    (EDITOR, "system:aggregate-to-edit"),  # which a controller that the tests do without makes the role edit of
    (OPERATOR, "system:aggregate-to-edit"),
    (COUNSEL, "policy-edit"),
    (COUNSEL, "policy-release-holds"),
    (DRIVER, "system:aggregate-to-edit"),
)
PATHS = {
    "Diode": "/apis/gapless.dev/v1alpha1/namespaces/{}/diodes",
    "Resend": "/apis/gapless.dev/v1alpha1/namespaces/{}/resends",
    "GapScan": "/apis/gapless.dev/v1alpha1/namespaces/{}/gapscans",
    "Archive": "/apis/gapless.dev/v1alpha1/namespaces/{}/archives",
    "Mirror": "/apis/gapless.dev/v1alpha1/namespaces/{}/mirrors",
    "Restore": "/apis/gapless.dev/v1alpha1/namespaces/{}/restores",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
_numbers = itertools.count(1)


class Policies:
    """An API server with the policies in force."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api

    def create(self, body: dict[str, Any], *, user: str = "", dry_run: bool = True) -> None:
        path = PATHS[body["kind"]].format(body["metadata"]["namespace"])
        self.api.request("POST", f"{path}?dryRun=All" if dry_run else path, body, user=user)

    def refusal(self, body: dict[str, Any], *, user: str = "") -> str:
        with pytest.raises(ApiError) as refused:
            self.create(body, user=user)
        assert refused.value.status in {403, 422}
        return str(refused.value)

    def patch(self, kind: str, name: str, change: dict[str, Any], *, namespace: str = SENDERS, user: str = "") -> None:
        path = f"{PATHS[kind].format(namespace)}/{name}"
        self.api.request("PATCH", path, change, content="application/merge-patch+json", user=user)


def ours(kind: str, spec: dict[str, Any], *, name: str = "", namespace: str = SENDERS) -> dict[str, Any]:
    metadata = {"name": name or f"test-{next(_numbers)}", "namespace": namespace}
    return {"apiVersion": "gapless.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def diode(name: str, **spec: Any) -> dict[str, Any]:
    usual = {"nodeSelector": {"gapless.dev/diode": name}, "nic": "diode0", "target": {"host": "192.0.2.2", "port": 1}}
    usual |= {"unlimited": True}
    return ours("Diode", {**usual, **spec}, name=name)


def resend(on: str, *, name: str = "", **spec: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"diodeRef": {"name": on}, "kafkaRef": {"name": "kafka"}}
    if "bundle" not in spec:
        usual["offsets"] = {"topic": "transfer", "partition": 0, "from": 0, "to": 6}
    return ours("Resend", {**usual, **spec}, name=name)


def gap_scan(**spec: Any) -> dict[str, Any]:
    usual = {"kafkaRef": {"name": "kafka"}, "source": {"gapTopic": {"topic": "gaps"}}}
    return ours("GapScan", {**usual, **spec}, namespace=SCANS)


def archive(name: str = "", **spec: Any) -> dict[str, Any]:
    usual = {"kafkaRef": {"name": "kafka"}, "storageRef": {"name": "store"}, "region": "north", "topics": ["orders"]}
    return ours("Archive", {**usual, **spec}, name=name, namespace=ARCHIVES)


def restore(name: str = "", **spec: Any) -> dict[str, Any]:
    usual = {"archiveRef": {"name": "orders"}, "kafkaRef": {"name": "kafka"}, "topics": [{"name": "orders"}]}
    return ours("Restore", {**usual, **spec}, name=name, namespace=ARCHIVES)


def mirror(name: str = "", **spec: Any) -> dict[str, Any]:
    usual = {"sourceRef": {"name": "north"}, "targetRef": {"name": "hall"}, "topics": ["orders"]}
    return ours("Mirror", {**usual, **spec}, name=name, namespace=MIRRORS)


NORTH = {
    "partitionWindow": {"start": 6, "count": 12},
    "tolerations": [{"key": "gapless.dev/diode", "operator": "Exists", "effect": "NoSchedule"}],
    "limits": {
        "maxEps": 5000,
        "maxParallelism": 4,
        "minPriority": -10,
        "maxPriority": 10,
        "allowForce": False,
        "partitionWindows": [{"start": 40, "count": 4}],
    },
}


@pytest.fixture(scope="module")
def policies(api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Policies]:
    values = tmp_path_factory.mktemp("chart") / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    rendered = subprocess.run(
        [
            HELM.build(),
            "template",
            "policy",
            CHART,
            f"--namespace={SYSTEM}",
            "--kube-version=1.36.0",
            "--values",
            values,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    manifests = [each for each in yaml.safe_load_all(rendered.stdout) if each and each["kind"] in KINDS]
    api.apply(yaml.safe_dump_all(manifests), server_side=True)
    made = Policies(api)
    for user, role in BOUND:
        for namespace in (SENDERS, SCANS, ARCHIVES, MIRRORS):
            binding = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"test-{next(_numbers)}", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
            made.create(binding, dry_run=False)
    made.create(diode("north", **NORTH), dry_run=False)
    made.create(diode("strict", limits={"bundlesOnly": True}), dry_run=False)
    made.create(diode("open"), dry_run=False)
    for name, spec in (("held", {"hold": True}), ("released", {"hold": False}), ("plain", {})):
        made.create(archive(name, **spec), dry_run=False)
    for wrong in (  # a policy, and each of its parameters, is in force a moment after it was written
        resend("north", eps=6000.0),
        resend("strict"),
        gap_scan(engine={"image": "evil/spark:2"}),
        mirror(spark={"image": "evil/spark:2"}),
        changed(lambda spec: spec.update(hostPID=True)),
        changed(lambda spec: spec.update(nodeSelector={"other": "node"})),
    ):
        wait_until_refused(made, wrong)
    yield made
    for each in manifests:
        if each["kind"] != "Namespace":
            api.delete(each["kind"], each["metadata"]["name"], wait=False)


def wait_until_refused(policies: Policies, body: dict[str, Any], *, user: str = "") -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            policies.create(body, user=user)
        except ApiError as error:
            if error.status in {403, 422}:
                return
        assert time.monotonic() < deadline, body
        time.sleep(0.2)


# ---------------------------------------------------------------------------------------------- legal holds

RELEASES = [
    ("held", {"hold": None}),
    ("held", {"hold": False}),
    ("plain", {"hold": False}),
    ("released", {"topics": ["orders", "payroll"]}),
    ("released", {"topicPrefixes": ["pay"]}),
    ("released", {"topicPattern": ".*"}),
    ("released", {"topicPrefixes": ["o"], "exclude": ["other"]}),
]


def test_a_legal_hold_is_released_by_an_account_with_this_verb_only(policies: Policies) -> None:
    sentence = (
        "which needs the verb release on archives.gapless.dev; leave spec.hold as it is, or ask the platform team"
    )
    assert sentence in policies.refusal(archive(hold=False), user=USER)
    for user in (USER, EDITOR):
        for name, change in RELEASES:
            with pytest.raises(ApiError, match=sentence):
                change_archive(policies, name, change, user=user)
    policies.create(archive(hold=False), user=COUNSEL)
    for name, change in RELEASES:
        change_archive(policies, name, change, user=COUNSEL)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("plain", {"hold": True}),
        ("held", {"suspend": True}),
        ("held", {"topics": ["orders", "payroll"]}),
        ("released", {"suspend": True}),
        ("released", {"hold": None}),
        ("released", {"hold": True}),
        ("plain", {"topics": ["payroll"]}),
    ],
)
def test_everyone_who_writes_archives_sets_holds_and_suspends(
    policies: Policies, name: str, change: dict[str, Any]
) -> None:
    policies.create(archive(hold=True), user=USER)
    change_archive(policies, name, change, user=USER)


def change_archive(policies: Policies, name: str, spec: dict[str, Any], *, user: str) -> None:
    path = f"{PATHS['Archive'].format(ARCHIVES)}/{name}?dryRun=All"
    policies.api.request("PATCH", path, {"spec": spec}, content="application/merge-patch+json", user=user)


# ---------------------------------------------------------------------------------------------- limits of a Diode


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            resend("north", partitionWindow={"start": 0, "count": 6}),
            "spec.partitionWindow (start 0, count 6) is none of those that Diode north allows; delete it",
        ),
        (resend("north", partitionWindow={"start": 7, "count": 3}), "(start 7, count 3) is none of those"),
        (resend("north", partitionWindow={"start": 6}), "(start 6, count 0) is none of those"),
        (resend("north", partitionWindow={"start": 40, "count": 5}), "(start 40, count 5) is none of those"),
        (resend("north", eps=5000.5), "spec.eps is 5000.5 and Diode north allows at most 5000; write a lower one."),
        (resend("north", parallelism=5), "spec.parallelism is 5 and Diode north allows at most 4;"),
        (resend("north", priority=11), "spec.priority is 11 and Diode north allows -10 to 10;"),
        (resend("north", priority=-11), "spec.priority is -11 and Diode north allows -10 to 10;"),
        (resend("north", force="again"), "Diode north does not allow spec.force (limits.allowForce)"),
        (resend("strict"), "Diode strict sends only bundles (limits.bundlesOnly); name one in spec.bundle."),
    ],
)
def test_a_resend_that_asks_for_more_than_its_diode_allows_is_refused_at_once(
    policies: Policies, body: dict[str, Any], sentence: str
) -> None:
    assert sentence in policies.refusal(body, user=USER)


def test_what_a_diode_allows_is_taken_and_others_limits_do_not_count(policies: Policies) -> None:
    for body in (
        resend("north", eps=5000, parallelism=4, priority=10, partitionWindow={"start": 6, "count": 3}),
        resend("north", partitionWindow={"start": 40, "count": 4}, eps=0),
        resend("strict", bundle={"inline": "{}"}),
        resend("open", partitionWindow={"start": 0, "count": 6}, eps=1e9, parallelism=64, priority=1000, force="again"),
        resend("not-there-yet", force="again"),
    ):
        policies.create(body, user=USER)


def test_what_is_beyond_the_limits_can_still_be_suspended_and_deleted(policies: Policies) -> None:
    policies.create(diode("tightened"), dry_run=False)
    policies.create(resend("tightened", name="fast", eps=100.0), user=USER, dry_run=False)
    policies.patch("Diode", "tightened", {"spec": {"limits": {"maxEps": 10}}})
    wait_until_refused(policies, resend("tightened", eps=100.0))
    with pytest.raises(ApiError, match=r"spec\.eps is 100 and Diode tightened allows at most 10"):
        policies.patch("Resend", "fast", {"spec": {"priority": 1}}, user=USER)
    policies.patch("Resend", "fast", {"metadata": {"labels": {"any": "label"}}}, user=USER)
    policies.patch("Resend", "fast", {"spec": {"suspend": True}}, user=USER)
    with pytest.raises(ApiError, match="write a lower one"):
        policies.patch("Resend", "fast", {"spec": {"suspend": False}}, user=USER)
    policies.patch("Resend", "fast", {"spec": {"suspend": False, "eps": 10}}, user=USER)
    policies.api.request("DELETE", PATHS["Resend"].format(SENDERS) + "/fast", user=USER)


# --------------------------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"engine": {"image": "evil/spark:2"}},
            "spec.engine.image names evil/spark:2, which the platform team has not listed; delete it, or ask them to",
        ),
        ({"engine": {"serviceAccountName": "default"}}, "spec.engine.serviceAccountName names default, which the"),
        ({"signingKeySecret": {"name": "tls"}}, "spec.signingKeySecret names tls, which the platform team has not"),
    ],
)
def test_a_scan_that_names_what_is_not_listed_is_refused_at_once(
    policies: Policies, spec: dict[str, Any], sentence: str
) -> None:
    assert sentence in policies.refusal(gap_scan(**spec), user=USER)


@pytest.mark.parametrize("build", [gap_scan, archive, restore, mirror])
def test_only_pod_templates_of_the_platform_team_may_be_named(
    policies: Policies, build: Callable[..., dict[str, Any]]
) -> None:
    sentence = (
        "spec.podTemplate names huge, which the platform team has not listed; delete it, or ask them to add it to"
    )
    assert sentence in policies.refusal(build(podTemplate="huge"), user=USER)
    body = build(podTemplate="night")
    policies.create(body, user=USER, dry_run=False)
    kind, metadata = body["kind"], body["metadata"]
    where = {"namespace": metadata["namespace"], "user": USER}
    with pytest.raises(ApiError, match="podTemplate names huge"):
        policies.patch(kind, metadata["name"], {"spec": {"podTemplate": "huge"}}, **where)
    policies.patch(kind, metadata["name"], {"spec": {"podTemplate": "big"}}, **where)
    policies.patch(kind, metadata["name"], {"spec": {"podTemplate": None}}, **where)
    policies.patch(kind, metadata["name"], {"spec": {"suspend": True}}, **where)


def test_a_scan_that_names_what_is_listed_or_nothing_is_taken(policies: Policies) -> None:
    listed = {"image": "registry.example/spark:2", "serviceAccountName": "own"}
    for spec in (
        {},
        {"engine": listed, "signingKeySecret": {"name": "signing"}},
        {"engine": {"image": "gapless/spark:0.1.0", "serviceAccountName": "gapless-spark"}},
    ):
        policies.create(gap_scan(**spec), user=USER)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            gap_scan(engine={"driver": {"cores": 128}}),
            "spec.engine.driver.cores is 128, and the platform team allows at most 4; lower it, or ask them to raise",
        ),
        (
            gap_scan(engine={"driver": {"cpu": "4001m"}}),
            "spec.engine.driver.cpu is 4001m, and the platform team allows",
        ),
        (gap_scan(engine={"driver": {"memory": "900000Gi"}}), "spec.engine.driver.memory is 900000Gi, and the"),
        (gap_scan(engine={"executor": {"memory": "8193Mi"}}), "spec.engine.executor.memory is 8193Mi, and the"),
        (gap_scan(engine={"executor": {"cpu": "5"}}), "spec.engine.executor.cpu is 5, and the platform team allows"),
        (gap_scan(engine={"executor": {"cores": 5}}), "spec.engine.executor.cores is 5, and the platform team allows"),
        (gap_scan(engine={"executor": {"instances": 11}}), "the chart's value podLimits.pods."),
        (mirror(workers={"count": 11}), "spec.workers.count is 11, and the platform team allows at most 10;"),
        (mirror(workers={"cpu": "5"}), "spec.workers.cpu is 5, and the platform team allows at most 4;"),
        (mirror(workers={"memory": "9Gi"}), "spec.workers.memory is 9Gi, and the platform team allows at most 8Gi;"),
        (
            mirror(spark={"driver": {"cores": 5}}),
            "spec.spark.driver.cores is 5, and the platform team allows at most 4;",
        ),
    ],
)
def test_pods_larger_or_more_than_the_platform_team_allows_are_refused_at_once(
    policies: Policies, body: dict[str, Any], sentence: str
) -> None:
    assert sentence in policies.refusal(body, user=USER)


def test_pods_of_the_allowed_size_are_taken(policies: Policies) -> None:
    engine = {"driver": {"cores": 4, "cpu": "4", "memory": "8Gi"}, "executor": {"instances": 10, "memory": "8192Mi"}}
    policies.create(gap_scan(engine=engine), user=USER)
    policies.create(mirror("sized", workers={"count": 10, "cpu": "4000m"}, spark=engine), dry_run=False)
    with pytest.raises(ApiError, match=r"spec\.workers\.count is 11"):
        policies.patch("Mirror", "sized", {"spec": {"workers": {"count": 11}}}, namespace=MIRRORS, user=USER)
    policies.patch("Mirror", "sized", {"spec": {"suspend": True}}, namespace=MIRRORS, user=USER)


# --------------------------------------------------------------------------------------------------- sender pods


def sender_pod() -> dict[str, Any]:
    """A pod as the operator's Jobs have them."""
    spec = Diode.from_resource(diode("north", **{**NORTH, "limits": {}})).spec
    one = container(spec, Program(image="gapless/sender:0.1.0"), name="send", arguments=["resend"])
    made = pod_spec(
        spec,
        Program(image="gapless/sender:0.1.0", service_account="gapless-sender"),
        containers=[one],
        init_containers=[{**copy.deepcopy(one), "name": "fetch"}],
        volumes=[
            {"name": "state", "persistentVolumeClaim": {"claimName": "state"}},
            {
                "name": "configuration",
                "projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "kafka"}}]},
            },
        ],
    )
    metadata = {"name": "send", "namespace": SENDERS, "labels": {"gapless.dev/diode": "north"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    pod = copy.deepcopy(sender_pod())
    change(pod["spec"])
    return pod


def test_a_pod_as_the_operator_makes_it_is_taken_from_the_job_controller(policies: Policies) -> None:
    pod = sender_pod()
    assert pod["spec"]["hostNetwork"] is True
    # What Kubernetes adds to every pod.
    pod["spec"]["tolerations"] += [
        {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for state in ("not-ready", "unreachable")
    ]
    policies.create(pod, user=JOBS)
    policies.create(changed(lambda spec: spec["containers"][0].update(image="registry.example/sender:2")))


def each_container(spec: dict[str, Any], change: dict[str, Any]) -> None:
    """Change the security context of the init container, which is as dangerous as any."""
    spec["initContainers"][0]["securityContext"].update(change)


def volume(source: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    return lambda spec: spec["volumes"].append({"name": "extra", **source})


SYSCTL = {"name": "kernel.shm_rmid_forced", "value": "1"}
TOKEN = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
HOST, KINDS_OF_VOLUMES = "not its processes, memory or files", "Volumes of sender pods may be"
ROOT, RIGHTS, SECCOMP = "No container of a sender pod may run as root", "may add nothing", "seccompProfile.type"
NODE, ACCOUNT, IMAGE = "go to its node; give them the nodeSelector", "Sender pods have the account", "may not run the"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda spec: spec.update(hostPID=True), HOST),
        (lambda spec: spec.update(hostIPC=True), HOST),
        (volume({"hostPath": {"path": "/"}}), HOST),
        (volume({"projected": {"sources": [TOKEN]}}), KINDS_OF_VOLUMES),
        (volume({"projected": {"sources": [{"secret": {"name": "kafka"}}, TOKEN]}}), KINDS_OF_VOLUMES),
        (volume({"downwardAPI": {"items": []}}), KINDS_OF_VOLUMES),
        (volume({"nfs": {"server": "192.0.2.9", "path": "/"}}), KINDS_OF_VOLUMES),
        (volume({"csi": {"driver": "any.example"}}), KINDS_OF_VOLUMES),
        (lambda spec: spec.update(automountServiceAccountToken=True), "automountServiceAccountToken false"),
        (lambda spec: spec.pop("securityContext"), "need securityContext.runAsNonRoot true"),
        (lambda spec: spec["securityContext"].update(runAsUser=0), ROOT),
        (lambda spec: spec["securityContext"].update(runAsGroup=0), ROOT),
        (lambda spec: spec["containers"][0]["securityContext"].update(runAsUser=0), ROOT),
        (lambda spec: each_container(spec, {"runAsUser": 0}), ROOT),
        (lambda spec: each_container(spec, {"runAsGroup": 0}), ROOT),
        (lambda spec: each_container(spec, {"runAsNonRoot": False}), ROOT),
        (lambda spec: spec["securityContext"].pop("seccompProfile"), SECCOMP),
        (lambda spec: spec["securityContext"].update(seccompProfile={"type": "Unconfined"}), SECCOMP),
        (lambda spec: each_container(spec, {"seccompProfile": {"type": "Unconfined"}}), SECCOMP),
        (
            lambda spec: spec["securityContext"].update(sysctls=[{"name": "kernel.shm_rmid_forced", "value": "1"}]),
            SECCOMP,
        ),
        (lambda spec: each_container(spec, {"privileged": True, "allowPrivilegeEscalation": True}), RIGHTS),
        (lambda spec: each_container(spec, {"capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]}}), RIGHTS),
        (lambda spec: each_container(spec, {"seLinuxOptions": {"type": "spc_t"}}), RIGHTS),
        (lambda spec: spec["initContainers"][0].pop("securityContext"), RIGHTS),
        (lambda spec: spec["containers"][0].update(image="evil/sender:2"), "may not run the image evil/sender:2;"),
        (lambda spec: spec["initContainers"][0].update(image="evil/fetch:2"), "may not run the image evil/fetch:2;"),
        (lambda spec: spec.update(serviceAccountName="other"), ACCOUNT),
        (lambda spec: spec.update(nodeSelector={"kubernetes.io/hostname": "control"}), NODE),
        (lambda spec: spec.update(nodeSelector={"gapless.dev/diode": "north", "zone": "a"}), NODE),
        (lambda spec: spec.pop("nodeSelector"), "need its name in the label gapless.dev/diode"),
        (lambda spec: spec.update(nodeName="control"), "and no nodeName or affinity"),
        (lambda spec: spec["tolerations"].append({"operator": "Exists"}), "may have only the tolerations"),
        (lambda spec: spec["tolerations"][0].update(effect="NoExecute"), "may have only the tolerations"),
    ],
)
def test_a_pod_that_is_not_as_the_operator_makes_it_is_refused_whoever_asks(
    policies: Policies, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    assert sentence in policies.refusal(changed(change))


def test_a_pod_without_a_diode_is_refused(policies: Policies) -> None:
    pod = sender_pod()
    del pod["metadata"]["labels"]
    assert "need its name in the label gapless.dev/diode" in policies.refusal(pod)


def check_pod(**spec: Any) -> dict[str, Any]:
    """The pod of a check of a KafkaConnection, as the operator's Jobs have it."""
    body = ours("KafkaConnection", {"bootstrapServers": "kafka:9092", "allowedTopics": ["*"]}, name="kafka")
    body["metadata"]["uid"] = "0" * 36
    program = Program(image="gapless/sender:0.1.0", service_account="gapless-spark")
    job = doctor_job(KafkaConnection.from_resource(body), "kafka-doctor-1", "now", program, deadline_seconds=900)
    template = copy.deepcopy(job["spec"]["template"])
    template["metadata"] |= {"name": "check", "namespace": SENDERS}
    return {"apiVersion": "v1", "kind": "Pod", **template, "spec": {**template["spec"], **spec}}


def test_a_check_of_a_connection_is_taken_outside_of_the_nodes_network_only(policies: Policies) -> None:
    policies.create(check_pod(), user=JOBS)
    assert "may not use the node's network" in policies.refusal(check_pod(hostNetwork=True), user=JOBS)
    assert ACCOUNT in policies.refusal(check_pod(serviceAccountName="policy-operator"), user=JOBS)
    assert "are started by Jobs of the operator only" in policies.refusal(check_pod(), user=EDITOR)


def test_nobody_starts_a_pod_beside_the_operators_jobs_however_well_it_is_made(policies: Policies) -> None:
    said = policies.refusal(sender_pod(), user=EDITOR)
    assert "Pods in the senders' namespace are started by Jobs of the operator only; create a Resend." in said


def test_no_container_is_added_to_a_pod_that_runs_and_nobody_opens_a_shell_in_it(policies: Policies) -> None:
    pod = sender_pod()
    pod["metadata"]["name"] = "runs"
    policies.create(pod, dry_run=False)
    path = PATHS["Pod"].format(SENDERS) + "/runs"
    added = {"name": "debug", "image": "gapless/sender:0.1.0"}
    with pytest.raises(ApiError, match="Sender pods have no ephemeral containers"):
        policies.api.request(
            "PATCH",
            f"{path}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [added]}},
            content="application/strategic-merge-patch+json",
        )
    for ask in ("exec?command=sh&stdout=true", "attach?stdout=true", "portforward?ports=80"):
        with pytest.raises(ApiError, match="Only the platform team may exec into, attach to or forward ports"):
            policies.api.request("POST", f"{path}/{ask}", user=EDITOR)
    # What does not concern its containers may change.
    change = {"metadata": {"annotations": {"any": "note"}}}
    policies.patch("Pod", "runs", change, user=EDITOR)


# -------------------------------------------------------------------------------------- what the operator writes


def settings(name: str, *, is_ours: bool = True) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "gapless-operator"} if is_ours else {}
    metadata = {"name": name, "namespace": SENDERS, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"resend.properties": "a=b"}}


def test_only_the_operator_and_the_platform_team_change_what_the_operator_wrote(policies: Policies) -> None:
    written = "can only be written and deleted by the operator and the platform team"
    policies.create(settings("ours"), dry_run=False)
    policies.create(settings("bundle", is_ours=False), user=EDITOR)
    assert written in policies.refusal(settings("forged-ledger"), user=EDITOR)
    path = PATHS["ConfigMap"].format(SENDERS) + "/ours"
    for change in ({"data": {"resend.properties": "targetIP=evil"}}, {"metadata": {"labels": None}}):
        with pytest.raises(ApiError, match=written):
            policies.patch("ConfigMap", "ours", change, user=EDITOR)
    with pytest.raises(ApiError, match=written):
        policies.api.request("DELETE", path, user=EDITOR)
    policies.patch("ConfigMap", "ours", {"data": {"any": "thing"}})
    policies.api.request("DELETE", path)


def test_a_job_that_passes_for_one_of_the_operators_is_refused(policies: Policies) -> None:
    labels = {"app.kubernetes.io/managed-by": "gapless-operator", "gapless.dev/diode": "north"}
    template = {"metadata": {"labels": labels}, "spec": sender_pod()["spec"]}
    for namespace, own, sentence in (
        # A Job without labels gets those of its template from the API server, and then two policies refuse it.
        (SENDERS, {"app": "any"}, "Jobs in the senders' namespace are written by the operator only; create a Resend."),
        (SCANS, labels, "can only be written and deleted by the operator and the platform team"),
    ):
        metadata = {"name": "forged", "namespace": namespace, "labels": own}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
        assert sentence in policies.refusal(job, user=EDITOR)
        policies.create(job, user=OPERATOR)


# ---------------------------------------------------------------------------------------------- the operator itself


def operators_job(change: Callable[[dict[str, Any]], Any] = lambda _: None, *, mounted: str = "") -> dict[str, Any]:
    """A Job like those of the operator, in a namespace that lists its Secrets."""
    sources: list[dict[str, Any]] = [{"configMap": {"name": "settings"}}]
    if mounted:
        sources.append({"secret": {"name": mounted, "items": [{"key": "password", "path": "secrets/password"}]}})
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "configuration", "projected": {"sources": sources}}]
    container_ = {"name": "main", "image": "any", "env": [{"name": "HOME", "value": "/tmp"}]}  # noqa: S108
    spec = {"restartPolicy": "Never", "containers": [container_], "volumes": volumes}
    change(spec)
    metadata = {"name": f"test-{next(_numbers)}", "namespace": ARCHIVES}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": spec}}}


def test_the_operator_mounts_only_secrets_that_the_namespace_lists(policies: Policies) -> None:
    namespace = f"/api/v1/namespaces/{ARCHIVES}"

    def annotate(listed: str | None) -> None:
        body = {"metadata": {"annotations": {"gapless.dev/secrets": listed}}}
        policies.api.request("PATCH", namespace, body, content="application/merge-patch+json")

    policies.create(operators_job(mounted="any"), user=OPERATOR)
    annotate("kafka-north, store")
    try:
        wait_until_refused(policies, operators_job(mounted="any"), user=OPERATOR)
        refused = policies.refusal(operators_job(mounted="kafka"), user=OPERATOR)
        assert f"gapless.dev/secrets of the namespace {ARCHIVES} does not list the Secret kafka; add it" in refused
        for listed in ("kafka-north", "store", "again-0a1b2c3d-key-00ff00ff", ""):
            policies.create(operators_job(mounted=listed), user=OPERATOR)
        policies.create(
            operators_job(mounted="any"), user=EDITOR
        )  # the Pod Security and RBAC of the namespace are for users
    finally:
        annotate(None)


def test_an_executor_has_the_volumes_of_its_template_and_no_other_secret(policies: Policies) -> None:
    def executor(mounted: str, **more: Any) -> dict[str, Any]:
        spec = operators_job(mounted=mounted)["spec"]["template"]["spec"]
        ip = {"name": "SPARK_EXECUTOR_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        spec["containers"][0]["env"].append(ip)
        restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
        spec["containers"][0]["securityContext"] = {**restricted, "seccompProfile": {"type": "RuntimeDefault"}}
        spec["volumes"].append({"name": "conf", "configMap": {"name": "spark-exec-conf"}})
        metadata = {"name": f"test-{next(_numbers)}", "namespace": ARCHIVES}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **more}}

    policies.create(executor("kafka-north"), user=DRIVER)
    stolen = executor("", volumes=[{"name": "more", "secret": {"secretName": "kafka-north"}}])
    assert "executors of Spark have volumes of the kinds" in policies.refusal(stolen, user=DRIVER)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["volumes"].append({"name": "more", "secret": {"secretName": "kafka-north"}}),
        lambda spec: spec["volumes"].append({"name": "more", "hostPath": {"path": "/"}}),
        lambda spec: spec["volumes"].append(
            {"name": "more", "csi": {"driver": "any", "nodePublishSecretRef": {"name": "any"}}}
        ),
        lambda spec: spec["volumes"].append(
            {"name": "more", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        ),
        lambda spec: spec["containers"][0].update(envFrom=[{"secretRef": {"name": "any"}}]),
        lambda spec: spec["containers"][0]["env"].append(
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "any", "key": "any"}}}
        ),
        lambda spec: spec.update(
            initContainers=[{"name": "first", "image": "any", "envFrom": [{"secretRef": {"name": "any"}}]}]
        ),
    ],
)
def test_the_operator_has_no_other_way_to_a_secret(policies: Policies, change: Callable[[dict[str, Any]], Any]) -> None:
    refused = policies.refusal(operators_job(change), user=OPERATOR)
    assert "Pods of the operator and executors of Spark have volumes of the kinds emptyDir, " in refused


def test_every_expression_of_every_policy_fits_what_it_looks_at(policies: Policies) -> None:
    """The API server checks expressions against the kinds that they are for, and warns."""
    found = json.loads(policies.api.kubectl("get", "validatingadmissionpolicy", "-o=json"))["items"]
    ours_ = [each for each in found if each["metadata"]["name"].startswith("policy-")]
    assert len(ours_) >= 6
    warned = {
        each["metadata"]["name"]: each["status"]["typeChecking"]["expressionWarnings"]
        for each in ours_
        if each.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
    }
    assert not warned
