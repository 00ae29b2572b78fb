"""Pods log in to Kafka with Kerberos: a mirror worker of the sender image, and a scan of the Spark image.

The same broker also has a certificate that only the CA bundle of the platform team verifies.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from kit.cluster.product import API_VERSION, MIRROR_NAMESPACE, SCAN_NAMESPACE, TRUSTED, Installation, condition_of
from kit.kafka.broker import KafkaBroker
from kit.kerberos.kdc import REALM, Kdc, kdc_jars
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides

pytestmark = pytest.mark.timeout(600)
TOPIC, GAPS = "transfer-kerberos", "gaps-kerberos"
LISTENER = "listener.name.sasl_plaintext."
SERVICE = "broker"
"""Not the default, so that the setting is used."""


@pytest.fixture(scope="module")
def kdc(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with cluster.host_network():
        kdc_jars()
    principals = (f"{SERVICE}/{cluster.near_address}", "gapless", "stranger")
    with Kdc(tmp_path_factory.mktemp("kdc"), principals, address=cluster.near_address) as running:
        yield running


@pytest.fixture(scope="module")
def kafka(cluster: Cluster, kdc: Kdc) -> Iterator[KafkaBroker]:
    """A broker whose login is Kerberos; only the principal gapless may read the topics."""
    service = f"{SERVICE}/{cluster.near_address}"
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    login = f'{module} keyTab="{kdc.keytab(service)}" principal="{service}@{REALM}";'
    config = {
        f"{LISTENER}sasl.enabled.mechanisms": "GSSAPI",
        f"{LISTENER}gssapi.sasl.jaas.config": login,
        "sasl.kerberos.service.name": SERVICE,
        "super.users": "User:ANONYMOUS;User:gapless",
        "allow.everyone.if.no.acl.found": "false",
    }
    options = [f"-Djava.security.krb5.conf={kdc.krb5_conf}"]
    with KafkaBroker(secured=True, config=config, jvm_options=options, address=cluster.near_address) as running:
        running.create_topic(TOPIC, 2)
        for partition in range(2):
            running.produce(TOPIC, [f"value-{number}".encode() for number in range(500)], partition=partition)
        running.create_topic(GAPS, 1)
        gaps = struct.pack(">Bqq", 1, 0, 500) + BitMap([7, 8]).serialize()
        running.produce(GAPS, [gaps], keys=[f"{TOPIC}:0:0".encode()])
        yield running


@pytest.fixture(autouse=True)
def _alone(installed: Installation) -> Iterator[None]:
    """Leave no object behind: other tests count the pods of these namespaces, which all share."""
    yield
    made = {
        ("mirror", MIRROR_NAMESPACE): ["kerberos"],
        ("gapscan", SCAN_NAMESPACE): ["kerberos", "stranger", "swapped", "trusting", "doubting"],
    }
    for (kind, namespace), names in made.items():
        for name in names:
            installed.cluster.delete(kind, name, namespace)
            selector = f"gapless.dev/name={name}"
            wait_until(
                lambda namespace=namespace, selector=selector: not installed.cluster.list("pod", namespace, selector),
                timeout_seconds=90,
                what=f"the end of the pods of {kind} {name}",
            )


def test_a_mirror_and_a_scan_log_in_with_a_keytab(
    installed: Installation, cluster_kafka: TwoSides, kafka: KafkaBroker, kdc: Kdc
) -> None:
    cluster = installed.cluster
    for namespace in (MIRROR_NAMESPACE, SCAN_NAMESPACE):
        open_broker(cluster, namespace, kafka, kdc, "gapless")
    target = {"bootstrapServers": cluster_kafka.downstream.bootstrap, "allowedTopics": [TOPIC], "access": ["Write"]}
    cluster.apply(body("KafkaConnection", "plain", MIRROR_NAMESPACE, target))
    workers = {"count": 1, "cpu": "100m", "memory": "256Mi"}
    references = {"sourceRef": {"name": "gapless"}, "targetRef": {"name": "plain"}}
    cluster.apply(
        body("Mirror", "kerberos", MIRROR_NAMESPACE, {**references, "topics": [TOPIC], "workers": workers}),
        body("GapScan", "kerberos", SCAN_NAMESPACE, scan_with("gapless")),
    )

    found = wait_for(cluster, "gapscan", SCAN_NAMESPACE, "kerberos", has_ended)
    assert (found["lastAttempt"]["outcome"], found["missingEvents"]) == ("GapsFound", 2), found
    wait_for(cluster, "mirror", MIRROR_NAMESPACE, "kerberos", lambda one: lag_of(one) == 0)
    assert sorted(message.value() or b"" for message in cluster_kafka.downstream.read(TOPIC)) == sorted(
        f"value-{number}".encode() for number in range(500) for _ in range(2)
    )


def test_a_principal_without_rights_is_named_and_a_wrong_one_refused(
    installed: Installation, kafka: KafkaBroker, kdc: Kdc
) -> None:
    cluster = installed.cluster
    open_broker(cluster, SCAN_NAMESPACE, kafka, kdc, "stranger")
    cluster.apply(body("GapScan", "stranger", SCAN_NAMESPACE, scan_with("stranger")))
    found = wait_for(cluster, "gapscan", SCAN_NAMESPACE, "stranger", has_ended)
    assert found["lastAttempt"]["outcome"] == "SourceUnreachable", found
    assert "grant this user the operations Read and Describe" in found["lastAttempt"]["message"]

    open_broker(cluster, SCAN_NAMESPACE, kafka, kdc, "stranger", name="swapped", principal="gapless")
    cluster.apply(body("GapScan", "swapped", SCAN_NAMESPACE, scan_with("swapped")))
    found = wait_for(cluster, "gapscan", SCAN_NAMESPACE, "swapped", has_ended)
    assert found["lastAttempt"]["outcome"] == "BadConfiguration", found
    assert f"is stranger@{REALM}, and kerberosPrincipal is gapless" in found["lastAttempt"]["message"]


def test_a_ca_bundle_of_the_platform_team_verifies_a_broker(installed: Installation, kafka: KafkaBroker) -> None:
    cluster = installed.cluster
    assert kafka.authority is not None
    data = {TRUSTED["key"]: kafka.authority.file.read_text()}
    bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TRUSTED["name"]}, "data": data}
    cluster.apply(bundle, namespace=SCAN_NAMESPACE)
    spec = {"bootstrapServers": kafka.address("SSL"), "allowedTopics": [TOPIC, GAPS], "tls": {"enabled": True}}
    cluster.apply(body("KafkaConnection", "private", SCAN_NAMESPACE, spec))
    for name, more in (("trusting", {"podTemplate": "trusted"}), ("doubting", {})):
        cluster.apply(body("GapScan", name, SCAN_NAMESPACE, {**scan_with("private"), **more}))
    found = wait_for(cluster, "gapscan", SCAN_NAMESPACE, "trusting", has_ended)
    assert (found["lastAttempt"]["outcome"], found["missingEvents"]) == ("GapsFound", 2), found
    found = wait_for(cluster, "gapscan", SCAN_NAMESPACE, "doubting", has_ended)
    assert found["lastAttempt"]["outcome"] == "SourceUnreachable", found
    assert "certificate verify failed" in found["lastAttempt"]["message"]


def open_broker(
    cluster: Cluster, namespace: str, kafka: KafkaBroker, kdc: Kdc, owner: str, *, name: str = "", principal: str = ""
) -> None:
    """Create a KafkaConnection, and the Secret with the keytab of `owner`."""
    name = name or owner
    keytab = base64.b64encode(kdc.keytab(owner).read_bytes()).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"keytab": keytab}}
    kerberos = {
        "keytabSecret": {"name": name},
        "kdcs": [kdc.host_and_port],
        "serviceName": SERVICE,
        "principal": principal or f"{owner}@{REALM}",
    }
    spec = {
        "bootstrapServers": kafka.address("SASL_PLAINTEXT"),
        "allowedTopics": [TOPIC, GAPS],
        "sasl": {"mechanism": "GSSAPI", "kerberos": kerberos},
    }
    cluster.apply(secret, namespace=namespace)
    cluster.apply(body("KafkaConnection", name, namespace, spec))


def scan_with(connection: str) -> dict[str, Any]:
    """A scan of the gaps topic in one pod."""
    return {"kafkaRef": {"name": connection}, "source": {"gapTopic": {"topic": GAPS}}, "engine": {"type": "Job"}}


def body(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def has_ended(status: dict[str, Any]) -> bool:
    return bool(status.get("lastAttempt", {}).get("outcome"))


def lag_of(status: dict[str, Any]) -> int | None:
    """The lag of a mirror that copies; `None` for one that does not."""
    if not status.get("conditions") or condition_of(status, "Ready")[0] != "True":
        return None
    lag: int | None = status.get("lagRecords")
    return lag


def wait_for(
    cluster: Cluster, kind: str, namespace: str, name: str, done: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until the status of an object says something, and return it."""
    found = cluster.wait_for(
        kind, name, lambda one: done(one.get("status", {})), namespace=namespace, timeout_seconds=180
    )
    status: dict[str, Any] = found["status"]
    return status
