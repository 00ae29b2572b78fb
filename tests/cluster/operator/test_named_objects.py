"""What objects name, on a real API server: the coming of KafkaConnections and StorageLocations is news."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.cluster.api_server import ApiError

pytestmark = pytest.mark.integration

RATES = "say in exactly one way how fast Resends may send"


def test_a_connection_that_comes_wakes_who_names_it(place: Any, operator: Callable[..., Any]) -> None:
    # Nothing is looked at again by itself within the time of this test.
    operator(resync_seconds=600, relist_seconds=600)
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    place.resend(kafkaRef={"name": "later"})
    place.gap_scan(kafkaRef={"name": "later"}, output={"storageRef": {"name": "carry"}})
    place.until("Resend", "again", "Accepted", "False", "KafkaConnectionNotFound")
    place.until("GapScan", "night", "Stalled", "True", "KafkaConnectionNotFound")
    place.kafka("later")
    place.until("Resend", "again", "Succeeded", "True", "Sent", seconds=25)
    place.until("GapScan", "night", "Stalled", "True", "StorageLocationNotFound")
    place.apply("StorageLocation", "carry", persistentVolumeClaim={"claimName": "carry"})
    place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=25)
    assert place.read("GapScan", "night")["status"]["bundle"]["claimName"] == "carry"


def test_a_diode_says_in_one_way_how_fast_to_send(place: Any, operator: Callable[..., Any]) -> None:
    profile = {"name": "link"}
    for spec in (
        {"unlimited": False},
        {"unlimited": False, "budget": {}},
        {"unlimited": True, "budget": {"eventsPerSecond": 1}},
        {"unlimited": True, "profileRef": profile},
        {"unlimited": False, "profileRef": profile, "budget": {"bitsPerSecond": 1}},
    ):
        with pytest.raises(ApiError, match=RATES):
            place.diode("new", **spec)
    operator()
    place.diode("north", unlimited=False, profileRef=profile)
    place.until("Diode", "north", "Stalled", "True", "LinkProfileNotFound", seconds=60)
    place.diode("north", unlimited=False, budget={"eventsPerSecond": 0.5})
    place.until("Diode", "north", "Ready", "True", "LinkReady", seconds=60)
