"""A Diode: the check of its node, its window, its conditions, and the queue of its Resends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.sending.diode.reconcile import CHECK_EVERY, RECHECK_AFTER
from kit.machine.examples import examples

SenderCluster = Any


def summary(cluster: SenderCluster, name: str = "hall") -> tuple[str, str, str, str]:
    """Ready's reason, and the status of LinkUp, Ready and Stalled."""
    ready = cluster.condition(Type.READY, name, "Diode")
    others = [cluster.condition(kind, name, "Diode").status for kind in (Type.LINK_UP, Type.READY, Type.STALLED)]
    return (ready.reason, *others)


def test_has_a_volume_and_a_preflight_of_its_node(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    assert summary(cluster) == ("PreflightPending", "Unknown", "False", "False")
    assert cluster.condition(Type.RECONCILING, "hall", "Diode").status == "True"
    assert cluster.names("PersistentVolumeClaim") == ["hall-state"]
    assert cluster.names("Job") == ["hall-00000001-preflight-1"]
    cluster.run_preflight()
    cluster.settle()
    assert summary(cluster) == ("LinkReady", "True", "True", "False")
    assert cluster.condition(Type.RECONCILING, "hall", "Diode").status == "False"
    found = cluster.a_diode().status.preflight
    assert (found.node, found.nic, found.mtu, found.neighbour) == ("node-1", "diode0", 1500, "PERMANENT")
    assert [event.reason for _, event in cluster.events] == ["PreflightPending", "LinkReady"]


@pytest.mark.parametrize(
    ("spec", "found", "reason", "words"),
    [
        ({}, {"exists": False}, "NicMissing", "interface diode0 on node node-1"),
        ({}, {"up": False}, "NicDown", "ip link set dev diode0 up"),
        ({}, {"carrier": False}, "NoCarrier", "cable"),
        ({}, {"mtu": 1427}, "PayloadTooLarge", "set payloadSize to 1399 or 0"),
        (
            {},
            {"mtu": 1427},
            "PayloadTooLarge",
            "payloadSize 1400 need an MTU of 1428, but diode0 on node node-1 has 1427",
        ),
        ({"target": {"host": "fd00::2", "port": 1}}, {"mtu": 1447}, "PayloadTooLarge", "set payloadSize to 1399 or 0"),
        ({"requireStaticNeighbour": True}, {"neighbour": None}, "NeighbourMissing", "there is none"),
        ({"requireStaticNeighbour": True}, {"neighbour": "stale"}, "NeighbourMissing", "only a STALE one"),
    ],
)
def test_says_what_is_wrong_with_the_link(
    cluster: SenderCluster, spec: dict[str, Any], found: dict[str, Any], reason: str, words: str
) -> None:
    cluster.diode(**spec)
    cluster.settle()
    cluster.run_preflight(**found)
    cluster.settle()
    assert summary(cluster) == (reason, "False", "False", "False")
    assert words in cluster.condition(Type.LINK_UP, "hall", "Diode").message


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, {"mtu": 1428}),
        ({"payloadSize": 0}, {"mtu": 600}),
        ({}, {"neighbour": None}),
        ({"requireStaticNeighbour": True}, {"neighbour": "NOARP"}),
        ({}, {"mtu": None}),
        ({"requireStaticNeighbour": True}, {"neighbour": None, "needs_neighbour": False}),
    ],
)
def test_accepts_a_link_that_is_good_enough(
    cluster: SenderCluster, spec: dict[str, Any], found: dict[str, Any]
) -> None:
    cluster.diode(**spec)
    cluster.settle()
    cluster.run_preflight(**found)
    cluster.settle()
    assert summary(cluster)[0] == "LinkReady"


