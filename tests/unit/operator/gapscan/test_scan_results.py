"""The results of a scan: status, bundle, rendered Resend, and how long they are kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapless_api.bundle.reader import read_bundle_text
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.windows import PartitionWindow
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.resend_limits import TrustedKey
from gapless_api.wire.lost_times import LOST_TIMES, LostHour, LostTimes
from gapless_api.wire.result_lines import result_lines
from gapless_operator.sending.resend.bundle import inspect_bundle
from kit.signing import key_pair
from kit.story.plans import is_empty

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NIGHTLY = {"cron": "30 2 * * *", "timeZone": "Europe/Stockholm"}
MINUTELY = {"cron": "* * * * *"}


def test_the_rendered_resend_is_valid_and_carries_the_bundle(cluster: Make, gaps: Gaps) -> None:
    template = {
        "diodeRef": {"name": "north"},
        "namespace": "senders",
        "kafkaRef": {"name": "up"},
        "mode": "Plan",
        "eps": 100.5,
        "inputFilter": {"rulesFrom": {"configMap": {"name": "site"}}, "defaultAction": "Deny"},
        "isolationLevel": "ReadCommitted",
        "stallTimeoutSeconds": 300,
    }
    night = cluster(resend=template)
    night.step()
    night.answer(gaps)
    body = yaml.safe_load(night.status["resendManifest"])
    body["metadata"] |= {"uid": "u", "generation": 1}
    resend = Resend.from_resource(body)
    assert resend.metadata.namespace == "senders"
    assert resend.spec.mode == "Plan"
    assert resend.spec.eps == 100.5
    assert body["spec"]["inputFilter"] == {"rulesFrom": {"configMap": {"name": "site"}}, "defaultAction": "Deny"}
    assert (resend.spec.isolation_level, resend.spec.stall_timeout_seconds) == ("ReadCommitted", 300)
    assert resend.spec.bundle is not None
    inline = read_bundle_text((resend.spec.bundle.inline or "").encode(), name="inline")
    assert inline.missing == 7
    assert resend.spec.bundle.sha256 == night.status["bundle"]["sha256"]
    assert night.status["bundle"]["id"] in resend.metadata.name


def test_keys_that_somebody_made_up_spoil_no_status(cluster: Make) -> None:
    """Two events with offsets near 2^63 make more missing events than 64 bits hold, and a topic has any length."""
    night = cluster(schedule=MINUTELY, source={"events": {"topics": ["t"]}})
    forged: Gaps = {("t" * 300, 0): [(1, MAX_OFFSET - 1)], ("t", 1): [(0, MAX_OFFSET)]}
    for _ in range(2):
        night.later(minutes=1)
        night.step()
        before = night.status.get("bundle", {"sha256": "", "missing": 0})
        counts = dict.fromkeys(("listed", "open"), 2 * MAX_OFFSET) | dict.fromkeys(
            ("closed", "filled", "unavailable", "unknown", "new"), 0
        )
        compared = {"with": {"id": "older", "sha256": before["sha256"]}, "settled": False, "partitions": [], **counts}
        night.answer(forged, reconciliation=compared)
        assert night.condition("Ready") == ("True", "GapsFound")
    assert night.condition("GapsClosed") == ("False", "StillMissing")
    status = night.status
    assert status["missingEvents"] == status["bundle"]["missing"] == status["comparison"]["open"] == MAX_OFFSET
    assert [(found["topic"], found["missing"]) for found in status["partitions"]] == [
        ("t", MAX_OFFSET),
        ("t" * 249, MAX_OFFSET - 1),
    ]


def test_the_status_says_when_events_were_lost(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY, source={"events": {"topics": ["t"]}})
    hours = tuple(
        LostHour(hour=f"2026-11-{1 + number // 24:02}T{number % 24:02}:00:00Z", missing=1, expected=2**70, percent=0.1)
        for number in range(60)
    )
    known = LostTimes(after="2026-11-01T00:00:00Z", before=None, hours=hours, hours_omitted=0)
    for _ in range(2):
        night.later(minutes=1)
        night.step()
        night.answer(gaps, lost=LOST_TIMES.to_json(known))
        lost = night.status["lost"]
        assert (lost["after"], "before" in lost) == ("2026-11-01T00:00:00Z", False)
        assert [hour["hour"] for hour in lost["hours"]] == [hour.hour for hour in hours[-24:]]
        assert lost["hours"][0]["expected"] == MAX_OFFSET
    without: tuple[Any, ...] = (
        None,
        {**LOST_TIMES.to_json(known), "gapless_lost_times": 2},
        LOST_TIMES.to_json(LostTimes(after=None, before="soon", hours=(), hours_omitted=0)),
    )
    for member in without:
        night.later(minutes=1)
        night.step()
        night.answer(gaps, **({} if member is None else {"lost": member}))
        assert night.condition("Ready") == ("True", "GapsFound")
        assert "lost" not in night.status


def test_a_signature_comes_through_the_log_into_the_resend(cluster: Make, gaps: Gaps, tmp_path: Path) -> None:
    keys = key_pair(tmp_path)
    night = cluster(resend={"diodeRef": {"name": "north"}}, signingKeySecret={"name": "signing"})
    night.step()
    night.run()
    night.end(night.log_of(gaps, signing_key=keys.private))
    night.settle()
    inline = yaml.safe_load(night.status["resendManifest"])["spec"]["bundle"]["inline"]
    look = inspect_bundle(
        inline.encode(),
        name="inline",
        window=PartitionWindow(),
        expected_sha256=night.status["bundle"]["sha256"],
        trusted=(TrustedKey(name="receiving-side", public_key=keys.public.read_text()),),
    )
    assert look.id == night.status["bundle"]["id"]


def test_without_the_other_sides_brokers_the_file_must_be_filled_in(cluster: Make, gaps: Gaps) -> None:
    night = cluster(resend={"diodeRef": {"name": "north"}})
    night.step()
    night.answer(gaps)
    text = night.status["resendManifest"]
    assert "# Write the name of the KafkaConnection of the sending side below" in text
    assert yaml.safe_load(text)["spec"]["kafkaRef"]["name"] == "FILL-IN"


def test_a_large_bundle_stands_beside_its_resend(cluster: Make) -> None:
    many = {("transfer", p): [(n * 3, n * 3) for n in range(6000)] for p in range(3)}
    night = cluster()
    night.step()
    night.answer(many)
    body = yaml.safe_load(night.status["resendManifest"])
    assert body["spec"]["bundle"]["configMap"] == {"name": body["metadata"]["name"], "key": "bundle.json.gz"}
    assert "kubectl create configmap" in night.status["resendManifest"]
    assert night.status["missingEvents"] == 18000


def test_a_bundle_too_large_for_a_config_map_is_refused_with_advice(cluster: Make) -> None:
    dice = random.Random(5)
    many = {("transfer", p): sorted({(n, n) for n in dice.sample(range(10**12), 60_000)}) for p in range(3)}
    night = cluster()
    night.step()
    night.answer(many)
    assert night.condition("Stalled") == ("True", "ResultTooLarge")
    assert "name a StorageLocation in output.storageRef" in night.message("Stalled")
    assert night.names("ConfigMap") == ["night-scan-uid-g1-1-settings"]
    assert "missingEvents" not in night.status


def test_a_bundle_that_is_not_the_reports_is_refused(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps, bundle={"id": "20261120-100000-00000000", "sha256": "0" * 64, "file": None})
    assert night.condition("Ready") == ("False", "ResultUnreadable")
    assert "sha256" in night.message("Ready")


def test_only_the_hundred_worst_partitions_are_in_the_status(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.answer({("transfer", p): [(0, p % 150)] for p in range(300)})
    partitions = night.status["partitions"]
    assert len(partitions) == 100
    assert partitions[0]["missing"] == 150
    assert night.status["missingEvents"] == sum(p % 150 + 1 for p in range(300))


@pytest.mark.parametrize(
    ("output", "location"),
    [
        (
            {"storageRef": {"name": "carry"}, "folder": "gaps"},
            "out/gaps/night-scan-uid-g1-1.json",
        ),
        (
            {"storageRef": {"name": "store"}},
            "s3://gaps/north/night-scan-uid-g1-1.json",
        ),
    ],
)
def test_a_bundle_that_the_pod_stored_is_named_and_not_copied(
    cluster: Make, gaps: Gaps, output: dict[str, Any], location: str
) -> None:
    night = cluster(output=output)
    night.step()
    night.run()
    _, named = night.bundle_of(gaps)
    report = night.short_report(night.report_of(gaps, named), omits_bundle=False)
    night.end("\n".join(result_lines(report, None)))
    night.settle()
    assert night.status["bundle"]["location"] == location
    assert night.names("ConfigMap") == ["night-scan-uid-g1-1-settings"]
    body = yaml.safe_load(night.status["resendManifest"])
    assert "configMap" in body["spec"]["bundle"]


def test_old_attempts_are_deleted_and_the_bundle_in_the_status_stays(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY, historyLimits={"successful": 2, "failed": 1})
    for round_ in range(8):
        night.later(minutes=1)
        night.step()
        if round_ % 2:
            night.answer(gaps)
        else:
            night.run()
            night.end("gapless: No.", exit_code=3)
            night.settle()
    succeeded, failed = night.begun[1::2], night.begun[0::2]
    assert night.names("Job") == sorted([*succeeded[-2:], failed[-1]])
    assert night.names("ConfigMap") == sorted(
        [
            *(f"{name}-settings" for name in (*succeeded[-2:], failed[-1])),
            *(f"{name}-bundle" for name in succeeded[-2:]),
        ]
    )


def test_with_no_history_the_last_bundle_is_kept_all_the_same(cluster: Make, gaps: Gaps) -> None:
    night = cluster(historyLimits={"successful": 0, "failed": 0})
    night.step()
    night.answer(gaps)
    assert night.names("Job") == []
    assert night.names("ConfigMap") == ["night-scan-uid-g1-1-bundle"]
    night.later(days=1)
    assert is_empty(night.plan())
