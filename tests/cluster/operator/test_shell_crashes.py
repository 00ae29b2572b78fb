"""The shell lives through crashes, an API server that is away, silent watches and rights that it does not have.

Containers are played: the tests set the status of pods as a kubelet would and serve their logs. Jobs, owner references
and garbage collection are those of Kubernetes' own controllers.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kit.cluster.operator_process import KILLED, PROGRAM

pytestmark = pytest.mark.integration

_TIMES = re.compile(r"(Time|At|started|finished|since|Since|updatedAt)$")


def settled(value: Any) -> Any:
    """A status without what differs from run to run: times, uids and what was measured."""
    if isinstance(value, dict):
        return {
            name: settled(entry)
            for name, entry in value.items()
            if not _TIMES.search(name) and name not in {"resendUid", "uid", "eventsPerSecond", "etaSeconds"}
        }
    if isinstance(value, list):
        return [settled(entry) for entry in value]
    return value


def story(place: Any) -> None:
    """One of each kind is applied; the Resend waits for the Diode, which waits for its preflight."""
    place.diode()
    place.resend()
    place.gap_scan()


def is_over(place: Any) -> bool:
    if place.condition("GapScan", "night", "Ready")[1] != "GapsFound":
        return False
    # The reason comes before the ledger is written, the status after.
    if place.condition("Resend", "again", "Succeeded") != ("True", "Sent"):
        return False
    diode = place.read("Diode", "north").get("status", {})
    return bool(place.ledger("north")) and not diode.get("active") and not diode.get("queued")


def final_state(place: Any, kubelet: Any) -> dict[str, Any]:
    """The state once nothing changes any more."""
    before: dict[str, Any] = {}
    for _ in range(20):
        found = state(place, kubelet)
        if found == before:
            return found
        before = found
        time.sleep(2)
    raise AssertionError(f"it never comes to rest: {before}")


def state(place: Any, kubelet: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, name in (("Diode", "north"), ("GapScan", "night"), ("Resend", "again")):
        found[kind] = settled(place.read(kind, name)["status"])
    objects = {
        path: place.names(path)
        for path in ("/apis/batch/v1 jobs", "/api/v1 configmaps", "/api/v1 persistentvolumeclaims")
    }
    told = {"status": found, "objects": objects}
    text = json.dumps(told).replace(place.name, "PLACE")
    for kind, name in (("Diode", "north"), ("GapScan", "night"), ("Resend", "again")):
        # The names of children have the beginning of their owner's uid.
        text = text.replace(f"{name}-{place.read(kind, name)['metadata']['uid'][:8]}-", f"{name}-UID-")
    begun = Counter(
        pod["metadata"]["labels"]["gapless.dev/role"]
        for pod in kubelet.begun
        if pod["metadata"]["namespace"] == place.name
    )
    return {**json.loads(text), "begun": begun}


def differences(found: Any, expected: Any) -> str:
    """What differs, line by line, because pytest cuts such differences short."""
    texts = [json.dumps(value, indent=1, sort_keys=True).splitlines() for value in (expected, found)]
    return "\n".join(difflib.unified_diff(*texts, "undisturbed", "found", n=2, lineterm=""))


@pytest.fixture(scope="module")
def undisturbed(
    watched_place: Callable[..., Any], kubelet: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The final state of the story when nothing happens to the operator."""
    with watched_place(tmp_path_factory.mktemp("undisturbed")) as (place, start):
        story(place)
        start()
        place.api.eventually(lambda: is_over(place), timeout_seconds=60, what="the end of the story")
        return final_state(place, kubelet)


def test_the_story_without_crashes(undisturbed: dict[str, Any]) -> None:
    assert undisturbed["begun"] == {"preflight": 1, "send": 1, "scan": 1}


