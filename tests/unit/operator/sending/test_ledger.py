"""The ledger keeps all that was sent, in ConfigMaps that outlive the Diode; writers never overwrite each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_api.v1alpha1.resend import Resend
from gapless_api.wire.form import WireError
from gapless_api.wire.ledger import Ledger, LedgerEntry, ledger_text, read_ledger
from gapless_operator.sending import ledger as ledger_module
from gapless_operator.sending.ledger import LedgerPart, entries_of, entry_of, latest_entry, part_name, writes_for
from kit.story.messages import read_bundle

if TYPE_CHECKING:
    from conftest import SenderCluster


def an_entry(number: int, *, at: str = "2026-11-20T10:00:00Z", **more: Any) -> LedgerEntry:
    values: dict[str, Any] = {
        "identity": f"{number:064x}",
        "resend": f"r{number}",
        "resend_uid": f"uid-{number}",
        "bundle_id": None,
        "force": None,
        "finished_at": at,
        "sent": 0,
        "filtered": 0,
        "filled": 0,
        "unavailable": 0,
    }
    return LedgerEntry(**{**values, **more})


class Namespace:
    """ConfigMaps as the API server keeps them: a write with another version than the newest is a conflict."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.versions = 0

    def parts(self) -> list[LedgerPart]:
        return [LedgerPart.of(body) for _, body in sorted(self.bodies.items())]

    def record(self, *entries: LedgerEntry, parts: list[LedgerPart] | None = None) -> list[str]:
        """Record entries, by what was read before if that is given; the names of what was written."""
        read = self.parts() if parts is None else parts
        writes = writes_for(entries, read, namespace="s", diode_name="hall", diode=None)
        for manifest in writes.create:
            if manifest["metadata"]["name"] in self.bodies:
                raise ConnectionError("it exists")
            self._write(manifest)
        for manifest in writes.apply:
            name, version = manifest["metadata"]["name"], manifest["metadata"]["resourceVersion"]
            if self.bodies[name]["metadata"]["resourceVersion"] != version:
                raise ConnectionError("it was changed")
            self._write(manifest)
        return [manifest["metadata"]["name"] for manifest in (*writes.create, *writes.apply)]

    def _write(self, manifest: Any) -> None:
        self.versions += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.versions)}
        self.bodies[metadata["name"]] = {**manifest, "metadata": metadata}

    def entries(self) -> list[str]:
        return [entry.resend for entry in entries_of(self.parts())]


def test_each_month_has_a_config_map_and_nothing_is_forgotten() -> None:
    there = Namespace()
    for number in range(300):
        there.record(an_entry(number, at=f"2026-{1 + number % 12:02}-20T10:00:00Z"))
    assert sorted(there.bodies) == [f"gapless-ledger-hall-2026-{month:02}" for month in range(1, 13)]
    assert set(there.entries()) == {f"r{number}" for number in range(300)}
    assert there.record(an_entry(17, at="2026-06-20T10:00:00Z")) == [], "what is there is not written again"


def test_a_month_is_split_when_a_config_map_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_PART_BYTES", 3000)
    there = Namespace()
    for number in range(30):
        there.record(an_entry(number))
    there.record(*(an_entry(number) for number in range(30, 60)))
    assert list(there.bodies)[:3] == [f"gapless-ledger-hall-2026-11{part}" for part in ("", "-2", "-3")]
    assert all(len(body["data"]["ledger.json"]) <= 3000 for body in there.bodies.values())
    assert set(there.entries()) == {f"r{number}" for number in range(60)}


def test_a_full_config_map_is_what_the_api_server_takes() -> None:
    there = Namespace()
    longest = {"resend": "r" * 253, "force": "\N{SNOWMAN}" * 64, "bundle_id": "b" * 128}
    there.record(*(an_entry(number, **longest) for number in range(3000)))
    sizes = [len(body["data"]["ledger.json"].encode()) for body in there.bodies.values()]
    assert len(sizes) > 1
    assert max(sizes) < 1024 * 1024


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_writers_that_read_the_same_the_second_is_a_conflict_and_loses_nothing(first: int) -> None:
    there = Namespace()
    there.record(*(an_entry(number) for number in range(first)))
    read = there.parts()
    there.record(an_entry(8), parts=read)
    with pytest.raises(ConnectionError):
        there.record(an_entry(9), parts=read)
    there.record(an_entry(9))
    assert {"r8", "r9"} <= set(there.entries())


