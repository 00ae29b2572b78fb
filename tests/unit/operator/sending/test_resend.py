"""What becomes of one Resend, from its application to its end, in every situation it can be in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless_api.bundle import BundleKind, PartitionGaps
from gapless_api.bundle_form import canonical_sha256
from gapless_api.offsets import OffsetRanges
from gapless_api.v1alpha1.conditions import ConditionType as Type

World = Any

ENTRY = {"topic": "transfer", "partition": 3, "window_min": 0, "window_max": 9, "gaps": [[5]]}
BUNDLE = json.dumps({"type": "all", "results": [ENTRY]})
SHA256 = canonical_sha256(BundleKind.ALL, [PartitionGaps("transfer", 3, 0, 9, OffsetRanges([(5, 5)]))])


def standing(world: World, name: str = "repeat") -> tuple[str, str, str, str, str]:
    """Ready's reason, and the status of Ready, Reconciling, Stalled and Succeeded."""
    ready = world.said(Type.READY, name)
    others = [world.said(kind, name).status for kind in (Type.RECONCILING, Type.STALLED, Type.SUCCEEDED)]
    return (ready.reason, ready.status, *others)


def begin(world: World, **spec: Any) -> str:
    """Apply a Resend and bring it to where its pods can start; the name of its Job."""
    world.resend(**spec)
    world.settle()
    world.start_pods()
    return str(world.a_resend().status.job)


def test_goes_from_its_application_to_its_end(ready: World) -> None:
    job = begin(ready)
    assert job == "repeat-send-1"
    assert standing(ready) == ("Starting", "False", "True", "False", "Unknown")
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert standing(ready) == ("Sending", "False", "True", "False", "Unknown")
    seen = ready.a_resend().status.progress
    assert (seen.planned, seen.sent, seen.percent, seen.events_per_second, seen.eta_seconds) == (1000, 400, 40, 100, 6)
    ready.later(seconds=6)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.settle()
    assert standing(ready) == ("Sent", "True", "False", "False", "True")
    status = ready.a_resend().status
    assert (status.progress.sent, status.progress.percent, status.phase) == (1000, 100, "Sent")
    assert json.loads(ready.bodies["ConfigMap", status.report]["data"]["report.json"])["ledger"]["sent"] == 1000
    assert [(entry.resend, entry.sent, entry.identity) for entry in ready.a_diode().status.ledger] == [
        ("repeat", 1000, status.identity)
    ]
    assert [event.reason for name, event in ready.events if name == "repeat"] == [
        "Queued",
        "Starting",
        "Sending",
        "Sent",
    ]