def test_an_operator_that_dies_after_every_single_write_comes_to_the_same_end(
    place: Any, operator: Callable[..., Any], kubelet: Any, undisturbed: dict[str, Any]
) -> None:
    story(place)
    deaths = 0
    for _ in range(120):
        running = operator(kill_after_write=1, resync_seconds=0.5)
        place.api.eventually(
            lambda one=running: one.process.poll() is not None or one.ready(),
            timeout_seconds=60,
            what="an operator that serves, or one that has died",
        )
        if running.wait(6 if is_over(place) else 30) is None:
            assert is_over(place), "it neither writes nor is it done"
            break
        assert running.process.returncode == KILLED
        deaths += 1
    else:
        raise AssertionError("it never stops writing")
    assert deaths >= 12
    assert not differences(final_state(place, kubelet), undisturbed)


def test_a_crash_in_the_middle_and_a_late_restart_change_nothing(
    place: Any, operator: Callable[..., Any], kubelet: Any, undisturbed: dict[str, Any]
) -> None:
    story(place)
    running = operator()
    place.api.eventually(lambda: place.names("/apis/batch/v1 jobs"), what="a Job")
    running.kill()
    place.api.eventually(
        lambda: all(job["status"].get("conditions") for job in place.objects("/apis/batch/v1 jobs")),
        what="the end of all Jobs while nobody looks",
    )
    operator()
    place.api.eventually(lambda: is_over(place), timeout_seconds=60, what="the end of the story")
    assert not differences(final_state(place, kubelet), undisturbed)


def test_an_api_server_that_is_away_is_waited_for(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    place.gap_scan("before")
    place.until("GapScan", "before", "Ready", "True", "GapsFound")
    place.api.pause()
    try:
        assert running.wait(8) is None, "an outage does not end the operator"
    finally:
        place.api.resume()
    place.gap_scan("after")
    place.until("GapScan", "after", "Ready", "True", "GapsFound", seconds=60)
    assert any("API server" in str(line) for line in running.lines() if line["level"] == "warning")


def test_it_starts_before_the_api_server_does(place: Any, operator: Callable[..., Any]) -> None:
    place.gap_scan()
    place.api.pause()
    try:
        running = operator()
        assert running.wait(6) is None
        assert not running.healthy()
    finally:
        place.api.resume()
    place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=60)


def test_watches_that_go_silent_fail_the_probe_at_once_and_not_the_process(
    place: Any, operator: Callable[..., Any]
) -> None:
    running = operator(canary_seconds=1, stale_seconds=4)
    place.api.eventually(running.healthy, what="health")
    assert running.wait(5) is None
    assert running.healthy(), "the canary keeps it so"
    with place.api.frozen():
        place.api.eventually(lambda: running.probe_status() == 500, timeout_seconds=30, what="a failing probe")
        assert running.process.poll() is None
    place.api.eventually(running.healthy, timeout_seconds=60, what="health again")


def test_the_rights_of_a_role_that_knows_only_scans_are_enough_for_scans(
    place: Any, operator: Callable[..., Any], tmp_path: Any
) -> None:
    """The same verbs as the chart gives for a namespace of scans; nothing about Diodes, Resends and claims."""
    account = limited_account(place, tmp_path)
    running = operator(kubeconfig=account)
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    place.api.eventually(lambda: place.reasons("night") == ["Scanning", "GapsFound"], what="events")
    assert running.healthy()
    assert running.wait(3) is None
    assert not [line for line in running.lines() if line["level"] in {"warning", "error"}]
    (serving,) = (line for line in running.lines() if line["event"] == "serving")
    assert serving["kinds"] == ["ConfigMap", "GapScan", "Job", "KafkaConnection", "Pod", "StorageLocation"]


