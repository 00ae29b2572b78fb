"""What becomes of a Diode: its node is looked at, its window judged, its queue served."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.sending.diode.reconcile import CHECK_EVERY, RECHECK_AFTER
from kit.machine.examples import examples

World = Any


def standing(world: World, name: str = "hall") -> tuple[str, str, str, str]:
    """Ready's reason, and the status of LinkUp, Ready and Stalled."""
    ready = world.said(Type.READY, name, "Diode")
    others = [world.said(kind, name, "Diode").status for kind in (Type.LINK_UP, Type.READY, Type.STALLED)]
    return (ready.reason, *others)


def test_has_its_volume_and_a_look_at_its_node(world: World) -> None:
    world.diode()
    world.settle()
    assert standing(world) == ("PreflightPending", "Unknown", "False", "False")
    assert world.said(Type.RECONCILING, "hall", "Diode").status == "True"
    assert world.names("PersistentVolumeClaim") == ["hall-state"]
    assert world.names("Job") == ["hall-00000001-preflight-1"]
    world.look_at_node()
    world.settle()
    assert standing(world) == ("LinkReady", "True", "True", "False")
    assert world.said(Type.RECONCILING, "hall", "Diode").status == "False"
    found = world.a_diode().status.preflight
    assert (found.node, found.nic, found.mtu, found.neighbour) == ("node-1", "diode0", 1500, "PERMANENT")
    assert [event.reason for _, event in world.events] == ["PreflightPending", "LinkReady"]


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
    world: World, spec: dict[str, Any], found: dict[str, Any], reason: str, words: str
) -> None:
    world.diode(**spec)
    world.settle()
    world.look_at_node(**found)
    world.settle()
    assert standing(world) == (reason, "False", "False", "False")
    assert words in world.said(Type.LINK_UP, "hall", "Diode").message


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
def test_is_content_with_a_link_that_is_good_enough(world: World, spec: dict[str, Any], found: dict[str, Any]) -> None:
    world.diode(**spec)
    world.settle()
    world.look_at_node(**found)
    world.settle()
    assert standing(world)[0] == "LinkReady"


def test_looks_again_after_a_while_and_sooner_when_the_link_is_bad(world: World) -> None:
    world.diode()
    world.settle()
    world.look_at_node(exists=False)
    world.settle()
    world.now += RECHECK_AFTER - timedelta(seconds=1)
    world.settle()
    assert len(world.jobs_made) == 1
    world.later(seconds=1)
    world.settle()
    assert len(world.jobs_made) == 2
    world.look_at_node()
    world.settle()
    world.now += CHECK_EVERY - timedelta(seconds=1)
    world.settle()
    assert len(world.jobs_made) == 2
    world.later(seconds=1)
    world.settle()
    assert len(world.jobs_made) == 3
    assert standing(world)[0] == "LinkReady", "the last answer counts until there is a new one"


def test_looks_anew_when_the_spec_changes_and_lets_nobody_send_before(ready: World) -> None:
    ready.looks_at_nodes = False
    ready.diode(nic="diode1")
    ready.resend()
    ready.settle()
    assert ready.names("Job") == ["hall-00000001-preflight-2"]
    assert standing(ready)[0] == "PreflightPending"
    assert ready.said(Type.READY).reason == "DiodeNotReady"


def test_keeps_on_saying_why_the_node_cannot_be_looked_at(ready: World) -> None:
    ready.looks_at_nodes = False
    ready.now += CHECK_EVERY
    ready.settle()
    ready.start_pods()
    ready.wait_for("hall-00000001-preflight-1-0-0", "ImagePullBackOff", "no such image")
    ready.settle()
    assert standing(ready) == ("ImagePullFailed", "Unknown", "False", "False")
    ready.end_job("hall-00000001-preflight-1", "DeadlineExceeded")
    for _ in range(3):
        ready.settle()
        assert standing(ready) == ("ImagePullFailed", "Unknown", "False", "False")
        ready.later(seconds=29)
    ready.looks_at_nodes = True
    ready.settle()
    assert standing(ready)[0] == "LinkReady"


def test_passes_on_what_the_look_itself_complains_about(world: World) -> None:
    world.diode()
    world.settle()
    world.look_at_node(message="There is no route to 10.0.0.2; add one.")
    world.settle()
    assert standing(world) == ("PreflightFailed", "False", "False", "False")
    assert world.said(Type.READY, "hall", "Diode").message == "There is no route to 10.0.0.2; add one."


def test_says_that_a_look_found_nothing_out(world: World) -> None:
    world.diode()
    world.settle()
    world.start_pods()
    world.end("hall-00000001-preflight-1-0-0", 1, "Traceback (most recent call last):")
    world.settle()
    assert standing(world) == ("PreflightFailed", "Unknown", "False", "False")


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
def test_windows_must_not_meet_unless_they_are_the_same(
    world: World, mine: dict[str, int], theirs: dict[str, int], *, overlap: bool
) -> None:
    world.looks_at_nodes = True
    world.diode("hall", partitionWindow=mine)
    world.diode("vault", partitionWindow=theirs)
    world.settle()
    for name in ("hall", "vault"):
        reason, _, ready, stalled = standing(world, name)
        assert (reason, ready, stalled) == (
            ("WindowOverlap", "False", "True") if overlap else ("LinkReady", "True", "False")
        )
        if overlap:
            message = world.said(Type.STALLED, name, "Diode").message
            assert "gapless-sender/hall" in message
            assert "gapless-sender/vault" in message