def test_a_part_that_cannot_be_read_is_never_overwritten_and_nothing_is_sent_meanwhile() -> None:
    there = Namespace()
    there.record(an_entry(1))
    (name,) = there.bodies
    there.bodies[name]["data"] = {"ledger.json": '{"gaplessLedger":9}'}
    (part,) = there.parts()
    assert "version 9, and this program reads version 1" in part.problem
    assert there.record(an_entry(2)) == [f"{name}-2"]
    assert there.bodies[name]["data"] == {"ledger.json": '{"gaplessLedger":9}'}


def test_what_is_written_is_read_again_and_nothing_else_is_a_ledger() -> None:
    ledger = Ledger(diode="hall", month="2026-11", part=2, entries=(an_entry(1), an_entry(2, force="again")))
    assert read_ledger(ledger_text(ledger)) == ledger
    assert len(ledger_text(ledger).splitlines()) == 4
    wrong = replace(ledger, entries=(an_entry(1, at="yesterday"),))
    for text in (ledger_text(wrong), "", "[]", ledger_text(ledger)[:-4]):
        with pytest.raises(WireError):
            read_ledger(text)


@pytest.mark.parametrize("name", ["hall", "x" * 253, "hall.north"])
def test_names_of_config_maps_fit_and_differ_for_every_diode_and_part(name: str) -> None:
    names = {part_name(name, month, part) for month in ("2026-10", "2026-11") for part in (1, 2)}
    assert len(names) == 4
    assert all(len(found) <= 253 for found in names)
    assert part_name(f"{name[:200]}y", "2026-11", 1) not in names


def test_the_same_work_is_the_latest_with_that_identity_and_force() -> None:
    early, late = an_entry(1), an_entry(1, at="2026-11-20T10:09:00Z", resend_uid="x")
    forced, other = replace(late, force="again"), an_entry(2, at="2026-12-01T00:00:00Z")
    ledger = (early, late, forced, other)
    for order in (ledger, tuple(reversed(ledger))):
        assert latest_entry(order, identity=f"{1:064x}", force=None) == late
        assert latest_entry(order, identity=f"{1:064x}", force="again") == forced
    assert latest_entry(ledger, identity=f"{2:064x}", force="again") is None


# ------------------------------------------------------------------------------------------------- what is recorded


def ended(reason: str = "Sent", **status: Any) -> Resend:
    said: dict[str, Any] = {"type": "Succeeded", "status": "True", "reason": reason, "observedGeneration": 1}
    said |= {"lastTransitionTime": "2026-11-20T10:00:00Z"}
    metadata = {"name": "r1", "namespace": "s", "uid": "uid-1", "generation": 1}
    spec = {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka"}}
    spec |= {"offsets": {"topic": "t", "partition": 0, "from": 1, "to": 999}}
    usual = {"identity": f"{1:064x}", "finishedAt": "2026-11-20T10:00:00Z", "conditions": [said]}
    return Resend.from_resource({"kind": "Resend", "metadata": metadata, "spec": spec, "status": {**usual, **status}})


def test_an_entry_has_the_counts_of_its_events() -> None:
    progress = {"planned": 10, "sent": 1, "filtered": 2, "filled": 3, "unavailable": 4}
    found = entry_of(ended("Incomplete", progress=progress, bundleId="b-1", force="again"))
    assert found == an_entry(1, bundle_id="b-1", force="again", sent=1, filtered=2, filled=3, unavailable=4)
    assert entry_of(ended()) == an_entry(1)


@pytest.mark.parametrize(
    "resend",
    [ended("AlreadySent"), ended("BadBundle"), ended(identity=None), ended(finishedAt=None)],
    ids=["sent before", "failed", "of no known work", "not ended"],
)
def test_only_completed_work_is_recorded(resend: Resend) -> None:
    assert entry_of(resend) is None


# ---------------------------------------------------------------------------------------- with and without a Diode


def finish_again(cluster: SenderCluster) -> str:
    """Create the Resend again, as Git does, and say what becomes of it."""
    cluster.delete("Resend", "repeat")
    cluster.resend()
    cluster.settle()
    return cluster.summary()[0]


def test_a_diode_that_is_deleted_and_created_again_knows_what_was_sent(ready: SenderCluster) -> None:
    ready.finished()
    ready.delete("Diode", "hall")
    assert ready.names("PersistentVolumeClaim") == ["hall-state"], "and the checkpoints are kept"
    ready.diode()
    ready.settle()
    assert finish_again(ready) == "AlreadySent"


def test_with_the_policy_delete_the_ledger_and_the_volume_go_with_the_diode(ready: SenderCluster) -> None:
    ready.diode(deletionPolicy="Delete")
    ready.settle()
    ready.finished()
    ready.delete("Diode", "hall")
    assert ready.ledger() == ()
    assert ready.names("PersistentVolumeClaim") == []


def test_the_policy_can_be_changed_to_and_fro(ready: SenderCluster) -> None:
    ready.finished()
    for policy in ("Delete", "Retain"):
        ready.diode(deletionPolicy=policy)
        ready.settle()
    ready.delete("Diode", "hall")
    assert [entry.resend for entry in ready.ledger()] == ["repeat"]
    assert ready.names("PersistentVolumeClaim") == ["hall-state"]


def test_a_volume_claim_of_the_version_before_is_freed_of_the_diode_whatever_it_asked_for(ready: SenderCluster) -> None:
    body = ready.bodies["PersistentVolumeClaim", "hall-state"]
    owner = {"kind": "Diode", "name": "hall", "uid": ready.a_diode().metadata.uid, "controller": True}
    spec = {
        **body["spec"],
        "resources": {"requests": {"storage": "7Gi"}},
        "storageClassName": "fast",
        "volumeName": "v",
    }
    body = {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}, "spec": spec}
    ready.bodies["PersistentVolumeClaim", "hall-state"] = body
    ready.settle()
    after = ready.bodies["PersistentVolumeClaim", "hall-state"]
    assert "ownerReferences" not in after["metadata"]
    asked = {"requests": {"storage": "7Gi"}}
    assert (after["spec"]["resources"], after["spec"]["storageClassName"]) == (asked, "fast")