def test_checks_again_after_an_interval_that_is_shorter_for_a_bad_link(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.run_preflight(exists=False)
    cluster.settle()
    cluster.now += RECHECK_AFTER - timedelta(seconds=1)
    cluster.settle()
    assert len(cluster.created_jobs) == 1
    cluster.advance(seconds=1)
    cluster.settle()
    assert len(cluster.created_jobs) == 2
    cluster.run_preflight()
    cluster.settle()
    cluster.now += CHECK_EVERY - timedelta(seconds=1)
    cluster.settle()
    assert len(cluster.created_jobs) == 2
    cluster.advance(seconds=1)
    cluster.settle()
    assert len(cluster.created_jobs) == 3
    assert summary(cluster)[0] == "LinkReady", "the last answer counts until there is a new one"


def test_checks_again_when_the_spec_changes_and_starts_no_resend_before(ready: SenderCluster) -> None:
    ready.runs_preflights = False
    ready.diode(nic="diode1")
    ready.resend()
    ready.settle()
    assert ready.names("Job") == ["hall-00000001-preflight-2"]
    assert summary(ready)[0] == "PreflightPending"
    assert ready.condition(Type.READY).reason == "DiodeNotReady"


def test_keeps_reporting_why_the_node_cannot_be_checked(ready: SenderCluster) -> None:
    ready.runs_preflights = False
    ready.now += CHECK_EVERY
    ready.settle()
    ready.start_pods()
    ready.wait_for("hall-00000001-preflight-1-0-0", "ImagePullBackOff", "no such image")
    ready.settle()
    assert summary(ready) == ("ImagePullFailed", "Unknown", "False", "False")
    ready.end_job("hall-00000001-preflight-1", "DeadlineExceeded")
    for _ in range(3):
        ready.settle()
        assert summary(ready) == ("ImagePullFailed", "Unknown", "False", "False")
        ready.advance(seconds=29)
    ready.runs_preflights = True
    ready.settle()
    assert summary(ready)[0] == "LinkReady"


def test_reports_the_error_of_the_preflight(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.run_preflight(message="There is no route to 10.0.0.2; add one.")
    cluster.settle()
    assert summary(cluster) == ("PreflightFailed", "False", "False", "False")
    assert cluster.condition(Type.READY, "hall", "Diode").message == "There is no route to 10.0.0.2; add one."


def test_reports_a_preflight_without_findings(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.settle()
    cluster.start_pods()
    cluster.end("hall-00000001-preflight-1-0-0", 1, "Traceback (most recent call last):")
    cluster.settle()
    assert summary(cluster) == ("PreflightFailed", "Unknown", "False", "False")


# ------------------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize(
    ("mine", "theirs", "overlap"),
    [
        ({"start": 0, "count": 100}, {"start": 100, "count": 100}, False),
        ({"start": 0, "count": 101}, {"start": 100, "count": 100}, True),
        ({"start": 0}, {"start": 100, "count": 100}, True),
        ({"start": 200}, {"start": 100, "count": 100}, False),
        ({"start": 100, "count": 100}, {"start": 100, "count": 100}, False),
        ({}, {}, False),
    ],
)
def test_windows_must_be_disjoint_or_equal(
    cluster: SenderCluster, mine: dict[str, int], theirs: dict[str, int], *, overlap: bool
) -> None:
    cluster.runs_preflights = True
    cluster.diode("hall", partitionWindow=mine)
    cluster.diode("vault", partitionWindow=theirs)
    cluster.settle()
    for name in ("hall", "vault"):
        reason, _, ready, stalled = summary(cluster, name)
        assert (reason, ready, stalled) == (
            ("WindowOverlap", "False", "True") if overlap else ("LinkReady", "True", "False")
        )
        if overlap:
            message = cluster.condition(Type.STALLED, name, "Diode").message
            assert "gapless-sender/hall" in message
            assert "gapless-sender/vault" in message


def test_a_corrected_overlap_is_no_longer_reported(cluster: SenderCluster) -> None:
    cluster.runs_preflights = True
    cluster.diode("hall", partitionWindow={"start": 0})
    cluster.diode("vault", partitionWindow={"start": 100})
    cluster.settle()
    cluster.diode("hall", partitionWindow={"start": 0, "count": 100})
    cluster.settle()
    assert [summary(cluster, name)[0] for name in ("hall", "vault")] == ["LinkReady", "LinkReady"]


def test_will_not_encrypt_for_the_live_streams_receiver(cluster: SenderCluster) -> None:
    cluster.runs_preflights = True
    cluster.diode(encryption={"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True})
    cluster.settle()
    assert summary(cluster) == ("SharedKeyLane", "True", "False", "True")


# -------------------------------------------------------------------------------------------------------- queue


def sending(cluster: SenderCluster) -> list[str]:
    """Who has a Job that sends."""
    return sorted(name.removesuffix("-00000001-send-1") for name in cluster.names("Job") if name.endswith("-send-1"))


def finish(cluster: SenderCluster, name: str) -> None:
    """Let a Resend come to its end."""
    cluster.start_pods()
    cluster.end(f"{name}-00000001-send-1-0-0", 0, cluster.report(1000))
    cluster.settle(40)


def test_serves_by_priority_then_age_then_name(ready: SenderCluster) -> None:
    ready.resend("first")
    ready.settle()
    for number, (name, priority) in enumerate([("d", 0), ("c", 0), ("urgent", 5), ("low", -1)]):
        ready.advance(seconds=1 if number != 1 else 0)
        ready.resend(name, priority=priority, offsets={"topic": "t", "partition": 0, "from": number, "to": 9})
    ready.settle()
    assert ready.a_diode().status.queued == 4
    served = []
    for _ in range(5):
        (name,) = (entry.name for entry in ready.a_diode().status.active)
        served.append(name)
        finish(ready, name)
    assert served == ["first", "urgent", "c", "d", "low"]
    assert ready.a_diode().status.queued == 0


def test_a_higher_priority_does_not_preempt_a_running_resend(ready: SenderCluster) -> None:
    ready.resend("first")
    ready.settle()
    ready.resend("urgent", priority=1000, offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == ["first"]


def test_runs_as_many_resends_as_allowed(ready: SenderCluster) -> None:
    ready.diode(maxConcurrentResends=3)
    for number in range(5):
        ready.resend(f"r{number}", offsets={"topic": "t", "partition": 0, "from": number, "to": 9})
    ready.settle(40)
    assert len(sending(ready)) == 3
    assert len(ready.a_diode().status.active) == 3


def test_a_deleted_resend_keeps_its_turn_until_its_pods_are_deleted(ready: SenderCluster) -> None:
    ready.resend("first")
    ready.settle()
    ready.start_pods()
    ready.run("first-00000001-send-1-0-0", ready.progress(1))
    ready.settle()
    pod = ready.bodies["Pod", "first-00000001-send-1-0-0"]
    ready.delete("Resend", "first")
    ready.bodies["Pod", "first-00000001-send-1-0-0"] = pod
    ready.resend("second", offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == []
    ready.delete("Pod", "first-00000001-send-1-0-0")
    ready.settle()
    assert sending(ready) == ["second"]


def test_a_resend_that_only_plans_takes_no_turn(ready: SenderCluster) -> None:
    ready.resend("first", mode="Plan")
    ready.settle()
    ready.start_pods()
    ready.run("first-00000001-plan-1-0-0")
    ready.resend("second", offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == ["second"]


def test_a_running_resend_continues_on_an_unverified_link_and_no_other_starts(ready: SenderCluster) -> None:
    ready.diode(maxConcurrentResends=2)
    ready.resend("first")
    ready.settle()
    ready.start_pods()
    ready.run("first-00000001-send-1-0-0", ready.progress(1))
    ready.settle()
    ready.runs_preflights = False
    ready.now += CHECK_EVERY
    ready.settle()
    ready.run_preflight(carrier=False)
    ready.resend("second", offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == ["first"]
    assert ready.condition(Type.READY, "first").reason == "Sending"
    assert ready.condition(Type.READY, "second").reason == "DiodeNotReady"


ENCRYPTED = {"certificateSecret": {"name": "receiver"}}


@pytest.mark.parametrize(
    ("one", "other", "at_once"),
    [
        ({"encryption": ENCRYPTED}, {"encryption": ENCRYPTED}, 1),
        ({"encryption": {**ENCRYPTED, "lane": "a"}}, {"encryption": {**ENCRYPTED, "lane": "b"}}, 1),
        (
            {"encryption": {**ENCRYPTED, "lane": "a"}},
            {"encryption": {**ENCRYPTED, "lane": "a"}, "target": {"host": "10.0.0.2", "port": 99}},
            1,
        ),
        (
            {"encryption": {**ENCRYPTED, "lane": "a"}},
            {"encryption": {**ENCRYPTED, "lane": "b"}, "target": {"host": "10.0.0.2", "port": 99}},
            2,
        ),
        ({"encryption": ENCRYPTED}, {}, 2),
    ],
)
def test_encrypted_resends_go_one_at_a_time_to_one_receiver(
    cluster: SenderCluster, one: dict[str, Any], other: dict[str, Any], at_once: int
) -> None:
    cluster.runs_preflights = True
    cluster.diode("hall", **one)
    cluster.diode("vault", **other)
    cluster.settle()
    for number, diode in enumerate(("vault", "hall")):
        cluster.resend(
            f"r{number}",
            diodeRef={"name": diode},
            offsets={"topic": "t", "partition": 0, "from": number, "to": 9},
        )
    cluster.settle(40)
    assert len(sending(cluster)) == at_once
    if at_once == 1:
        assert sending(cluster) == ["r0"]
        assert cluster.condition(Type.READY, "r1").reason == "KeyLaneBusy"
        finish(cluster, "r0")
        assert cluster.condition(Type.READY, "r1").reason == "Starting"


def test_the_session_key_is_written_once_and_shared_by_all_shards(cluster: SenderCluster) -> None:
    cluster.runs_preflights = True
    cluster.diode(encryption=ENCRYPTED)
    cluster.resend(parallelism=4)
    cluster.settle()
    (name,) = cluster.names("Secret")
    secret = cluster.bodies["Secret", name]
    assert secret["immutable"] is True
    sources = cluster.bodies["Job", "repeat-00000001-send-1"]["spec"]["template"]["spec"]["volumes"][1]["projected"][
        "sources"
    ]
    assert {"name": name, "items": [{"key": "session-key", "path": "secrets/session-key"}]} in [
        source.get("secret") for source in sources
    ]


# -------------------------------------------------------------------------------------------------- many at once


def test_two_hundred_resends_keep_their_order_and_the_limit_and_write_little(ready: SenderCluster) -> None:
    ready.diode(maxConcurrentResends=2)
    ready.settle()
    expected = []
    for number in range(examples(200)):
        name, priority = f"r{number:03}", (number * 7) % 5
        if number % 10 == 0:
            ready.advance(seconds=1)
        ready.resend(name, priority=priority, offsets={"topic": "t", "partition": 0, "from": number, "to": 999})
        expected.append((-priority, number // 10, name))
    for kind, name in ready.owners():
        if kind == "Resend":
            ready.reconcile(kind, name)
    served: list[str] = []
    for _ in range(2000):
        ready.reconcile("Diode", "hall")
        active = [entry.name for entry in ready.a_diode().status.active]
        assert len(active) <= 2
        served += [name for name in active if name not in served]
        for name in active:
            ready.reconcile("Resend", name)
            ready.start_pods()
            assert sum("send" in job for job in ready.running_jobs()) <= 2
            if f"{name}-00000001-send-1" in ready.names("Job"):
                ready.end(f"{name}-00000001-send-1-0-0", 0, ready.report(10, planned=10))
            ready.reconcile("Resend", name)
        if not active:
            break
    assert served == [name for _, _, name in sorted(expected)]
    for kind, name in ready.owners():
        ready.reconcile(kind, name)
    assert {ready.condition(Type.SUCCEEDED, name).status for _, name in ready.owners() if name != "hall"} == {"True"}
    assert len(ready.ledger()) == len(expected)
    assert max(count for name, count in ready.status_writes.items() if name != "hall") <= 6
