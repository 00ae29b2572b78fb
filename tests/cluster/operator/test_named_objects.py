"""KafkaConnections and StorageLocations on a real API server: their coming and going is news, and objects of before are
told what to write."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kit.cluster.api_server import ApiError, ApiServer

pytestmark = pytest.mark.integration

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OLD_KAFKA = {"bootstrapServers": "kafka:9092"}
RATES = "say in exactly one way how fast Resends may send"
SENTENCE = "write kafkaRef: {name: NAME}, and no kafka block"


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


@pytest.fixture
def lenient(api: ApiServer) -> Iterator[Callable[[], None]]:
    """Definitions without the rules of specs, as if stored objects were of the version before; call it to end that."""
    paths = [f"{DEFINITIONS}/{plural}.gapless.dev" for plural in ("resends", "gapscans", "diodes")]
    before = [api.request("GET", path) for path in paths]

    def write(definitions: list[Any]) -> None:
        for path, definition in zip(paths, definitions, strict=True):
            current = api.request("GET", path)
            body = {**definition, "metadata": {**definition["metadata"], **_version(current)}}
            api.request("PUT", path, body)

    without = copy.deepcopy(before)
    for definition in without:
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["x-kubernetes-validations"]
    write(without)
    yield lambda: write(before)
    write(before)


NEW = (f"new-{number}" for number in itertools.count())
"""Each try has another name: an object that was stored before the rules are kept may stay as it is."""


def _version(body: Any) -> dict[str, str]:
    return {"resourceVersion": body["metadata"]["resourceVersion"]}


def test_an_object_of_the_version_before_says_what_to_write_and_can_be_changed_to_it(
    api: ApiServer, place: Any, operator: Callable[..., Any], lenient: Callable[[], None]
) -> None:
    def stored(kind: str, name: str, **spec: Any) -> bool:
        try:
            place.apply(kind, name, kafka=OLD_KAFKA, **spec)
        except ApiError:
            return False
        return True

    offsets = {"topic": "transfer", "partition": 0, "from": 0, "to": 6}
    resend = {"diodeRef": {"name": "north"}, "offsets": offsets}
    scan = {"source": {"gapTopic": {"topic": "gaps"}}, "engine": {"type": "Job"}}
    api.eventually(lambda: stored("Resend", "again", **resend), timeout_seconds=60, what="an old Resend")
    api.eventually(lambda: stored("GapScan", "night", **scan), timeout_seconds=60, what="an old GapScan")
    lenient()
    api.eventually(lambda: not stored("Resend", next(NEW), **resend), timeout_seconds=60, what="rules that are kept")
    operator()
    place.diode()
    for kind, name in (("Resend", "again"), ("GapScan", "night")):
        place.until(kind, name, "Stalled", "True", "BadConfiguration", seconds=60)
        assert SENTENCE in str(place.read(kind, name)["status"]["conditions"])
    place.apply("Resend", "again", kafkaRef={"name": "up"}, **resend)
    place.apply("GapScan", "night", kafkaRef={"name": "kafka"}, **scan)
    place.until("Resend", "again", "Succeeded", "True", "Sent", seconds=60)
    place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=60)


def test_a_diode_without_a_rate_is_refused_and_one_of_the_version_before_says_what_to_write(
    api: ApiServer, place: Any, operator: Callable[..., Any], lenient: Callable[[], None]
) -> None:
    def stored(name: str, **spec: Any) -> bool:
        try:
            place.diode(name, **spec)
        except ApiError as error:
            assert RATES in str(error)  # noqa: PT017 -- and no other problem
            return False
        return True

    profile = {"name": "link"}
    api.eventually(lambda: stored("north", unlimited=False), timeout_seconds=60, what="an old Diode")
    lenient()
    api.eventually(lambda: not stored(next(NEW), unlimited=False), timeout_seconds=60, what="rules that are kept")
    assert not stored("new", unlimited=False, budget={})
    assert not stored("new", unlimited=True, budget={"eventsPerSecond": 1})
    assert not stored("new", unlimited=True, profileRef=profile)
    assert not stored("new", unlimited=False, profileRef=profile, budget={"bitsPerSecond": 1})
    for name, spec in (("a", {"unlimited": True}), ("b", {"budget": {"eventsPerSecond": 0.5}})):
        assert stored(name, **{"unlimited": False, **spec})
        api.request("DELETE", place.path("Diode", name))
    operator()
    place.until("Diode", "north", "Stalled", "True", "BadConfiguration", seconds=60)
    assert RATES in str(place.read("Diode", "north")["status"]["conditions"])
    assert stored("north", unlimited=False, profileRef=profile)
    place.until("Diode", "north", "Stalled", "True", "LinkProfileNotFound", seconds=60)
    assert stored("north", unlimited=True)
    place.until("Diode", "north", "Ready", "True", "LinkReady", seconds=60)
