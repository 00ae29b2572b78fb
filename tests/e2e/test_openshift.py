"""Where the cluster assigns user and group IDs, as OpenShift does, and refuses others, every kind runs.

Policies take the place of the security context constraints: restricted-v2 assigns IDs of the namespace's range to pods
that ask for none, and refuses all other pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kit.cluster.locations import volume
from kit.cluster.places import ClusterError
from kit.cluster.product import (
    API_VERSION,
    ARCHIVE_NAMESPACE,
    MIRROR_NAMESPACE,
    OPERATOR_NAMESPACE,
    SCAN_NAMESPACE,
    SENDER_NAMESPACE,
    Installation,
    Site,
    condition_of,
)
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.timeout(900)
SMALL = {"cores": 1, "cpu": "200m", "memory": "512Mi"}
CONSTRAINTS = "securitycontextconstraints.security.openshift.io"
ASSIGNING = "openshift-assigns-ids"
RANGES = {
    namespace: 1000700000 + 10000 * number
    for number, namespace in enumerate((OPERATOR_NAMESPACE, SCAN_NAMESPACE, ARCHIVE_NAMESPACE, MIRROR_NAMESPACE))
}
"""The first user ID of each namespace with restricted-v2; also its group for volumes."""
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CONSTRAINTS},
    "spec": {
        "group": "security.openshift.io",
        "names": {"kind": "SecurityContextConstraints", "plural": CONSTRAINTS.split(".", 1)[0]},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_every_kind_runs_with_the_ids_that_the_cluster_assigns(
    spark_operator: Cluster, installed: Installation, make_site: SiteFactory
) -> None:
    cluster = spark_operator
    with openshift(cluster, installed) as begun:
        site = make_site()
        site.fill(1000)
        cluster.apply(site.diode())
        cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
        (constraints,) = json.loads(cluster.kubectl("get", CONSTRAINTS, "-o=json"))["items"]
        assert constraints["users"] == [f"system:serviceaccount:{SENDER_NAMESPACE}:gapless-sender"]

        # A volume that belongs to root, written by a pod of a Job.
        volume(cluster, "assigned", ARCHIVE_NAMESPACE)
        engine = {"type": "Job", "reader": "Local", "driver": SMALL}
        archive = site.archive(f"{site.name}-assigned", ARCHIVE_NAMESPACE, engine=engine, segments={"maxAgeSeconds": 1})
        archive["spec"]["storageRef"] = {"name": "assigned"}
        cluster.apply(archive)
        cluster.apply(mirror(site, *connect_mirror(cluster, site)))

        # Java in drivers and executors, where the user has no name.
        engine = {"type": "SparkApplication", "reader": "Spark", "driver": SMALL}
        source = {"events": {"topics": [site.topic], "expect": site.expected}}
        cluster.apply(site.gap_scan(site.name, source=source, engine={**engine, "executor": {**SMALL, "instances": 1}}))

        is_archived = wait_status(cluster, "archive", f"{site.name}-assigned", ARCHIVE_NAMESPACE, records=1000)
        assert condition_of(is_archived, "Ready") == ("True", "Archiving")
        copied = f"{site.topic}-assigned"
        wait_until(
            lambda: sum(end for _, end in site.kafka.downstream.watermarks(copied).values()) >= 1000,
            timeout_seconds=120,
            what="the copies of the mirror",
        )
        check_ids(cluster, begun)
        wait_status(cluster, "gapscan", site.name, SCAN_NAMESPACE, missingEvents=1000)
        cluster.apply(site.everything(f"{site.name}-live"))
        cluster.wait_for("resend", f"{site.name}-live", "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=120)
        cluster.delete("mirror", site.name, MIRROR_NAMESPACE, wait=False)


@contextmanager
def openshift(cluster: Cluster, installed: Installation) -> Iterator[str]:
    """Let the cluster be one of OpenShift, as far as the chart can see, and upgrade to it; give the time of that."""
    cluster.apply(DEFINITION)
    cluster.kubectl("wait", f"crd/{CONSTRAINTS}", "--for=condition=Established", "--timeout=60s")
    try:
        cluster.apply(*policies())
        wait_until(lambda: assigns(cluster), timeout_seconds=60, what="the policies")
        begun = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        installed.upgrade()
        yield begun
    finally:
        for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
            cluster.delete(f"{kind}Binding", ASSIGNING)
            cluster.delete(kind, ASSIGNING)
        installed.upgrade(**{"openshift.enabled": False})  # which deletes the constraints while their kind exists
        cluster.delete("crd", CONSTRAINTS)


def policies() -> list[dict[str, Any]]:
    """Return what assigns the IDs of a namespace, and refuses others."""
    first = f"{{{', '.join(f'{name!r}: {number}' for name, number in RANGES.items())}}}[request.namespace]"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    matched = {
        "resourceRules": rules,
        "namespaceSelector": {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*RANGES]}]
        },
    }
    assigned = (
        "Object{spec: Object.spec{securityContext: Object.spec.securityContext{"
        f"runAsUser: {first}, runAsGroup: 0, fsGroup: {first}}}}}}}"
    )
    context = "object.spec.securityContext"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": assigned}}
    asks_for_none = (
        f"has({context}) && !has({context}.runAsUser) && !has({context}.runAsGroup) && !has({context}.fsGroup)"
    )
    kept = " && ".join(
        [f"has({context})"]
        + [
            f"has({context}.{field}) && {context}.{field} == {value}"
            for field, value in (("runAsUser", first), ("runAsGroup", 0), ("fsGroup", first))
        ]
    )
    own = "object.spec.containers.all(c, !has(c.securityContext.runAsUser) && !has(c.securityContext.runAsGroup))"
    return [
        *policy(
            "Mutating",
            matchConstraints=matched,
            matchConditions=[{"name": "asks-for-none", "expression": asks_for_none}],
            mutations=[mutation],
            reinvocationPolicy="Never",
        ),
        *policy(
            "Validating",
            {"validationActions": ["Deny"]},
            matchConstraints=matched,
            validations=[{"expression": f"{kept} && {own}", "message": "restricted-v2: the IDs are not of the range"}],
        ),
    ]


def policy(kind: str, binding: dict[str, Any] | None = None, **spec: Any) -> list[dict[str, Any]]:
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": ASSIGNING}}
    return [
        {**head, "kind": f"{kind}AdmissionPolicy", "spec": {**spec, "failurePolicy": "Fail"}},
        {**head, "kind": f"{kind}AdmissionPolicyBinding", "spec": {"policyName": ASSIGNING, **(binding or {})}},
    ]


def assigns(cluster: Cluster) -> bool:
    """Whether both policies are in force, which the API server reads one after the other."""
    return not takes(cluster, {"runAsUser": 65532, "runAsNonRoot": True}) and takes(cluster, {"runAsNonRoot": True})


def takes(cluster: Cluster, security: dict[str, Any]) -> bool:
    """Whether the cluster takes a pod with such IDs."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "a", "image": "a", "securityContext": restricted}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": SCAN_NAMESPACE},
        "spec": {
            "securityContext": {**security, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }
    try:
        cluster.kubectl("create", "--dry-run=server", "-o=name", "-f=-", stdin=json.dumps(pod))
    except ClusterError as error:
        if "restricted-v2" not in str(error):
            raise
        return False
    return True


def connect_mirror(cluster: Cluster, site: Site) -> tuple[str, str]:
    """Create the KafkaConnections of a mirror, and return their names."""
    names = (f"{site.name}-north", f"{site.name}-south")
    for name, kafka in zip(names, (site.kafka.upstream, site.kafka.downstream), strict=True):
        spec = {"bootstrapServers": kafka.bootstrap, "allowedTopics": ["transfer*"], "access": ["Read", "Write"]}
        cluster.apply(body("KafkaConnection", name, **spec))
    return names


def mirror(site: Site, source: str, target: str) -> dict[str, Any]:
    return body(
        "Mirror",
        site.name,
        sourceRef={"name": source},
        targetRef={"name": target},
        topics=[site.topic],
        rename="{topic}-assigned",
        workers={"count": 1, "cpu": "100m", "memory": "256Mi"},
    )


def body(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": MIRROR_NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def wait_status(cluster: Cluster, kind: str, name: str, namespace: str, **value: Any) -> dict[str, Any]:
    """Wait until a status has a value, and return it."""

    def has_value(found: dict[str, Any]) -> bool:
        return value.items() <= found.get("status", {}).items()

    found = cluster.wait_for(kind, name, has_value, namespace=namespace, timeout_seconds=300)
    status: dict[str, Any] = found["status"]
    return status


def check_ids(cluster: Cluster, begun: str) -> None:
    """Pods of the operator, and of each kind, run with the IDs of their namespace; those of other tests are older."""
    for namespace, first in RANGES.items():
        pods = [
            pod
            for pod in cluster.list("pod", namespace)
            if pod["status"]["phase"] in {"Running", "Succeeded"} and pod["metadata"]["creationTimestamp"] >= begun
        ]
        if namespace != SCAN_NAMESPACE:
            assert pods, namespace
        assert {pod["spec"]["securityContext"]["runAsUser"] for pod in pods} <= {first}
