"""A GapScan uses the Kafka and the storage that it names, and does not run without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
STATE = {"events": {"topics": ["transfer"], "state": {"storageRef": {"name": "audits"}, "folder": "night"}}}


@pytest.mark.parametrize(
    ("spec", "reason", "said"),
    [
        ({"kafkaRef": {"name": "nowhere"}}, "KafkaConnectionNotFound", "KafkaConnection nowhere does not exist"),
        (
            {"output": {"storageRef": {"name": "nowhere"}}},
            "StorageLocationNotFound",
            "StorageLocation nowhere does not exist",
        ),
        (
            {"source": {"events": {"topics": ["a"], "state": {"storageRef": {"name": "nowhere"}, "folder": "x"}}}},
            "StorageLocationNotFound",
            "StorageLocation nowhere does not exist",
        ),
        (
            {"source": STATE, "output": {"storageRef": {"name": "all-audits"}, "folder": "all/night"}},
            "BadConfiguration",
            "use the same folder",
        ),
        (
            {
                "source": {
                    "events": {"topics": ["a"], "state": {"storageRef": {"name": "other-store"}, "folder": "x"}}
                },
                "output": {"storageRef": {"name": "store"}},
            },
            "BadConfiguration",
            "are in different stores",
        ),
    ],
)
def test_missing_or_unsuitable_references_are_reported_and_nothing_starts(
    cluster: Make, spec: dict[str, Any], reason: str, said: str
) -> None:
    locations = {
        "audits": {"persistentVolumeClaim": {"claimName": "audits", "folder": "all"}},
        "all-audits": {"persistentVolumeClaim": {"claimName": "audits"}},
        "store": {"s3": {"endpoint": "https://s3.storage:9000", "bucket": "gaps"}},
        "other-store": {"s3": {"endpoint": "https://other:9000", "bucket": "gaps"}},
    }
    night = cluster(locations=locations, **spec)
    night.settle()
    assert night.condition("Stalled") == ("True", reason)
    assert said in night.message("Stalled")
    assert not night.begun
    assert [event.reason for event in night.events] == [reason], "said once"


def test_a_created_connection_is_used_and_a_deleted_one_stops_the_scan(cluster: Make) -> None:
    night = cluster(kafkaRef={"name": "later"})
    night.settle()
    night.kafkas["later"] = {"bootstrapServers": "later:9092", "allowedTopics": ["gaps"]}
    night.settle()
    assert len(night.begun) == 1
    night.run()
    night.step()
    del night.kafkas["later"]
    night.settle()
    assert night.status["lastAttempt"]["outcome"] == "KafkaConnectionNotFound"
    assert not night.names("Job"), "what runs over it is ended"


def test_a_running_scan_restarts_when_its_connection_changes(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.step()
    night.kafkas["kafka"] = {**night.kafkas["kafka"], "bootstrapServers": "moved:9092"}
    night.step()
    assert night.status["lastAttempt"]["outcome"] == "Stopped"
    night.settle()
    assert len(night.begun) == 2
    settings = night.objects["ConfigMap", f"{night.begun[-1]}-settings"]["data"]["scan.properties"]
    assert "bootstrapServers=moved:9092" in settings


def test_where_the_bundle_is_follows_from_the_attempt_and_not_from_what_is_named_now(cluster: Make, gaps: Gaps) -> None:
    night = cluster(output={"storageRef": {"name": "carry"}, "folder": "gaps"}, schedule={"cron": "* * * * *"})
    night.later(minutes=1)
    night.step()
    night.locations["carry"] = {"persistentVolumeClaim": {"claimName": "moved"}}
    night.answer(gaps)
    assert night.status["bundle"]["claimName"] == "carry"
    assert night.status["bundle"]["location"].startswith("out/gaps/night-")


def test_the_rendered_resend_names_the_connection_of_the_other_side(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps)
    assert yaml.safe_load(night.status["resendManifest"])["spec"]["kafkaRef"] == {"name": "up"}