def test_succeeds_only_after_the_ledger_knows_it(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    ready.reconcile("Resend", "repeat")
    assert ready.said(Type.SUCCEEDED).status == "Unknown"
    ready.reconcile("Diode", "hall")
    ready.reconcile("Resend", "repeat")
    assert ready.said(Type.SUCCEEDED).status == "True"


def test_succeeds_without_a_ledger_when_the_diode_is_gone(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    ready.delete("Diode", "hall")
    ready.settle()
    assert standing(ready) == ("Sent", "True", "False", "False", "True")


def test_says_that_it_is_incomplete_and_lists_what_is_missing(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    assert standing(ready) == ("Incomplete", "False", "False", "True", "False")
    assert "10 could not be sent (10 Expired)" in ready.said(Type.SUCCEEDED).message
    (only,) = ready.a_resend().status.unavailable
    assert (only.topic, only.partition, only.first, only.last, only.reason) == ("transfer", 0, 0, 9, "Expired")
    assert ready.a_diode().status.ledger[0].unavailable == 10


def test_says_that_there_was_nothing_to_send(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 0, ready.report(0, planned=0))
    ready.settle()
    assert standing(ready) == ("NothingToSend", "True", "False", "False", "True")


def test_sums_up_its_shards(ready: World) -> None:
    job = begin(ready, parallelism=3)
    ready.run(f"{job}-0-0", ready.progress(100))
    ready.run(f"{job}-1-0", ready.progress(200, events_per_second=50.0))
    ready.end(f"{job}-2-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    seen = ready.a_resend().status.progress
    assert (seen.planned, seen.sent, seen.unavailable, seen.percent) == (3000, 1290, 10, 43)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.end(f"{job}-1-0", 0, ready.report(1000))
    ready.settle()
    assert standing(ready)[0] == "Incomplete"
    merged = json.loads(ready.bodies["ConfigMap", "repeat-report"]["data"]["report.json"])
    assert (merged["ledger"]["sent"], merged["unavailable"], merged["shards"]) == (2990, {"Expired": 10}, 3)


def test_writes_progress_at_most_every_five_seconds_and_only_when_it_changes(ready: World) -> None:
    job = begin(ready)
    ready.run(f"{job}-0-0", ready.progress(1))
    ready.settle()
    before = ready.status_writes["repeat"]
    for second in range(20):
        ready.later(seconds=1)
        ready.run(f"{job}-0-0", ready.progress(2 + second))
        ready.settle()
    assert ready.status_writes["repeat"] - before == 4
    for _ in range(20):
        ready.later(seconds=1)
        ready.settle()
    assert ready.status_writes["repeat"] - before <= 5


def test_never_takes_progress_back_when_a_pod_begins_anew(ready: World) -> None:
    job = begin(ready, parallelism=2)
    ready.run(f"{job}-0-0", ready.progress(500))
    ready.run(f"{job}-1-0", ready.progress(500))
    ready.settle()
    ready.later(seconds=10)
    ready.delete("Pod", f"{job}-0-0")
    ready.start_pods()
    ready.settle()
    assert ready.a_resend().status.progress.sent == 1000


# ------------------------------------------------------------------------------------------- what is refused


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
def test_refuses_what_cannot_be_sent_and_begins_nothing(
    world: World, diode: dict[str, Any], spec: dict[str, Any], reason: str, words: tuple[str, ...]
) -> None:
    world.diode(**diode)
    world.resend(**spec)
    world.settle()
    assert standing(world) == (reason, "False", "False", "True", "False")
    message = world.said(Type.STALLED).message
    assert [word for word in words if word not in message] == []
    assert [name for name in world.names("Job") if name.startswith("repeat")] == []


def test_waits_for_a_diode_that_is_not_there_yet(world: World) -> None:
    world.resend()
    world.settle()
    assert standing(world) == ("DiodeNotFound", "False", "True", "False", "Unknown")
    assert world.said(Type.ACCEPTED).status == "False"
    world.diode()
    world.settle()
    assert standing(world)[0] == "DiodeNotReady"
    assert world.said(Type.ACCEPTED).status == "True"


def test_waits_for_a_bundle_that_is_not_there_yet(ready: World) -> None:
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}})
    ready.settle()
    assert standing(ready) == ("BundleNotFound", "False", "True", "False", "Unknown")
    ready.bodies["ConfigMap", "carried"] = {
        "kind": "ConfigMap",
        "metadata": {"name": "carried", "namespace": "gapless-sender", "uid": "theirs"},
        "data": {"bundle.json": BUNDLE},
    }
    ready.settle()
    assert standing(ready)[0] == "Starting"
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
def test_waits_while_the_link_is_not_fit_to_send(world: World, found: dict[str, Any], reason: str) -> None:
    world.diode(requireStaticNeighbour=True)
    world.resend()
    world.settle()
    world.look_at_node(**found)
    world.settle()
    assert standing(world) == ("DiodeNotReady", "False", "True", "False", "Unknown")
    assert reason in world.said(Type.READY).message
    world.later(seconds=40)
    world.settle()
    world.look_at_node()
    world.settle()
    assert standing(world)[0] == "Starting"


# ----------------------------------------------------------------------------------------------- plan


def test_plans_without_sending_and_sends_when_it_is_told_to(ready: World) -> None:
    job = begin(ready, mode="Plan")
    assert job == "repeat-plan-1"
    assert standing(ready) == ("Planning", "False", "True", "False", "Unknown")
    assert ready.a_diode().status.active == ()
    estimate = {"datagrams": 2000, "payloadBytes": 123456, "seconds": 12.5}
    plan = {"event": "report", "events": 990, "ranges": 1, "unavailable": {"Expired": 10}, "estimate": estimate}
    ready.end(f"{job}-0-0", 0, plan)
    ready.settle()
    assert standing(ready) == ("Planned", "True", "False", "False", "Unknown")
    found = ready.a_resend().status.plan
    assert (found.events, found.bytes, found.datagrams, found.unavailable) == (990, 123456, 2000, 10)
    assert found.estimated_seconds == 12.5
    ready.resend(mode="Send")
    ready.settle()
    assert standing(ready)[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-send-2"
    assert ready.a_resend().status.plan == found


def test_plans_anew_for_another_pace(ready: World) -> None:
    job = begin(ready, mode="Plan")
    ready.end(f"{job}-0-0", 0, {"event": "report", "events": 990, "estimate": {"seconds": 10}})
    ready.settle()
    ready.resend(mode="Plan", eps=5)
    ready.settle()
    ready.start_pods()
    ready.end("repeat-plan-2-0-0", 0, {"event": "report", "events": 990, "estimate": {"seconds": 198}})
    ready.settle()
    assert ready.a_resend().status.plan.estimated_seconds == 198


def test_has_a_bundle_that_only_pods_can_read_looked_into_before_it_is_sent(ready: World) -> None:
    where = {"persistentVolumeClaim": {"claimName": "bundles", "path": "a.json"}, "sha256": SHA256}
    job = begin(ready, without=("offsets",), bundle=where)
    assert job == "repeat-plan-1"
    ready.end(f"{job}-0-0", 0, {"event": "report", "events": 1, "bundle": {"sha256": SHA256, "id": "b-1"}})
    ready.settle()
    status = ready.a_resend().status
    assert (status.job, status.bundle_sha256, status.bundle_id) == ("repeat-send-2", SHA256, "b-1")


@pytest.mark.parametrize("kind", ["volume", "ConfigMap"])
def test_holds_on_to_the_bundle_that_was_looked_into(ready: World, kind: str) -> None:
    where: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "bundles", "path": "a.json"}}
    if kind == "ConfigMap":
        where = {"configMap": {"name": "gaps", "key": "bundle.json"}}
        ready.bodies["ConfigMap", "gaps"] = {
            "kind": "ConfigMap",
            "metadata": {"name": "gaps", "namespace": "gapless-sender", "uid": "theirs"},
            "data": {"bundle.json": BUNDLE},
        }
    job = begin(ready, without=("offsets",), bundle=where)
    if kind == "volume":
        ready.end(f"{job}-0-0", 0, {"event": "report", "events": 1, "bundle": {"sha256": SHA256, "id": "b-1"}})
        ready.settle()
    status = ready.a_resend().status
    assert status.job.startswith("repeat-send-")
    assert _property(ready, status.job, "bundleSha256") == f"bundleSha256={status.bundle_sha256}"
    ready.start_pods()
    found = f"The bundle is another one: its digest is {'f' * 64} and {status.bundle_sha256} is wanted."
    problem = {"event": "report", "reason": "BadBundle", "message": found}
    ready.end(f"{status.job}-0-0", 2, problem)
    ready.settle()
    assert standing(ready) == ("BadBundle", "False", "False", "True", "False")
    assert ready.said(Type.STALLED).message == found
    assert ready.a_resend().status.bundle_sha256 == status.bundle_sha256
    assert len([name for name in ready.jobs_made if "send" in name]) == 1


