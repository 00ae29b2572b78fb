"""What a user tries with Archives, Restores, Mirrors and scans, on a cluster with the chart as it is installed.

The user has the role gapless-edit in all namespaces. The API server refuses each attempt with a sentence. What begins
and fails in a pod leaves nothing of a Secret in logs, events or status.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kit.cluster.attempts import (
    ATTEMPTS,
    CHANGES,
    COMPACTION,
    OPEN,
    PLACE,
    TARGET,
    archive,
    body,
    held_archive,
    mirror,
    resend,
    restore,
    running_mirror,
    scan,
    state_in,
)
from kit.cluster.places import ClusterError
from kit.cluster.product import (
    ARCHIVE_NAMESPACE,
    MIRROR_NAMESPACE,
    OPERATOR_NAMESPACE,
    RELEASE,
    SCAN_NAMESPACE,
    SENDER_NAMESPACE,
    Installation,
)

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

USER, OPERATOR = "trudy", f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}-operator"
NAMESPACES = (ARCHIVE_NAMESPACE, MIRROR_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE)
SECRET = "tenant-secret"  # noqa: S105 -- the name of a Secret
CANARIES = {
    "password": "canary-of-a-password-5a1f",
    "AWS_ACCESS_KEY_ID": "canary-of-an-id",
    "AWS_SECRET_ACCESS_KEY": "canary-of-a-key-77c3",
}


@dataclass(frozen=True)
class Tenant:
    """The user, and what the platform team has opened."""

    cluster: Cluster

    def create(self, what: dict[str, Any], *, user: str = USER) -> None:
        """Let the API server check an object, as the user."""
        options = ("--dry-run=server", "--validate=false", "-o=name", "-f=-", f"--as={user}")
        self.cluster.kubectl("create", *options, stdin=json.dumps(what))

    def change(self, kind: str, name: str, namespace: str, spec: dict[str, Any]) -> None:
        options = ("--dry-run=server", "--type=merge", f"--namespace={namespace}", f"--as={USER}")
        self.cluster.kubectl("patch", kind, name, *options, f"--patch={json.dumps({'spec': spec})}")


@pytest.fixture(scope="module")
def tenant(installed: Installation, cluster_kafka: TwoSides) -> Iterator[Tenant]:
    cluster = installed.cluster
    cluster_kafka.upstream.create_topic("open", 1)
    applied = []

    def platform(what: dict[str, Any]) -> None:
        cluster.apply(what)
        applied.append(what)

    kafka = {"bootstrapServers": cluster_kafka.upstream.bootstrap, "access": ["Read", "Write"]}
    login = {"username": "x", "passwordSecret": {"name": SECRET, "key": "password"}}
    s3 = {"endpoint": "http://store.invalid:9000", "bucket": "any", "credentialsSecret": {"name": SECRET}}
    for namespace in NAMESPACES:
        secret = {"apiVersion": "v1", "kind": "Secret", "stringData": CANARIES}
        platform({**secret, "metadata": {"name": SECRET, "namespace": namespace}})
        for name, side in ((OPEN, cluster_kafka.upstream), (TARGET, cluster_kafka.downstream)):
            given = {**kafka, "bootstrapServers": side.bootstrap, "allowedTopics": ["open", "secret"]}
            platform(body("KafkaConnection", namespace, name, given))
        platform(body("KafkaConnection", namespace, "tenant-login", {**kafka, "allowedTopics": ["*"], "sasl": login}))
        bounds = {"allowedTopics": ["open"], "allowedRegions": ["ours"], "minRetentionSeconds": 86_400}
        for name, more in (
            (PLACE, bounds),
            ("tenant-kept", {"access": ["Read", "Write"]}),
            ("tenant-read", {"access": ["Read"]}),
        ):
            platform(body("StorageLocation", namespace, name, {"s3": s3, **more}))
        for role in ("view", "edit"):
            platform(binding(namespace, role))
    platform(held_archive())
    platform(running_mirror())
    made = Tenant(cluster)
    probe = archive(region="theirs")
    eventually(lambda: refused(made, probe), "the locations are parameters of the policies")
    yield made
    for each in reversed(applied):
        cluster.delete(each["kind"].lower(), each["metadata"]["name"], each["metadata"]["namespace"], wait=False)


def binding(namespace: str, role: str) -> dict[str, Any]:
    rbac = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"tenant-{role}", "namespace": namespace},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": f"{RELEASE}-{role}"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": USER}],
    }


def refused(tenant: Tenant, what: dict[str, Any], *, user: str = USER) -> str:
    """Return why the API server refuses an object; empty if it does not."""
    try:
        tenant.create(what, user=user)
    except ClusterError as error:
        return str(error)
    return ""


def eventually(look: Callable[[], str], what: str) -> str:
    """Wait until `look` returns something: policies and parameters are in force a moment after they were written."""
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.5)
    return found


@pytest.mark.parametrize("number", range(len(ATTEMPTS)))
def test_an_attempt_of_a_user_is_refused_with_a_sentence(tenant: Tenant, number: int) -> None:
    attempt, sentence = ATTEMPTS[number]
    said = refused(tenant, attempt)
    assert said
    assert sentence in said


@pytest.mark.parametrize(
    "fair",
    [
        archive(),
        archive(hold=True),
        archive(compaction=COMPACTION, retention={"maxAgeSeconds": 86_400}),
        restore(),
        mirror(),
        mirror(groups={"names": ["billing"]}),
        scan(),
        scan(source=state_in(PLACE)),
        resend(),
    ],
)
def test_what_was_opened_is_accepted(tenant: Tenant, fair: dict[str, Any]) -> None:
    assert not refused(tenant, fair)


@pytest.mark.parametrize(("kind", "name", "namespace", "change", "sentence"), CHANGES)
def test_a_change_to_what_was_not_given_is_refused(  # noqa: PLR0917 -- a row
    tenant: Tenant, kind: str, name: str, namespace: str, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ClusterError) as said:
        tenant.change(kind, name, namespace, change)
    assert sentence in str(said.value)


def test_the_accounts_of_the_programs_mount_only_what_the_namespace_lists(tenant: Tenant) -> None:
    source = {"secret": {"name": SECRET, "items": [{"key": "password", "path": "secrets/password"}]}}
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "configuration", "projected": {"sources": [source]}}]
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any"}], "volumes": volumes}
    metadata = {"name": "tried", "namespace": SCAN_NAMESPACE}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
    by_environment = {"name": "main", "image": "any", "envFrom": [{"secretRef": {"name": SECRET}}]}
    stolen = {**job, "spec": {"template": {"spec": {**pod, "containers": [by_environment]}}}}
    assert not refused(tenant, job, user=OPERATOR)
    assert "no environment variables from other objects" in " ".join(refused(tenant, stolen, user=OPERATOR).split())
    annotate = ("annotate", "namespace", SCAN_NAMESPACE)
    tenant.cluster.kubectl(*annotate, "gapless.dev/secrets=listed")
    try:
        said = eventually(lambda: refused(tenant, job, user=OPERATOR), "the annotation is in force")
        assert f"does not list the Secret {SECRET}" in said
    finally:
        tenant.cluster.kubectl(*annotate, "gapless.dev/secrets-")


def test_no_pod_that_fails_leaves_anything_of_a_secret(tenant: Tenant) -> None:
    """Logins that are refused, a store that is away, and a statement that reads the mounted files."""
    file = "/etc/gapless/secrets"
    statement = f"SELECT value FROM csv.`{file}`"  # noqa: S608 -- that is the attempt
    small = {"type": "Job", "reader": "Local", "driver": {"cores": 1, "cpu": "200m", "memory": "512Mi"}}
    login = {"name": "tenant-login"}
    tried = [
        archive(kafkaRef=login, topics=["open"], storageRef={"name": "tenant-kept"}, engine=small),
        mirror(sourceRef=login, workers={"count": 1, "cpu": "100m", "memory": "256Mi"}),
        scan(kafkaRef=login, source={"gapTopic": {"topic": "open"}}, engine=small),
        mirror(engine="Spark", transform=statement),
    ]
    made = []
    for number, each in enumerate(tried):
        name = f"tenant-tried-{number}"
        made.append((each["kind"].lower(), name, each["metadata"]["namespace"]))
        what = {**each, "metadata": {**each["metadata"], "name": name}}
        tenant.cluster.kubectl("create", f"--as={USER}", "-f=-", stdin=json.dumps(what))
    for kind, name, namespace in made:
        tenant.cluster.wait_for(kind, name, has_failed, namespace=namespace, timeout_seconds=150)
    said = []
    for namespace in NAMESPACES:
        place = f"--namespace={namespace}"
        kinds = (
            "gapscans,resends,archives,restores,mirrors,kafkaconnections,storagelocations,jobs,pods,configmaps,events"
        )
        said.append(tenant.cluster.kubectl("get", kinds, place, "-o=json"))
        for pod in tenant.cluster.list("pod", namespace):
            try:
                said.append(tenant.cluster.kubectl("logs", pod["metadata"]["name"], place, "--all-containers"))
            except ClusterError:
                continue  # a pod that has ended meanwhile, or has not begun
    said.append(tenant.cluster.kubectl("logs", f"deployment/{RELEASE}-operator", f"--namespace={OPERATOR_NAMESPACE}"))
    everything = "\n".join(said)
    assert "tenant-tried-3" in everything
    for canary in CANARIES.values():
        assert canary not in everything
    for kind, name, namespace in made:
        tenant.cluster.delete(kind, name, namespace, wait=False)


def has_failed(found: dict[str, Any]) -> bool:
    """Whether a status says that a login or the statement was refused."""
    said = " ".join(each.get("message", "") for each in found.get("status", {}).get("conditions", ()))
    return "SASL SCRAM-SHA-512 mechanism handshake failed" in said or "transform" in said
