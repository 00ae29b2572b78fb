"""The chart's admission policies on a real API server: a topic that no KafkaConnection allows is refused there."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.cluster.api_server import ApiError, ApiServer
from kit.cluster.build import HELM

pytestmark = pytest.mark.integration

CHART = Path(__file__).parents[3] / "charts" / "gapless"
NUMBERS = itertools.count()
POLICIES = "/apis/admissionregistration.k8s.io/v1"
NOT_ALLOWED = (
    "The KafkaConnection up does not allow the topic secrets; ask the platform team to add it to allowedTopics."
)


@pytest.fixture(scope="module")
def policies(api: ApiServer) -> Iterator[None]:
    """The policies of an installation for both sides."""
    roles = ["--set=roles.upstream.enabled=true", "--set=roles.downstream.enabled=true"]
    shown = [
        "--kube-version=1.36.0",
        *(f"--show-only=templates/admission-{name}.yaml" for name in ("topics", "storage")),
    ]
    command = [HELM.build(), "template", "gapless", CHART, *roles, *shown]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = [document for document in yaml.safe_load_all(rendered) if document]
    plural = {"ValidatingAdmissionPolicy": "policies", "ValidatingAdmissionPolicyBinding": "policybindings"}
    paths = [f"{POLICIES}/validatingadmission{plural[document['kind']]}" for document in made]
    for path, document in zip(paths, made, strict=True):
        api.request("POST", path, document)
    yield
    for path, document in zip(paths, made, strict=True):
        api.request("DELETE", f"{path}/{document['metadata']['name']}")


@pytest.fixture
def guarded(place: Any, policies: None) -> Any:  # noqa: ARG001 -- what is tested
    """A namespace whose connection `up` allows some topics, as soon as the API server keeps the policies."""
    place.kafka("up", allowedTopics=["transfer", "orders-*", "gaps", "received"])
    refused_from_now_on(place, "secrets", "does not allow the topic secrets")
    return place


def of_topic(topic: str) -> dict[str, Any]:
    return {"offsets": {"topic": topic, "partition": 0, "from": 0, "to": 1}}


@pytest.fixture
def stored(place: Any, policies: None) -> Any:  # noqa: ARG001 -- what is tested
    """A namespace whose location `shared` allows some topics of one region, as soon as the API server keeps that."""
    nothing = {"allowedRegions": ["none"], "access": ["Delete"]}
    place.apply("StorageLocation", "shared", persistentVolumeClaim={"claimName": "v"}, **nothing)
    fallback = {"storageRef": {"name": "shared"}, "region": "a"}
    kinds: tuple[Callable[[str], str], ...] = (
        lambda name: archived(place, name),
        lambda name: read_by(place, name),
        lambda name: refusal(place, "Resend", name, **of_topic("transfer"), fallback=fallback),
        lambda name: refusal(place, "GapScan", name, output={"storageRef": {"name": "shared"}}),
    )
    for refused in kinds:
        place.api.eventually(
            lambda refused=refused: "The StorageLocation shared" in refused(f"probe-{next(NUMBERS)}"),
            timeout_seconds=60,
            what="the policy",
        )
    keep(place)
    return place


def keep(place: Any, **spec: Any) -> None:
    """Change what `shared` allows, and wait until the API server keeps it."""
    marker, defaults = f"v-{next(NUMBERS)}", {"allowedTopics": ["transfer", "orders-*"]}
    place.apply(
        "StorageLocation",
        "shared",
        persistentVolumeClaim={"claimName": "v"},
        allowedRegions=["a", "team-a.*", marker],
        **{**defaults, **spec},
    )
    fallback = {"storageRef": {"name": "shared"}, "region": marker}

    def sent() -> str:
        return refusal(place, "Resend", f"probe-{next(NUMBERS)}", **of_topic("transfer"), fallback=fallback)

    place.api.eventually(lambda: "not allow the region" not in sent(), timeout_seconds=60, what="the location")


def read_by(place: Any, name: str, /, **spec: Any) -> str:
    """What the API server says of a Restore from `shared`."""
    usual = {"storageRef": {"name": "shared"}, "region": "a", "kafkaRef": {"name": "down"}}
    return refusal(place, "Restore", name, **{**usual, "topics": [{"name": "transfer"}], **spec})


def archived(place: Any, name: str, /, **spec: Any) -> str:
    """What the API server says of an Archive in `shared`."""
    usual = {"storageRef": {"name": "shared"}, "region": "a", "kafkaRef": {"name": "down"}}
    more = {} if "topicPrefixes" in spec else {"topics": ["transfer"]}
    return refusal(place, "Archive", name, **{**usual, **more, **spec})


def refusal(place: Any, kind: str, name: str, /, **spec: Any) -> str:
    """What the API server says; empty when it takes the object."""
    usual = {"diodeRef": {"name": "north"}} if kind == "Resend" else {"source": {"gapTopic": {"topic": "gaps"}}}
    try:
        spec = {**({} if kind in ("Archive", "Mirror", "Restore") else {**usual, "kafkaRef": {"name": "up"}}), **spec}
        place.apply(kind, name, **spec)
    except ApiError as error:
        return str(error)
    return ""


EVENTS = {"topics": ["received", "secrets"]}
INVENTORY = {"topics": ["received"], "manifest": {"topic": "secrets"}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Resend", of_topic("secrets")),
        ("Resend", {"timeRange": {"topic": "secrets", "from": "2026-11-20T01:30:00Z"}}),
        ("GapScan", {"source": {"gapTopic": {"topic": "secrets"}}}),
        ("GapScan", {"source": {"events": EVENTS}}),
        ("GapScan", {"source": {"events": INVENTORY}}),
    ],
)
def test_a_topic_that_the_connection_does_not_allow_is_refused(guarded: Any, kind: str, spec: dict[str, Any]) -> None:
    assert NOT_ALLOWED in refusal(guarded, kind, "wrong", **spec)


def test_topics_that_are_allowed_by_name_or_by_prefix_are_taken(guarded: Any) -> None:
    assert not refusal(guarded, "Resend", "by-name", **of_topic("transfer"))
    assert not refusal(guarded, "Resend", "by-prefix", **of_topic("orders-eu"))
    assert "does not allow the topic order" in refusal(guarded, "Resend", "shorter", **of_topic("order"))
    assert not refusal(guarded, "GapScan", "scan")


def refused_from_now_on(place: Any, topic: str, why: str) -> None:
    """Wait until the API server keeps a connection as it was just changed."""
    names = (f"probe-{number}" for number in itertools.count())
    place.api.eventually(
        lambda: why in refusal(place, "Resend", next(names), **of_topic(topic)), timeout_seconds=60, what=why
    )


def test_a_connection_that_may_not_be_used_for_reading_is_refused(guarded: Any) -> None:
    guarded.kafka("up", access=["Write"])
    refused_from_now_on(guarded, "transfer", "may not be used for reading")


def test_another_connection_and_one_that_is_not_there_are_left_to_the_operator(guarded: Any) -> None:
    assert not refusal(guarded, "Resend", "other", **{**of_topic("secrets"), "kafkaRef": {"name": "kafka"}})
    assert not refusal(guarded, "Resend", "missing", **{**of_topic("secrets"), "kafkaRef": {"name": "nowhere"}})


def test_what_was_allowed_before_can_still_be_suspended(guarded: Any) -> None:
    assert not refusal(guarded, "Resend", "before", **of_topic("transfer"))
    assert not refusal(guarded, "GapScan", "before")
    guarded.kafka("up", allowedTopics=["other"])
    refused_from_now_on(guarded, "transfer", "does not allow the topic transfer")
    assert not refusal(guarded, "Resend", "before", **of_topic("transfer"), suspend=True)
    assert not refusal(guarded, "GapScan", "before", suspend=True)
    moved = {"source": {"gapTopic": {"topic": "received"}}}
    assert "does not allow" in refusal(guarded, "GapScan", "before", **moved)


def test_groups_of_others_are_refused_by_the_api_server(guarded: Any) -> None:
    def connect(**more: Any) -> None:
        guarded.kafka("down", allowedTopics=["transfer"], access=["Read", "Write"], **more)

    def mirrored(name: str, /, **groups: Any) -> str:
        usual = {"sourceRef": {"name": "up"}, "targetRef": {"name": "down"}, "topics": ["transfer"]}
        return refusal(guarded, "Mirror", name, **usual, **({"groups": groups} if groups else {}))

    def restored(name: str, /, **offsets: Any) -> str:
        usual = {"archiveRef": {"name": "a"}, "topics": [{"name": "transfer"}], "kafkaRef": {"name": "down"}}
        return refusal(guarded, "Restore", name, **usual, groupOffsets={"configMap": {"name": "groups"}, **offsets})

    connect()
    names = (f"probe-{number}" for number in itertools.count())
    refused = "to allowedGroups of the KafkaConnection down"
    guarded.api.eventually(
        lambda: refused in mirrored(next(names), pattern=".*"), timeout_seconds=60, what="the target's connection"
    )
    assert refused in mirrored("m", prefixes=["billing-"])
    assert refused in restored("r")
    assert not mirrored("m", names=["billing"])
    assert refused in mirrored("m", names=["billing"], prefixes=["b"])
    assert not mirrored("m")
    assert not restored("r", groupName="billing")
    connect(allowedGroups=["billing-*"])
    guarded.api.eventually(lambda: not mirrored(next(names), pattern=".*"), timeout_seconds=60, what="the list")
    assert refused in mirrored("m", prefixes=["billing-", "b"])
    assert not mirrored("m", prefixes=["billing-1"], names=["b"])
    assert not restored("s")


def test_what_a_mirror_writes_is_checked_again_whenever_it_changes(guarded: Any) -> None:
    guarded.kafka("down", allowedTopics=["a.transfer"], access=["Read", "Write"])
    refused = "The KafkaConnection down does not allow the topic"

    def reply(name: str, /, **spec: Any) -> str:
        usual = {"sourceRef": {"name": "up"}, "targetRef": {"name": "down"}, "topics": ["transfer"]}
        return refusal(guarded, "Mirror", name, **{**usual, "rename": "{source}.{topic}", **spec})

    names = (f"probe-{number}" for number in itertools.count())
    guarded.api.eventually(
        lambda: refused in reply(next(names), sourceName="b"), timeout_seconds=60, what="the target's connection"
    )
    assert not reply("m", sourceName="a")
    assert f"{refused} secret.transfer" in reply("m", sourceName="secret")
    sql = {"engine": "Spark", "transform": "SELECT value FROM records"}
    assert f"{refused} secrets" in reply("m", sourceName="a", transformTopics=["secrets"], **sql)
    assert f"{refused} secrets" in reply("m", sourceName="a", onBadRecord="Park", parkingTopic="secrets")
    assert not reply("p", sourceName="a", onBadRecord="Park", parkingTopic="a.transfer")
    assert not reply("m", sourceName="a", suspend=True)
    assert "which another namespace may have; begin it with" in reply("n", sourceName="a", name="team-a.orders")
    assert not reply("n", sourceName="a", name=f"{guarded.name}.orders")
    guarded.kafka("down", allowedTopics=["a.transfer"], access=["Read", "Write"], allowedMirrorNames=["old"])
    guarded.api.eventually(
        lambda: not reply(next(names), sourceName="a", name="old"), timeout_seconds=60, what="the listed name"
    )


def test_archived_topics_and_regions_of_others_are_not_restored(stored: Any) -> None:
    refused = "The StorageLocation shared does not allow the"
    assert not read_by(stored, "r")
    assert not read_by(stored, "by-prefix", topics=[{"name": "orders-1"}], region="team-a.x")
    payroll = [{"name": "transfer"}, {"name": "payroll", "toTopic": "transfer-x"}]
    assert f"{refused} archived topic payroll; ask" in read_by(stored, "s", topics=payroll)
    assert f"{refused} region b; ask" in read_by(stored, "s", region="b")
    assert not read_by(stored, "elsewhere", storageRef={"name": "other"}, region="b", topics=payroll)


def test_archived_topics_and_regions_of_others_are_not_written_and_prefixes_are_listed(stored: Any) -> None:
    refused = "The StorageLocation shared does not allow"
    assert not archived(stored, "a")
    assert f"{refused} the region b; ask" in archived(stored, "b", region="b")
    assert f"{refused} the archived topic payroll; ask" in archived(stored, "b", topics=["transfer", "payroll"])
    assert f"{refused} all archived topics with the prefix order; ask" in archived(stored, "b", topicPrefixes=["order"])
    assert f"{refused} all archived topics with the prefix transfer;" in archived(
        stored, "b", topicPrefixes=["transfer"]
    )
    assert not archived(stored, "b", topicPrefixes=["orders-e"])
    assert f"{refused} the archived topic payroll; ask" in archived(stored, "b", topics=["payroll"])


def test_a_location_allows_only_its_operations(stored: Any) -> None:
    def no(purpose: str) -> str:
        return f"The StorageLocation shared may not be used for {purpose}; "

    compaction = {"schedule": {"cron": "0 0 3 * * *"}}
    keep(stored, access=["Read", "Write"])
    assert not archived(stored, "a")
    assert not read_by(stored, "r")
    assert no("deleting") in archived(stored, "a", compaction=compaction)
    kept = {**compaction, "delete": False}
    assert no("deleting") in archived(stored, "a", compaction=kept, retention={"maxAgeSeconds": 60})
    assert not archived(stored, "a", compaction=kept)
    assert not archived(stored, "a", compaction=compaction, hold=True), "nothing is deleted"
    assert no("deleting") in archived(stored, "a", compaction=compaction, hold=False)
    keep(stored, access=["Read", "Delete"])
    assert no("writing") in archived(stored, "b")
    assert no("writing") in refusal(stored, "GapScan", "g", output={"storageRef": {"name": "shared"}})
    keep(stored, access=["Write"])
    assert no("reading") in read_by(stored, "s")
    fallback = {"storageRef": {"name": "shared"}, "region": "a"}
    assert no("reading") in refusal(stored, "Resend", "s", **of_topic("transfer"), fallback=fallback)
    state = {"storageRef": {"name": "shared"}, "folder": "state"}
    events = {"events": {"topics": ["received"], "state": state}}
    assert no("reading") in refusal(stored, "GapScan", "g", source=events)
    assert not refusal(stored, "GapScan", "g", output={"storageRef": {"name": "shared"}})


def test_a_resend_reads_no_region_of_others(stored: Any) -> None:
    def sent(name: str, region: str) -> str:
        fallback = {"storageRef": {"name": "shared"}, "region": region}
        return refusal(stored, "Resend", name, **of_topic("transfer"), fallback=fallback)

    assert not sent("again", "a")
    assert "The StorageLocation shared does not allow the region b; ask" in sent("other", "b")


def test_what_a_location_allowed_before_can_be_suspended_and_held_but_deletes_nothing_more(stored: Any) -> None:
    compaction = {"schedule": {"cron": "0 0 3 * * *"}}
    year, minute = {"maxAgeSeconds": 31_536_000}, {"maxAgeSeconds": 60}
    assert not archived(stored, "a", compaction=compaction)
    assert not archived(stored, "b", compaction=compaction, retention=year)
    assert not read_by(stored, "r")
    keep(stored, allowedTopics=["other"], access=["Read", "Write"])
    assert not archived(stored, "a", compaction=compaction, suspend=True)
    assert "may not be used for deleting" in archived(stored, "a", compaction=compaction, retention=minute)
    assert not archived(stored, "b", compaction=compaction, retention=year, suspend=True)
    assert "may not be used for deleting" in archived(stored, "b", compaction=compaction, retention=minute)
    assert not archived(stored, "b", compaction=compaction)
    assert not archived(stored, "a", compaction=compaction, suspend=True, hold=True)
    assert not read_by(stored, "r", suspend=True)
    assert "may not be used for deleting" in archived(stored, "a", compaction=compaction, suspend=True)
    assert "does not allow the archived topic orders-1" in archived(stored, "a", topics=["orders-1"], hold=True)


def test_a_retention_below_that_of_the_location_is_refused(stored: Any) -> None:
    compaction, day = {"schedule": {"cron": "0 0 3 * * *"}}, 86_400
    said = "retention.maxAgeSeconds is 86399, and the StorageLocation shared keeps records for at least 86400"

    def kept(name: str, seconds: int, **more: Any) -> str:
        return archived(stored, name, compaction=compaction, retention={"maxAgeSeconds": seconds}, **more)

    assert not kept("before", day - 1)
    keep(stored, minRetentionSeconds=day)
    assert said in kept("a", day - 1)
    assert not kept("a", day)
    assert said in kept("a", day - 1)
    assert not kept("before", day - 1, suspend=True)
    assert "maxAgeSeconds is 86398, and" in kept("before", day - 2)
    assert not kept("before", day + 1)
    assert not archived(stored, "b", compaction=compaction, retention={"maxBytes": 1}), "the pods keep what is newer"
