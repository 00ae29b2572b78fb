"""Files of other mirrors become settings and manifests with the same effect, or the comments say what does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_mirror.imports.command import run
from gapless_mirror.imports.strimzi import read_strimzi
from gapless_mirror.settings.table import MIRROR

if TYPE_CHECKING:
    Import = Callable[..., "Printed"]

HIDDEN = "s3cret-of-all"
STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: halls
spec:
  replicas: 2
  connectCluster: hall
  clusters:
  - alias: north
    bootstrapServers: north-kafka-bootstrap:9093
    tls:
      trustedCertificates:
      - {secretName: north-ca, certificate: ca.crt}
    authentication:
      type: scram-sha-512
      username: mirror
      passwordSecret: {secretName: mirror-user, password: password}
  - alias: hall
    bootstrapServers: hall-kafka-bootstrap:9093
    tls:
      trustedCertificates:
      - {secretName: hall-ca, certificate: ca.crt}
    authentication:
      type: tls
      certificateAndKey: {secretName: hall-user, certificate: user.crt, key: user.key}
  mirrors:
  - sourceCluster: north
    targetCluster: hall
    sourceConnector:
      tasksMax: 4
      autoRestart: {enabled: true}
      config: {replication.factor: 3, sync.topic.acls.enabled: false, producer.override.compression.type: zstd}
    checkpointConnector:
      config: {sync.group.offsets.enabled: true, sync.group.offsets.interval.seconds: 30}
    heartbeatConnector: {}
    topicsPattern: "orders|billing-.*"
    topicsExcludePattern: "billing-test"
    groupsPattern: "app-.*"
"""
CONNECTORS: list[dict[str, Any]] = [
    {
        "name": "copy",
        "config": {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "dc1",
            "target.cluster.alias": "dc1.eu",
            "source.cluster.bootstrap.servers": "a:9092",
            "target.cluster.bootstrap.servers": "b:9093",
            "target.cluster.security.protocol": "SASL_SSL",
            "target.cluster.sasl.mechanism": "PLAIN",
            "target.cluster.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="mirror" password="{HIDDEN}";',
            "target.cluster.ssl.truststore.location": "/opt/trust.jks",
            "target.cluster.ssl.truststore.password": HIDDEN,
            "topics": "orders,bills",
            "tasks.max": 4,
        },
    },
    {"connector.class": "MirrorHeartbeatConnector", "source.cluster.alias": "dc1", "target.cluster.alias": "dc1.eu"},
]


class Printed:
    """What the command printed."""

    def __init__(self, code: int, out: str, err: str, folder: Path) -> None:
        self.code, self.out, self.err = code, out, err
        self.properties, _, self.yaml = out.partition("\n\n")
        self._folder = folder

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as ``gapless mirror`` reads them."""
        file = self._folder / "printed.properties"
        file.write_text(self.properties + "\n", encoding="utf-8")
        found = resolve(MIRROR, file=file, environment={}, options={})
        assert not found.ignored
        return found.values

    @property
    def lines(self) -> dict[str, str]:
        """The lines of the settings."""
        lines = [line for line in self.properties.splitlines() if not line.startswith("#")]
        return dict(line.split("=", 1) for line in lines)

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The manifests, which the models accept."""
        documents = list(yaml.safe_load_all(self.yaml))
        assert [each["kind"] for each in documents] == ["Mirror", "KafkaConnection", "KafkaConnection"]
        for kind, each in zip((Mirror, KafkaConnection, KafkaConnection), documents, strict=True):
            kind.from_resource({**each, "metadata": {"namespace": "n", **each["metadata"]}})
        return documents

    @property
    def left_out(self) -> list[str]:
        """What the comments of the settings name."""
        return re.findall(r"^# Not carried over: (.*)$", self.properties, re.MULTILINE)


@pytest.fixture
def imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Import:
    def make(content: str | list[Any] | dict[str, Any], *, name: str = "file", **values: str) -> Printed:
        file = tmp_path / name
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        defaults = dict.fromkeys(("flow", "sourceBootstrapServers", "targetBootstrapServers", "namespace"))
        code = run(file, {**defaults, "print": "all", "filesFolder": "secrets", **values})
        return Printed(code, *capsys.readouterr(), tmp_path)

    return make


def matching(pattern: re.Pattern[str], *names: str) -> list[str]:
    return [name for name in names if pattern.fullmatch(name)]