def test_refuses_a_bundle_in_a_volume_that_is_not_the_one_meant(ready: World) -> None:
    where = {"persistentVolumeClaim": {"claimName": "bundles", "path": "a.json"}, "sha256": "0" * 64}
    job = begin(ready, without=("offsets",), bundle=where)
    ready.end(f"{job}-0-0", 0, {"event": "report", "events": 1, "bundle": {"sha256": SHA256, "id": None}})
    ready.settle()
    assert standing(ready) == ("BadBundle", "False", "False", "True", "False")
    assert [name for name in ready.jobs_made if name.startswith("repeat")] == ["repeat-plan-1"]


# ------------------------------------------------------------------------------------- sent before, and again


def finished(world: World, name: str = "repeat", **spec: Any) -> None:
    """Send everything."""
    world.resend(name, **spec)
    world.settle()
    world.start_pods()
    world.end(f"{world.a_resend(name).status.job}-0-0", 0, world.report(1000))
    world.settle()


def test_is_not_sent_again_when_it_is_deleted_and_created_again(ready: World) -> None:
    finished(ready)
    ready.delete("Resend", "repeat")
    ready.settle()
    ready.resend()
    ready.settle()
    assert standing(ready) == ("AlreadySent", "True", "False", "False", "True")
    assert "set spec.force" in ready.said(Type.SUCCEEDED).message
    assert ready.jobs_made.count("repeat-send-1") == 1


