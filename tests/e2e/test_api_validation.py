"""A real API server takes every example, refuses every mistake with the sentence that says what to write, and fills in
the defaults that the models have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.kinds import KINDS
from kit.cluster.places import ClusterError

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.cluster.product import Installation

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
REJECTED = sorted((ROOT / "tests" / "e2e" / "rejected").glob("*.yaml"))
EXPECTED = "gapless.dev/refused-with"
BY_KIND = {kind.KIND: kind for kind in KINDS}
CREATE = ("create", "--validate=strict", "--dry-run=server", "-o=json", "-f=-")
REPLACE = ("replace", "--validate=strict", "--dry-run=server", "-f=-")

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def place(installed: Installation) -> Iterator[str]:
    """A namespace that no operator looks at, in a cluster that has the definitions."""
    cluster = installed.cluster
    name = f"validation-{os.getpid()}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def objects(file: Path, place: str) -> list[dict[str, Any]]:
    """The objects of a file, with texts for times as kubectl sees them, moved to `place`."""
    found = list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=TextForTimes))
    for thing in found:
        thing["metadata"]["namespace"] = place
    return found


class TextForTimes(yaml.SafeLoader):
    """YAML without its own kind of times."""


TextForTimes.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_taken_and_gets_the_defaults_of_the_models(cluster: Cluster, place: str, file: Path) -> None:
    for thing in objects(file, place):
        taken = json.loads(cluster.kubectl(*CREATE, stdin=json.dumps(thing)))
        ours = BY_KIND[thing["kind"]].from_resource(thing).spec.to_dict()  # type: ignore[attr-defined]
        assert taken["spec"] == without_empty_lists(ours)


def without_empty_lists(spec: dict[str, Any]) -> dict[str, Any]:
    """The API server fills in no empty lists, which mean the same as none."""
    return {
        name: without_empty_lists(part) if isinstance(part, dict) else part for name, part in spec.items() if part != []
    }


@pytest.mark.parametrize("file", REJECTED, ids=lambda file: file.stem)
def test_a_mistake_is_refused_with_what_to_write_instead(cluster: Cluster, place: str, file: Path) -> None:
    first, *changes = objects(file, place)
    if EXPECTED in first["metadata"].get("annotations", {}):
        assert refusal(cluster, CREATE, first)
        assert not changes
        return
    cluster.kubectl("create", "-f=-", stdin=json.dumps(first))
    assert changes
    for change in changes:
        assert refusal(cluster, REPLACE, change)


def refusal(cluster: Cluster, how: tuple[str, ...], thing: dict[str, Any]) -> bool:
    """Whether the API server refuses with the sentence that the object expects; what it says instead is shown."""
    with pytest.raises(ClusterError) as caught:
        cluster.kubectl(*how, stdin=json.dumps(thing))
    expected: str = thing["metadata"]["annotations"][EXPECTED]
    assert expected in str(caught.value)
    return True


def a_resend(place: str, name: str, **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "gapless.dev/v1alpha1",
            "kind": "Resend",
            "metadata": {"name": name, "namespace": place},
            "spec": {
                "diodeRef": {"name": "hall"},
                "kafkaRef": {"name": "kafka"},
                "offsets": {"topic": "transfer", "partition": 0, "from": 5, "to": MAX_OFFSET},
                **spec,
            },
        }
    )


def test_what_may_be_changed_can_be_changed(cluster: Cluster, place: str) -> None:
    cluster.kubectl("create", "-f=-", stdin=a_resend(place, "changeable", mode="Plan"))
    for change in (
        {"mode": "Send"},
        {"suspend": True},
        {"eps": 0.5},
        {"eps": None},
        {"priority": 5},
        {"force": "once"},
    ):
        patch = json.dumps({"spec": change})
        cluster.kubectl("patch", "resend", "changeable", f"-n={place}", "--type=merge", f"-p={patch}")


def test_metadata_can_be_changed_at_any_time(cluster: Cluster, place: str) -> None:
    cluster.kubectl("create", "-f=-", stdin=a_resend(place, "labelled"))
    cluster.kubectl("label", "resend", "labelled", f"-n={place}", "team=night")


def test_the_largest_offset_comes_back_as_it_went_in(cluster: Cluster, place: str) -> None:
    cluster.kubectl("create", "-f=-", stdin=a_resend(place, "largest"))
    status = json.dumps(
        {"status": {"unavailable": [
            {"topic": "transfer", "partition": 0, "first": 5, "last": MAX_OFFSET, "reason": "NotYetWritten"}
        ]}}
    )  # fmt: skip
    cluster.kubectl("patch", "resend", "largest", f"-n={place}", "--subresource=status", "--type=merge", f"-p={status}")
    read = json.loads(cluster.kubectl("get", "resend", "largest", f"-n={place}", "-o=json"))
    assert read["spec"]["offsets"]["to"] == MAX_OFFSET
    assert read["status"]["unavailable"][0]["last"] == MAX_OFFSET


def test_kubectl_waits_for_conditions_and_shows_progress_in_columns(cluster: Cluster, place: str) -> None:
    cluster.kubectl("create", "-f=-", stdin=a_resend(place, "columns"))
    before = {"type": "Succeeded", "status": "True", "reason": "Sent", "message": "Sent 7 of 7 events."}
    said = {**before, "observedGeneration": 1, "lastTransitionTime": "2026-11-20T10:00:00Z"}
    status = {"phase": "Succeeded", "progress": {"planned": 7, "sent": 7, "percent": 100}, "conditions": [said]}
    cluster.kubectl(
        "patch", "resend", "columns", f"-n={place}", "--subresource=status", "--type=merge",
        f"-p={json.dumps({'status': status})}",
    )  # fmt: skip
    cluster.kubectl("wait", "resend", "columns", f"-n={place}", "--for=condition=Succeeded", "--timeout=10s")
    head, row = cluster.kubectl("get", "rsnd", "columns", f"-n={place}").splitlines()
    assert head.split() == ["NAME", "PHASE", "PERCENT", "SENT", "PLANNED", "UNAVAILABLE", "AGE"]
    assert row.split()[:5] == ["columns", "Succeeded", "100", "7", "7"]
    assert "resend.gapless.dev/columns" in cluster.kubectl("get", "gapless", f"-n={place}")


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ("resend", "Sends events from Kafka again over a Diode"),
        ("resend.spec.unavailable", "Report lists them in the status. Fill sends empty events in their place"),
        ("gapscan.spec.schedule.timeZone", "Time zone of the schedule, such as Europe/Stockholm."),
        ("diode.spec.encryption.sharedWithLiveStream", "A receiver has one event key for all senders"),
    ],
)
def test_kubectl_explains_fields_in_sentences(cluster: Cluster, place: str, field: str, sentence: str) -> None:
    assert place
    assert sentence in " ".join(cluster.kubectl("explain", field).split())


A_DIODE = {
    "nodeSelector": {"a": "b"},
    "nic": "diode0",
    "target": {"host": "receiver", "port": 1234},
    "unlimited": True,
}
A_SCAN = {"kafkaRef": {"name": "kafka"}, "source": {"gapTopic": {"topic": "gaps"}}}
A_TIME = {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka"}}
LOCAL_SERVERS = [
    "127.0.0.1:1", "127.1:1", "k:1,LOCALHOST:1", "a.localhost.:1", "0.0.0.0:1", "0:1", "169.254.1.2:1", "[::1]:1",
    "[::]:1", "[0:0:0:0:0:0:0:1]:1", "[FE80::1]:1", "[febf::1]:1", "[fec0::1]:1", "[::ffff:7f00:1]:1", "2130706433:1",
    "0x7f000001:1", "0177.0.0.1:1", "256.1.1.1:1", "[::ffff:127.0.0.1]:1", "[fe80::1%eth0]:1", "metadata:1",
    "100.100.100.200:1", "[fd00:ec2::254]:1", "1-kafka.example:1", "localhost.example:1",
]  # fmt: skip
ODD_VALUES: dict[str, tuple[str, Callable[[Any], dict[str, Any]], list[Any]]] = {
    "cron": ("GapScan", lambda text: {**A_SCAN, "schedule": {"cron": text}}, [
        "0,30 8-18 * * 1-5", "0 0 1 JAN,jul MON-FRI", "5  4 * * sun", "@daily", "0 24 * * *", "0 3 32 * *", "0 3 * * 8",
        "*/0 * * * *", "0 3 * * *\n", " 0 3 * * *",
    ]),
    "brokers": ("KafkaConnection", lambda text: {"bootstrapServers": text, "allowedTopics": ["*"]}, [
        "k:1", "k:9092,", "k:9092, l:1", "[fd00::1]:9092", "k:9092;l:1", "k:123456", "k:9092\n", *LOCAL_SERVERS,
    ]),
    "topic": ("KafkaConnection", lambda text: {"bootstrapServers": "k:1", "allowedTopics": [text]}, [
        "a", "a*", "*", "**", "*a", "a*b", "", "a b", "a\n", "a" * 249, "a" * 250,
    ]),
    "expectation": ("GapScan", lambda text: {**A_SCAN, "source": {"events": {"topics": ["x"], "expect": [text]}}}, [
        "t:0:0-9", "t:0:9", "a:b:0:1-2", "t:0:1-99999999999999999999", "t\n:0:1-2",
    ]),
    "endpoint": ("StorageLocation", lambda text: {"s3": {"endpoint": text, "bucket": "abc"}}, [
        "https://m:9000", "http://m.o/", "ftp://m.o", "https://m/b", "https://m\n", "https://user@m", "http://127.0.0.1",
        "http://localhost:9000/", "http://[::1]", "http://169.254.169.254/",
    ]),
    "folder": ("StorageLocation", lambda text: {"persistentVolumeClaim": {"claimName": "c", "folder": text}}, [
        "a/b", "", "a//b", "/a", "..", "a/../b", ".a", "a/.",
    ]),
    "address": ("Diode", lambda text: {**A_DIODE, "sourceAddress": text}, [
        "10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "10.0.0.01", "fe80::1%eth0", "1.2.3", "10.0.0.1/24",
    ]),
    "rate": ("Diode", lambda given: {**A_DIODE, "unlimited": False, **given}, [
        {}, {"unlimited": True}, {"budget": {}}, {"budget": {"eventsPerSecond": 0}}, {"budget": {"eventsPerSecond": 1}},
        {"budget": {"eventsPerSecond": 0.5}},
        {"budget": {"bitsPerSecond": 1}}, {"profileRef": {"name": "north"}}, {"profileRef": {}},
        {"budget": {}, "profileRef": {"name": "north"}}, {"budget": {}, "unlimited": True},
        {"budget": {"bitsPerSecond": 1}, "unlimited": True}, {"unlimited": True, "profileRef": {"name": "north"}},
        {"budget": {"eventsPerSecond": 5}, "profileRef": {"name": "north"}},
    ]),
    "payload": ("Diode", lambda size: {**A_DIODE, "payloadSize": size}, [
        0, 1, 499, 500, 65459, 65460, -1, 700.5, True,
    ]),
    "memory": ("Diode", lambda text: {**A_DIODE, "resources": {"memory": text}}, ["512Mi", "0Mi", "1G", "1.5Gi"]),
    "time": ("Resend", lambda text: {**A_TIME, "timeRange": {"topic": "t", "from": text}}, [
        "2026-11-20T01:30:00Z", "2026-11-20t01:30:00z", "2026-11-20 01:30:00Z", "2026-11-20T01:30:00",
        "2026-11-20T01:30:00.123456789Z", "2026-11-20", "2026-02-30T00:00:00Z", "1700000000",
        "2026-11-20T01:30:00+0100",
    ]),
    "rule": ("Resend", lambda text: {
        **A_TIME, "timeRange": {"topic": "t", "from": "2026-11-20T01:30:00Z"}, "inputFilter": {"rules": [text]}
    }, ["deny:x", "Deny:x", "deny:", "deny: x", "allow:a\nb"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param(kind, of(value), id=f"{name}-{value!r}")
        for name, (kind, of, values) in ODD_VALUES.items()
        for value in values
    ],
)
def test_server_and_model_agree_on_odd_values(cluster: Cluster, place: str, kind: str, spec: dict[str, Any]) -> None:
    thing = {
        "apiVersion": "gapless.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "odd", "namespace": place},
        "spec": spec,
    }
    taken_by_model = taken_by_server = True
    try:
        BY_KIND[kind].from_resource(thing)
    except ConfigurationError:
        taken_by_model = False
    try:
        cluster.kubectl(*CREATE, stdin=json.dumps(thing))
    except ClusterError as error:
        taken_by_server = False
        assert "is invalid" in str(error)  # noqa: PT017 -- and not, say, unreachable
    assert taken_by_server == taken_by_model
