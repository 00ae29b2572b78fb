"""Watches whose place the API server has forgotten (410), among a thousand objects: all that was missed is noticed.

Nothing runs that should not, nothing has stopped that should run, and no status is false.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import ApiClient, Configuration, CustomObjectsApi

from kit.cluster.api_server import ApiError
from kit.cluster.kubelet import Runs
from kit.machine.processes import wait_until
from kit.network.forwarder import forwarder

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

WAITING = int(os.environ.get("GAPLESS_OBJECTS", "1000"))
"""Suspended Resends beside those that send; 5,000 take one minute."""
WAITED_FOR = 300
"""Those whose status is waited for."""
SUSPENDED = '"condition": "Ready", "status": "False", "reason": "Suspended"'
"""What the operator logs about each of them."""


def is_sender(pod: dict[str, Any]) -> bool:
    return pod["metadata"]["labels"].get("gapless.dev/role") == "send"


def sending(place: Any) -> dict[str, str]:
    """Return the IDs of the pods that send, by their Resends."""
    return {
        pod["metadata"]["labels"]["gapless.dev/name"]: pod["metadata"]["uid"]
        for pod in place.objects("/api/v1 pods")
        if is_sender(pod) and pod["status"]["phase"] in {"Pending", "Running"}
    }


def reasons(place: Any) -> Counter[str]:
    """Return how many Resends give which reason in the condition Ready."""
    resends = place.objects("/apis/gapless.dev/v1alpha1 resends")
    listed = [each.get("status", {}).get("conditions", []) for each in resends]
    return Counter(
        next((each["reason"] for each in conditions if each["type"] == "Ready"), "") for conditions in listed
    )


def create_waiting(place: Any) -> None:
    """Create the suspended Resends, over connections that stay open."""
    settings = Configuration()
    config.load_kube_config(str(place.api.kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
    offsets = {"topic": "transfer", "partition": 0, "from": 0, "to": 6}
    spec = {"diodeRef": {"name": "to-kept"}, "kafkaRef": {"name": "up"}, "offsets": offsets, "suspend": True}
    with ApiClient(settings) as client, ThreadPoolExecutor(4) as threads:
        objects = CustomObjectsApi(client)

        def create(number: int) -> None:
            body = {"apiVersion": "gapless.dev/v1alpha1", "kind": "Resend", "spec": spec}
            named = {**body, "metadata": {"name": f"r{number}"}}
            objects.create_namespaced_custom_object("gapless.dev", "v1alpha1", place.name, "resends", named)

        list(threads.map(create, range(WAITING)))


def is_forgotten(place: Any, version: str) -> bool:
    """Whether a watch from a resource version ends with 410."""
    try:
        event = place.api.request(
            "GET", f"{place.path('Resend')}?watch=true&resourceVersion={version}&timeoutSeconds=5"
        )
    except ApiError as error:
        if error.status == 429:  # it is still starting
            return False
        raise
    return bool(event["object"]["code"] == 410)


def test_what_happens_while_watches_are_cut_and_forgotten_is_done_afterwards(
    place: Any, operator: Callable[..., Any], tmp_path: Path
) -> None:
    usual = place.as_usual
    place.behave = lambda pod: Runs(seconds=-1) if is_sender(pod) else usual(pod)
    with forwarder(place.api.port) as link:
        running = operator(kubeconfig=place.api.kubeconfig_through(link.port, tmp_path), relist_seconds=3600)
        for name in ("kept", "suspended", "deleted", "new"):
            place.diode(f"to-{name}")
        for name in ("kept", "suspended", "deleted"):
            place.resend(name, diodeRef={"name": f"to-{name}"})
        place.api.eventually(lambda: len(sending(place)) == 3, timeout_seconds=60, what="three pods that send")
        before, seen = sending(place), place.read("Resend", "kept")["metadata"]["resourceVersion"]
        link.cut()
        create_waiting(place)
        place.resend("suspended", diodeRef={"name": "to-suspended"}, suspend=True)
        place.api.request("DELETE", place.path("Resend", "deleted"))
        place.resend("new", diodeRef={"name": "to-new"})
        place.api.pause()
        place.api.resume()
        wait_until(lambda: is_forgotten(place, seen), what="the end of the memory of the API server")
        link.mend()
        wait_until(
            lambda: set(sending(place)) == {"kept", "new"}, timeout_seconds=600, what="the pods that should send"
        )
        place.until("Resend", "suspended", "Ready", "False", "Suspended", seconds=600)
        # Its log says so without a list of megabytes. The status of all would take minutes; no status claims nothing.
        wait_until(lambda: running.log.read_text().count(SUSPENDED) > WAITED_FOR, what="the status of some of them")
        said = reasons(place)
        assert said["Suspended"] > WAITED_FOR
        assert said["Suspended"] + said[""] + len(sending(place)) == WAITING + 3
        assert sending(place) == {"kept": before["kept"], "new": sending(place)["new"]}
        assert running.process.poll() is None