def test_a_resource_of_strimzi_becomes_settings_and_manifests(imported: Import) -> None:
    found = imported(STRIMZI, namespace="mirrors")
    assert (found.code, found.left_out) == (4, []), "only a Mirror has no replication factor"
    assert "The setting replicationFactor=3: a Mirror has no such field" in found.yaml
    settings = found.settings
    assert settings["sourceBootstrapServers"] == "north-kafka-bootstrap:9093"
    assert str(settings["sourceSaslPasswordFile"]) == "secrets/mirror-user/password"
    assert (settings["sourceSaslMechanism"], settings["sourceSaslUsername"]) == ("SCRAM-SHA-512", "mirror")
    assert str(settings["targetKeyFile"]) == "secrets/hall-user/user.key"
    assert matching(settings["topicPattern"], "orders", "billing-1", "billing-test", "__consumer_offsets") == [
        "orders",
        "billing-1",
    ]
    assert matching(settings["groupPattern"], "app-1", "other") == ["app-1"]
    assert (settings["rename"], settings["sourceName"], settings["targetName"]) == ("{source}.{topic}", "north", "hall")
    assert (settings["compression"], settings["heartbeat"], settings["groupInterval"]) == ("zstd", True, 30.0)
    mirror, north, hall = found.objects
    assert {each["metadata"]["namespace"] for each in found.objects} == {"mirrors"}
    assert (mirror["spec"]["sourceRef"]["name"], mirror["spec"]["targetRef"]["name"]) == ("kafka-north", "kafka-hall")
    assert mirror["spec"]["topicPattern"] == found.lines["topicPattern"]
    assert mirror["spec"]["groups"] == {"pattern": found.lines["groupPattern"], "intervalSeconds": 30}
    assert (mirror["spec"]["compression"], mirror["spec"]["heartbeat"]) == ("zstd", True)
    assert north["spec"]["sasl"]["passwordSecret"] == {"name": "mirror-user", "key": "password"}
    assert north["spec"]["tls"]["caSecret"] == {"name": "north-ca", "key": "ca.crt"}
    assert (north["spec"]["access"], hall["spec"]["access"]) == (["Read"], ["Read", "Write"])
    secret = {"name": "hall-user", "certificateKey": "user.crt", "keyKey": "user.key"}
    assert hall["spec"]["tls"]["clientSecret"] == secret


