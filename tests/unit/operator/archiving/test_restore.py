"""A Restore plans, waits for a person, writes, and never begins again once it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.reading_progress import READING_LINE, ReadingLine
from gapless_api.wire.restore_progress import (
    RESTORE_LINE,
    RESTORE_PLAN_LINE,
    LostRangeLine,
    PlannedTopicLine,
    RestoreLine,
    RestorePlanLine,
)
from gapless_operator.common.settings import Program
from gapless_operator.shell.refusal import refusal_status
from kit.story.memory_cluster import START, stamp
from kit.story.plans import is_empty

Make = Callable[..., Any]
PLAN = RESTORE_PLAN_LINE.to_line(
    RestorePlanLine(
        time="2026-11-20T10:00:00Z",
        records=1000,
        bytes=50_000,
        segments=4,
        restored_before=0,
        topics=(
            PlannedTopicLine(
                topic="transfer", to_topic="transfer", topic_id="A" * 22, partitions=3, records=1000, create=True
            ),
        ),
        topics_omitted=0,
        findings=("The retention of the target deletes 10 records at once.",),
    )
)
READING = READING_LINE.to_line(
    ReadingLine(
        time="2026-11-20T10:00:00Z",
        command="restore",
        offsets=1000,
        read=250,
        percent=25.0,
        offsets_per_second=50.0,
        eta_seconds=15.0,
    )
)


def line(**figures: Any) -> str:
    given: dict[str, Any] = {
        "time": "2026-11-20T10:00:00Z",
        "state": "done",
        "planned": 1000,
        "restored": 1000,
        "remaining": 0,
        "lost": 0,
        "lost_ranges": (),
        "records_per_second": 100.0,
        "eta_seconds": None,
        "last_write": "2026-11-20T10:00:00Z",
        "waits_for": (),
        **figures,
    }
    return RESTORE_LINE.to_line(RestoreLine(**given)) + "\n"


def planned(restore: Make, **spec: Any) -> Any:
    outage = restore(**spec)
    outage.step()
    outage.run()
    outage.step()
    outage.end(PLAN)
    outage.settle()
    return outage


def test_a_restore_plans_first_and_writes_nothing(restore: Make) -> None:
    outage = restore()
    outage.step()
    assert outage.begun == ["outage-owner-ui-plan-1"]
    settings = outage.settings()
    assert settings["plan"] == "true"
    assert (settings["source"], settings["archive"], settings["region"]) == (
        "site-a/transfer",
        "s3://archive/north",
        "site-a",
    )
    assert settings["bootstrapServers"] == "target:9093"
    assert "s3StorageClass" not in settings, "it writes no objects"
    assert outage.condition("Reconciling") == ("True", "Planning")
    outage.run()
    outage.step()
    outage.end(PLAN)
    outage.settle()
    plan = outage.status["plan"]
    assert (plan["records"], plan["segments"], plan["topics"][0]["create"]) == (1000, 4, True)
    assert outage.condition("Ready") == ("True", "Planned")
    assert "The retention of the target deletes 10 records" in outage.message("Ready")
    assert outage.status["phase"] == "Planned"
    outage.later(days=30)
    assert is_empty(outage.plan())


def test_after_the_approval_it_writes_and_shows_how_far_it_is(restore: Make) -> None:
    outage = planned(restore)
    outage.change(mode="Once")
    outage.step()
    assert outage.begun[-1] == "outage-owner-ui-restore-2"
    assert outage.settings()["plan"] == "false"
    outage.run(READING)
    outage.settle()
    assert outage.status["progress"]["percent"] == 25
    assert outage.condition("Reconciling") == ("True", "Restoring")
    outage.later(seconds=20)
    outage.end(line())
    outage.settle()
    assert outage.status["progress"]["restored"] == 1000
    assert outage.status["progress"]["percent"] == 100
    assert outage.condition("Succeeded") == ("True", "Restored")
    assert outage.status["finishedAt"] == "2026-11-20T10:00:20Z"


def test_what_has_ended_never_begins_again(restore: Make) -> None:
    outage = planned(restore)
    outage.change(mode="Once")
    outage.step()
    outage.end(line())
    outage.settle()
    begun = list(outage.begun)
    for change in ({}, {"suspend": True}, {"suspend": False}, {"retry": "again"}, {"backoffLimit": 3}):
        outage.change(**change)
        outage.later(days=1)
        outage.settle()
    assert outage.begun == begun
    assert outage.condition("Succeeded") == ("True", "Restored")


def test_what_was_refused_when_it_had_ended_is_forgotten_when_it_goes_well(restore: Make) -> None:
    for exit_code, ready in ((0, ("True", "Restored")), (2, ("False", "BadConfiguration"))):
        outage = restore(mode="Once")
        outage.step()
        outage.end(line(), exit_code=exit_code)
        outage.settle()
        assert outage.condition("Ready") == ready
        before = outage.status
        outage.body["status"], _ = refusal_status(outage.body, Reason.WRITE_REFUSED, "No.", now=START, final=False)
        assert outage.condition("Stalled") == ("True", "WriteRefused")
        outage.settle()
        assert outage.status == before


def test_lost_offsets_make_it_incomplete(restore: Make) -> None:
    outage = restore(mode="Once", onLost="Skip")
    outage.step()
    lost = LostRangeLine(topic="transfer", partition=1, first=5, last=9, reason="Damaged")
    outage.end(f"{line(lost=5, lost_ranges=(lost,))}gapless: 5 offsets could not be read.\n", exit_code=4)
    outage.settle()
    assert outage.condition("Succeeded") == ("False", "Incomplete")
    assert outage.status["lost"] == [
        {"topic": "transfer", "partition": 1, "first": 5, "last": 9, "reason": "Damaged"},
    ]
    assert outage.settings()["onLost"] == "skip"


def test_a_failure_is_tried_again_until_the_limit_and_another_retry_begins_a_new_round(restore: Make) -> None:
    outage = restore(mode="Once", backoffLimit=1)
    for number in (1, 2):
        outage.step()
        assert len(outage.begun) == number
        outage.end("gapless: Kafka does not answer.\n", exit_code=3)
        outage.step()
        outage.later(seconds=60)
    outage.settle()
    assert outage.condition("Stalled") == ("True", "BackoffLimitExceeded")
    outage.change(retry="now")
    outage.step()
    outage.step()
    assert len(outage.begun) == 3
    outage.end(line())
    outage.settle()
    assert outage.condition("Succeeded") == ("True", "Restored")


def test_only_failures_count_as_failures(restore: Make) -> None:
    outage = planned(restore, backoffLimit=1)
    outage.change(mode="Once")
    outage.step()
    for suspend in (True, False) * 3:
        outage.change(suspend=suspend)
        outage.settle()
    for attempt in (6, 7):
        outage.end("gapless: Kafka does not answer.\n", exit_code=3)
        outage.settle()
        assert outage.condition("Stalled")[0] == ("False" if attempt == 6 else "True")
        outage.later(minutes=1)
        outage.settle()
    assert outage.condition("Stalled") == ("True", "BackoffLimitExceeded")


def test_what_follows_is_not_given_up_for_failures_between_which_it_writes(restore: Make) -> None:
    outage = restore(mode="Follow", backoffLimit=1)
    outage.settle()
    for _ in range(4):
        outage.later(days=1)
        outage.run(line(state="following", last_write=stamp(outage.now)))
        outage.settle()
        outage.end(f"{line(state='following', last_write=stamp(outage.now))}gapless: Kafka is away.\n", exit_code=3)
        outage.settle()
        assert outage.condition("Reconciling") == ("True", "Retrying")
        outage.later(seconds=10)
        outage.settle()
    outage.end("gapless: Kafka is away.\n", exit_code=3)
    outage.settle()
    assert outage.condition("Stalled") == ("True", "BackoffLimitExceeded"), "the second in a row"


def test_a_bad_configuration_is_not_tried_again(restore: Make) -> None:
    outage = restore(mode="Once")
    outage.step()
    outage.end("gapless: The target has fewer partitions.\n", exit_code=2)
    outage.settle()
    assert outage.condition("Stalled") == ("True", "BadConfiguration")
    assert outage.message("Stalled") == "The target has fewer partitions."
    assert len(outage.begun) == 1


def test_follow_is_ready_while_it_waits_and_is_replaced_when_its_pod_dies(restore: Make) -> None:
    outage = restore(mode="Follow")
    outage.step()
    assert outage.settings()["follow"] == "true"
    outage.run(line(state="following"))
    outage.settle()
    assert outage.condition("Ready") == ("True", "Following")
    assert outage.condition("Reconciling") == ("False", "Settled")
    outage.objects.pop(("Job", outage.begun[-1]))
    outage.pods.clear()
    outage.settle()
    assert len(outage.begun) == 2
    outage.run(line(state="following"))
    outage.settle()
    outage.change(mode="Once")
    outage.settle()
    assert outage.settings()["follow"] == "false"
    outage.end(line())
    outage.settle()
    assert outage.condition("Succeeded") == ("True", "Restored")


def test_a_topic_that_the_archive_has_nothing_of_is_named_while_it_is_waited_for(restore: Make) -> None:
    outage = restore(mode="Follow")
    outage.step()
    outage.run(line(state="following", waits_for=("site-a/audit",)))
    outage.settle()
    assert outage.condition("Ready") == ("False", "WaitingForArchive")
    assert outage.condition("Stalled") == ("False", "NotStalled")
    assert "The archive has nothing of site-a/audit yet" in outage.message("Ready")
    outage.log_more(line(state="following", waits_for=[f"site-a/t{number}" for number in range(5)]))
    outage.later(seconds=10)
    outage.settle()
    assert "site-a/t0, site-a/t1, site-a/t2 and 2 more yet" in outage.message("Ready")
    outage.log_more(line(state="following"))
    outage.later(seconds=10)
    outage.settle()
    assert outage.condition("Ready") == ("True", "Following")


def test_what_follows_and_says_nothing_is_not_ready(restore: Make) -> None:
    outage = restore(mode="Follow")
    outage.step()
    outage.run(line(state="following"))
    outage.settle()
    outage.later(minutes=14)
    outage.settle()
    assert outage.condition("Ready") == ("True", "Following")
    outage.later(minutes=1)
    outage.settle()
    assert outage.condition("Ready") == ("False", "NoProgress")
    assert outage.condition("Stalled") == ("True", "NoProgress")
    outage.log_more(line(state="following", time=stamp(outage.now)))
    outage.later(seconds=4)
    outage.settle()
    assert outage.condition("Ready") == ("True", "Following")


def test_another_image_replaces_what_follows_and_lets_what_ends_end(restore: Make) -> None:
    for mode, begun in (("Follow", 2), ("Once", 1)):
        outage = restore(mode=mode)
        outage.step()
        outage.run(line(state="following"))
        outage.settle()
        outage.programs["program"] = Program(image="gapless/spark:2", service_account="gapless-spark")
        outage.settle()
        assert len(outage.begun) == begun, mode


def test_suspend_stops_it_and_it_continues(restore: Make) -> None:
    outage = restore(mode="Once")
    outage.step()
    outage.run(READING)
    outage.settle()
    outage.change(suspend=True)
    outage.settle()
    assert outage.names("Job") == []
    assert outage.condition("Ready") == ("False", "Suspended")
    outage.change(suspend=False)
    outage.settle()
    assert len(outage.begun) == 2


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"archiveRef": {"name": "other"}}, "ArchiveNotFound"),
        ({"kafkaRef": {"name": "other"}}, "KafkaConnectionNotFound"),
        ({"archiveRef": None, "storageRef": {"name": "other"}, "region": "b"}, "StorageLocationNotFound"),
        ({"kafkaRef": {"name": "kafka"}}, "BadConfiguration"),
        ({"topics": [{"name": "transfer", "toTopic": "secret"}]}, "BadConfiguration"),
    ],
)
def test_what_is_missing_or_not_allowed_does_not_begin(restore: Make, spec: dict[str, Any], reason: str) -> None:
    outage = restore(mode="Once", **spec)
    outage.settle()
    assert outage.begun == []
    assert outage.condition("Accepted") == ("False", reason)
    assert outage.condition("Stalled")[0] == ("True" if reason == "BadConfiguration" else "False")


@pytest.mark.parametrize(
    ("name", "listed", "allowed"),
    [
        (None, [], None),
        (None, ["billing-*", "a"], "billing-*,a"),
        ("billing", [], "billing"),
        ("billing", ["a"], "billing,a"),
        ("*", [], None),
        ("* ", [], None),
        ("billing-*", ["a"], "a"),
    ],
)
def test_positions_of_groups_are_those_of_the_named_group_or_of_listed_ones(
    restore: Make, name: str | None, listed: list[str], allowed: str | None
) -> None:
    given = {"configMap": {"name": "groups"}, **({"groupName": name} if name else {})}
    outage = restore(mode="Once", groupOffsets=given)
    outage.kafkas["target"]["allowedGroups"] = listed
    outage.settle()
    if allowed is None:
        assert outage.begun == []
        assert outage.condition("Stalled") == ("True", "BadConfiguration")
        assert "groups to allowedGroups of the KafkaConnection target." in outage.message("Stalled")
    else:
        args = outage.attempt()["spec"]["template"]["spec"]["containers"][0]["args"]
        assert f"--allowed-groups={allowed}" in args


def test_a_volume_is_only_read_and_groups_are_a_file(restore: Make) -> None:
    outage = restore(
        archiveRef=None,
        storageRef={"name": "volume"},
        folder="north",
        region="site-b",
        groupOffsets={"configMap": {"name": "groups"}, "groupName": "billing"},
        partitions=[0, 2],
        offsets={"from": 7},
        since="2026-11-20T10:00:00+01:00",
        topics=[{"name": "transfer", "toTopic": "transfer-2"}, {"name": "transfer-9"}],
    )
    outage.step()
    template = outage.attempt()["spec"]["template"]["spec"]
    claim = {"name": "archive", "persistentVolumeClaim": {"claimName": "archive", "readOnly": True}}
    assert claim in template["volumes"]
    mount = {"name": "archive", "mountPath": "/archive", "subPath": "kept/north", "readOnly": True}
    assert mount in template["containers"][0]["volumeMounts"]
    settings = outage.settings()
    assert settings["source"] == "site-b/transfer=transfer-2,site-b/transfer-9"
    assert (settings["partitions"], settings["offsets"]) == ("0,2", "7-")
    assert settings["since"] == "2026-11-20T09:00:00.000Z"
    assert (settings["groupOffsets"], settings["groupName"]) == ("/etc/gapless/offsets.csv", "billing")


def test_an_operator_that_dies_after_any_write_repeats_nothing(restore: Make) -> None:
    for writes in range(4):
        outage = restore(mode="Once")
        outage.step(writes=writes)
        outage.settle()
        assert len(outage.begun) == 1, writes
        outage.end(line())
        outage.step(writes=writes)
        outage.settle()
        assert outage.condition("Succeeded") == ("True", "Restored"), writes
        assert len(outage.begun) == 1, writes


def test_an_attempt_that_a_dead_operator_began_counts_once_and_keeps_its_name(restore: Make) -> None:
    for writes in range(4):
        outage = restore(mode="Once")
        outage.step(writes=writes)
        outage.settle()
        outage.end("gapless: Kafka does not answer.\n", exit_code=3)
        outage.settle()
        outage.later(minutes=1)
        outage.settle()
        assert outage.begun == ["outage-owner-ui-restore-1", "outage-owner-ui-restore-2"], writes
        assert outage.status["attempt"] == 2, writes


def test_a_rate_that_nobody_looks_at_is_not_shown(restore: Make) -> None:
    outage = planned(restore)
    outage.change(mode="Once")
    outage.settle()
    outage.run(line(restored=400, remaining=600, eta_seconds=6.0))
    outage.settle()
    assert (outage.status["progress"]["recordsPerSecond"], outage.status["progress"]["etaSeconds"]) == (100.0, 6.0)
    assert outage.status["observedAt"] == stamp(outage.now)
    outage.unreadable = dict.fromkeys(outage.pods, "i/o timeout")
    outage.later(minutes=14)
    outage.settle()
    outage.later(minutes=2)
    outage.settle()
    assert outage.condition("Ready") == ("Unknown", "ProgressUnknown")
    assert outage.condition("Succeeded") == ("Unknown", "ProgressUnknown")
    assert outage.status["progress"].keys() & {"recordsPerSecond", "etaSeconds"} == set()
    assert outage.status["progress"]["restored"] == 400
    outage.later(hours=1)
    assert is_empty(outage.plan()), "it is said once"
    outage.unreadable = {}
    outage.log_more(line(restored=500, remaining=500, eta_seconds=5.0))
    for _ in range(50):  # The log is tried again after a pause.
        outage.step()
    assert outage.status["progress"]["recordsPerSecond"] == 100.0
    outage.change(suspend=True)
    outage.settle()
    assert outage.status["progress"].keys() & {"recordsPerSecond", "etaSeconds"} == set()


@pytest.mark.parametrize(
    ("location", "said"),
    [
        (
            {"allowedTopics": ["transfer-x"]},
            "spec requests the archived topic payroll, and only transfer-x may be",
        ),
        ({"allowedRegions": ["site-b"]}, "spec requests the region site-a, and only site-b may be used; ask the"),
        ({"access": ["Write", "Delete"]}, "The StorageLocation store may not be used for reading"),
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_what_the_location_does_not_allow_is_not_restored_and_does_not_keep_running(
    restore: Make, location: dict[str, Any], said: str, *, by_name: bool
) -> None:
    named = {} if by_name else {"archiveRef": None, "storageRef": {"name": "store"}, "region": "site-a"}
    outage = restore(topics=[{"name": "payroll", "toTopic": "transfer-x"}], **named)
    outage.locations["store"] |= location
    outage.settle()
    assert outage.begun == []
    assert outage.condition("Stalled") == ("True", "BadConfiguration")
    assert said in outage.message("Stalled")
    for name in location:
        del outage.locations["store"][name]
    outage.settle()
    outage.run()
    outage.locations["store"] |= location
    outage.settle()
    assert outage.names("Job") == []
    assert said in outage.status["lastAttempt"]["message"]


def test_a_restore_is_told_which_topics_and_regions_the_location_allows(restore: Make) -> None:
    outage = restore()
    outage.locations["store"] |= {"allowedTopics": ["transfer"], "allowedRegions": ["site-*", "x"]}
    outage.step()
    args = outage.attempt()["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[-2:] == ["--archive-allowed-topics=transfer", "--archive-allowed-regions=site-*,x"]


@pytest.mark.parametrize("mode", ["Plan", "Once", "Follow"])
def test_what_is_removed_from_the_lists_does_not_keep_running_and_resumes_when_it_is_listed(
    restore: Make, mode: str
) -> None:
    listed = Program(image="gapless/spark:1", allowed_images=frozenset({"own:2"}))
    outage = restore(engine={"image": "own:2"})
    outage.programs["program"] = listed
    outage.step()
    outage.run()
    if mode != "Plan":
        outage.step()
        outage.end(PLAN)
        outage.settle()
        outage.change(mode=mode)
        outage.settle()
        outage.run(line(restored=400, remaining=600))
    outage.settle()
    running = outage.begun[-1]
    outage.programs["program"] = Program(image="gapless/spark:1")
    outage.settle()
    assert running not in outage.names("Job")
    assert "would be refused now. spec.engine.image names own:2" in outage.status["lastAttempt"]["message"]
    assert outage.condition("Stalled") == ("True", "BadConfiguration")
    assert "finishedAt" not in outage.status
    outage.programs["program"] = listed
    outage.settle()
    assert outage.begun[-1] != running
    assert outage.condition("Stalled") == ("False", "NotStalled")
