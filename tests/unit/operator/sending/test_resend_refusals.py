"""What a Resend refuses, and what it waits for, before anything is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps, canonical_sha256
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.v1alpha1.conditions import ConditionType as Type

SenderCluster = Any

ENTRY = {"topic": "transfer", "partition": 3, "window_min": 0, "window_max": 9, "gaps": [[5]]}
BUNDLE = json.dumps({"type": "all", "results": [ENTRY]})
SHA256 = canonical_sha256(BundleKind.ALL, [PartitionGaps("transfer", 3, 0, 9, OffsetRanges([(5, 5)]))])


@pytest.mark.parametrize(
    ("diode", "spec", "reason", "words"),
    [
        (
            {"partitionWindow": {"start": 100, "count": 4}},
            {"offsets": {"topic": "transfer", "partition": 3, "from": 0, "to": 9}},
            "BadConfiguration",
            ("partition 3", "100"),
        ),
        (
            {"partitionWindow": {"start": 100, "count": 4}},
            {"offsets": {"topic": "transfer", "partition": 104, "from": 0, "to": 9}},
            "BadConfiguration",
            ("104", "100…103"),
        ),
        (
            {"partitionWindow": {"start": 100}},
            {"offsets": {"topic": "transfer", "partition": 99, "from": 0, "to": 9}},
            "BadConfiguration",
            ("partition 99", "100"),
        ),
        (
            {"partitionWindow": {"start": 100}},
            {"without": ("offsets",), "bundle": {"inline": BUNDLE}},
            "BadConfiguration",
            ("3", "100"),
        ),
        (
            {},
            {"without": ("offsets",), "bundle": {"inline": BUNDLE[:-4]}},
            "BadBundle",
            ("spec.bundle.inline",),
        ),
        (
            {},
            {"without": ("offsets",), "bundle": {"inline": BUNDLE, "sha256": "0" * 64}},
            "BadBundle",
            (SHA256, "0" * 64),
        ),
        (
            {},
            {"inputFilter": {"rules": ["deny:a\nallow:b"]}},
            "BadConfiguration",
            ("inputFilter.rules.0", "line break"),
        ),
        (
            {"encryption": {"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True}},
            {},
            "SharedKeyLane",
            ("live stream unreadable",),
        ),
    ],
)
def test_refuses_an_invalid_resend_and_starts_nothing(
    cluster: SenderCluster, diode: dict[str, Any], spec: dict[str, Any], reason: str, words: tuple[str, ...]
) -> None:
    cluster.diode(**diode)
    cluster.resend(**spec)
    cluster.settle()
    assert cluster.summary() == (reason, "False", "False", "True", "False")
    message = cluster.condition(Type.STALLED).message
    assert [word for word in words if word not in message] == []
    assert [name for name in cluster.names("Job") if name.startswith("repeat")] == []


def test_waits_for_a_missing_diode(cluster: SenderCluster) -> None:
    cluster.resend()
    cluster.settle()
    assert cluster.summary() == ("DiodeNotFound", "False", "True", "False", "Unknown")
    assert cluster.condition(Type.ACCEPTED).status == "False"
    cluster.diode()
    cluster.settle()
    assert cluster.summary()[0] == "DiodeNotReady"
    assert cluster.condition(Type.ACCEPTED).status == "True"


def test_waits_for_a_missing_bundle(ready: SenderCluster) -> None:
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}})
    ready.settle()
    assert ready.summary() == ("BundleNotFound", "False", "True", "False", "Unknown")
    ready.bodies["ConfigMap", "carried"] = {
        "kind": "ConfigMap",
        "metadata": {"name": "carried", "namespace": "gapless-sender", "uid": "theirs"},
        "data": {"bundle.json": BUNDLE},
    }
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.bundle_sha256 == SHA256


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"exists": False}, "NicMissing"),
        ({"up": False}, "NicDown"),
        ({"carrier": False}, "NoCarrier"),
        ({"mtu": 1400}, "PayloadTooLarge"),
        ({"neighbour": None}, "NeighbourMissing"),
        ({"neighbour": "REACHABLE"}, "NeighbourMissing"),
    ],
)
def test_waits_while_the_link_is_not_ready(cluster: SenderCluster, found: dict[str, Any], reason: str) -> None:
    cluster.diode(requireStaticNeighbour=True)
    cluster.resend()
    cluster.settle()
    cluster.run_preflight(**found)
    cluster.settle()
    assert cluster.summary() == ("DiodeNotReady", "False", "True", "False", "Unknown")
    assert reason in cluster.condition(Type.READY).message
    cluster.advance(seconds=40)
    cluster.settle()
    cluster.run_preflight()
    cluster.settle()
    assert cluster.summary()[0] == "Starting"