def test_a_resource_of_the_first_stable_version_has_its_clusters_where_they_are_used(imported: Import) -> None:
    source = {
        "alias": "a",
        "bootstrapServers": "a:9092",
        "authentication": {
            "type": "oauth",
            "tokenEndpointUri": "https://login.example/token",
            "clientId": "mirror",
            "clientSecret": {"secretName": "login", "key": "secret"},
        },
        "tls": {"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}]},
    }
    spec = {
        "target": {"alias": "b", "bootstrapServers": "b:9092", "groupId": "g", "configStorageTopic": "c"},
        "resources": {"limits": {"cpu": "1"}},
        "mirrors": [{"source": source, "topicsPattern": "t", "groupsPattern": ".*"}],
    }
    found = imported({"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaMirrorMaker2", "spec": spec})
    assert found.code == 4
    places = ("spec.mirrors[0].source.tls.trustedCertificates[0]", "spec.resources")
    assert "# No need of spec.mirrors[0].groupsPattern: sync.group.offsets.enabled is not true," in found.properties
    assert [line.partition(":")[0] for line in found.left_out] == list(places)
    assert found.lines["sourceOauthClientSecretFile"] == "secrets/login/secret"
    oauth = found.objects[1]["spec"]["sasl"]["oauth"]
    assert oauth["clientSecret"] == {"name": "login", "key": "secret"}
    assert "groupPattern" not in found.lines


def test_a_list_of_twenty_patterns_fits_into_a_mirror(imported: Import) -> None:
    document = yaml.safe_load(STRIMZI)
    document["spec"]["mirrors"][0]["topicsPattern"] = ",".join(f"team-{number}-.*" for number in range(20))
    found = imported(document)
    assert "To correct" not in found.yaml
    assert len(found.objects) == 3


def test_connectors_between_the_same_clusters_become_one_mirror_without_their_secrets(imported: Import) -> None:
    found = imported(CONNECTORS)
    assert (found.code, found.left_out) == (0, [])
    assert HIDDEN not in found.out + found.err
    settings = found.settings
    assert matching(settings["topicPattern"], "orders", "bills", "other") == ["orders", "bills"]
    assert (settings["heartbeat"], settings["sourceName"], settings["targetName"]) == (True, "dc1", "dc1.eu")
    assert found.lines["targetSaslPasswordFile"] == "secrets/target-sasl-password"
    assert found.lines["targetCaFile"] == "secrets/target-ca"
    assert "# Write the secret of sasl.jaas.config" in found.properties
    assert ", exported as PEM to secrets/target-ca." in found.properties
    command = (
        "kubectl create secret generic kafka-dc1.eu --from-file=ca.crt=secrets/target-ca "
        "--from-file=password=secrets/target-sasl-password"
    )
    assert f"# Before kubectl apply: {command}\n" in found.yaml
    target = found.objects[2]["spec"]
    assert target["sasl"]["passwordSecret"] == {"name": "kafka-dc1.eu", "key": "password"}


@pytest.mark.parametrize(
    "content",
    [
        CONNECTORS[0],
        CONNECTORS[0]["config"],
        CONNECTORS[:1],
        {"copy": {"info": CONNECTORS[0]}},
        "\n".join(f"{key} = {value}" for key, value in CONNECTORS[0]["config"].items()),
        {
            "kind": "KafkaConnector",
            "spec": {"class": CONNECTORS[0]["config"]["connector.class"], "config": CONNECTORS[0]["config"]},
        },
    ],
    ids=["posted", "configuration", "list", "returned", "properties", "Strimzi"],
)
def test_one_connector_may_stand_in_any_form_of_the_rest_interface(imported: Import, content: Any) -> None:
    assert imported(content).lines["name"] == "dc1-dc1.eu"


def test_a_file_of_mirrormaker_2_keeps_its_flow(imported: Import) -> None:
    text = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\nB->A.enabled=true\n"
    with pytest.raises(ConfigurationError, match=r"2 flows \(A->B, B->A\); choose one with --flow=A->B"):
        imported(text)
    found = imported(text, flow="B->A")
    assert (found.code, found.lines["sourceBootstrapServers"]) == (0, "b:1")
    assert found.objects[1]["metadata"]["name"] == "kafka-b"


def test_a_datastream_of_brooklin_chooses_topics_of_its_source(imported: Import) -> None:
    stream = {
        "name": "copy",
        "connectorName": "kafkaMirroringConnector",
        "source": {"connectionString": r"kafkassl://a:9093,c:9093/^(orders|bills-\d+)$"},
        "metadata": {"owner": "team"},
    }
    found = imported(stream, targetBootstrapServers="b:9092")
    assert found.code == 0
    assert matching(found.settings["topicPattern"], "orders", "bills-1", "bills-x") == ["orders", "bills-1"]
    assert (found.lines["sourceBootstrapServers"], found.lines["sourceTls"]) == ("a:9093,c:9093", "true")


@pytest.mark.parametrize(
    "content",
    ["# ours\norders\nbills, x.y\n", '["orders", "bills", "x.y"]', "- orders\n- topic: bills\n- topic: x.y\n"],
)
def test_a_list_of_topics_is_exact_and_needs_the_brokers(imported: Import, content: str) -> None:
    found = imported(content, sourceBootstrapServers="a:1", targetBootstrapServers="b:1", name="night-shift.txt")
    assert (found.code, found.settings["topics"]) == (0, ("orders", "bills", "x.y"))
    assert found.objects[0]["spec"]["topics"] == ["orders", "bills", "x.y"]
    assert found.lines["name"] == "night-shift"
    with pytest.raises(ConfigurationError, match="does not name the brokers of the source; give --source-bootstrap-"):
        imported(content)


def test_what_a_mirror_refuses_is_named_and_the_rest_is_carried_over(imported: Import) -> None:
    more = {"source.consumer.auto.offset.reset": "latest", "colour": "red", "transforms": "mask"}
    found = imported({**CONNECTORS[0]["config"], **more})
    assert (found.code, len(found.left_out)) == (4, 3)
    assert "3 not carried over" in found.err
    assert found.lines["sourceBootstrapServers"] == "a:9092"


def test_references_are_not_followed_and_lines_stay_lines(imported: Import, tmp_path: Path) -> None:
    (tmp_path / "own").write_text(f"user={HIDDEN}\n", encoding="utf-8")
    reference = f"${{file:{tmp_path / 'own'}:user}}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    text = (
        "clusters=A,B\nA->B.enabled=true\nA.bootstrap.servers=a:1\\nname=other\nB.bootstrap.servers=${env:HOME}\n"
        f"B.producer.compression.type={reference}\nA.security.protocol=SASL_PLAINTEXT\nA.sasl.mechanism=PLAIN\n"
        f'A.sasl.jaas.config={module} required username="{reference}" password="{reference}";\n'
        "A->B.odd\\u001b[31m\\nkafka=x\n"
    )
    with pytest.raises(ConfigurationError, match="does not name the brokers of the target"):
        imported(text)
    found = imported(text, targetBootstrapServers="b:1")
    assert HIDDEN not in found.out + found.err
    assert Path.home().as_posix() not in found.out + found.err
    assert found.lines["name"] == "a-b"
    assert {"sourceBootstrapServers", "sourceSaslUsername", "compression"}.isdisjoint(found.lines)
    assert "\x1b" not in found.out
    assert all(line.startswith("#") or "=" in line for line in found.properties.splitlines())


