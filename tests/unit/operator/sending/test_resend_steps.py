"""What a Resend writes, deletes and reports at each step, and when it is reconciled again: to the second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps, canonical_sha256
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_api.wire.ledger import LedgerEntry
from gapless_operator.common.plan import EventType, Ref
from gapless_operator.sending.ledger import writes_for
from gapless_operator.sending.resend.bundle import required_bundle_entry
from kit.story.messages import read_bundle
from kit.story.plans import is_empty

SenderCluster = Any

ENTRY = {"topic": "transfer", "partition": 3, "window_min": 0, "window_max": 9, "gaps": [[5]]}
BUNDLE = json.dumps({"type": "all", "results": [ENTRY]})
SHA256 = canonical_sha256(BundleKind.ALL, [PartitionGaps("transfer", 3, 0, 9, OffsetRanges([(5, 5)]))])
ENCRYPTED = {"certificateSecret": {"name": "receiver"}}
IN_A_VOLUME = {"storageRef": {"name": "bundles"}, "path": "a.json"}


def asks_again_after(cluster: SenderCluster, name: str = "repeat") -> float | None:
    """In how many seconds a Resend without news is reconciled again."""
    plan = cluster.next_plan("Resend", name)
    assert is_empty(plan)
    seconds: float | None = plan.requeue_after_seconds
    return seconds


def told(cluster: SenderCluster, name: str = "repeat") -> list[tuple[str, str]]:
    return [(event.reason, event.type) for of, event in cluster.events if of == name]


def refs(cluster: SenderCluster, kind: str, *names: str) -> tuple[Ref, ...]:
    version = "batch/v1" if kind == "Job" else "v1"
    return tuple(Ref(version, kind, name, cluster.bodies[kind, name]["metadata"]["uid"]) for name in names)


# ------------------------------------------------------------------------------------------------ before it begins


def test_checks_every_half_minute_for_missing_objects(cluster: SenderCluster) -> None:
    cluster.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}})
    cluster.settle()
    assert asks_again_after(cluster) == 30
    assert "no Diode hall in the namespace gapless-sender" in cluster.condition(Type.READY).message
    cluster.diode()
    cluster.settle()
    assert cluster.summary()[0] == "BundleNotFound"
    assert asks_again_after(cluster) == 30
    assert (
        "no bundle.json of ConfigMap carried in the namespace gapless-sender" in cluster.condition(Type.READY).message
    )
    assert cluster.condition(Type.ACCEPTED).status == "False"


def test_a_diode_that_is_being_deleted_counts_as_missing(ready: SenderCluster) -> None:
    ready.begin_deletion("Diode", "hall")
    ready.resend()
    ready.reconcile("Resend", "repeat")
    assert ready.summary()[0] == "DiodeNotFound"


def test_a_refused_resend_is_not_requeued(ready: SenderCluster) -> None:
    ready.resend(offsets={"topic": "t", "partition": 0, "from": 0, "to": 9}, partitionWindow={"start": 5})
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    assert asks_again_after(ready) is None
    assert told(ready) == [("BadConfiguration", EventType.WARNING)]
    accepted = ready.condition(Type.ACCEPTED)
    assert (accepted.status, accepted.reason) == ("False", "BadConfiguration")


def test_its_own_window_overrides_that_of_the_diode(ready: SenderCluster) -> None:
    ready.diode(partitionWindow={"start": 100}, limits={"partitionWindows": [{"start": 0, "count": 5}]})
    ready.settle()
    ready.resend(partitionWindow={"start": 0, "count": 5})
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_waits_for_its_turn_without_requeues(ready: SenderCluster) -> None:
    ready.resend("first")
    ready.settle()
    ready.resend("second", offsets={"topic": "t", "partition": 0, "from": 1, "to": 9})
    ready.settle()
    assert ready.condition(Type.READY, "second").reason == "Queued"
    assert asks_again_after(ready, "second") is None
    assert told(ready, "second") == [("Queued", EventType.NORMAL)]


def test_an_inline_bundle_is_known_before_anything_is_sent(ready: SenderCluster) -> None:
    ready.resend(without=("offsets",), bundle={"inline": BUNDLE, "sha256": SHA256})
    ready.reconcile("Resend", "repeat")
    status = ready.a_resend().status
    assert (status.bundle_sha256, status.bundle_id) == (SHA256, None)
    assert status.identity is not None
    assert (status.phase, status.observed_generation) == ("Queued", 1)


def test_a_known_bundle_is_not_inspected_again(ready: SenderCluster) -> None:
    ready.resend(without=("offsets",), bundle={"configMap": {"name": "carried"}})
    ready.bodies["ConfigMap", "carried"] = {
        "kind": "ConfigMap",
        "metadata": {"name": "carried", "namespace": "gapless-sender", "uid": "theirs"},
        "data": {"bundle.json": BUNDLE},
    }
    entry = required_bundle_entry(ready.a_resend())
    assert entry is not None
    assert (entry.name, entry.key) == ("carried", "bundle.json")
    ready.settle()
    assert required_bundle_entry(ready.a_resend()) is None
    identity = ready.a_resend().status.identity
    ready.delete("ConfigMap", "carried")
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.identity == identity


def test_a_value_that_no_setting_can_hold_is_refused_before_it_has_a_turn(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.resend(offsets={"topic": " transfer", "partition": 0, "from": 0, "to": 9})
    cluster.settle()
    assert cluster.summary() == ("BadConfiguration", "False", "False", "True", "False")


def test_a_bundle_with_an_id_is_known_by_it(ready: SenderCluster, tmp_path: Path) -> None:
    where = tmp_path / "bundle.json"
    gaps = [PartitionGaps("transfer", 3, 0, 9, OffsetRanges([(5, 5)]))]
    written = write_bundle(where, BundleKind.ALL, gaps, created=ready.now, source={})
    ready.resend(without=("offsets",), bundle={"inline": where.read_text()})
    ready.reconcile("Resend", "repeat")
    assert ready.a_resend().status.bundle_id == written.id
    assert written.id


# ---------------------------------------------------------------------------------------------- the ledger decides


def test_a_force_that_the_work_was_sent_with_before_is_no_new_one(ready: SenderCluster) -> None:
    ready.finished("before", force="again")
    job = ready.begin()
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    ready.resend(force="again")
    ready.settle()
    assert ready.summary()[0] == "AlreadySent"
    assert ready.a_resend().status.retry_at is None


def test_work_sent_by_another_resend_is_reported_with_its_counts(ready: SenderCluster) -> None:
    ready.finished("before")
    ready.advance(minutes=5)
    ready.resend()
    ready.settle()
    assert ready.summary() == ("AlreadySent", "True", "False", "False", "True")
    message = ready.condition(Type.SUCCEEDED).message
    assert "Resend before until 2026-11-20T10:00:00Z (1,000 events, 0 unavailable)" in message
    status = ready.a_resend().status
    assert (status.finished_at, status.started_at, status.retry_at) == (ready.now, None, None)
    assert told(ready) == [("AlreadySent", EventType.NORMAL)]
    assert asks_again_after(ready) == 3600


def known(cluster: SenderCluster, name: str) -> None:
    """Have the same work recorded by somebody else, as an import does."""
    entry = LedgerEntry(
        identity=str(cluster.a_resend().status.identity),
        resend=name,
        resend_uid=name,
        bundle_id=None,
        force=None,
        finished_at="2026-11-20T10:00:00Z",
        sent=1000,
        filtered=0,
        filled=0,
        unavailable=0,
    )
    writes = writes_for([entry], cluster.ledger_parts(), namespace="gapless-sender", diode_name="hall", diode=None)
    for manifest in (*writes.create, *writes.apply):
        cluster.store(manifest)


def test_started_work_continues_whatever_the_ledger_has(ready: SenderCluster) -> None:
    ready.diode(maxConcurrentResends=2)
    ready.settle()
    ready.resend()
    ready.settle()
    ready.start_pods()
    known(ready, "twin")
    assert ready.summary()[0] == "Starting"
    ready.end("repeat-00000001-send-1-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    ready.advance(hours=1)
    ready.settle()
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


def test_a_job_that_runs_is_not_called_sent_before_its_beginning_was_recorded(ready: SenderCluster) -> None:
    ready.diode(maxConcurrentResends=2)
    ready.settle()
    ready.resend()
    ready.settle()
    known(ready, "twin")
    body = ready.bodies["Resend", "repeat"]
    body["status"] = {name: value for name, value in body["status"].items() if name != "startedAt"}
    ready.bodies["Resend", "repeat"] = {**body}
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_a_plan_is_made_although_the_same_was_sent(ready: SenderCluster) -> None:
    ready.finished("before")
    ready.resend(mode="Plan")
    ready.settle()
    assert ready.summary()[0] == "Planning"


def test_an_encrypted_resend_that_runs_is_stopped_when_the_live_stream_takes_the_receiver(ready: SenderCluster) -> None:
    ready.diode(encryption=ENCRYPTED)
    ready.settle()
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.diode(encryption={**ENCRYPTED, "sharedWithLiveStream": True})
    ready.settle()
    assert ready.summary()[0] == "SharedKeyLane"
    assert ready.running_jobs() == []


# ------------------------------------------------------------------------------------------------------------ plans


def test_a_plan_stays_when_its_job_was_deleted(ready: SenderCluster) -> None:
    job = ready.begin(mode="Plan")
    ready.end(f"{job}-0-0", 0, ready.plan(990))
    ready.settle()
    message = ready.condition(Type.READY).message
    ready.delete("Job", job)
    ready.settle()
    assert ready.summary()[0] == "Planned"
    assert ready.condition(Type.READY).message == message
    assert ready.created_jobs.count(job) == 1
    assert asks_again_after(ready) is None


def test_a_plan_that_is_suspended_says_so_and_comes_back(ready: SenderCluster) -> None:
    job = ready.begin(mode="Plan")
    ready.end(f"{job}-0-0", 0, ready.plan(990))
    ready.settle()
    ready.delete("Job", job)
    ready.resend(mode="Plan", suspend=True)
    ready.settle()
    assert ready.summary()[0] == "Suspended"
    ready.resend(mode="Plan")
    ready.settle()
    assert ready.summary()[0] == "Planning"


def test_a_bundle_in_a_volume_is_sent_a_second_after_it_was_looked_into(ready: SenderCluster) -> None:
    job = ready.begin(without=("offsets",), bundle=IN_A_VOLUME)
    assert ready.summary()[0] == "Planning"
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle(SHA256, "b-1")))
    plan = ready.reconcile("Resend", "repeat")
    assert plan.requeue_after_seconds == 1
    assert ready.summary() == ("Planning", "False", "True", "False", "Unknown")
    assert ready.condition(Type.READY).message == "The bundle was read; it will be sent."
    assert ready.a_resend().status.plan.events == 1


def test_a_bundle_in_a_volume_that_is_another_than_the_spec_says_is_refused(ready: SenderCluster) -> None:
    job = ready.begin(without=("offsets",), bundle={**IN_A_VOLUME, "sha256": "0" * 64})
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle(SHA256, "b-1")))
    ready.settle()
    assert ready.summary() == ("BadBundle", "False", "False", "True", "False")
    message = (
        f"The bundle a.json of StorageLocation bundles has the digest {SHA256}, but spec.bundle.sha256 is {'0' * 64};"
    )
    assert ready.condition(Type.STALLED).message.startswith(message)


def test_a_sender_that_does_not_name_the_bundle_is_of_another_version(ready: SenderCluster) -> None:
    job = ready.begin(without=("offsets",), bundle=IN_A_VOLUME)
    ready.end(f"{job}-0-0", 0, ready.plan(1))
    ready.settle()
    assert ready.summary() == ("Defect", "False", "False", "True", "False")
    message = "The sender did not report which bundle it read; check that the sender image and the operator match."
    assert ready.condition(Type.STALLED).message == message
    assert ready.a_resend().status.plan.events == 1


# --------------------------------------------------------------------------------------------------- another force


def test_another_force_forgets_all_of_the_work_before(ready: SenderCluster) -> None:
    job = ready.begin(without=("offsets",), bundle={"inline": BUNDLE})
    ready.end(f"{job}-0-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    before = ready.a_resend().status
    assert before.unavailable
    assert before.report == "repeat-00000001-report"
    ready.advance(minutes=1)
    ready.resend(without=("offsets",), bundle={"inline": BUNDLE}, force="again", suspend=True)
    ready.reconcile("Resend", "repeat")
    status = ready.a_resend().status
    assert (status.progress, status.unavailable, status.report) == (None, (), None)
    assert (status.started_at, status.finished_at, status.retry_at) == (None, None, ready.now)
    assert status.identity is None, "nothing is validated before it goes on"
    assert status.force == "again"
    ready.resend(without=("offsets",), bundle={"inline": BUNDLE}, force="again")
    ready.settle()
    assert ready.a_resend().status.identity == before.identity


def test_another_force_looks_for_the_bundle_anew(ready: SenderCluster) -> None:
    job = ready.begin(without=("offsets",), bundle=IN_A_VOLUME)
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle(SHA256, "b-1")))
    ready.settle()
    ready.resend(without=("offsets",), bundle=IN_A_VOLUME, force="again", suspend=True)
    ready.settle()
    status = ready.a_resend().status
    assert (status.bundle_sha256, status.bundle_id, status.identity) == (None, None, None)


def test_another_force_that_begins_at_once_sends_the_bundle_that_is_there_now(ready: SenderCluster) -> None:
    def carry(text: str) -> None:
        metadata = {"name": "carried", "namespace": "gapless-sender", "uid": "theirs"}
        ready.bodies["ConfigMap", "carried"] = {"metadata": metadata, "data": {"bundle.json": text}}

    carry(BUNDLE.replace("[[5]]", "[[6]]"))
    where = {"configMap": {"name": "carried"}}
    job = ready.begin(without=("offsets",), bundle=where)
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.reconcile("Resend", "repeat")
    carry(BUNDLE)
    ready.resend(without=("offsets",), bundle=where, force="again")
    ready.reconcile("Resend", "repeat")
    assert ready.property_of("repeat-00000001-send-2", "bundleSha256") == f"bundleSha256={SHA256}"
    ready.settle()
    assert ready.created_jobs.count("repeat-00000001-send-2") == 1
    assert "BundleNotFound" not in [reason for reason, _ in told(ready)], "it is there"


def test_another_force_before_anything_began_is_only_remembered(ready: SenderCluster) -> None:
    ready.resend(suspend=True)
    ready.settle()
    identity = ready.a_resend().status.identity
    ready.resend(suspend=True, force="word")
    ready.settle()
    status = ready.a_resend().status
    assert (status.force, status.identity, status.retry_at) == ("word", identity, None)


def test_another_force_makes_what_was_sent_before_by_another_new_work(ready: SenderCluster) -> None:
    ready.finished("before")
    ready.resend()
    ready.settle()
    assert ready.summary()[0] == "AlreadySent"
    ready.resend(force="again")
    ready.settle()
    assert ready.summary()[0] == "Starting"
    status = ready.a_resend().status
    assert (status.attempt, status.retry_at, status.finished_at) == (1, None, None)


def test_a_change_of_the_spec_tries_again_what_had_failed_and_keeps_its_progress(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    assert ready.a_resend().status.finished_at == ready.now
    assert asks_again_after(ready) is None
    ready.advance(minutes=1)
    ready.resend(priority=1, suspend=True)
    ready.reconcile("Resend", "repeat")
    status = ready.a_resend().status
    assert (status.started_at, status.finished_at, status.retry_at) == (None, None, ready.now)
    assert status.progress.sent == 400


# ------------------------------------------------------------------------------------------------ when it is over


def test_has_not_succeeded_before_the_ledger_has_it(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    assert ready.ledger() == ()
    assert ready.summary() == ("Sending", "False", "True", "False", "Unknown")
    assert ready.condition(Type.SUCCEEDED).reason == "Sent"
    assert ready.condition(Type.RECONCILING).reason == "Sent"


def test_what_was_incomplete_is_no_success_when_the_ledger_has_it(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 4, ready.report(990, unavailable=10))
    ready.reconcile("Resend", "repeat")
    assert ready.condition(Type.SUCCEEDED).status == "Unknown"
    ready.settle()
    assert ready.summary() == ("Incomplete", "False", "False", "True", "False")
    assert told(ready)[-1] == ("Incomplete", EventType.WARNING)
    for name in ("hall", "repeat"):
        ready.reconcile("Diode" if name == "hall" else "Resend", name)
    assert ready.summary()[0] == "Incomplete", "and stays so"


@pytest.mark.parametrize("gone", ["deleted", "on its way out"])
def test_the_ledger_is_written_although_the_diode_is_gone(ready: SenderCluster, gone: str) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    if gone == "deleted":
        ready.delete("Diode", "hall")
    else:
        ready.begin_deletion("Diode", "hall")
    ready.reconcile("Resend", "repeat")
    assert ready.summary() == ("Sent", "True", "False", "False", "True")
    assert [entry.resend for entry in ready.ledger()] == ["repeat"]


def test_a_success_is_not_taken_back_when_the_ledger_is_lost(ready: SenderCluster) -> None:
    ready.finished()
    ready.delete("Diode", "hall")
    ready.diode()
    ready.reconcile("Resend", "repeat")
    assert ready.summary() == ("Sent", "True", "False", "False", "True")


def test_its_jobs_and_settings_are_kept_for_an_hour_and_the_report_longer(ready: SenderCluster) -> None:
    ready.finished(ttlSecondsAfterFinished=7200)
    assert asks_again_after(ready) == 3600
    ready.advance(seconds=3599)
    assert asks_again_after(ready) == 1
    ready.advance(seconds=1)
    plan = ready.next_plan("Resend", "repeat")
    assert plan.delete == (
        *refs(ready, "Job", "repeat-00000001-send-1"),
        *refs(ready, "ConfigMap", "repeat-00000001-send-1"),
    )
    ready.settle()
    assert asks_again_after(ready) == 3600
    uid = ready.a_resend().metadata.uid
    ready.advance(seconds=3600)
    plan = ready.next_plan("Resend", "repeat")
    assert plan.delete == (Ref("gapless.dev/v1alpha1", "Resend", "repeat", uid),)
    assert plan.requeue_after_seconds == 1


def test_what_is_on_its_way_out_is_not_deleted_again(ready: SenderCluster) -> None:
    ready.finished()
    ready.advance(hours=1)
    for kind in ("Job", "ConfigMap"):
        ready.begin_deletion(kind, "repeat-00000001-send-1")
    assert ready.next_plan("Resend", "repeat").delete == ()
    assert asks_again_after(ready) is None


def test_a_short_life_after_its_end_comes_before_the_jobs(ready: SenderCluster) -> None:
    ready.finished(ttlSecondsAfterFinished=60)
    assert asks_again_after(ready) == 60
    ready.advance(seconds=59)
    ready.settle()
    assert ready.names("Resend") == ["repeat"]
    ready.advance(seconds=1)
    ready.settle()
    assert ready.names("Resend") == []


def test_is_not_deleted_before_the_ledger_has_it(ready: SenderCluster) -> None:
    job = ready.begin(ttlSecondsAfterFinished=0)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    ready.advance(hours=3)
    plan = ready.next_plan("Resend", "repeat")
    assert [manifest["metadata"]["name"] for manifest in plan.create] == ["gapless-ledger-hall-2026-11"]
    assert "Resend" not in {ref.kind for ref in plan.delete}
    ready.settle()
    assert ready.names("Resend") == []
    assert [entry.resend for entry in ready.ledger()] == ["repeat"]


def test_an_inline_bundle_is_deleted_with_the_settings(ready: SenderCluster) -> None:
    ready.resend(without=("offsets",), bundle={"inline": BUNDLE})
    ready.settle()
    ready.start_pods()
    ready.end("repeat-00000001-send-1-0-0", 0, ready.report(1000))
    ready.settle()
    assert len(ready.names("ConfigMap")) == 4
    ready.advance(hours=1)
    ready.settle()
    assert ready.names("ConfigMap") == ["gapless-ledger-hall-2026-11", "repeat-00000001-report"]
