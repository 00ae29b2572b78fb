"""The shell against a real API server: what users apply is carried out, told and tidied up.

Containers are played: the tests set the status of pods as a kubelet would and serve their logs.
"""

from __future__ import annotations

import base64
import gzip
import time
from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.bundle.reader import read_bundle_text
from kit.cluster.api_server import ApiError
from kit.cluster.kubelet import Runs, Waits

pytestmark = pytest.mark.integration


JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


def refuses(api: Any, path: str, body: dict[str, Any]) -> bool:
    try:
        api.request("POST", path, body)
    except ApiError:
        return True
    return False


def test_a_gap_scan_is_answered_told_and_measured(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    scan = place.read("GapScan", "night")
    status = scan["status"]
    assert (status["missingEvents"], status["missingRanges"]) == (7, 3)
    assert status["observedGeneration"] == scan["metadata"]["generation"] == 1
    assert status["resendManifest"].startswith("# Resends the 7 events")
    (kept,) = (m for m in place.objects("/api/v1 configmaps") if m["metadata"]["name"] == status["bundle"]["location"])
    content = gzip.decompress(base64.b64decode(kept["binaryData"][status["bundle"]["key"]]))
    assert read_bundle_text(content, name="kept").missing == 7
    place.api.eventually(lambda: place.reasons("night") == ["Scanning", "GapsFound"], what="events")
    found = running.metrics()
    labels = f'name="night",namespace="{place.name}"'
    assert f"gapless_missing_events{{{labels}}} 7.0" in found
    assert 'gapless_reconciles_total{kind="GapScan",outcome="ok"}' in found
    assert 'gapless_watch_age_seconds{kind="GapScan"}' in found
    assert running.healthy()


def test_the_next_scan_says_what_became_of_the_gaps_and_kubectl_can_wait_for_it(
    place: Any, operator: Callable[..., Any]
) -> None:
    running = operator()
    place.gap_scan()
    place.until("GapScan", "night", "GapsClosed", "Unknown", "NothingToCompareWith")
    older = place.read("GapScan", "night")["status"]["bundle"]
    open_now = {("transfer", 0): [(5, 5)], ("transfer", 1): []}
    counts = {"listed": 7, "closed": 6, "filled": 0, "unavailable": 0, "open": 1, "unknown": 0, "new": 0}
    told = {"with": {"id": older["id"], "sha256": older["sha256"]}, **counts}
    place.behave = lambda _pod: Runs(place.scan_log(open_now, reconciliation=told))
    place.gap_scan(limit="First")
    place.until("GapScan", "night", "GapsClosed", "False", "StillMissing")
    (newest,) = (job for job in place.objects("/apis/batch/v1 jobs") if job["metadata"]["name"].endswith("-g2-1"))
    volumes = newest["spec"]["template"]["spec"]["volumes"]
    sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources", ())]
    mounted = [source["configMap"]["name"] for source in sources if "configMap" in source]
    assert older["location"] in mounted
    between = place.read("GapScan", "night")["status"]
    assert between["comparison"] == {
        "bundleId": older["id"],
        **{name: counts[name] for name in ("listed", "closed", "unavailable", "open", "unknown", "new")},
    }
    last = {"listed": 1, "closed": 1, "filled": 0, "unavailable": 0, "open": 0, "unknown": 0, "new": 0}
    told = {"with": {"id": between["bundle"]["id"], "sha256": between["bundle"]["sha256"]}, **last}
    place.behave = lambda _pod: Runs(place.scan_log({("transfer", 0): []}, reconciliation=told))
    place.gap_scan(limit="All")
    place.api.kubectl("wait", "--for=condition=GapsClosed", "gapscan/night", f"-n={place.name}", "--timeout=30s")
    place.until("GapScan", "night", "GapsClosed", "True", "AllClosed")
    wanted = ["StillMissing", "AllClosed"]
    place.api.eventually(lambda: [r for r in place.reasons("night") if r in wanted] == wanted, what="events")
    labels = f'name="night",namespace="{place.name}"'
    for line in (f"gapless_closed_events_total{{{labels}}} 7.0", f"gapless_oldest_gap_seconds{{{labels}}} 0.0"):
        place.api.eventually(lambda line=line: line in running.metrics(), what=line)


def test_nothing_is_written_into_what_users_own(place: Any, operator: Callable[..., Any]) -> None:
    operator()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    metadata = place.read("GapScan", "night")["metadata"]
    assert "annotations" not in metadata
    assert "finalizers" not in metadata
    managers = {(m["manager"], m.get("subresource", "")) for m in metadata["managedFields"]}
    assert managers == {("user", ""), ("gapless-operator", "status")}


def test_a_finished_scan_causes_no_more_writes(place: Any, operator: Callable[..., Any]) -> None:
    operator()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    version = place.read("GapScan", "night")["metadata"]["resourceVersion"]
    time.sleep(4)
    assert place.read("GapScan", "night")["metadata"]["resourceVersion"] == version


def test_deleting_a_scan_takes_all_that_belongs_to_it_along(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    place.api.request("DELETE", place.path("GapScan", "night"))
    place.api.eventually(
        lambda: not place.names("/apis/batch/v1 jobs") and not place.names("/api/v1 configmaps"), what="the end of all"
    )
    place.api.eventually(lambda: 'name="night"' not in running.metrics(), what="the end of the series")


def test_an_image_that_cannot_be_pulled_is_said(place: Any, operator: Callable[..., Any]) -> None:
    place.behave = lambda _pod: Waits("ImagePullBackOff", "no such image")
    operator()
    place.gap_scan()
    place.until("GapScan", "night", "Stalled", "True", "ImagePullFailed", seconds=60)
    place.api.eventually(lambda: not place.names("/apis/batch/v1 jobs"), what="the end of the Job")
    assert "no such image" in str(place.read("GapScan", "night")["status"]["conditions"])


def test_a_broker_that_is_away_is_said_and_the_next_run_recovers(place: Any, operator: Callable[..., Any]) -> None:
    place.behave = lambda _pod: Runs("gapless: Kafka at kafka:9092 cannot be reached; check it.\n", exit_code=3)
    operator()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "False", "SourceUnreachable")
    place.behave = place.as_usual
    place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=60)


