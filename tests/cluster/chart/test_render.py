"""What the chart renders. `GAPLESS_UPDATE_GOLDEN=1` writes the golden files anew; review them like code."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gapless_operator.common.children import pod_security
from gapless_operator.common.pod_template import read_named_templates, read_sender_template
from gapless_operator.common.settings import read_settings
from gapless_operator.mirroring.workers import METRICS_PORT
from gapless_operator.shell.api.kinds import CHILDREN, DISRUPTION_BUDGET, LEASE, NAMED, OWNERS, POD
from gapless_operator.shell.http.endpoints import WORKERS_PATH
from gapless_operator.shell.http.metrics_access import METRICS_PATH

if TYPE_CHECKING:
    from conftest import Helm, Manifest

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
SETS = ("upstream", "downstream", "both", "archive", "mirror")
CLUSTER_SCOPED = {
    *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "PriorityClass"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}
BOTH = {"roles": {"downstream": {"enabled": True}, "upstream": {"enabled": True}}}
EVERYTHING = {
    **BOTH,
    "roles.archive.enabled": True,
    "roles.mirror.enabled": True,
    "metrics.readers": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}],
    **{f"{role}.resourceQuota.enabled": True for role in ("sender", "scan", "archive", "mirror")},
    **{f"{role}.limitRange.enabled": True for role in ("scan", "archive", "mirror")},
    "metrics.serviceMonitor.enabled": True,
    "metrics.prometheusRule.enabled": True,
    "metrics.dashboards.enabled": True,
    "clusterName": "north",
    "windows": [{"cluster": "north", "start": 0, "count": 6}],
}


def values_of(name: str) -> Path:
    return HERE / "values" / f"{name}.yaml"


@pytest.mark.parametrize("name", SETS)
def test_the_chart_renders_as_reviewed(helm: Helm, name: str) -> None:
    rendered = helm.template(values_of(name))
    assert rendered.returncode == 0, rendered.stderr
    # Definitions and dashboards are checked in beside the chart; here they would only drown the rest.
    text = "".join(
        part
        for part in re.split(r"(?m)^(?=---\n)", rendered.stdout)
        if "templates/crds.yaml" not in part and "templates/dashboards.yaml" not in part
    )
    golden = HERE / "golden" / f"{name}.yaml"
    if os.environ.get("GAPLESS_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SETS)
def test_lint_finds_nothing(helm: Helm, name: str) -> None:
    linted = helm.run("lint", "--strict", "--values", values_of(name), HERE.parents[2] / "charts" / "gapless")
    assert linted.returncode == 0, linted.stdout


def test_the_definitions_are_the_checked_in_ones(helm: Helm) -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in helm.manifests(values=BOTH, show="templates/crds.yaml")}
    made = [yaml.safe_load(path.read_text()) for path in (HERE.parents[2] / "crds" / "manifests").glob("*.yaml")]
    assert {crd["metadata"]["name"]: crd["spec"] for crd in made} == {
        name: crd["spec"] for name, crd in rendered.items()
    }
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in rendered.values()} == {"keep"}


def test_definitions_can_be_left_to_another_way_and_need_not_be_kept(helm: Helm) -> None:
    assert not [m for m in helm.manifests(values={**BOTH, "crds.enabled": False}) if is_crd(m)]
    for crd in filter(is_crd, helm.manifests(values={**BOTH, "crds.keep": False})):
        assert "annotations" not in crd["metadata"]


def is_crd(manifest: Manifest) -> bool:
    return bool(manifest["kind"] == "CustomResourceDefinition")


@pytest.mark.parametrize("name", SETS)
def test_the_operator_understands_every_argument(helm: Helm, name: str) -> None:
    [deployment] = of_kind(helm.manifests(values_of(name)), "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    settings = read_settings(container["args"], {})
    roles = yaml.safe_load(values_of(name).read_text())["roles"]
    assert ("gapless-sender" in settings.namespaces) == ("upstream" in roles)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"metrics": settings.metrics_port, "probes": settings.health_port}


def test_digests_and_registries_reach_the_operator(helm: Helm) -> None:
    [deployment] = of_kind(helm.manifests(values_of("upstream")), "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/mirror/gapless/operator:0.1.0"
    settings = read_settings(container["args"], {})
    assert settings.sender.image == "registry.example/mirror/gapless/sender@sha256:" + "0123456789abcdef" * 4
    assert (settings.sender.pull_policy, settings.sender.service_account) == ("Always", "gapless-sender")


# -------------------------------------------------------------------------------------------------- OpenShift

OPENSHIFT = "security.openshift.io/v1"


@pytest.mark.parametrize(
    ("values", "apis", "is_openshift"),
    [
        ({}, (), False),
        ({}, (OPENSHIFT,), True),
        ({"openshift.enabled": True}, (), True),
        ({"openshift.enabled": False}, (OPENSHIFT,), False),
    ],
)
def test_on_openshift_pods_ask_for_no_ids_and_senders_have_constraints(
    helm: Helm, values: dict[str, Any], apis: tuple[str, ...], *, is_openshift: bool
) -> None:
    rendered = helm.manifests(values={**EVERYTHING, **values}, apis=apis)
    [deployment] = of_kind(rendered, "Deployment")
    [test] = of_kind(rendered, "Pod")
    template = deployment["spec"]["template"]["spec"]
    wanted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    ids = {} if is_openshift else {"runAsUser": 65532, "runAsGroup": 65532}
    assert test["spec"]["securityContext"] == {**wanted, **ids}
    assert template["securityContext"] == {**wanted, **ids, **({} if is_openshift else {"fsGroup": 65532})}
    settings = read_settings(template["containers"][0]["args"], {})
    assert {each.pod_templates.has_assigned_ids for each in (settings.spark, settings.workers)} == {is_openshift}
    constraints = of_kind(rendered, "SecurityContextConstraints")
    assert len(constraints) == is_openshift
    for each in constraints:
        assert each["users"] == ["system:serviceaccount:gapless-sender:gapless-sender"]
        assert [name for name, value in each.items() if name.startswith("allow") and value] == ["allowHostNetwork"]
        [group] = each["fsGroup"]["ranges"]
        assert group["min"] <= pod_security()["fsGroup"] <= group["max"]


# ----------------------------------------------------------------------------------------------------- rights


def rules(helm: Helm) -> list[tuple[str, dict[str, Any]]]:
    roles = [m for m in helm.manifests(values=EVERYTHING) if m["kind"] in {"Role", "ClusterRole"}]
    every = [(role["metadata"]["name"], rule) for role in roles for rule in role["rules"]]
    assert [rule for _, rule in every if "nonResourceURLs" in rule] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]
    return [(name, rule) for name, rule in every if "nonResourceURLs" not in rule]


def test_no_rule_has_a_wildcard(helm: Helm) -> None:
    assert rules(helm)
    for _, rule in rules(helm):
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        assert "*" not in "".join(rule["apiGroups"] + rule["resources"] + rule["verbs"])


def test_nobody_may_read_secrets(helm: Helm) -> None:
    verbs = {verb for _, rule in rules(helm) if "secrets" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"create"}


def granted(helm: Helm, role: str) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for name, rule in rules(helm)
        if name == role
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("role", ["gapless-scans", "gapless-senders", "gapless-archives", "gapless-mirrors"])
def test_the_operator_may_watch_every_kind_that_it_watches_and_no_other(helm: Helm, role: str) -> None:
    watched = {(kind.group, kind.plural, verb) for kind in (*OWNERS, *NAMED, *CHILDREN) for verb in ("list", "watch")}
    found = granted(helm, role)
    assert {rule for rule in found if rule[2] in {"list", "watch"}} == watched
    # Owners are read again after a conflict, children before they are written first, logs for results.
    read = {(kind.group, kind.plural) for kind in (*OWNERS, *CHILDREN, LEASE) if kind is not POD}
    read |= {("", "pods/log"), ("", "namespaces")}  # the annotation of their own namespace
    if role == "gapless-mirrors":
        read.add((DISRUPTION_BUDGET.group, DISRUPTION_BUDGET.plural))
    assert {rule[:2] for rule in found if rule[2] == "get"} == read


def test_the_operator_may_read_single_nodes_unless_it_must_not(helm: Helm) -> None:
    assert granted(helm, "gapless-nodes") == {("", "nodes", "get")}
    without = helm.manifests(values={**EVERYTHING, "rbac.readNodes": False})
    assert not [m for m in without if m["metadata"]["name"] == "gapless-nodes"]


def test_the_operator_may_write_what_its_children_are_and_no_more(helm: Helm) -> None:
    def writes(role: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for _, resource, verb in granted(helm, role):
            if verb not in {"get", "list", "watch"}:
                found.setdefault(resource, set()).add(verb)
        return found

    child = {"create", "patch", "delete"}
    everywhere = {
        "events": {"create"},
        "leases": {"create", "update"},
        "kafkaconnections/status": {"patch"},
        "kafkaconnections/finalizers": {"update"},
    }
    assert writes("gapless-scans") == {
        "gapscans/status": {"patch"},
        "gapscans/finalizers": {"update"},
        "jobs": child,
        "sparkapplications": child,
        "pods": {"delete"},
        "configmaps": child,
        **everywhere,
    }
    assert writes("gapless-mirrors") == {
        "mirrors/status": {"patch"},
        "mirrors/finalizers": {"update"},
        "poddisruptionbudgets": {"create", "patch"},
        "jobs": child,
        "sparkapplications": child,
        "pods": {"delete"},
        "configmaps": child,
        **everywhere,
    }
    assert writes("gapless-senders") == {
        "diodes/status": {"patch"},
        "resends/status": {"patch"},
        "diodes/finalizers": {"update"},
        "resends/finalizers": {"update"},
        "resends": {"delete"},
        "jobs": child,
        "pods": {"delete"},
        "configmaps": child,
        "persistentvolumeclaims": {"create", "patch"},
        "secrets": {"create"},
        **everywhere,
    }


def test_the_operator_has_rights_only_in_namespaces_that_it_serves(helm: Helm) -> None:
    manifests = helm.manifests(values=EVERYTHING)
    [deployment] = of_kind(manifests, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    served = set(read_settings(pod["containers"][0]["args"], {}).namespaces)
    bindings = [
        binding
        for binding in manifests
        if binding["kind"] in {"RoleBinding", "ClusterRoleBinding"}
        and binding["subjects"][0]["name"] == pod["serviceAccountName"]
    ]
    beyond = [binding["roleRef"]["name"] for binding in bindings if binding["kind"] == "ClusterRoleBinding"]
    # Single nodes, by name; and whose token it is that asks for metrics, which is no right to anything of theirs.
    assert sorted(beyond) == ["gapless-nodes", "system:auth-delegator"]
    here = [binding["metadata"]["namespace"] for binding in bindings if binding["kind"] == "RoleBinding"]
    assert set(here) == served
    accounts = {m["metadata"]["name"] for m in of_kind(manifests, "ServiceAccount")}
    assert pod["serviceAccountName"] in accounts


def test_who_may_edit_may_resend_and_scan_but_not_change_a_diode(helm: Helm) -> None:
    roles = {role["metadata"]["name"]: role for role in of_kind(helm.manifests(values=EVERYTHING), "ClusterRole")}
    [edit] = roles["gapless-edit"]["rules"]
    assert set(edit["resources"]) == {"archives", "gapscans", "mirrors", "resends", "restores"}
    assert roles["gapless-edit"]["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    [view] = roles["gapless-view"]["rules"]
    assert (set(view["resources"]), set(view["verbs"])) == (
        {"archives", "diodes", "gapscans", "kafkaconnections", "mirrors", "resends", "restores", "storagelocations"},
        {"get", "list", "watch"},
    )
    for name in ("gapless-diodes", "gapless-connections"):
        assert not [key for key in roles[name]["metadata"]["labels"] if key.startswith("rbac.")]
    [connections] = roles["gapless-connections"]["rules"]
    assert set(connections["resources"]) == {"kafkaconnections", "storagelocations"}
    plain = helm.manifests(values={**EVERYTHING, "rbac.aggregateToDefaultRoles": False})
    assert not [
        label for role in of_kind(plain, "ClusterRole") for label in role["metadata"]["labels"] if "rbac." in label
    ]


# ------------------------------------------------------------------------------------------------ consistency


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def test_every_pod_keeps_to_the_restricted_level(helm: Helm) -> None:
    manifests = helm.manifests(values=EVERYTHING)
    pods = [m["spec"] for m in of_kind(manifests, "Pod")]
    pods += [m["spec"]["template"]["spec"] for m in of_kind(manifests, "Deployment")]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]


def test_there_is_one_operator_and_no_budget_that_would_block_a_drain(helm: Helm) -> None:
    manifests = helm.manifests(values=BOTH)
    [deployment] = of_kind(manifests, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert of_kind(manifests, "PodDisruptionBudget") == []


def test_of_two_operators_on_two_nodes_a_drain_and_an_upgrade_leave_one(helm: Helm) -> None:
    manifests = helm.manifests(values={**BOTH, "operator.replicas": 2})
    [deployment], [budget] = of_kind(manifests, "Deployment"), of_kind(manifests, "PodDisruptionBudget")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    pod = deployment["spec"]["template"]
    [spread] = pod["spec"]["topologySpreadConstraints"]
    selectors = (spread["labelSelector"], budget["spec"]["selector"], deployment["spec"]["selector"])
    for selector in selectors:
        assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert selector == selectors[0]
    assert budget["spec"]["maxUnavailable"] == 1
    settings = read_settings(pod["spec"]["containers"][0]["args"], {})
    assert re.fullmatch(r"[^/]+/gapless", settings.release)


def test_sender_pods_come_after_every_pod_that_names_no_priority(helm: Helm) -> None:
    manifests = helm.manifests(values=BOTH)
    [priority] = of_kind(manifests, "PriorityClass")
    assert priority["value"] < 0
    assert priority["preemptionPolicy"] == "Never"
    [deployment] = of_kind(manifests, "Deployment")
    settings = read_settings(deployment["spec"]["template"]["spec"]["containers"][0]["args"], {})
    assert settings.sender.priority_class == priority["metadata"]["name"]
    without = helm.manifests(values={**BOTH, "sender.priorityClass.create": False})
    assert not of_kind(without, "PriorityClass")
    assert "--sender-priority-class" not in str(of_kind(without, "Deployment"))


def test_metrics_are_for_accounts_that_may_read_them_unless_somebody_says_otherwise(helm: Helm) -> None:
    def settings(values: dict[str, Any]) -> Any:
        [deployment] = of_kind(helm.manifests(values=values), "Deployment")
        return read_settings(deployment["spec"]["template"]["spec"]["containers"][0]["args"], {})

    assert settings(BOTH).metrics_authentication
    assert not settings({**BOTH, "metrics.authentication": False}).metrics_authentication
    manifests = helm.manifests(values=EVERYTHING)
    [monitor] = of_kind(manifests, "ServiceMonitor")
    [service] = of_kind(manifests, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [endpoint["path"] for endpoint in monitor["spec"]["endpoints"]] == [METRICS_PATH, WORKERS_PATH]
    for endpoint in monitor["spec"]["endpoints"]:
        assert endpoint["scheme"] == "https"
        assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    [readers] = [b for b in of_kind(manifests, "ClusterRoleBinding") if b["metadata"]["name"] == "gapless-metrics"]
    assert readers["subjects"] == EVERYTHING["metrics.readers"]
    open_to_all = helm.manifests(values={**EVERYTHING, "metrics.authentication": False})
    beyond = {binding["roleRef"]["name"] for binding in of_kind(open_to_all, "ClusterRoleBinding")}
    assert beyond.isdisjoint({"gapless-metrics", "system:auth-delegator"})
    assert all("scheme" not in each for each in of_kind(open_to_all, "ServiceMonitor")[0]["spec"]["endpoints"])


def test_only_the_operator_connects_to_the_metrics_of_mirror_workers(helm: Helm) -> None:
    manifests = helm.manifests(values={**EVERYTHING, "networkPolicy.metricsFrom": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]})
    [deployment] = of_kind(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "NetworkPolicy")}
    [rule] = [rule for rule in policies["gapless-mirrors"]["ingress"] if "ports" in rule]
    assert [port["port"] for port in rule["ports"]] == [METRICS_PORT]
    [peer] = rule["from"]
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "gapless-system"}
    [egress] = [rule for rule in policies["gapless-operator"]["egress"] if rule["ports"][0]["port"] == METRICS_PORT]
    assert egress["to"][0]["namespaceSelector"]["matchExpressions"][0]["values"] == ["gapless-mirror"]


def test_a_certificate_of_ones_own_is_mounted_and_verified(helm: Helm) -> None:
    manifests = helm.manifests(values={**EVERYTHING, "metrics.certificateSecret": "metrics-tls"})
    [deployment] = of_kind(manifests, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    folder = str(read_settings(pod["containers"][0]["args"], {}).metrics_certificate)
    [mount] = [m for m in pod["containers"][0]["volumeMounts"] if m["mountPath"] == folder]
    [volume] = [v for v in pod["volumes"] if v["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == "metrics-tls"
    [monitor] = of_kind(manifests, "ServiceMonitor")
    tls = monitor["spec"]["endpoints"][0]["tlsConfig"]
    assert tls == {
        "ca": {"secret": {"name": "metrics-tls", "key": "ca.crt"}},
        "serverName": "gapless-operator.gapless-system.svc",
    }


def test_operator_and_scans_are_closed_in_by_default_and_reach_what_they_need(helm: Helm) -> None:
    policies = {p["metadata"]["name"]: p["spec"] for p in of_kind(helm.manifests(values=BOTH), "NetworkPolicy")}
    assert set(policies) == {"gapless-operator", "gapless-scans", "gapless-checks"}
    for spec in policies.values():
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert {} not in spec["egress"], "a rule that allows everything"
    operator = [port["port"] for rule in policies["gapless-operator"]["egress"] for port in rule["ports"]]
    assert sorted(operator) == [53, 53, 443, 5353, 5353, 6443]
    elsewhere = policies["gapless-scans"]["egress"][-1]
    assert {port["port"] for port in elsewhere["ports"]} == {9092, 443, 9000}
    assert {cidr for to in elsewhere["to"] for cidr in to["ipBlock"]["except"]} == {"169.254.0.0/16", "fe80::/10"}
    assert not of_kind(helm.manifests(values={**BOTH, "networkPolicy.enabled": False}), "NetworkPolicy")


def test_only_the_senders_namespace_is_made_and_it_outlives_the_release(helm: Helm) -> None:
    [namespace, scans] = of_kind(helm.manifests(values=BOTH), "Namespace")
    assert scans["metadata"]["name"] == "gapless-scan"
    assert scans["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert namespace["metadata"]["name"] == "gapless-sender"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert namespace["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    own = {**BOTH, "sender.namespace.create": False, "scan.namespaces": ["mine"]}
    assert not of_kind(helm.manifests(values=own), "Namespace")
    assert not of_kind(helm.manifests(values_of("downstream")), "Namespace")


def test_common_labels_and_annotations_are_on_everything(helm: Helm) -> None:
    for manifest in helm.manifests(values_of("upstream")):
        metadata = manifest["metadata"]
        assert metadata["labels"]["site"] == "17", manifest["kind"]
        assert metadata["annotations"]["example.org/owner"] == "logging", manifest["kind"]


def test_every_namespaced_object_goes_where_it_belongs(helm: Helm) -> None:
    def places(role: str) -> set[str]:
        named = (m for m in helm.manifests(values_of(role)) if m["kind"] not in CLUSTER_SCOPED)
        return {m["metadata"].get("namespace", "that of kubectl apply") for m in named}

    assert places("downstream") == {"gapless-system", "scans-a", "scans-b"}
    assert places("upstream") == {"gapless-system", "gapless-sender", "monitoring"}


def test_a_cluster_that_is_too_old_is_refused(helm: Helm) -> None:
    rendered = helm.template(values=BOTH, kubernetes="1.30.9")
    assert "chart requires kubeVersion: >=1.31.0-0" in rendered.stderr


def test_the_diode_policy_demands_this_clusters_window(helm: Helm) -> None:
    policies = {
        policy["metadata"]["name"]: policy["spec"]["validations"]
        for policy in of_kind(helm.manifests(values_of("upstream")), "ValidatingAdmissionPolicy")
    }
    [validation] = policies["gapless-diode-window"]
    assert "start == 6" in validation["expression"]
    assert "write partitionWindow: {start: 6, count: 12}." in validation["message"]
    assert "gapless-diode-window" in policies
    names = {p["metadata"]["name"] for p in of_kind(helm.manifests(values=BOTH), "ValidatingAdmissionPolicy")}
    assert "gapless-diode-window" not in names  # without a list of windows any window is right


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (
            "kafkaTopics",
            {
                f"gapless-{kind}-topics"
                for kind in ("archives", "gapscans", "mirrors", "mirrors-target", "resends", "restores")
            },
        ),
        ("storageLocations", {f"gapless-{kind}-storage" for kind in ("archives", "gapscans", "resends", "restores")}),
        ("legalHolds", {"gapless-archive-holds"}),
        ("resendLimits", {"gapless-resend-limits"}),
        ("gapScans", {"gapless-gapscans"}),
        ("senderPods", {"gapless-sender-pods", "gapless-sender-nodes", "gapless-sender-jobs", "gapless-sender-shells"}),
        ("operatorSecrets", {f"gapless-operator-{kind}" for kind in ("jobs", "sparkapplications", "pods")}),
        ("operatorObjects", {"gapless-operator-objects"}),
    ],
)
def test_each_policy_can_be_switched_off_by_itself(helm: Helm, value: str, names: set[str]) -> None:
    def policies(**values: bool) -> set[str]:
        manifests = helm.manifests(values={**BOTH, **values})
        found = {m["metadata"]["name"] for m in of_kind(manifests, "ValidatingAdmissionPolicy")}
        bound = {m["metadata"]["name"] for m in of_kind(manifests, "ValidatingAdmissionPolicyBinding")}
        assert found == bound
        return found

    assert policies() - policies(**{f"admissionPolicies.{value}": False}) == names


def test_a_driver_may_start_see_and_end_pods_and_nothing_else(helm: Helm) -> None:
    verbs = ("create", "get", "list", "watch", "delete", "deletecollection")
    assert granted(helm, "gapless-spark-driver") == {("", "pods", verb) for verb in verbs}
    manifests = helm.manifests(values=EVERYTHING)
    bindings = [each for each in of_kind(manifests, "RoleBinding") if each["roleRef"]["name"] == "gapless-spark-driver"]
    places = {"gapless-scan", "gapless-archive", "gapless-mirror"}
    assert {each["metadata"]["namespace"] for each in bindings} == places, "never in the senders' namespace"
    assert {subject["namespace"] for each in bindings for subject in each["subjects"]} == places


def test_beside_senders_archives_run_as_jobs_without_rights(helm: Helm) -> None:
    manifests = helm.manifests(values=EVERYTHING)
    here = [each for each in manifests if each["metadata"].get("namespace") == "gapless-sender"]
    [role] = [each for each in of_kind(here, "Role") if each["metadata"]["name"] == "gapless-archives"]
    written = {name for rule in role["rules"] if "create" in rule["verbs"] for name in rule["resources"]}
    assert "sparkapplications" not in written
    assert "jobs" in written
    assert "gapless-spark" in {each["metadata"]["name"] for each in of_kind(here, "ServiceAccount")}
    [deployment] = of_kind(manifests, "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert read_settings(arguments, {}).jobs_only_namespaces == {"gapless-sender"}


def test_checks_of_connections_have_an_account_with_the_pull_secrets_wherever_they_run(helm: Helm) -> None:
    """Their image comes from the registry of the others."""
    for role in ("downstream", "upstream", "archive", "mirror"):
        manifests = helm.manifests(values={f"roles.{role}.enabled": True, "imagePullSecrets": [{"name": "pull"}]})
        [deployment] = of_kind(manifests, "Deployment")
        told = read_settings(deployment["spec"]["template"]["spec"]["containers"][0]["args"], {})
        accounts = {
            each["metadata"].get("namespace"): each["imagePullSecrets"]
            for each in of_kind(manifests, "ServiceAccount")
            if each["metadata"]["name"] == told.workers.service_account
        }
        assert accounts == {namespace: [{"name": "pull"}] for namespace in told.namespaces}, role


def test_an_archive_may_not_share_the_namespace_of_the_release_or_of_senders(helm: Helm) -> None:
    for namespace, said in (
        ("gapless-system", "both the release and archives"),
        ("gapless-sender", "in the senders' namespace"),
    ):
        refused = helm.template(values={**EVERYTHING, "archive.namespaces": [namespace]})
        assert refused.returncode != 0
        assert said in refused.stderr


def test_mirrors_may_not_share_the_namespace_of_the_release_or_of_senders(helm: Helm) -> None:
    for namespace in ("gapless-system", "gapless-sender"):
        refused = helm.template(values={**EVERYTHING, "mirror.namespaces": [namespace]})
        assert refused.returncode != 0
        assert f"The namespace {namespace} would hold both" in refused.stderr
        assert "remove it from mirror.namespaces" in refused.stderr


def test_what_scans_may_name_reaches_the_operator(helm: Helm) -> None:
    values = {
        **BOTH,
        "scan.allowedImages": ["registry.example/spark:2", "spark@sha256:" + "ab" * 32],
        "scan.allowedServiceAccounts": ["own"],
        "scan.signingKeySecrets": ["signing"],
    }
    [deployment] = of_kind(helm.manifests(values=values), "Deployment")
    settings = read_settings(deployment["spec"]["template"]["spec"]["containers"][0]["args"], {})
    assert settings.spark.allowed_images == set(values["scan.allowedImages"])
    assert settings.spark.allowed_service_accounts == {"own"}
    assert settings.spark.signing_key_secrets == {"signing"}


def test_the_rendered_windows_can_be_checked_again(helm: Helm, tmp_path: Path) -> None:
    from gapless_api.offsets.window_files import read_window_files  # noqa: PLC0415 -- the only test that reads windows

    [fleet] = helm.manifests(values_of("upstream"), show="templates/fleet.yaml")
    (tmp_path / "windows.yaml").write_text(fleet["data"]["windows.yaml"])
    [read] = read_window_files([tmp_path / "windows.yaml"])
    assert {cluster: (w.start, w.count) for cluster, w in (read.windows or {}).items()} == {
        "north": (0, 6),
        "south": (6, 12),
    }
    assert yaml.safe_load(fleet["data"]["partitionWindow"]) == {"start": 6, "count": 12}


def test_the_test_pod_runs_the_checked_in_program(helm: Helm) -> None:
    [pod] = helm.manifests(values=BOTH, show="templates/tests/test-install.yaml")
    [program] = pod["spec"]["containers"][0]["args"]
    ast.parse(program)
    source = HERE.parents[2] / "charts" / "gapless" / "files" / "check_install.py"
    assert program.strip() == source.read_text().strip()
    [service] = helm.manifests(values=BOTH, show="templates/deployment.yaml")[1:]
    health = pod["spec"]["containers"][0]["env"][0]["value"]
    assert health == f"http://{service['metadata']['name']}.gapless-system:8081/readyz"


def test_the_test_pod_knows_the_kinds_that_each_role_of_the_operator_serves(helm: Helm) -> None:
    manifests = helm.manifests(values=EVERYTHING)
    served: dict[str, set[str]] = {}
    for role in of_kind(manifests, "Role"):
        for rule in role["rules"]:
            kinds = {name.removesuffix("/status") for name in rule["resources"] if name.endswith("/status")}
            served.setdefault(role["metadata"]["namespace"], set()).update(kinds - {"kafkaconnections"})
    [pod] = [pod for pod in of_kind(manifests, "Pod") if pod["metadata"]["name"] == "gapless-test"]
    [known] = [
        json.loads(one["value"]) for one in pod["spec"]["containers"][0]["env"] if one["name"] == "GAPLESS_SERVED"
    ]
    assert {namespace: set(kinds) for namespace, kinds in known.items()} == {
        ns: some for ns, some in served.items() if some
    }
    assert {"mirrors", "archives", "restores", "gapscans", "diodes", "resends"} == set().union(*served.values())


def test_what_the_notes_say_holds_for_these_values(helm: Helm, tmp_path: Path) -> None:
    chart = tmp_path / "gapless"
    shutil.copytree(HERE.parents[2] / "charts" / "gapless", chart)
    # helm shows notes only with a cluster; as part of a manifest it shows them without one.
    shown = 'notes: {{ include "gapless/templates/NOTES.txt" . | toJson }}\n'
    (chart / "templates" / "shown.yaml").write_text(shown)

    def notes(name: str) -> str:
        options = ["--kube-version", "1.36.0", "--namespace", "gapless-system", "--show-only", "templates/shown.yaml"]
        rendered = helm.run("template", "gapless", chart, "--values", values_of(name), *options)
        text: str = yaml.safe_load(rendered.stdout)["notes"]
        return text

    assert "partitionWindow: {start: 6, count: 12}" in notes("upstream")
    assert "This cluster RECEIVES" not in notes("upstream")
    assert "Namespaces with GapScans: scans-a, scans-b" in notes("downstream")
    assert "This cluster SENDS" not in notes("downstream")
    assert "ARCHIVES" not in notes("downstream")
    assert "Namespaces with Archives and Restores: gapless-archive, gapless-sender" in notes("archive")
    assert "Namespaces with Mirrors: gapless-mirror" in notes("mirror")
    assert "helm test gapless -n gapless-system" in notes("both")


def test_what_is_added_to_pods_reaches_the_operator_and_restarts_it(helm: Helm) -> None:
    def operator(**values: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
        manifests = helm.manifests(values={**BOTH, **values})
        (found,) = of_kind(manifests, "Deployment")
        maps = {each["metadata"]["name"]: each["data"] for each in of_kind(manifests, "ConfigMap")}
        return found["spec"]["template"], maps.get("gapless-pod-template")

    plain, nothing = operator()
    assert nothing is None
    given = {
        "labels": {"team": "platform"},
        "env": {"HTTPS_PROXY": "http://proxy:3128"},
        "tolerations": [{"key": "kafka"}],
    }
    template, data = operator(podTemplate=given)
    assert data is not None
    assert json.loads(data["template.json"]) == given
    spec, container = template["spec"], template["spec"]["containers"][0]
    assert "--pod-template=/etc/gapless/pods/template.json" in container["args"]
    assert {"name": "pod-template", "mountPath": "/etc/gapless/pods", "readOnly": True} in container["volumeMounts"]
    assert {"name": "pod-template", "configMap": {"name": "gapless-pod-template"}} in spec["volumes"]
    other, _ = operator(podTemplate={**given, "labels": {}})
    annotations = [each["metadata"].get("annotations") for each in (plain, template, other)]
    assert len({json.dumps(each) for each in annotations}) == 3, "the operator reads the file when it starts"


def test_named_pod_templates_reach_the_operator_and_the_policies(helm: Helm, tmp_path: Path) -> None:
    given = {"night": {"nodeSelector": {"pool": "night"}}, "a-b": {"labels": {"team": "a"}}}
    manifests = helm.manifests(values={**BOTH, "podTemplates": given})
    (data,) = (each["data"] for each in of_kind(manifests, "ConfigMap") if "templates.json" in each["data"])
    assert "template.json" not in data
    file = tmp_path / "templates.json"
    file.write_text(data["templates.json"])
    assert read_named_templates(file)["night"].spec == given["night"]
    (deployment,) = of_kind(manifests, "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert "--pod-templates=/etc/gapless/pods/templates.json" in container["args"]
    assert {"name": "pod-template", "mountPath": "/etc/gapless/pods", "readOnly": True} in container["volumeMounts"]
    policies = json.dumps(of_kind(manifests, "ValidatingAdmissionPolicy"))
    assert "object.spec.podTemplate in ['a-b','night']" in policies


def test_a_pod_template_with_anything_else_is_refused(helm: Helm) -> None:
    assert "securityContext" in helm.refusal(**BOTH, podTemplate={"securityContext": {}})
    assert "securityContext" in helm.refusal(**BOTH, podTemplates={"big": {"securityContext": {}}})
    assert "Big" in helm.refusal(**BOTH, podTemplates={"Big": {}})
    assert "key" in helm.refusal(**BOTH, podTemplate={"caBundle": {"name": "platform-ca"}})
    for field in ("nodeSelector", "affinity", "tolerations", "runtimeClassName"):
        assert field in helm.refusal(**BOTH, sender={"podTemplate": {field: {}}})


def test_what_is_added_to_pods_among_senders_reaches_the_operator(helm: Helm, tmp_path: Path) -> None:
    trusted = {"name": "platform-ca", "key": "ca-bundle.crt"}
    given = {"labels": {"cost": "diodes"}, "priorityClassName": "low", "caBundle": trusted}
    manifests = helm.manifests(values={**BOTH, "sender": {"podTemplate": given}})
    (data,) = (each["data"] for each in of_kind(manifests, "ConfigMap") if "sender.json" in each["data"])
    file = tmp_path / "sender.json"
    file.write_text(data["sender.json"])
    template = read_sender_template(file)
    assert (template.labels, template.spec["priorityClassName"]) == (given["labels"], "low")
    assert template.ca_bundle == (trusted["name"], trusted["key"])
    (deployment,) = of_kind(manifests, "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert "--sender-pod-template=/etc/gapless/pods/sender.json" in container["args"]
    assert {"name": "pod-template", "mountPath": "/etc/gapless/pods", "readOnly": True} in container["volumeMounts"]
