"""What the platform team adds to pods is in each of them, and replaces nothing of the operator's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_operator.common.children import pod_security
from gapless_operator.common.pod_template import (
    CaBundle,
    PodTemplate,
    PodTemplates,
    read_pod_template,
    read_sender_template,
)
from gapless_operator.common.settings import Program, read_settings
from gapless_operator.connections.pod import doctor_job
from gapless_operator.engines.pod import Content
from gapless_operator.mirroring.workers import workers_manifest

SCHEMA = Path(__file__).parents[4] / "charts" / "gapless" / "values.schema.json"
GIVEN: dict[str, Any] = {
    "labels": {"team": "platform", "gapless.dev/kind": "forged"},
    "annotations": {"sidecar.istio.io/inject": "false"},
    "env": {"HTTPS_PROXY": "http://proxy:3128", "HOME": "/elsewhere"},
    "nodeSelector": {"pool": "kafka"},
    "tolerations": [{"key": "kafka", "operator": "Exists"}],
    "priorityClassName": "low",
    "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["kafka"]}],
}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    file = tmp_path / "template.json"
    file.write_text(json.dumps(GIVEN))
    return read_settings([f"--pod-template={file}", "--jobs-only-namespace=senders"], {}).spark


def check(metadata: dict[str, Any], spec: dict[str, Any], kind: str) -> None:
    assert (metadata["labels"]["team"], metadata["labels"]["gapless.dev/kind"]) == ("platform", kind)
    assert metadata["annotations"] == GIVEN["annotations"]
    assert spec["nodeSelector"] == {"pool": "kafka"}
    assert (spec["priorityClassName"], spec["hostAliases"]) == ("low", GIVEN["hostAliases"])
    assert spec["tolerations"][-1] == {"key": "kafka", "operator": "Exists"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in spec["containers"]:
        variables = {each["name"]: each["value"] for each in container["env"]}
        assert variables["HTTPS_PROXY"] == "http://proxy:3128"
        assert variables["HOME"] == "/tmp"  # noqa: S108 -- the operator's
        assert len(variables) == len(container["env"])


def test_pods_of_jobs_applications_mirrors_and_checks_have_it(program: Program, cluster: Callable[..., Any]) -> None:
    for engine in ({}, {"spark_operator": True}):
        made = cluster(**engine)
        made.programs = {"program": program}
        *_, attempt = made.plan().apply
        if attempt["kind"] == "Job":
            template = attempt["spec"]["template"]
            check(template["metadata"], template["spec"], "GapScan")
        else:
            for side in ("driver", "executor"):
                part = attempt["spec"][side]
                check(part, part["template"]["spec"], "GapScan")
    metadata = {"name": "a", "namespace": "mirrors", "uid": "0" * 36, "generation": 1}
    spec: dict[str, Any] = {"sourceRef": {"name": "a"}, "targetRef": {"name": "b"}, "topics": ["t"]}
    mirror = Mirror.from_resource({"metadata": metadata, "spec": spec})
    template = workers_manifest(mirror, program, Content(), spark=program, name="a", arguments=(), annotations={})[
        "spec"
    ]["template"]
    check(template["metadata"], template["spec"], "Mirror")
    assert len(template["spec"]["tolerations"]) == 3
    kafka = {"bootstrapServers": "kafka:9092", "allowedTopics": ["*"]}
    connection = KafkaConnection.from_resource({"metadata": metadata, "spec": kafka})
    template = doctor_job(connection, "a", "b", program, deadline_seconds=9)["spec"]["template"]
    check(template["metadata"], template["spec"], "KafkaConnection")


def test_where_the_cluster_assigns_ids_no_pod_asks_for_any(tmp_path: Path, cluster: Callable[..., Any]) -> None:
    file = tmp_path / "template.json"
    file.write_text(json.dumps(GIVEN))
    arguments = [f"--pod-template={file}", "--user-ids=assigned", "--jobs-only-namespace=senders"]
    program = read_settings(arguments, {}).spark
    made = cluster()
    made.programs = {"program": program}
    *_, attempt = made.plan().apply
    wanted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = attempt["spec"]["template"]["spec"]
    assert spec["securityContext"] == wanted
    assert not any("runAsUser" in each["securityContext"] for each in spec["containers"])
    pod = {"securityContext": pod_security(), "containers": []}
    assert program.pod_templates.applied_to("senders", {}, pod)["spec"]["securityContext"] == wanted
    fixed = read_settings([], {}).workers.pod_templates.applied_to("any", {}, pod)["spec"]["securityContext"]
    assert (fixed["runAsUser"], fixed["runAsGroup"], fixed["fsGroup"]) == (65532, 65532, 65532)


def test_a_named_template_adds_to_the_default_and_has_precedence(tmp_path: Path) -> None:
    default, named = tmp_path / "template.json", tmp_path / "templates.json"
    default.write_text(json.dumps(GIVEN))
    own = {"labels": {"team": "own"}, "env": {"NO_PROXY": ".svc"}, "nodeSelector": {"pool": "big"}}
    named.write_text(json.dumps({"big": own, "plain": {}}))
    arguments = [f"--pod-template={default}", f"--pod-templates={named}", "--user-ids=assigned"]
    settings = read_settings(arguments, {})
    for program in (settings.spark, settings.workers):
        pod = {"securityContext": pod_security(), "containers": [{"name": "main"}]}
        made = program.with_template("big").pod_templates.applied_to("any", {}, pod)
        assert made["metadata"]["labels"] == {**GIVEN["labels"], "team": "own"}
        [container] = made["spec"]["containers"]
        assert {each["name"]: each["value"] for each in container["env"]} == {**GIVEN["env"], "NO_PROXY": ".svc"}
        assert (made["spec"]["nodeSelector"], made["spec"]["priorityClassName"]) == ({"pool": "big"}, "low")
        assert "runAsUser" not in made["spec"]["securityContext"]
        plain = program.with_template("plain").pod_templates.applied_to("any", {}, pod)
        assert plain == program.with_template(None).pod_templates.applied_to("any", {}, pod)
        assert plain["metadata"]["labels"] == GIVEN["labels"]


def test_pods_among_senders_have_only_what_is_for_senders(program: Program, tmp_path: Path) -> None:
    spec = {"containers": [{"name": "main"}]}
    plain = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    assert program.pod_templates.applied_to("senders", {"a": "b"}, spec) == plain
    assert PodTemplates().applied_to("any", {"a": "b"}, spec) == plain
    of_all, of_senders = tmp_path / "template.json", tmp_path / "sender.json"
    of_senders.write_text(json.dumps({"labels": {"cost": "diode"}, "imagePullSecrets": [{"name": "pull"}]}))
    arguments = [f"--pod-template={of_all}", f"--sender-pod-template={of_senders}", "--jobs-only-namespace=senders"]
    settings = read_settings(arguments, {})
    for made in (settings.spark.pod_templates, settings.sender.pod_templates):
        template = made.applied_to("senders", {"a": "b"}, spec)
        assert template["metadata"] == {"labels": {"a": "b", "cost": "diode"}}
        assert template["spec"] == {**spec, "imagePullSecrets": [{"name": "pull"}]}
    # Senders are senders in any namespace.
    assert settings.sender.pod_templates.applied_to("any", {}, spec)["metadata"] == {"labels": {"cost": "diode"}}
    assert settings.spark.pod_templates.applied_to("any", {}, spec)["metadata"]["labels"]["team"] == "platform"


def test_a_ca_bundle_reaches_every_container_but_sidecars(tmp_path: Path) -> None:
    file = tmp_path / "template.json"
    file.write_text(json.dumps({"caBundle": {"name": "trust", "key": "ca.pem"}}))
    spec = {
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        "initContainers": [{"name": "fetch"}, {"name": "sql", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}],  # noqa: S108
    }
    for template in (read_pod_template(file), read_sender_template(file)):
        made = PodTemplate(env={"A": "b"}).with_additions(template).applied_to({}, spec)["spec"]
        source = {"name": "trust", "items": [{"key": "ca.pem", "path": "ca-bundle.crt"}]}
        bundle = {"name": "ca-bundle", "projected": {"sources": [{"configMap": source}]}}
        assert made["volumes"] == [*spec["volumes"], bundle]
        (fetch, sql), [main] = made["initContainers"], made["containers"]
        for container in (fetch, main):
            variables = {each["name"]: each["value"] for each in container["env"]}
            mount = container["volumeMounts"][-1]
            assert (mount["name"], mount["readOnly"]) == ("ca-bundle", True)
            assert variables == {"A": "b", "SSL_CERT_FILE": f"{mount['mountPath']}/ca-bundle.crt"}
        assert sql == spec["initContainers"][1]
    other = PodTemplate(ca_bundle=CaBundle("other", "key"))
    assert template.with_additions(other).ca_bundle == other.ca_bundle
    assert template.with_additions(PodTemplate()).ca_bundle == template.ca_bundle


def test_variables_reach_containers_that_prepare_and_no_sidecar() -> None:
    spec = {
        "initContainers": [{"name": "fetch"}, {"name": "sql", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "env": [{"name": "A", "value": "own"}]}],
    }
    made = PodTemplate(env={"A": "b", "C": "d"}).applied_to({}, spec)["spec"]
    (fetch, sql), [main] = made["initContainers"], made["containers"]
    assert fetch["env"] == [{"name": "A", "value": "b"}, {"name": "C", "value": "d"}]
    assert "env" not in sql
    assert main["env"] == [{"name": "C", "value": "d"}, {"name": "A", "value": "own"}]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "cannot be read (it is not JSON)"),
        ("[]", "is not a JSON object"),
        ('{"securityContext": {}}', "has the unknown field securityContext; give any of labels, annotations, env,"),
        ('{"hostNetwork": true}', "has the unknown field hostNetwork"),
        ('{"tolerations": {}}', "tolerations in the pod template"),
        ('{"env": {"A": 1}}', "env in the pod template"),
        ('{"labels": []}', "is not an object whose values are texts"),
        ('{"caBundle": {"name": "a"}}', "is not the name and the key of an entry in a ConfigMap"),
        ('{"caBundle": {"name": "a", "key": 1}}', "is not the name and the key of an entry in a ConfigMap"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(
    tmp_path: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "template.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="pod template") as refused:
        read_pod_template(file)
    assert sentence in str(refused.value)
    with pytest.raises(SystemExit, match="2"):
        read_settings([f"--pod-template={file}"], {})
    assert sentence.split(";", 1)[0] in " ".join(capsys.readouterr().err.split())
    with pytest.raises(ConfigurationError, match="No such file"):
        read_pod_template(tmp_path / "none")


@pytest.mark.parametrize("name", ["nodeSelector", "affinity", "tolerations", "runtimeClassName", "schedulerName"])
def test_what_is_for_senders_chooses_no_node(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sender.json"
    file.write_text(json.dumps({name: {}}))
    with pytest.raises(SystemExit, match="2"):
        read_settings([f"--sender-pod-template={file}"], {})
    assert (
        f"has the unknown field {name}; give any of labels, annotations, env, caBundle, priorityClassName,"
        in " ".join(capsys.readouterr().err.split())
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "is not a JSON object"),
        ('{"big": []}', "The pod template big in "),
        ('{"big": {"hostNetwork": true}}', "has the unknown field hostNetwork; give any of labels, annotations, env,"),
        ('{"small": {}, "big": {"tolerations": {}}}', "tolerations in the pod template big in"),
        ('{"big": {"env": {"A": 1}}}', "env in the pod template big in"),
    ],
)
def test_named_templates_that_cannot_be_meant_are_refused(
    tmp_path: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "templates.json"
    file.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        read_settings([f"--pod-templates={file}"], {})
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("read", "definition"), [(read_pod_template, "podTemplate"), (read_sender_template, "sender")])
def test_the_chart_has_the_fields_that_the_operator_takes(
    tmp_path: Path, read: Callable[[Path], PodTemplate], definition: str
) -> None:
    file = tmp_path / "template.json"
    file.write_text('{"other": 1}')
    with pytest.raises(ConfigurationError, match="unknown field other") as refused:
        read(file)
    taken = str(refused.value).partition("give any of ")[2].removesuffix(".").split(", ")
    schema = json.loads(SCHEMA.read_text())["definitions"]
    in_chart = schema["podTemplate"]["properties"]
    assert sorted(taken) == sorted(
        in_chart if definition == "podTemplate" else schema["senderPodTemplate"]["propertyNames"]["enum"]
    )
