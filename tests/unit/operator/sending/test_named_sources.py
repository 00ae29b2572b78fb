"""A Resend follows the Kafka and the storage that it names, and stops without them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

if TYPE_CHECKING:
    from tests.unit.operator.sending.conftest import SenderCluster

BUNDLE = json.dumps(
    {
        "type": "all",
        "results": [
            {"topic": topic, "partition": number, "window_min": 0, "window_max": 9, "gaps": [[5]]}
            for number, topic in enumerate(["transfer", "secrets"])
        ],
    }
)


def container(cluster: SenderCluster) -> Any:
    job = cluster.bodies["Job", cluster.running_jobs()[0]]
    return job["spec"]["template"]["spec"]["containers"][0]


def test_waits_for_a_connection_that_is_not_there_and_says_which(ready: SenderCluster) -> None:
    ready.resend(kafkaRef={"name": "elsewhere"})
    ready.settle()
    assert ready.summary() == ("KafkaConnectionNotFound", "False", "True", "False", "Unknown")
    assert "KafkaConnection elsewhere does not exist in namespace gapless-sender" in ready.condition(Type.READY).message
    assert not ready.running_jobs()
    ready.kafka("elsewhere", bootstrapServers="kafka-elsewhere:9092")
    ready.settle()
    assert (
        ready.property_of(str(ready.a_resend().status.job), "bootstrapServers")
        == "bootstrapServers=kafka-elsewhere:9092"
    )


def test_waits_for_a_missing_storage_location(ready: SenderCluster) -> None:
    ready.resend(without=("offsets",), bundle={"storageRef": {"name": "elsewhere"}, "path": "a.json"})
    ready.settle()
    assert ready.summary()[0] == "StorageLocationNotFound"
    ready.storage("elsewhere", persistentVolumeClaim={"claimName": "carried", "folder": "in"})
    ready.settle()
    assert ready.property_of(str(ready.a_resend().status.job), "resendFileName") == "resendFileName=/bundle/in/a.json"


def test_waits_for_the_archive_that_it_names_and_for_the_place_of_that(ready: SenderCluster) -> None:
    ready.resend(fallback={"archiveRef": {"name": "nightly"}})
    ready.settle()
    assert ready.summary() == ("ArchiveNotFound", "False", "True", "False", "Unknown")
    assert "Archive nightly does not exist in namespace gapless-sender" in ready.condition(Type.READY).message
    ready.archive(storageRef={"name": "kept"}, folder="nightly")
    ready.settle()
    assert ready.summary()[0] == "StorageLocationNotFound"
    assert not ready.running_jobs()
    ready.storage("kept", persistentVolumeClaim={"claimName": "archive", "folder": "all"})
    ready.settle()
    job = str(ready.a_resend().status.job)
    assert ready.property_of(job, "archive") == "archive=/archive"
    assert ready.property_of(job, "archiveRegion") == "archiveRegion=site-a"
    mounts = {mount["mountPath"]: mount for mount in container(ready)["volumeMounts"]}
    assert mounts["/archive"] == {
        "name": "archive",
        "mountPath": "/archive",
        "subPath": "all/nightly",
        "readOnly": True,
    }


def test_an_archive_that_moves_is_followed_and_one_that_is_taken_away_stops_what_reads_it(ready: SenderCluster) -> None:
    ready.storage("kept", s3={"endpoint": "https://s3.storage:9000", "bucket": "archive"})
    ready.archive(storageRef={"name": "kept"})
    ready.begin(fallback={"archiveRef": {"name": "nightly"}})
    ready.storage("kept", s3={"endpoint": "https://s3.storage:9000", "bucket": "moved"})
    ready.settle()
    assert ready.property_of(str(ready.a_resend().status.job), "archive") == "archive=s3://moved/"
    ready.delete("Archive", "nightly")
    ready.settle()
    assert not ready.running_jobs()
    assert ready.summary()[0] == "ArchiveNotFound"


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ({"allowedTopics": ["orders-*"]}, "spec requests the archived topic secrets, and only orders-* may be used"),
        ({"allowedRegions": ["site-b"]}, "spec requests the region site-a, and only site-b may be used"),
        ({"access": ["Write"]}, "The StorageLocation kept may not be used for reading"),
    ],
)
def test_what_the_location_does_not_allow_is_not_read_from_the_archive(
    ready: SenderCluster, allowed: dict[str, Any], said: str
) -> None:
    store = {"s3": {"endpoint": "https://s3.storage:9000", "bucket": "archive"}}
    wide = {"allowedTopics": ["secrets"], "allowedRegions": ["site-*"]}
    ready.diode(topicTranslations={"secrets": "transfer"})
    ready.settle()
    ready.storage("kept", **store, **wide)
    ready.archive(storageRef={"name": "kept"})
    ready.begin(fallback={"archiveRef": {"name": "nightly"}})
    command = container(ready)["command"]
    assert {"--archive-allowed-topics=secrets", "--archive-allowed-regions=site-*"} <= set(command)
    ready.storage("kept", **store, **{**wide, **allowed})
    ready.settle()
    assert not ready.running_jobs()
    assert ready.summary()[0] == "BadConfiguration"
    assert said in ready.condition(Type.STALLED).message


def test_a_connection_that_is_taken_away_stops_what_reads_over_it(ready: SenderCluster) -> None:
    ready.begin()
    assert ready.running_jobs()
    ready.delete("KafkaConnection", "kafka-up")
    ready.settle()
    assert not ready.running_jobs()
    assert ready.summary()[0] == "KafkaConnectionNotFound"


def test_a_connection_that_changes_is_followed_with_the_same_checkpoint(ready: SenderCluster) -> None:
    job = ready.begin()
    before = ready.property_of(job, "checkpoint")
    ready.kafka(bootstrapServers="moved:9092")
    ready.settle()
    ready.start_pods()
    job = str(ready.a_resend().status.job)
    assert ready.property_of(job, "bootstrapServers") == "bootstrapServers=moved:9092"
    assert ready.property_of(job, "checkpoint") == before


def test_fewer_allowed_topics_reach_what_runs_as_an_argument_or_stop_it(ready: SenderCluster) -> None:
    ready.begin()
    assert "--allowed-topics=*" in container(ready)["command"]
    ready.kafka(allowedTopics=["transfer", "orders-*"])
    ready.settle()
    assert "--allowed-topics=transfer,orders-*" in container(ready)["command"]
    ready.kafka(allowedTopics=["orders-*"])
    ready.settle()
    assert not ready.running_jobs()
    assert ready.summary()[0] == "BadConfiguration"
    assert "requests the topic transfer, and only orders-* may be used" in ready.condition(Type.STALLED).message


def test_senders_have_an_argument_to_refuse_brokers_on_their_own_node(ready: SenderCluster) -> None:
    ready.begin()
    assert "--refuse-local-brokers=true" in container(ready)["command"]


def test_a_topic_that_only_the_bundle_names_is_refused_before_a_pod_starts(ready: SenderCluster) -> None:
    ready.kafka(allowedTopics=["transfer"])
    ready.resend(without=("offsets",), bundle={"inline": BUNDLE})
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    assert "spec.bundle.inline requests the topic secrets" in ready.condition(Type.STALLED).message
    assert not ready.running_jobs()


def test_what_counts_is_the_name_in_kafka_and_not_the_one_on_the_wire(ready: SenderCluster) -> None:
    ready.diode(topicTranslations={"secrets": "transfer"})
    ready.settle()
    ready.kafka(allowedTopics=["transfer"])
    ready.resend()
    ready.settle()
    assert ready.condition(Type.STALLED).message.startswith(
        "spec requests the topic secrets, and only transfer may be used"
    )


def test_a_connection_for_writing_alone_is_not_read(ready: SenderCluster) -> None:
    ready.kafka(access=["Write"])
    ready.resend()
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    assert "may not be used for reading" in ready.condition(Type.STALLED).message


@pytest.mark.parametrize("kind", ["KafkaConnection", "StorageLocation"])
def test_a_finished_resend_does_not_need_its_sources(ready: SenderCluster, kind: str) -> None:
    ready.finished()
    before = ready.summary()
    ready.delete(kind, "kafka-up" if kind == "KafkaConnection" else "bundles")
    ready.settle()
    assert ready.summary() == before