def limited_account(place: Any, folder: Any) -> Any:
    """A kubeconfig for a service account with few rights in the place."""
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place.name}"
    place.api.request("POST", f"/api/v1/namespaces/{place.name}/serviceaccounts", {"metadata": {"name": "limited"}})
    read, write = ["get", "list", "watch"], ["create", "patch", "delete"]
    rules = [
        {"apiGroups": ["gapless.dev"], "resources": ["gapscans"], "verbs": read},
        {"apiGroups": ["gapless.dev"], "resources": ["kafkaconnections", "storagelocations"], "verbs": read},
        {"apiGroups": ["gapless.dev"], "resources": ["gapscans/status"], "verbs": ["get", "patch"]},
        {"apiGroups": ["gapless.dev"], "resources": ["kafkaconnections/status"], "verbs": ["patch"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*read, *write]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*read, *write]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    place.api.request("POST", f"{root}/roles", {"metadata": {"name": "limited"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": place.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"}
    binding = {"metadata": {"name": "limited"}, "subjects": [subject], "roleRef": role}
    place.api.request("POST", f"{root}/rolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = place.api.request("POST", f"/api/v1/namespaces/{place.name}/serviceaccounts/limited/token", request)
    found = json.loads(place.api.kubeconfig.read_text())
    found["users"][0]["user"] = {"token": token["status"]["token"]}
    file = folder / "limited.kubeconfig"
    file.write_text(json.dumps(found))
    return file


def test_a_kind_that_may_not_be_listed_is_not_taken_for_one_that_is_not_there(
    place: Any, operator: Callable[..., Any], tmp_path: Any
) -> None:
    """Without a look at Jobs every scan would be begun again; so nothing is begun, until it may look."""
    limited = limited_account(place, tmp_path)
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place.name}/roles/limited"
    rules = place.api.request("GET", root)["rules"]
    few = [rule for rule in rules if rule["resources"] != ["jobs"]]
    place.api.request("PATCH", root, {"rules": few}, content="application/merge-patch+json")
    running = operator(kubeconfig=limited)
    place.gap_scan()
    place.api.eventually(  # each kind that begins Jobs has a warning of its own, in no order
        lambda: [
            line
            for line in running.lines()
            if line["event"] == "not reconciled" and "GapScans wait, because jobs could not be listed" in line["reason"]
        ],
        what="a warning about GapScans",
    )
    assert "status" not in place.read("GapScan", "night")
    place.api.request("PATCH", root, {"rules": rules}, content="application/merge-patch+json")
    place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=60)


def test_the_spark_operator_may_come_later(place: Any, operator: Callable[..., Any]) -> None:
    """The definition is a small stand-in for the Spark operator's of 836 KB; the end-to-end tests have the real one."""
    running = operator()
    place.gap_scan(engine={"type": "SparkApplication"})
    place.until("GapScan", "night", "Stalled", "True", "EngineUnavailable")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version["subresources"] = {"status": {}}
    names = {"kind": "SparkApplication", "plural": "sparkapplications", "singular": "sparkapplication"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "sparkapplications.sparkoperator.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},  # the group's end is a protected one
        },
        "spec": {"group": "sparkoperator.k8s.io", "names": names, "scope": "Namespaced", "versions": [version]},
    }
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    place.api.request("POST", root, definition)
    try:
        applications = "/apis/sparkoperator.k8s.io/v1beta2 sparkapplications"
        (name,) = place.api.eventually(lambda: _tried(lambda: place.names(applications)), what="a SparkApplication")
        place.until("GapScan", "night", "Stalled", "False", "NotStalled")
        # What the Spark operator would say when its controller gives up.
        state = {"status": {"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": "no such account"}}}
        where = f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{place.name}/sparkapplications/{name}/status"
        place.api.request("PATCH", where, state, content="application/merge-patch+json")
        place.until("GapScan", "night", "Ready", "False", "ScanFailed", seconds=60)
        assert "no such account" in str(place.read("GapScan", "night")["status"]["conditions"])
        assert running.healthy()
    finally:
        place.api.request("DELETE", f"{root}/sparkapplications.sparkoperator.k8s.io")


def _tried(look: Callable[[], Any]) -> Any:
    from kit.cluster.api_server import ApiError  # noqa: PLC0415

    try:
        return look()
    except ApiError:
        return None


def test_a_whole_cluster_is_served_without_naming_namespaces(place: Any, operator: Callable[..., Any]) -> None:
    operator(namespace=None)
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")


def test_without_a_cluster_it_says_so_in_one_sentence(tmp_path: Any) -> None:
    import os  # noqa: PLC0415
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    ended = subprocess.run([sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "set KUBECONFIG" in ended.stderr
