"""The cache keeps what reconcilers read and nothing large."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless_api.v1alpha1.resend import Resend
from gapless_operator.common.observed import LEDGER_ROLE, ObservedJob, ObservedPod
from gapless_operator.shell.api.kinds import CONFIG_MAP, DIODE, JOB, POD, RESEND
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.cache.trimming import reference

LARGE = "x" * 100_000


def body(kind: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"} | more.pop("metadata", {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def kept(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    cache = Cache()
    cache.store(given)
    found = cache.get(kind, "n", "a")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (RESEND, body("Resend", spec={"bundle": {"inline": LARGE}})),
        (RESEND, body("Resend", metadata={"managedFields": [{"fieldsV1": {LARGE: {}}}]})),
        (
            RESEND,
            body("Resend", metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": LARGE}}),
        ),
        (CONFIG_MAP, body("ConfigMap", data={"bundle": LARGE})),
        (CONFIG_MAP, body("ConfigMap", binaryData={"bundle": LARGE}, metadata={"labels": {"gapless.dev/role": "x"}})),
        (JOB, body("Job", spec={"template": {"spec": LARGE}, "selector": LARGE})),
        (POD, body("Pod", spec={"containers": [{"name": "send", "command": [LARGE]}], "volumes": [LARGE]})),
        (POD, body("Pod", metadata={"labels": {"example.com/team": LARGE}, "finalizers": [LARGE]})),
        (POD, body("Pod", status={"phase": "Running", "containerStatuses": [{"name": "send", "imageID": LARGE}]})),
        (POD, body("Pod", status={"conditions": [{"type": "Ready", "status": "False", "message": LARGE}]})),
    ],
)
def test_nothing_large_is_kept(kind: Any, given: dict[str, Any]) -> None:
    assert len(json.dumps(given)) > 100_000
    assert len(json.dumps(kept(kind, given))) < 1000


def test_a_ledger_is_not_trimmed() -> None:
    given = body("ConfigMap", data={"ledger.json": LARGE}, metadata={"labels": {"gapless.dev/role": LEDGER_ROLE}})
    assert kept(CONFIG_MAP, given)["data"] == given["data"]


def test_a_resend_without_its_bundle_is_still_one_and_says_which_bundle_it_was() -> None:
    spec = {"diodeRef": {"name": "d"}, "kafkaRef": {"name": "k"}, "bundle": {"inline": LARGE}}
    given = body("Resend", spec=spec, status={"attempt": 3}) | {"apiVersion": "gapless.dev/v1alpha1"}
    resend = Resend.from_resource(kept(RESEND, given))
    assert resend.spec.bundle is not None
    assert resend.spec.bundle.inline == reference(LARGE)
    assert resend.status.attempt == 3
    assert reference(LARGE) != reference(LARGE + "x")
    assert given["spec"]["bundle"]["inline"] is LARGE, "what others hold is not changed"


def test_trimmed_jobs_and_pods_have_all_that_reconcilers_read() -> None:
    labels = {"batch.kubernetes.io/job-name": "j"}
    job = body("Job", spec={"suspend": True, "template": {}}, status={"active": 2})
    state = {"terminated": {"exitCode": 4, "reason": "Error", "finishedAt": "2026-11-20T10:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "send", "state": state}]}
    spec = {"nodeName": "node", "containers": [{"name": "send", "image": "x"}]}
    pod = body("Pod", spec=spec, status=status, metadata={"labels": labels})
    assert ObservedJob.of(kept(JOB, job)) == ObservedJob.of(job)
    assert ObservedPod.of(kept(POD, pod)) == ObservedPod.of(pod)
    init = [{"name": "fetch"}, {"name": "sql", "restartPolicy": "Always"}]
    beside = [{"name": name, "state": {"terminated": {"exitCode": 143}}} for name in ("fetch", "sql")]
    for number in (1, 2):
        both = {**status, "initContainerStatuses": beside[-number:]}
        pod = body("Pod", spec={**spec, "initContainers": init[-number:]}, status=both, metadata={"labels": labels})
        assert ObservedPod.of(kept(POD, pod)) == ObservedPod.of(pod)
        assert ObservedPod.of(pod).exit_code == (4 if number == 1 else 143)
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    waiting = {"name": "send", "state": {"waiting": {"reason": "ErrImagePull"}}, "lastState": {"terminated": state}}
    for status in (
        {"phase": "Pending", "conditions": [{"type": "Initialized", "status": "False"}, unscheduled]},
        {"phase": "Pending", "reason": "Evicted", "containerStatuses": [waiting], "podIP": "192.0.2.1"},
        {},
    ):
        pod = body("Pod", spec=spec, status=status, metadata={"labels": labels})
        assert ObservedPod.of(kept(POD, pod)) == ObservedPod.of(pod)
        assert kept(POD, pod)["status"].get("podIP") == status.get("podIP")


def test_a_container_that_runs_beside_the_others_says_nothing_about_the_beginning_and_end_of_a_pod() -> None:
    spec = {"containers": [{"name": "worker"}], "initContainers": [{"name": "sql", "restartPolicy": "Always"}]}
    running = {"running": {"startedAt": "2026-11-20T10:00:00Z"}}

    def seen(sql: dict[str, Any], worker: dict[str, Any]) -> ObservedPod:
        states = {
            "initContainerStatuses": [{"name": "sql", **sql}],
            "containerStatuses": [{"name": "worker", **worker}],
        }
        return ObservedPod.of(body("Pod", spec=spec, status={"phase": "Running", **states}))

    waits = {"state": {"waiting": {"reason": "PodInitializing"}}}
    assert not seen({"state": running}, waits).has_begun
    pulls = seen({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}, waits)
    assert (pulls.has_begun, pulls.waiting_reason, pulls.waiting_message) == (False, "ImagePullBackOff", "no")
    ended = {"exitCode": 2, "message": "gapless: No Java."}
    crashed = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    assert not seen(crashed, waits).has_begun
    both = seen(crashed, {"state": running})
    assert (both.has_begun, both.last_exit_code, both.termination_message) == (True, 2, "gapless: No Java.")
    own = seen(crashed, {"state": running, "lastState": {"terminated": {"exitCode": 3, "message": "gapless: Away."}}})
    assert (own.last_exit_code, own.termination_message) == (3, "gapless: Away.")


def test_objects_share_their_names_and_short_texts_and_no_others() -> None:
    def parsed() -> dict[str, Any]:
        at = {"type": "Ready", "lastTransitionTime": "2026-11-20T10:00:00Z", "message": LARGE}
        content: dict[str, Any] = json.loads(json.dumps(body("Diode", status={"conditions": [at], "active": 3})))
        return content

    one, other = kept(DIODE, parsed()), kept(DIODE, parsed())
    assert one == other == parsed()
    (first,), (second,) = one["status"]["conditions"], other["status"]["conditions"]
    assert all(name is same for name, same in zip(first, second, strict=True))
    assert first["lastTransitionTime"] is second["lastTransitionTime"]
    assert first["message"] is not second["message"]