def test_a_resend_waits_for_its_diode_and_is_sent(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    place.resend()
    place.until("Resend", "again", "Accepted", "False", "DiodeNotFound")
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    place.until("Resend", "again", "Succeeded", "True", "Sent")
    status = place.read("Resend", "again")["status"]
    assert status["progress"]["sent"] == 7
    assert [entry["resend"] for entry in place.ledger("north")] == ["again"]
    assert 'outcome="sent"} 7.0' in running.metrics()
    assert f'gapless_diode_active_resends{{name="north",namespace="{place.name}"}} 0.0' in running.metrics()


def test_a_second_like_it_is_not_sent_again(place: Any, operator: Callable[..., Any], kubelet: Any) -> None:
    operator()
    place.diode()
    place.resend()
    place.until("Resend", "again", "Succeeded", "True", "Sent")
    place.resend("twin")
    place.until("Resend", "twin", "Succeeded", "True", "AlreadySent")
    sent = [pod for pod in kubelet.begun if pod["metadata"]["namespace"] == place.name]
    assert [p["metadata"]["labels"]["gapless.dev/role"] for p in sent].count("send") == 1


def test_log_lines_are_json_with_ids_one_for_each_transition(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    uid = place.read("GapScan", "night")["metadata"]["uid"]
    told = [line for line in running.lines() if line["event"] == "transition" and line["uid"] == uid]
    ready = [(line["status"], line["reason"]) for line in told if line["condition"] == "Ready"]
    assert ready == [("Unknown", "NeverScanned"), ("True", "GapsFound")]
    assert {line["name"] for line in told} == {"night"}


def test_a_policy_that_forbids_jobs_is_said_and_lifted(place: Any, operator: Callable[..., Any]) -> None:
    root, name = "/apis/admissionregistration.k8s.io/v1", f"no-jobs-{place.name}"
    jobs = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}]
    here = {"matchLabels": {"kubernetes.io/metadata.name": place.name}}
    policy: dict[str, Any] = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": jobs, "namespaceSelector": here},
            "validations": [{"expression": "false", "message": "no Jobs in this house"}],
        },
    }
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding"}
    binding["spec"] = {"policyName": name, "validationActions": ["Deny"]}
    place.api.request("POST", f"{root}/validatingadmissionpolicies", policy)
    place.api.request("POST", f"{root}/validatingadmissionpolicybindings", binding)
    probe = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "probe"}, "spec": {"template": JOB_TEMPLATE}}
    jobs_path = f"/apis/batch/v1/namespaces/{place.name}/jobs"
    place.api.eventually(lambda: refuses(place.api, f"{jobs_path}?dryRun=All", probe), what="the policy's effect")
    operator()
    place.gap_scan()
    place.until("GapScan", "night", "Stalled", "True", "WriteRefused")
    assert "no Jobs in this house" in str(place.read("GapScan", "night")["status"]["conditions"])
    place.api.request("DELETE", f"{root}/validatingadmissionpolicybindings/{name}")
    place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=60)
    assert place.condition("GapScan", "night", "Stalled") == ("False", "NotStalled")
    place.api.request("DELETE", f"{root}/validatingadmissionpolicies/{name}")