def test_nothing_is_sent_while_the_ledger_cannot_be_read(ready: SenderCluster) -> None:
    ready.finished("before", offsets={"topic": "t", "partition": 0, "from": 0, "to": 5})
    name = "gapless-ledger-hall-2026-11"
    whole = ready.bodies["ConfigMap", name]
    ready.bodies["ConfigMap", name] = {**whole, "data": {"ledger.json": "?"}}
    ready.resend()
    ready.settle()
    assert ready.summary()[:2] == ("LedgerUnreadable", "False")
    assert name in ready.condition(Type.READY).message
    ready.bodies["ConfigMap", name] = whole
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_two_resends_of_the_same_work_never_run_at_once(ready: SenderCluster) -> None:
    ready.diode(maxConcurrentResends=3)
    ready.resend()
    ready.resend("twin")
    ready.settle()
    ready.start_pods()
    assert [job for job in ready.running_jobs() if "send" in job] == ["repeat-00000001-send-1"]
    ready.delete("Resend", "repeat")
    ready.settle()
    assert [job for job in ready.running_jobs() if "send" in job] == ["twin-00000001-send-1"]
    ready.start_pods()
    ready.end("twin-00000001-send-1-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary("twin")[0] == "Sent"


# -------------------------------------------------------------------------------------------------------- notBefore


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "offsets do not show when the work was created"),
        (
            {"timeRange": {"topic": "transfer", "from": "2026-11-19T23:59:59Z"}},
            "its time range begins at 2026-11-19T23:59:59Z",
        ),
        ({"timeRange": {"topic": "transfer", "from": "2026-11-20T00:00:00Z"}}, ""),
        ({"force": "yes"}, ""),
    ],
)
def test_work_from_before_not_before_needs_force(ready: SenderCluster, spec: dict[str, Any], why: str) -> None:
    ready.diode(notBefore="2026-11-20T00:00:00Z")
    ready.settle()
    ready.resend(without=("offsets",) if "timeRange" in spec else (), **spec)
    ready.settle()
    if not why:
        assert ready.summary()[0] == "Starting"
        return
    assert ready.summary()[:2] == ("TooOld", "False")
    assert why in ready.condition(Type.READY).message
    assert "2026-11-20T00:00:00Z only with force" in ready.condition(Type.READY).message
    ready.resend(without=("offsets",) if "timeRange" in spec else (), force="yes", **spec)
    ready.settle()
    assert ready.summary()[0] == "Starting"


@pytest.mark.parametrize(
    ("bundle_id", "reason"),
    [
        ("20261120-000000-aaaaaaaa", "Starting"),
        ("20261119-235959-aaaaaaaa", "TooOld"),
        ("b-1", "TooOld"),
        (None, "TooOld"),
    ],
)
def test_a_bundle_is_as_old_as_its_id_says(ready: SenderCluster, bundle_id: str | None, reason: str) -> None:
    ready.diode(notBefore="2026-11-20T00:00:00Z")
    ready.settle()
    job = ready.begin(without=("offsets",), bundle={"storageRef": {"name": "bundles"}, "path": "a.json"})
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle("a" * 64, bundle_id)))
    ready.settle()
    assert ready.summary()[0] == reason


def test_partly_sent_work_continues_although_it_is_older_than_not_before(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.diode(notBefore="2026-11-20T12:00:00Z")
    ready.settle()
    assert ready.summary()[0] == "Sending"