def test_names_of_fields_stay_in_their_comment(imported: Import) -> None:
    document = yaml.safe_load(STRIMZI)
    document["spec"]["odd\x1b[31m\nname=other\nkind: Secret"] = 1
    found = imported(document)
    assert "\x1b" not in found.out
    assert (found.lines["name"], len(found.objects)) == ("north-hall", 3)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes in line 1; correct it."),
        ("a: [1\nb: 2\n", "is not YAML: expected ',' or ']', but got ':' in line 2; correct it."),
        ("a: \x07\n", "is not YAML: it has characters that YAML does not allow; correct it."),
        ("[" * 100_000, "is nested too deeply; correct it."),
        ("a: 2026-02-30 00:00:00\n", "has an invalid value: day is out of range for month; correct it."),
        ("kind: Kafka\n", "is not a KafkaMirrorMaker2 of Strimzi,"),
        ("", "is not a KafkaMirrorMaker2 of Strimzi,"),
        ('{"connector.class": "FileStreamSource"}', "connector.class in"),
        ('{"copy": {"info": {"config": {"connector.class": "x"}}}, "other": {}}', "is not a KafkaMirrorMaker2 of"),
        ("kind: KafkaConnector\nspec: {config: {}}\n", "connector.class in"),
        ("kind: KafkaMirrorMaker2\nspec: {mirrors: [x]}\n", "spec.mirrors[0] in"),
        ("kind: KafkaMirrorMaker2\nspec: {mirrors: {a: b}}\n", "spec.mirrors in"),
        ("kind: KafkaMirrorMaker2\nspec: {clusters: [{}]}\n", "spec.clusters[0].alias in"),
        ("kind: KafkaMirrorMaker2\nspec: {}\n", "spec.mirrors in"),
        ("kind: KafkaMirrorMaker2\nspec:\n  mirrors: [{sourceCluster: a}]\n", "spec.mirrors[0].sourceCluster in"),
        ("kind: KafkaMirrorMaker2\n---\nkind: KafkaMirrorMaker2\n", "has 2 KafkaMirrorMaker2s; give a file with one"),
        ('{"connectorName": "x", "source": {"connectionString": "jdbc:x"}}', "source.connectionString in"),
        ('["a b"]', "[0] in"),
    ],
)
def test_what_is_no_mirror_is_refused_in_one_sentence(imported: Import, content: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        imported(content)
    text = str(refused.value)
    assert sentence in text
    assert "\n" not in text
    assert text.endswith(".")


def test_a_file_that_is_missing_or_has_another_encoding(imported: Import, tmp_path: Path) -> None:
    values = dict.fromkeys(("flow", "sourceBootstrapServers", "targetBootstrapServers", "namespace"))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        run(tmp_path / "none", {**values, "print": "all", "filesFolder": "secrets"})
    (tmp_path / "latin").write_bytes("kind: Köln\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="is not a KafkaMirrorMaker2"):
        run(tmp_path / "latin", {**values, "print": "all", "filesFolder": "secrets"})
    assert imported("\ufeff" + STRIMZI).lines["name"] == "north-hall"


def test_every_field_of_the_resource_is_mapped_or_named(tmp_path: Path) -> None:
    document = yaml.safe_load(STRIMZI)
    for node in (document["spec"], *document["spec"]["clusters"], *document["spec"]["mirrors"]):
        node["colour"] = "red"
    found = read_strimzi(document, tmp_path / "f", "secrets")
    named = [sentence.partition(":")[0] for sentence in found.not_carried]
    places = ("spec.mirrors[0].colour", "spec.clusters[0].colour", "spec.clusters[1].colour", "spec.colour")
    assert named == list(places)
