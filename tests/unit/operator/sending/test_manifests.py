"""Manifests match their golden files; GAPLESS_UPDATE_GOLDEN=1 writes these again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.properties_file import read_properties
from gapless_api.base.settings import kebab, resolve
from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.diode import Diode, DiodeSpec
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.link_rate import Budget
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.storage_location import StorageLocation
from gapless_operator.common.children import MAX_NAME_LENGTH
from gapless_operator.common.references import ReferencedObjects, ResendSources, resend_sources
from gapless_operator.common.settings import Program
from gapless_operator.sending.diode_children import preflight_job, state_claim
from gapless_operator.sending.queries import PLAN, SEND
from gapless_operator.sending.resend.manifests import (
    SenderAttempt,
    SessionKey,
    attempt_manifests,
    job_name,
    key_secret,
    needs_key,
    report_map,
    report_name,
    session_key_name,
)
from gapless_operator.sending.resend.properties import properties, rates
from gapless_sender.pace.rate_file import with_rates
from gapless_sender.settings.resend import RESEND

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[4] / "examples"
PROGRAM = Program(image="gapless/sender:1", service_account="gapless-sender")
META = {"namespace": "gapless-sender", "uid": "11111111-2222-3333-4444-555555555555", "generation": 2}
SECURE = {
    "allowedTopics": ["transfer", "orders-*"],
    "bootstrapServers": "kafka-0:9093,kafka-1:9093",
    "tls": {
        "caSecret": {"name": "cluster-ca-cert"},
        "clientSecret": {"name": "resender", "passwordKey": "user.password"},
    },
    "sasl": {"username": "resender", "passwordSecret": {"name": "resender"}},
}
OFFSETS = {"offsets": {"topic": "transfer", "partition": 103, "from": 5, "to": 9223372036854775806}}
TIMES = {"timeRange": {"topic": "transfer", "from": "2026-11-20T10:00:00.123456+01:00", "to": "2026-11-20T11:00:00Z"}}
PUBLIC_KEY = f"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA{'A' * 43}=\n-----END PUBLIC KEY-----\n"
DIODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "full": {
        "tolerations": [{"key": "gapless.dev/diode", "operator": "Exists", "effect": "NoSchedule"}],
        "sourceAddress": "10.0.0.1",
        "dscp": 18,
        "ttl": 9,
        "payloadSize": 0,
        "copies": 2,
        "budget": {"eventsPerSecond": 5000.0, "bitsPerSecond": 800000000},
        "encryption": {"certificateSecret": {"name": "receiver"}, "lane": "night"},
        "partitionWindow": {"start": 100, "count": 100},
        "trustedKeys": [{"name": "hall", "publicKey": PUBLIC_KEY}],
        "topicTranslations": {"orders": "transfer"},
        "requireStaticNeighbour": True,
        "state": {"storageClassName": "local", "size": "2Gi"},
        "resources": {"cpu": "2", "memory": "1Gi"},
        "image": "registry.example/sender:2",
    },
}
RESENDS: dict[str, dict[str, Any]] = {
    "offsets": OFFSETS,
    "secure-times-filter": {
        **TIMES,
        "kafkaRef": {"name": "secure"},
        "eps": 0.5,
        "copies": 3,
        "compressWhenLengthExceeds": 1000,
        "inputFilter": {"rules": ["deny:secret, more", "allow:."], "defaultAction": "Deny"},
        "unavailable": "Fill",
        "fill": ["NonExistent", "Expired"],
        "parallelism": 4,
        "activeDeadlineSeconds": 3600,
        "backoffLimit": 2,
        "force": "again",
    },
    "options": {
        "offsets": {"topic": "transfer", "partition": 103, "from": 5},
        "timeFilter": {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00+01:00"},
        "clientId": "night.shift",
        "groupId": "resend/night",
        "isolationLevel": "ReadCommitted",
        "stallTimeoutSeconds": 300,
        "maxFragments": 64,
        "generateNewSymmetricKeyEverySeconds": 600,
        "logLevel": "Debug",
        "parallelism": 3,
    },
    "inline": {"bundle": {"inline": '{"type": "all", "results": []}'}},
    "configmap": {"bundle": {"configMap": {"name": "carried", "key": "b.json.gz"}}},
    "volume": {"bundle": {"storageRef": {"name": "bundles"}, "path": "nightly/b.json"}},
    "s3": {
        "bundle": {
            "storageRef": {"name": "store"},
            "path": "b.json",
            "sha256": "ab" * 32,
        }
    },
    "archive-s3": {
        "bundle": {"storageRef": {"name": "store"}, "path": "b.json"},
        "fallback": {"archiveRef": {"name": "nightly"}},
    },
    "archive-volume": {
        "bundle": {"storageRef": {"name": "bundles"}, "path": "b.json"},
        "fallback": {"storageRef": {"name": "bundles"}, "folder": "archive", "region": "site-a"},
    },
}
NAMED: dict[str, dict[str, Any]] = {
    "kafka-up": {"bootstrapServers": "kafka-up:9092", "allowedTopics": ["transfer"]},
    "secure": SECURE,
    "bundles": {"persistentVolumeClaim": {"claimName": "bundles", "folder": "carried"}},
    "store": {
        "s3": {
            "endpoint": "https://minio.storage.svc:9000",
            "bucket": "gapless",
            "prefix": "bundles/",
            "region": "eu-north-1",
            "caSecret": {"name": "store-ca"},
            "credentialsSecret": {"name": "store", "sessionTokenKey": "token"},
        }
    },
    "kept": {
        "s3": {
            "endpoint": "https://other.storage.svc:9000",
            "bucket": "archive",
            "caSecret": {"name": "archive-ca"},
            "credentialsSecret": {"name": "archive", "sessionTokenKey": "token"},
        }
    },
    "nightly": {
        "kafkaRef": {"name": "kafka-up"},
        "storageRef": {"name": "kept"},
        "folder": "nightly",
        "region": "site-a",
        "topics": ["transfer"],
    },
}
CASES = [
    ("plain", "offsets", SEND),
    ("plain", "offsets", PLAN),
    ("full", "secure-times-filter", SEND),
    ("full", "secure-times-filter", PLAN),
    ("full", "inline", SEND),
    ("full", "options", SEND),
    ("plain", "configmap", SEND),
    ("plain", "volume", SEND),
    ("plain", "s3", SEND),
    ("plain", "archive-s3", SEND),
    ("plain", "archive-volume", SEND),
]


def a_diode(name: str) -> Diode:
    spec = {
        "nodeSelector": {"gapless.dev/diode": "hall"},
        "nic": "diode0",
        "target": {"host": "10.0.0.2", "port": 1234},
        "unlimited": "budget" not in DIODES[name],
        **DIODES[name],
    }
    return Diode.from_resource({"metadata": {"name": "hall", **META}, "spec": spec})


def a_resend(**spec: Any) -> Resend:
    whole = {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka-up"}, **spec}
    status = {"identity": "1d" * 32}
    return Resend.from_resource({"metadata": {"name": "repeat", **META}, "spec": whole, "status": status})


def sources_of(resend: Resend, specs: dict[str, dict[str, Any]] = NAMED) -> ResendSources:
    def read(kind: Any, reference: Any) -> Any:
        body = {"metadata": {"name": reference.name, **META}, "spec": specs[reference.name]}
        return kind.from_resource(body)

    bundle, fallback = resend.spec.bundle, resend.spec.fallback
    archive = read(Archive, fallback.archive_ref) if fallback and fallback.archive_ref else None
    named = [part.storage_ref for part in (bundle, fallback, archive and archive.spec) if part]
    found = resend_sources(
        resend,
        ReferencedObjects(
            kafkas=(read(KafkaConnection, resend.spec.kafka_ref),),
            locations=tuple(read(StorageLocation, reference) for reference in named if reference),
            archive=archive,
        ),
    )
    assert isinstance(found, ResendSources)
    return found


def settings_of(resend: Resend, diode: DiodeSpec, *, plan: bool) -> str:
    return properties(resend, diode, sources_of(resend), plan=plan)


def an_attempt(diode: str, resend: str, role: str) -> list[Any]:
    return attempt_at(a_resend(**RESENDS[resend]), a_diode(diode), role, 3)


def attempt_at(resend: Resend, diode: Diode, role: str, number: int) -> list[Any]:
    """The objects of an attempt in the order in which they are written; the Secret with the key is first."""
    key = SessionKey(session_key_name(resend, "5e55104e"), bytes(range(32))) if needs_key(diode, role) else None
    name = job_name(resend, role, number)
    attempt = SenderAttempt(
        resend=resend,
        diode=diode,
        sources=sources_of(resend),
        program=PROGRAM,
        role=role,
        name=name,
        number=number,
        key=key,
    )
    return [*([] if key is None else [key_secret(resend, key)]), *attempt_manifests(attempt)]


class Readable(yaml.SafeDumper):
    """Writes texts of several lines as such, so that a golden file can be reviewed."""


Readable.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def compare(name: str, manifests: list[Any]) -> None:
    text = yaml.dump_all(manifests, Dumper=Readable, sort_keys=True, width=1000)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("GAPLESS_UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize(("diode", "resend", "role"), CASES)
def test_an_attempt_is_as_its_golden_file(diode: str, resend: str, role: str) -> None:
    compare(f"{role}-{resend}", an_attempt(diode, resend, role))


@pytest.mark.parametrize("diode", DIODES)
def test_the_children_of_a_diode_match_their_golden_files(diode: str) -> None:
    compare(f"diode-{diode}", [state_claim(a_diode(diode), None), preflight_job(a_diode(diode), PROGRAM)])


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for diode, resend, role in CASES:
        yield f"{role} {resend}", an_attempt(diode, resend, role)[-1]["spec"]["template"]["spec"]
    for diode in DIODES:
        yield f"preflight {diode}", preflight_job(a_diode(diode), PROGRAM)["spec"]["template"]["spec"]


@pytest.mark.parametrize(("case", "pod"), list(pods()))
def test_every_pod_has_only_the_host_network(case: str, pod: dict[str, Any]) -> None:
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet"), case
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {"gapless.dev/diode": "hall"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        }
        assert "env" not in container
        assert container["resources"]["limits"]["memory"]
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


@pytest.mark.parametrize(("diode", "resend", "role"), CASES)
def test_every_file_that_the_settings_name_is_mounted(diode: str, resend: str, role: str) -> None:
    attempt = an_attempt(diode, resend, role)
    settings = next(part for part in attempt if "resend.properties" in part.get("data", {}))
    pod = attempt[-1]["spec"]["template"]["spec"]
    projected = next(volume["projected"]["sources"] for volume in pod["volumes"] if "projected" in volume)
    files = {f"/etc/gapless/{item['path']}" for source in projected for item in next(iter(source.values()))["items"]}
    folders = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    lines = [line.partition("=")[2] for line in settings["data"]["resend.properties"].splitlines()]
    named = [value for value in lines if value.startswith("/")]
    assert named
    for path in named:
        assert path in files or any(f"{path}/".startswith(f"{f}/") for f in folders if f != "/etc/gapless"), path


@pytest.mark.parametrize(("diode", "resend", "role"), CASES)
def test_the_sender_understands_its_settings(diode: str, resend: str, role: str, tmp_path: Path) -> None:
    found = the_senders_view(settings_of(a_resend(**RESENDS[resend]), a_diode(diode).spec, plan=role == PLAN), tmp_path)
    assert found["targetIP"] == "10.0.0.2"
    assert found["plan"] is (role == PLAN)
    assert found["reportLine"] is True
    assert found["checkpoint"].is_folder


def test_the_sender_understands_its_arguments_which_no_file_overrides(tmp_path: Path) -> None:
    command = an_attempt("full", "inline", SEND)[-1]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:3] == ["gapless", "resend", "/etc/gapless/resend.properties"]
    options = dict(argument.removeprefix("--").split("=", 1) for argument in command[3:])
    names = {kebab(setting.name): setting.name for setting in RESEND.settings}
    file = tmp_path / "resend.properties"
    required = "bootstrapServers=k:1\ntargetIP=10.0.0.2\ntargetPort=1\n"
    file.write_text(f"{required}partitionStartValue=0\npartitionStopValue=6\n")
    given = {names[option]: value for option, value in options.items()}
    found = resolve(RESEND, file=file, environment={}, options=given).values
    assert (found["partitionStartValue"], found["partitionStopValue"]) == (100, 100)
    assert found["trustedKeys"] == {"hall": "MCowBQYDK2VwAyEA" + "A" * 43 + "="}


def the_senders_view(text: str, folder: Path) -> dict[str, Any]:
    file = folder / "resend.properties"
    file.write_text(text)
    assert len(read_properties(file)) == len(text.splitlines())
    return resolve(RESEND, file=file, environment={}, options={}).values


def test_settings_follow_the_spec(tmp_path: Path) -> None:
    resend = a_resend(**RESENDS["secure-times-filter"])
    assert rates(resend.spec, a_diode("full").spec) == "eps=0.5\nbudgetEps=5000.0\nbudgetBitsPerSecond=800000000\n"
    found = the_senders_view(settings_of(resend, a_diode("full").spec, plan=False), tmp_path)
    expected = {
        "from": 1795165200123,  # 2026-11-20T09:00:00.123Z
        "to": 1795172400000,
        "budgetFile": Path("/var/lib/gapless/budget"),
        "copies": 3,
        "payloadSize": 0,
        "unavailable": "fill",
        "fill": ("Expired", "NonExistent"),
        "topicTranslations": {"orders": "transfer"},
        "encryption": True,
        "shardCount": 4,
        "compressWhenLengthExceeds": 1000,
        "inputFilterDefaultAction": "deny",
        "saslMechanism": "SCRAM-SHA-512",
        "id": "gapless-sender/repeat",
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("own", "shared", "wanted"),
    [(None, 0, 0), (0, 100, 100), (50, 100, 50), (500, 100, 100), (0.25, 0, 0.25), (1e-7, 0, 1e-7)],
)
def test_a_resend_has_its_own_pace_within_the_diodes_and_the_plan_counts_with_the_slower(
    own: float | None, shared: float, wanted: float, tmp_path: Path
) -> None:
    spec = {} if own is None else {"eps": own}
    diode = a_diode("plain").spec.model_copy(update={"budget": Budget(events_per_second=shared)})
    resend = a_resend(**OFFSETS, **spec)
    assert the_senders_view(settings_of(resend, diode, plan=True), tmp_path)["eps"] == wanted
    sending = the_senders_view(settings_of(resend, diode, plan=False), tmp_path)
    assert sending["paceFile"] is not None
    assert (sending["budgetFile"] is not None) == bool(shared)
    file = tmp_path / "rates.properties"
    file.write_text(rates(resend.spec, diode))
    followed = with_rates({**sending, "rateFile": file})
    assert (followed["eps"], followed["budgetEps"]) == (own or 0, shared)
    assert followed["unlimited"] is not bool(own or shared)


@pytest.mark.parametrize("topic", [" transfer", "transfer\u2028", "transfer\u0085next=1"])
def test_a_value_that_a_settings_file_would_alter_is_refused(topic: str) -> None:
    with pytest.raises(ConfigurationError, match="topic"):
        settings_of(
            a_resend(offsets={"topic": topic, "partition": 0, "from": 0, "to": 1}), a_diode("plain").spec, plan=False
        )


def test_the_examples_are_understood_by_the_sender(tmp_path: Path) -> None:
    documents = [
        document
        for file in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document is not None
    ]
    resends = [document for document in documents if document["kind"] == "Resend"]
    diodes = [document for document in documents if document["kind"] == "Diode"]
    named = {
        document["metadata"]["name"]: document["spec"]
        for document in documents
        if document["kind"] in {"KafkaConnection", "StorageLocation", "Archive"}
    }
    assert len(resends) >= 6
    for resend in resends:
        for diode in diodes:
            read = Resend.from_resource(resend)
            text = properties(read, Diode.from_resource(diode).spec, sources_of(read, named), plan=False)
            the_senders_view(text, tmp_path)


def test_no_digest_depends_on_the_session_key() -> None:
    keys = [SessionKey("repeat-key", bytes([number]) * 32) for number in (1, 2)]
    one, other = (key_secret(a_resend(**OFFSETS), key) for key in keys)
    assert one["metadata"] == other["metadata"]
    assert one["data"] != other["data"]


@pytest.mark.parametrize("name", ["a", "x" * 253, "dots.and.more", "dots-and.more"])
def test_names_of_children_fit_and_differ(name: str) -> None:
    resend = Resend.from_resource(
        {
            "metadata": {"name": name, **META},
            "spec": {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka-up"}, **OFFSETS},
        }
    )
    attempt = attempt_at(resend, a_diode("full"), SEND, 100)
    found = [part["metadata"]["name"] for part in attempt]
    found.append(report_map(resend, report_name(resend), "{}")["metadata"]["name"])
    assert all(len(child) <= MAX_NAME_LENGTH and "." not in child for child in found)
    assert all("-11111111-" in child for child in found), "the uid keeps them apart from those of another owner"
    assert all(len(value) <= 63 for part in attempt for value in part["metadata"]["labels"].values())


@pytest.mark.parametrize(("diode", "resend", "role"), CASES)
def test_every_secret_that_is_mounted_is_named(diode: str, resend: str, role: str) -> None:
    """What is mounted and not named, such as a session token, is missing where it is needed."""
    attempt = an_attempt(diode, resend, role)
    settings = next(
        part["data"]["resend.properties"] for part in attempt if "resend.properties" in part.get("data", {})
    )
    pod = attempt[-1]["spec"]["template"]["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", ())]
    words = [*settings.splitlines(), *(word for container in containers for word in container["command"])]
    projected = next(volume["projected"]["sources"] for volume in pod["volumes"] if "projected" in volume)
    files = {item["path"] for source in projected if "secret" in source for item in source["secret"]["items"]}
    assert files <= {word.rpartition("/etc/gapless/")[2] for word in words}