def test_an_overlap_that_is_mended_is_forgotten(world: World) -> None:
    world.looks_at_nodes = True
    world.diode("hall", partitionWindow={"start": 0})
    world.diode("vault", partitionWindow={"start": 100})
    world.settle()
    world.diode("hall", partitionWindow={"start": 0, "count": 100})
    world.settle()
    assert [standing(world, name)[0] for name in ("hall", "vault")] == ["LinkReady", "LinkReady"]


def test_will_not_encrypt_for_the_live_streams_receiver(world: World) -> None:
    world.looks_at_nodes = True
    world.diode(encryption={"certificateSecret": {"name": "receiver"}, "sharedWithLiveStream": True})
    world.settle()
    assert standing(world) == ("SharedKeyLane", "True", "False", "True")


# -------------------------------------------------------------------------------------------------------- queue


def sending(world: World) -> list[str]:
    """Who has a Job that sends."""
    return sorted(name.removesuffix("-00000001-send-1") for name in world.names("Job") if name.endswith("-send-1"))


def finish(world: World, name: str) -> None:
    """Let a Resend come to its end."""
    world.start_pods()
    world.end(f"{name}-00000001-send-1-0-0", 0, world.report(1000))
    world.settle(40)


def test_serves_by_priority_then_age_then_name(ready: World) -> None:
    ready.resend("first")
    ready.settle()
    for number, (name, priority) in enumerate([("d", 0), ("c", 0), ("urgent", 5), ("low", -1)]):
        ready.later(seconds=1 if number != 1 else 0)
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


def test_a_higher_priority_does_not_drive_out_who_sends(ready: World) -> None:
    ready.resend("first")
    ready.settle()
    ready.resend("urgent", priority=1000, offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == ["first"]


def test_runs_as_many_as_it_may(ready: World) -> None:
    ready.diode(maxConcurrentResends=3)
    for number in range(5):
        ready.resend(f"r{number}", offsets={"topic": "t", "partition": 0, "from": number, "to": 9})
    ready.settle(40)
    assert len(sending(ready)) == 3
    assert len(ready.a_diode().status.active) == 3


def test_a_resend_that_was_deleted_keeps_its_turn_until_its_pods_are_gone(ready: World) -> None:
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


def test_a_resend_that_only_plans_takes_no_turn(ready: World) -> None:
    ready.resend("first", mode="Plan")
    ready.settle()
    ready.start_pods()
    ready.run("first-00000001-plan-1-0-0")
    ready.resend("second", offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == ["second"]


def test_who_sends_goes_on_when_the_link_is_doubted_and_nobody_else_begins(ready: World) -> None:
    ready.diode(maxConcurrentResends=2)
    ready.resend("first")
    ready.settle()
    ready.start_pods()
    ready.run("first-00000001-send-1-0-0", ready.progress(1))
    ready.settle()
    ready.looks_at_nodes = False
    ready.now += CHECK_EVERY
    ready.settle()
    ready.look_at_node(carrier=False)
    ready.resend("second", offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert sending(ready) == ["first"]
    assert ready.said(Type.READY, "first").reason == "Sending"
    assert ready.said(Type.READY, "second").reason == "DiodeNotReady"


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
    world: World, one: dict[str, Any], other: dict[str, Any], at_once: int
) -> None:
    world.looks_at_nodes = True
    world.diode("hall", **one)
    world.diode("vault", **other)
    world.settle()
    for number, diode in enumerate(("vault", "hall")):
        world.resend(
            f"r{number}",
            diodeRef={"name": diode},
            offsets={"topic": "t", "partition": 0, "from": number, "to": 9},
        )
    world.settle(40)
    assert len(sending(world)) == at_once
    if at_once == 1:
        assert sending(world) == ["r0"]
        assert world.said(Type.READY, "r1").reason == "KeyLaneBusy"
        finish(world, "r0")
        assert world.said(Type.READY, "r1").reason == "Starting"


def test_the_session_key_is_written_once_and_shared_by_all_shards(world: World) -> None:
    world.looks_at_nodes = True
    world.diode(encryption=ENCRYPTED)
    world.resend(parallelism=4)
    world.settle()
    (name,) = world.names("Secret")
    secret = world.bodies["Secret", name]
    assert secret["immutable"] is True
    sources = world.bodies["Job", "repeat-00000001-send-1"]["spec"]["template"]["spec"]["volumes"][1]["projected"][
        "sources"
    ]
    assert {"name": name, "items": [{"key": "session-key", "path": "secrets/session-key"}]} in [
        source.get("secret") for source in sources
    ]


# -------------------------------------------------------------------------------------------------- many at once


def test_two_hundred_resends_keep_their_order_and_the_limit_and_write_little(ready: World) -> None:
    ready.diode(maxConcurrentResends=2)
    ready.settle()
    expected = []
    for number in range(examples(200)):
        name, priority = f"r{number:03}", (number * 7) % 5
        if number % 10 == 0:
            ready.later(seconds=1)
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
    assert {ready.said(Type.SUCCEEDED, name).status for _, name in ready.owners() if name != "hall"} == {"True"}
    assert len(ready.ledger()) == len(expected)
    assert max(count for name, count in ready.status_writes.items() if name != "hall") <= 6