def test_what_was_incomplete_is_neither_sent_again_nor_called_a_success(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    ready.delete("Resend", "repeat")
    ready.resend()
    ready.settle()
    assert standing(ready) == ("AlreadySent", "False", "False", "True", "False")


def test_is_sent_again_when_force_changes_and_then_not_again(ready: World) -> None:
    finished(ready)
    ready.later(seconds=30)
    ready.resend(force="once more")
    ready.settle()
    assert standing(ready)[0] == "Starting"
    ready.start_pods()
    ready.end("repeat-send-2-0-0", 0, ready.report(1000))
    ready.settle()
    assert standing(ready)[0] == "Sent"
    assert [entry.force for entry in ready.a_diode().status.ledger] == [None, "once more"]
    ready.resend(force="once more", priority=7)
    ready.settle()
    for force in ({}, {"force": "once more"}):
        ready.delete("Resend", "repeat")
        ready.resend(**force)
        ready.settle()
        assert standing(ready)[0] == "AlreadySent"


def test_a_finished_one_is_not_sent_again_by_a_change_of_its_pace(ready: World) -> None:
    finished(ready)
    ready.resend(eps=5, suspend=True)
    ready.settle()
    ready.resend(eps=6)
    ready.settle()
    assert standing(ready) == ("Sent", "True", "False", "False", "True")
    assert len([name for name in ready.jobs_made if "send" in name]) == 1


def test_is_recorded_again_by_a_diode_that_was_created_again(ready: World) -> None:
    finished(ready)
    ready.delete("Diode", "hall")
    ready.diode()
    ready.settle()
    assert [entry.resend for entry in ready.a_diode().status.ledger] == ["repeat"]


# --------------------------------------------------------------------------------------- suspend, pace, stop


def test_suspends_and_goes_on(ready: World) -> None:
    job = begin(ready)
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.resend(suspend=True)
    ready.settle()
    assert standing(ready) == ("Suspended", "False", "False", "False", "Unknown")
    assert "repeat-send-1" not in ready.names("Job")
    assert ready.a_diode().status.active == ()
    assert ready.a_resend().status.progress.sent == 400
    ready.resend(suspend=False)
    ready.settle()
    assert standing(ready)[0] == "Starting"
    assert ready.a_resend().status.progress.sent == 400


def _rates(world: World, settings: str) -> dict[str, str]:
    lines = world.bodies["ConfigMap", settings]["data"]["rates.properties"].splitlines()
    return dict(line.split("=") for line in lines)


def test_a_new_pace_is_followed_by_what_runs(ready: World) -> None:
    job = begin(ready)
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert _rates(ready, job) == {"eps": "0"}
    for eps, written in ((2.5, "2.5"), (5000, "5000.0"), (0, "0"), (None, "0")):
        ready.resend(**({} if eps is None else {"eps": eps}))
        ready.settle()
        assert float(_rates(ready, job)["eps"]) == float(written)
    assert [name for name in ready.jobs_made if "send" in name] == [job], "no pod was stopped for it"
    assert standing(ready)[0] == "Sending"


@pytest.mark.parametrize(
    ("before", "after", "jobs"),
    [
        ({"eventsPerSecond": 100}, {"eventsPerSecond": 7}, 1),
        ({"eventsPerSecond": 100}, {"bitsPerSecond": 5_000_000}, 1),
        ({}, {"eventsPerSecond": 7}, 2),
        ({"eventsPerSecond": 100}, {}, 2),
    ],
)
def test_a_new_budget_is_followed_and_one_that_comes_or_goes_begins_anew(
    ready: World, before: dict[str, int], after: dict[str, int], jobs: int
) -> None:
    ready.diode(budget=before)
    ready.settle()
    job = begin(ready)
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.diode(budget=after)
    ready.settle()
    made = [name for name in ready.jobs_made if "send" in name]
    assert len(made) == jobs
    found = {name: float(rate) for name, rate in _rates(ready, made[-1]).items()}
    names = {"eventsPerSecond": "budgetEps", "bitsPerSecond": "budgetBitsPerSecond"}
    assert found == {"eps": 0.0} | (
        {ours: float(after.get(theirs, 0)) for theirs, ours in names.items()} if after else {}
    )


def test_another_force_stops_what_runs_and_begins_from_the_start(ready: World) -> None:
    job = begin(ready)
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    checkpoint = _property(ready, job, "checkpoint")
    ready.resend(force="all over")
    ready.settle()
    assert [name for name in ready.names("Job") if "send" in name] == ["repeat-send-2"]
    assert _property(ready, "repeat-send-2", "checkpoint") != checkpoint
    assert ready.a_resend().status.progress is None


def _property(world: World, settings: str, name: str) -> str:
    lines = world.bodies["ConfigMap", settings]["data"]["resend.properties"].splitlines()
    return str(next(line for line in lines if line.startswith(f"{name}=")))


# --------------------------------------------------------------------------------------------------- failures


def test_tries_again_for_ever_while_kafka_is_away_and_lets_others_have_the_link_meanwhile(ready: World) -> None:
    begin(ready, backoffLimit=1)
    for attempt in range(1, 9):
        ready.start_pods()
        problem = {"event": "report", "reason": "SourceUnreachable", "message": "Kafka at kafka-up:9092 is away."}
        ready.end(f"repeat-send-{attempt}-0-0", 3, problem)
        ready.settle()
        assert standing(ready) == ("SourceUnreachable", "False", "True", "False", "Unknown")
        assert "Kafka at kafka-up:9092 is away. The next attempt begins at" in ready.said(Type.READY).message
        assert ready.a_diode().status.active == ()
        ready.later(seconds=min(10 * 2 ** (attempt - 1), 300))
        ready.settle()
        assert ready.a_resend().status.attempt == attempt + 1
    assert len([name for name in ready.names("Job") if "send" in name]) <= 2
    ready.start_pods()
    ready.end("repeat-send-9-0-0", 0, ready.report(1000))
    ready.settle()
    assert standing(ready) == ("Sent", "True", "False", "False", "True")


def test_stops_at_once_when_the_configuration_is_wrong(ready: World) -> None:
    job = begin(ready, parallelism=2)
    ready.end(f"{job}-0-0", 2, "gapless: The file /etc/gapless/secrets/kafka-ca.crt is no certificate; replace it.")
    ready.settle()
    assert standing(ready) == ("BadConfiguration", "False", "False", "True", "False")
    assert (
        ready.said(Type.STALLED).message == "The file /etc/gapless/secrets/kafka-ca.crt is no certificate; replace it."
    )
    ready.later(hours=1)
    ready.settle()
    assert standing(ready)[0] == "BadConfiguration"


def test_what_failed_is_tried_again_when_the_spec_changes(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    ready.resend(priority=1)
    ready.settle()
    assert standing(ready)[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-send-2"


@pytest.mark.parametrize(
    ("code", "reason"), [(5, "LinkFailed"), (1, "BackoffLimitExceeded"), (137, "BackoffLimitExceeded")]
)
def test_gives_up_after_backoff_limit(ready: World, code: int, reason: str) -> None:
    job = begin(ready, backoffLimit=2)
    for attempt in range(3):
        assert standing(ready)[0] != reason
        ready.run(f"{job}-0-{attempt}", ready.progress(100 * attempt))
        ready.settle()
        ready.end(f"{job}-0-{attempt}", code, "gapless: The link took no datagrams; look at it.")
        ready.start_pods()
        ready.settle()
    assert standing(ready) == (reason, "False", "False", "True", "False")
    assert "3 tries" in ready.said(Type.STALLED).message


def test_gives_up_when_its_time_is_over(ready: World) -> None:
    job = begin(ready, activeDeadlineSeconds=60)
    assert ready.bodies["Job", job]["spec"]["activeDeadlineSeconds"] == 60
    ready.end_job(job, "DeadlineExceeded", "Job was active longer than specified deadline")
    ready.settle()
    assert standing(ready) == ("DeadlineExceeded", "False", "False", "True", "False")


def test_its_time_runs_on_between_attempts(ready: World) -> None:
    job = begin(ready, activeDeadlineSeconds=60)
    ready.later(seconds=55)
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    ready.later(seconds=10)
    ready.settle()
    assert standing(ready) == ("DeadlineExceeded", "False", "False", "True", "False")


@pytest.mark.parametrize("backoff_limit", [0, 2])
def test_tries_again_what_nobody_can_explain(ready: World, backoff_limit: int) -> None:
    begin(ready, backoffLimit=backoff_limit)
    for attempt in range(1, backoff_limit + 2):
        ready.end_job(f"repeat-send-{attempt}", "BackoffLimitExceeded")
        ready.settle()
        ready.later(minutes=10)
        ready.settle()
    assert standing(ready) == ("BackoffLimitExceeded", "False", "False", "True", "False")


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("CreateContainerConfigError", "MountFailed"),
    ],
)
def test_says_why_pods_do_not_start_and_lets_the_next_one_go_after_a_while(ready: World, why: str, reason: str) -> None:
    job = begin(ready)
    ready.wait_for(f"{job}-0-0", why)
    ready.later(seconds=61)
    ready.settle()
    assert standing(ready) == (reason, "False", "True", "False", "Unknown")
    assert f"{job}-0-0" in ready.said(Type.READY).message
    assert len(ready.a_diode().status.active) == 1
    ready.later(minutes=5)
    ready.settle()
    assert standing(ready)[0] == reason
    assert ready.a_diode().status.active == ()
    ready.later(seconds=10)
    ready.settle()
    assert ready.a_resend().status.attempt == 2


def test_a_large_image_may_take_its_time_and_is_then_said_and_waited_for(ready: World) -> None:
    job = begin(ready)
    ready.wait_for(f"{job}-0-0", "ContainerCreating")
    ready.later(minutes=5, seconds=-1)
    ready.settle()
    assert standing(ready)[0] == "Starting"
    for _ in range(24):
        ready.later(minutes=1)
        ready.settle()
        assert standing(ready) == ("PodSlow", "False", "True", "False", "Unknown")
        assert len(ready.a_diode().status.active) == 1, "it keeps its turn"
    message = ready.said(Type.READY).message
    assert f"{job}-0-0" in message
    assert "image" in message
    assert "Secret, ConfigMap or volume" in message
    assert ready.jobs_made.count(job) == 1
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert standing(ready)[0] == "Sending"
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.settle()
    assert standing(ready)[0] == "Sent"


def test_a_pod_that_does_not_start_for_half_an_hour_lets_others_have_the_link_and_comes_back(ready: World) -> None:
    job = begin(ready, backoffLimit=0)
    for attempt in range(1, 12):
        ready.wait_for(f"repeat-send-{attempt}-0-0", "ContainerCreating")
        ready.later(minutes=30)
        ready.settle()
        assert standing(ready) == ("PodSlow", "False", "True", "False", "Unknown")
        assert ready.a_diode().status.active == ()
        assert job not in ready.names("Job")
        ready.later(minutes=5)
        ready.settle()
        assert ready.a_resend().status.attempt == attempt + 1
        ready.start_pods()
    ready.end("repeat-send-12-0-0", 0, ready.report(1000))
    ready.settle()
    assert standing(ready)[0] == "Sent"


def test_says_that_no_pod_is_let_in(ready: World) -> None:
    ready.resend()
    ready.settle()
    ready.later(seconds=31)
    ready.settle()
    assert standing(ready)[0] == "PodRejected"
    assert "kubectl describe job repeat-send-1" in ready.said(Type.READY).message


def test_makes_the_job_again_that_somebody_deleted(ready: World) -> None:
    begin(ready)
    ready.delete("Job", "repeat-send-1")
    ready.settle()
    assert ready.jobs_made[-2:] == ["repeat-send-1", "repeat-send-1"]


def test_makes_settings_again_that_somebody_deleted(ready: World) -> None:
    begin(ready)
    ready.delete("ConfigMap", "repeat-send-1")
    ready.settle()
    assert "repeat-send-1" in ready.names("ConfigMap")


def test_waits_for_the_end_of_a_log_that_is_late(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 0)
    ready.settle()
    assert standing(ready)[0] == "Sending"
    ready.later(seconds=5)
    ready.run_log_line(f"{job}-0-0", ready.report(1000))
    ready.settle()
    assert standing(ready)[0] == "Sent"
    assert ready.a_resend().status.progress.sent == 1000


def test_ends_without_figures_when_the_log_never_comes(ready: World) -> None:
    job = begin(ready)
    ready.end(f"{job}-0-0", 0)
    ready.later(minutes=1)
    ready.settle()
    assert standing(ready)[0] == "Sent"
    assert "can no longer be read" in ready.said(Type.SUCCEEDED).message


# ---------------------------------------------------------------------------------------------------- clean-up


def test_cleans_up_and_deletes_itself_in_time(ready: World) -> None:
    finished(ready, ttlSecondsAfterFinished=7200)
    assert "repeat-send-1" in ready.names("Job")
    ready.later(minutes=61)
    ready.settle()
    assert [name for name in ready.names("Job") if "send" in name] == []
    assert ready.names("ConfigMap") == ["repeat-report"]
    ready.later(hours=1)
    ready.settle()
    assert ready.names("Resend") == []
    assert [entry.resend for entry in ready.a_diode().status.ledger] == ["repeat"]


def test_keeps_what_failed_for_somebody_to_look_at(ready: World) -> None:
    job = begin(ready, ttlSecondsAfterFinished=0)
    ready.end(f"{job}-0-0", 2, "gapless: Wrong; correct it.")
    ready.later(days=1)
    ready.settle()
    assert ready.names("Resend") == ["repeat"]


def test_leaves_one_on_its_way_out_alone(ready: World) -> None:
    ready.resend()
    body = ready.bodies["Resend", "repeat"]
    body["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    assert ready.planned("Resend", "repeat").is_empty
