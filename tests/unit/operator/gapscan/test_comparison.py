"""A scan is compared with the bundle of the last successful one, and GapsClosed claims no more than that shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.bundle.reader import read_bundle_text
from gapless_api.bundle.reconciliation import NewerFinding, failed_comparison, reconcile

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
MINUTELY = {"cron": "* * * * *"}
VOLUME = {"output": {"storageRef": {"name": "carry"}, "folder": "gaps"}}
BUCKET = {"output": {"storageRef": {"name": "store"}}}
NOTHING: Gaps = {("transfer", 0): []}
STATE = {"storageRef": {"name": "audits"}, "folder": "night"}


def counts(
    sha256: str, *, listed: int, still_open: int = 0, unknown: int = 0, new: int = 0, filled: int = 0, never: int = 0
) -> dict[str, Any]:
    """What a report says of an older bundle."""
    closed = listed - still_open - unknown - filled - never
    return {
        "with": {"id": "older", "sha256": sha256},
        "settled": not still_open and not unknown,
        "listed": listed,
        "closed": closed,
        "filled": filled,
        "unavailable": never,
        "open": still_open,
        "unknown": unknown,
        "new": new,
        "partitions": [],
    }


def scanned(cluster: Make, gaps: Gaps, **spec: Any) -> Any:
    """A GapScan on a schedule whose first scan has ended."""
    night = cluster(schedule=MINUTELY, **spec)
    night.later(minutes=1)
    night.step()
    night.answer(gaps)
    return night


def begin(night: Any) -> None:
    night.later(minutes=1)
    night.step()


def again(night: Any, gaps: Gaps, **found: int) -> None:
    """The next scan finds `gaps` and says of the bundle before what `found` says."""
    begin(night)
    before = night.status["bundle"]
    night.answer(gaps, reconciliation=counts(before["sha256"], listed=before["missing"], **found))


def settings(night: Any) -> dict[str, str]:
    text = night.objects["ConfigMap", f"{night.begun[-1]}-settings"]["data"]["scan.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


def older_source(night: Any) -> list[dict[str, Any]]:
    """What the newest attempt mounts to compare with."""
    pod = night.attempt()["spec"]["template"]["spec"]
    (configuration,) = (volume for volume in pod["volumes"] if volume["name"] == "configuration")
    sources = [source["configMap"] for source in configuration["projected"]["sources"] if "configMap" in source]
    return [source for source in sources if source.get("optional")]


# --------------------------------------------------------------------------------------------- what the pod is given


def test_the_first_scan_has_no_comparison_and_no_event(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    assert "compareWith" not in settings(night)
    assert older_source(night) == []
    assert night.condition("GapsClosed") == ("Unknown", "NothingToCompareWith")
    assert [event.reason for event in night.events] == ["Scanning", "NoSparkOperator", "GapsFound"]
    assert "comparison" not in night.status
    assert night.status["closedEventsTotal"] == 0


def test_the_bundle_in_a_config_map_is_mounted_and_a_lost_one_keeps_no_scan_from_starting(
    cluster: Make, gaps: Gaps
) -> None:
    night = scanned(cluster, gaps)
    begin(night)
    assert settings(night)["compareWith"] == "/etc/gapless/older.bundle.json.gz"
    (older,) = older_source(night)
    assert older == {
        "name": night.status["bundle"]["location"],
        "items": [{"key": "bundle.json.gz", "path": "older.bundle.json.gz"}],
        "optional": True,
    }


def test_a_bundle_in_a_volume_is_read_where_the_next_one_is_written(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, **VOLUME)
    first = night.begun[-1]
    assert night.status["bundle"]["claimName"] == "carry"
    begin(night)
    assert settings(night)["compareWith"] == f"/output/{first}.json"
    assert older_source(night) == []


def test_a_bundle_in_a_store_is_named_by_its_address(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, **BUCKET)
    first = night.begun[-1]
    begin(night)
    assert settings(night)["compareWith"] == f"s3://gaps/north/{first}.json"


@pytest.mark.parametrize(
    ("before", "after", "reached"),
    [
        ({}, VOLUME, "/etc/gapless/older.bundle.json.gz"),
        ({}, BUCKET, "/etc/gapless/older.bundle.json.gz"),
        (VOLUME, {"output": {}}, None),
        (BUCKET, {"output": {}}, None),
        (BUCKET, {"output": {"storageRef": {"name": "other-store"}}}, None),
        (
            VOLUME,
            {"output": {"storageRef": {"name": "audits"}}},
            None,
        ),
    ],
)
def test_after_a_move_of_the_output_the_previous_bundle_is_compared_if_reachable(
    cluster: Make, gaps: Gaps, before: dict[str, Any], after: dict[str, Any], reached: str | None
) -> None:
    night = scanned(cluster, gaps, **before)
    night.change(**after)
    begin(night)
    assert settings(night).get("compareWith") == reached
    if reached is None:
        night.answer(gaps)
        assert night.condition("GapsClosed") == ("Unknown", "NotComparable")
        assert "could not reach" in night.message("GapsClosed")
        begin(night)
        assert "compareWith" in settings(night), "the next one is compared again"


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"gapTopic": {"topic": "other"}}},
        {"source": {"gapTopic": {"topic": "gaps", "infer": True}}},
        {"source": {"events": {"topics": ["transfer"]}}},
        {"kafkaRef": {"name": "other"}},
    ],
)
def test_a_scan_of_another_source_is_not_compared(cluster: Make, gaps: Gaps, change: dict[str, Any]) -> None:
    night = scanned(cluster, gaps)
    night.change(**change)
    begin(night)
    assert "compareWith" not in settings(night)
    assert older_source(night) == []
    night.answer(NOTHING)
    assert night.condition("GapsClosed") == ("Unknown", "NotComparable")
    assert "is from a scan of another source" in night.message("GapsClosed")
    assert "comparison" not in night.status
    assert night.status["closedEventsTotal"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"limit": "First"},
        {"source": {"gapTopic": {"topic": "gaps", "skipStale": True}}},
        {"source": {"gapTopic": {"topic": "gaps", "detectorWindows": 9}}},
        {"historyLimits": {"successful": 1}},
        {"resend": {"diodeRef": {"name": "south"}}},
    ],
)
def test_a_scan_of_the_same_source_stays_comparable(cluster: Make, gaps: Gaps, change: dict[str, Any]) -> None:
    night = scanned(cluster, gaps)
    night.change(**change)
    begin(night)
    assert "compareWith" in settings(night)


def test_what_was_inferred_of_all_tails_is_not_closed_by_a_scan_that_infers_less(cluster: Make, gaps: Gaps) -> None:
    every_tail = {"gapTopic": {"topic": "gaps", "infer": True, "inferTails": "All"}}
    night = scanned(cluster, gaps, source=every_tail)
    night.change(source={"gapTopic": {"topic": "gaps", "infer": True}})
    begin(night)
    assert "compareWith" not in settings(night)
    night.answer(NOTHING)
    assert night.condition("GapsClosed") == ("Unknown", "NotComparable")


def test_a_spec_that_changes_while_a_scan_runs_does_not_spoil_its_comparison(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    begin(night)
    older = night.status["bundle"]
    night.change(source={"gapTopic": {"topic": "other"}})
    night.answer(NOTHING, reconciliation=counts(older["sha256"], listed=7))
    assert night.condition("GapsClosed") == ("True", "AllClosed")
    begin(night)
    assert "compareWith" not in settings(night), "what it found is of the topic of before"


def test_history_limits_keep_the_bundle_for_the_comparison(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, historyLimits={"successful": 0, "failed": 0})
    first = night.status["bundle"]["location"]
    assert first in night.names("ConfigMap")
    for _ in range(3):
        begin(night)
        assert older_source(night)[0]["name"] == first
        night.run()
        night.settle()
        assert first in night.names("ConfigMap")
        night.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
        night.settle()
        assert first in night.names("ConfigMap"), "the attempt failed: the next one compares with the same"
    again(night, NOTHING)
    assert night.condition("GapsClosed") == ("True", "AllClosed")
    assert first not in night.names("ConfigMap")
    assert night.status["bundle"]["location"] in night.names("ConfigMap")


# ------------------------------------------------------------------------------------------------ what is said of it


@pytest.mark.parametrize(
    ("found", "gaps_now", "said", "fragment", "closed"),
    [
        ({}, NOTHING, ("True", "AllClosed"), "listed 7 events; none is still missing.", 7),
        ({"new": 3}, {("transfer", 0): [(20, 22)]}, ("True", "AllClosed"), "New since then: 3.", 7),
        ({"still_open": 5}, {("transfer", 0): [(0, 4)]}, ("False", "StillMissing"), "5 of 7 events", 2),
        ({"still_open": 1, "unknown": 2}, {("transfer", 0): [(0, 0)]}, ("False", "StillMissing"), "Not checked: 2", 4),
        ({"unknown": 2}, NOTHING, ("Unknown", "NotAllLookedAt"), "2 of 7 events", 5),
        ({"filled": 3}, NOTHING, ("True", "AllClosed"), "listed 7 events; none is still missing.", 7),
        ({"never": 3}, NOTHING, ("True", "AllClosed"), "Permanently unavailable: 3.", 4),
    ],
)
def test_gaps_closed_reports_the_previous_bundle(
    *,
    cluster: Make,
    gaps: Gaps,
    found: dict[str, int],
    gaps_now: Gaps,
    said: tuple[str, str],
    fragment: str,
    closed: int,
) -> None:
    night = scanned(cluster, gaps)
    again(night, gaps_now, **found)
    assert night.condition("GapsClosed") == said
    assert fragment in night.message("GapsClosed")
    told = night.status["comparison"]
    assert (told["listed"], told["closed"], told["new"]) == (7, closed, found.get("new", 0))
    assert told["listed"] == told["closed"] + told["unavailable"] + told["open"] + told["unknown"]
    assert night.status["closedEventsTotal"] == closed
    assert night.condition("Ready")[0] == "True", "gaps that stay open are no failure of the scan"


@pytest.mark.parametrize(
    ("listed", "found", "sentence"),
    [
        ([(0, 6)], {}, "The previous bundle {id} listed 7 events; none is still missing."),
        ([(0, 6)], {"never": 3}, "The previous bundle {id} listed 7 events; none is still missing. Permanently"),
        ([(5, 5)], {}, "The previous bundle {id} listed 1 event; none is still missing."),
        ([(0, 6)], {"still_open": 5}, "5 of 7 events of the previous bundle {id} are still missing."),
        ([(0, 6)], {"still_open": 1, "new": 9}, "1 of 7 events of the previous bundle {id} is still missing. New"),
        ([(0, 6)], {"still_open": 2, "unknown": 1}, "2 of 7 events of the previous bundle {id} are still missing. Not"),
        ([(5, 5)], {"unknown": 1}, "1 of 1 event of the previous bundle {id} could not be checked; none of the others"),
        ([], {}, "The previous bundle {id} lists nothing."),
        ([], {"new": 7}, "The previous bundle {id} lists nothing. New since then: 7."),
    ],
)
def test_gaps_closed_has_a_message(
    cluster: Make, listed: list[tuple[int, int]], found: dict[str, int], sentence: str
) -> None:
    night = scanned(cluster, {("transfer", 0): listed})
    assert night.message("GapsClosed") == "There is no earlier bundle to compare with."
    expected = sentence.format(id=night.status["bundle"]["id"])
    again(night, NOTHING, **found)
    said = night.message("GapsClosed")
    assert said == expected if expected.endswith(".") else said.startswith(expected)


def test_what_a_real_comparison_writes_into_a_report_is_understood(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    now: Gaps = {("transfer", 0): [(12, 14)], ("transfer", 1): [], ("transfer", 2): [(3, 3)]}
    older, newer = (read_bundle_text(night.bundle_of(found)[0], name="one") for found in (gaps, now))
    begin(night)
    night.answer(now, reconciliation=reconcile(older, NewerFinding.of_bundle(newer)).as_json())
    assert night.condition("GapsClosed") == ("False", "StillMissing")
    told = night.status["comparison"]
    assert [told[name] for name in ("listed", "closed", "open", "unknown", "new")] == [7, 5, 2, 0, 2]
    begin(night)
    night.answer({("transfer", 0): []}, reconciliation=failed_comparison("There is no such file."))
    assert night.condition("GapsClosed") == ("Unknown", "ComparisonFailed")


def test_a_bundle_that_listed_nothing_has_nothing_that_could_be_missing(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, NOTHING)
    again(night, gaps, new=7)
    assert night.condition("GapsClosed") == ("True", "NothingWasMissing")
    assert "New since then: 7" in night.message("GapsClosed")


@pytest.mark.parametrize("outcome", ["unknown-events", "unreadable-records"])
def test_what_no_scan_can_check_has_not_closed_because_the_bundle_of_the_last_one_lists_nothing(
    cluster: Make, gaps: Gaps, outcome: str
) -> None:
    """Its records expired unread, or cannot be read: the second bundle is empty, and the third scan compares that."""
    night = scanned(cluster, gaps, source={"events": {"topics": ["t"]}})
    for unknown in (7, 0):
        begin(night)
        before = night.status["bundle"]
        compared = counts(before["sha256"], listed=before["missing"], unknown=unknown)
        night.run()
        night.step()
        said = {"outcome": outcome, "message": "Not everything is known.", "reconciliation": compared}
        night.end(night.log_of(NOTHING, **said), exit_code=4)
        night.settle()
        assert night.condition("GapsClosed") == ("Unknown", "NotAllLookedAt")
    assert "lists nothing, but this scan could not check everything" in night.message("GapsClosed")
    again(night, NOTHING)
    assert night.condition("GapsClosed") == ("True", "NothingWasMissing")


@pytest.mark.parametrize(
    ("reconciliation", "reason", "fragment"),
    [
        (None, "NotComparable", "could not reach"),
        ({"with": None, "problem": "There is no file."}, "ComparisonFailed", "There is no file."),
        (counts("0" * 64, listed=7), "ComparisonFailed", "another bundle"),
        ({**counts("same", listed=7), "listed": 8}, "ComparisonFailed", "do not add up"),
    ],
)
def test_a_comparison_that_failed_leaves_it_unknown_and_spoils_nothing_else(
    cluster: Make, gaps: Gaps, reconciliation: Any, reason: str, fragment: str
) -> None:
    night = scanned(cluster, gaps)
    begin(night)
    if isinstance(reconciliation, dict) and (reconciliation.get("with") or {}).get("sha256") == "same":
        reconciliation["with"]["sha256"] = night.status["bundle"]["sha256"]
    night.answer(NOTHING, **({} if reconciliation is None else {"reconciliation": reconciliation}))
    assert night.condition("GapsClosed") == ("Unknown", reason)
    assert fragment in night.message("GapsClosed")
    assert night.condition("Ready") == ("True", "NothingMissing")
    assert "comparison" not in night.status
    assert night.status["closedEventsTotal"] == 0


def test_an_event_tells_each_transition_once(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    again(night, gaps, still_open=7)
    again(night, gaps, still_open=7)
    again(night, NOTHING)
    again(night, NOTHING)
    ours = {"StillMissing", "AllClosed", "NothingWasMissing"}
    told = [(event.type, event.reason) for event in night.events if event.reason in ours]
    assert told == [("Warning", "StillMissing"), ("Normal", "AllClosed"), ("Normal", "NothingWasMissing")]


def test_a_failed_attempt_leaves_the_condition_and_the_generation_it_is_about(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    again(night, NOTHING)
    night.change(resend={"diodeRef": {"name": "south"}})
    begin(night)
    night.run()
    night.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
    night.settle()
    found = {condition["type"]: condition for condition in night.status["conditions"]}
    assert (found["GapsClosed"]["status"], found["GapsClosed"]["observedGeneration"]) == ("True", 1)
    assert found["Ready"]["observedGeneration"] == 2, "kubectl wait knows thereby that GapsClosed is of before"


# --------------------------------------------------------------------------------------------- totals and ages


def test_the_total_of_what_has_closed_never_falls(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    totals = []
    for found, gaps_now in [({"still_open": 5}, {("transfer", 0): [(0, 4)]}), ({}, NOTHING), ({}, gaps), ({}, NOTHING)]:
        again(night, gaps_now, **found)
        totals.append(night.status["closedEventsTotal"])
    assert totals == [2, 7, 7, 14]
    night.change(source={"gapTopic": {"topic": "other"}})
    begin(night)
    night.answer(NOTHING)
    assert night.status["closedEventsTotal"] == 14


def test_a_crash_before_the_status_is_written_counts_nothing_twice(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    begin(night)
    older = night.status["bundle"]
    night.run()
    night.step()
    night.end(night.log_of(NOTHING, reconciliation=counts(older["sha256"], listed=7)))
    night.step(writes=1)  # the ConfigMap of the new bundle, and then nothing
    assert "comparison" not in night.status
    night.settle()
    assert night.status["closedEventsTotal"] == 7
    assert night.condition("GapsClosed") == ("True", "AllClosed")


def test_gaps_are_as_old_as_the_first_scan_that_reported_them_until_all_have_closed(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    first = night.status["lastScanTime"]
    assert night.status["oldestGapSince"] == first
    again(night, {("transfer", 0): [(5, 5), (20, 29)]}, still_open=1, new=10)
    assert night.status["oldestGapSince"] == first
    again(night, {("transfer", 0): [(20, 29)]}, still_open=10)
    assert night.status["oldestGapSince"] == first, "conservative: which of the ten is how old is not kept"
    again(night, {("transfer", 0): [(50, 50)]}, new=1)
    assert night.status["oldestGapSince"] == night.status["lastScanTime"] != first
    again(night, NOTHING)
    assert "oldestGapSince" not in night.status


@pytest.mark.parametrize("report", [{}, {"reconciliation": {"with": None, "problem": "Gone."}}])
def test_without_a_comparison_gaps_do_not_become_younger(cluster: Make, gaps: Gaps, report: dict[str, Any]) -> None:
    night = scanned(cluster, gaps)
    first = night.status["oldestGapSince"]
    begin(night)
    night.answer({("transfer", 0): [(50, 50)]}, **report)
    assert night.status["oldestGapSince"] == first


def test_an_unchecked_event_may_be_the_oldest_gap(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps)
    first = night.status["oldestGapSince"]
    again(night, {("transfer", 0): [(50, 50)]}, unknown=1, new=1)
    assert night.status["oldestGapSince"] == first


def test_a_bundle_of_first_gaps_alone_proves_nothing_about_the_others(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY, limit="First")
    begin(night)
    content = night.bundle_of(gaps)[1]
    report = {"bundle": {**content, "missing": 3}}
    night.answer(gaps, **report)
    night.body["status"]["bundle"]["missing"] = 3  # what the bundle lists; the scan knows of 7
    first = night.status["oldestGapSince"]
    again(night, {("transfer", 0): [(10, 13)]}, new=4)
    assert night.condition("GapsClosed") == ("True", "AllClosed")
    assert night.status["oldestGapSince"] == first


# ------------------------------------------------------------------------------------------- what was only inferred


def test_what_was_only_inferred_is_shown_apart(cluster: Make, gaps: Gaps) -> None:
    night = cluster(source={"gapTopic": {"topic": "gaps", "infer": True}})
    night.step()
    _, named = night.bundle_of(gaps)
    partitions = night.report_of(gaps, named)["partitions"]
    for entry, inferred in zip(partitions, (4, 0, 0), strict=True):
        entry["inferred_events"] = inferred
    night.answer(gaps, infer=True, inferred_events=4, partitions=partitions)
    assert (night.status["missingEvents"], night.status["inferredEvents"]) == (7, 4)
    assert [(p["missing"], p["inferred"]) for p in night.status["partitions"]] == [(5, 4), (2, 0)]


def test_what_the_detector_no_longer_tracks_is_counted_apart(cluster: Make, gaps: Gaps) -> None:
    night = cluster(source={"gapTopic": {"topic": "gaps", "includeStale": True}})
    night.step()
    assert settings(night)["includeStale"] == "true"
    night.answer(gaps, stale_events=518)
    assert (night.status["missingEvents"], night.status["staleEvents"]) == (7, 518)
    by_default = cluster(source={"gapTopic": {"topic": "gaps"}})
    by_default.step()
    assert not {"includeStale", "skipStale"} & set(settings(by_default))
    by_default.answer(NOTHING, stale_events=518)
    assert (by_default.status["missingEvents"], by_default.status["staleEvents"]) == (0, 518)
    assert "resendManifest" not in by_default.status


def test_a_scan_without_inference_reports_none(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps, infer=False, inferred_events=0)
    assert "inferredEvents" not in night.status


# ---------------------------------------------------------------------------------------- one at a time for the state


def with_state(cluster: Make) -> Any:
    night = cluster(source={"events": {"topics": ["transfer"], "state": STATE}})
    night.step()
    night.run()
    night.step()
    return night


def test_the_next_attempt_waits_until_the_state_is_unused(cluster: Make, gaps: Gaps) -> None:
    night = with_state(cluster)
    pod = dict(night.pods)
    night.change(source={"events": {"topics": ["transfer", "alarm"], "state": STATE}})
    with night.slow_to_delete():
        assert [ref.name for ref in night.step().stop] == ["night-scan-uid-g1-1"]
        assert night.status["lastAttempt"]["outcome"] == "Stopped"
        plan = night.step()
    assert night.begun == ["night-scan-uid-g1-1"]
    assert [ref.name for ref in plan.delete] == ["night-scan-uid-g1-1-settings"]
    assert plan.requeue_after_seconds is not None
    assert "the Job night-scan-uid-g1-1 has ended" in night.message("Reconciling")
    night.pods = pod  # the Job is gone, and its pod takes its time
    night.step()
    assert night.begun == ["night-scan-uid-g1-1"]
    assert "the pod night-scan-uid-g1-1-pod has ended" in night.message("Reconciling")
    night.pods.clear()
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g2-1"]
    night.answer(gaps)
    assert night.condition("Ready") == ("True", "GapsFound")


def test_ended_pods_and_executors_do_not_block_the_next_attempt(cluster: Make, gaps: Gaps) -> None:
    night = with_state(cluster)
    night.end(night.log_of(gaps))
    night.settle()
    name = f"{night.begun[-1]}-pod"
    assert name in night.pods
    labels = {**night.pods[name]["metadata"]["labels"], "spark-role": "executor"}
    executor = {**night.pods[name], "status": {"phase": "Running"}, "of": "nobody"}
    executor["metadata"] = {**executor["metadata"], "name": "executor", "labels": labels}
    night.pods["executor"] = executor
    night.change(limit="First")
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g2-1"]


def test_what_is_invalid_is_reported_although_the_state_is_still_in_use(cluster: Make) -> None:
    night = with_state(cluster)
    night.change(engine={"image": "registry.example/unknown:1"})
    with night.slow_to_delete():
        night.step()
        assert night.status["lastAttempt"]["outcome"] == "Stopped"
        night.step()
    assert night.condition("Stalled") == ("True", "BadConfiguration")
    assert "spec.engine.image names registry.example/unknown:1" in night.message("Stalled")
    assert night.names("Job") == []
    assert night.begun == ["night-scan-uid-g1-1"]
