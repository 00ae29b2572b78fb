"""Two Diodes that encrypt for one receiver become ready at the same moment: only one of them assigns a turn."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from gapless_operator.common.settings import OperatorSettings
from gapless_operator.shell.controller import Controller
from gapless_operator.shell.metrics import Metrics

SenderCluster = Any
ENCRYPTED = {"encryption": {"certificateSecret": {"name": "receiver"}}}


class Api:
    """Takes what a controller writes; a status waits a moment for the other Diode's, as two slow requests would."""

    def __init__(self) -> None:
        self.meet = threading.Barrier(2)
        self.statuses: dict[str, dict[str, Any]] = {}

    def apply_status(self, body: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(threading.BrokenBarrierError):
            self.meet.wait(timeout=1.0)
        self.statuses[body["metadata"]["name"]] = status
        version = str(int(body["metadata"]["resourceVersion"]) + 1000)
        return {**body, "metadata": {**body["metadata"], "resourceVersion": version}, "status": status}

    def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        head = {**manifest["metadata"], "uid": manifest["metadata"]["name"], "resourceVersion": "1"}
        return {**manifest, "metadata": head}

    def delete(self, _namespace: str, _ref: Any) -> bool:
        return False

    def post_event(self, _manifest: dict[str, Any]) -> None:
        pass


def test_of_two_diodes_on_one_lane_that_become_ready_together_one_waits(cluster: SenderCluster) -> None:
    for name in ("hall", "vault"):
        cluster.diode(name, **ENCRYPTED)
        cluster.resend(f"over-{name}", diodeRef={"name": name})
    cluster.settle()
    cluster.start_pods()
    for name in ("hall", "vault"):
        assert cluster.summary(f"over-{name}")[0] == "DiodeNotReady"
        cluster.run_preflight(name)
    cache, gathering = cluster.cache_and_observer()
    api: Any = Api()
    made = Controller(OperatorSettings(), api, cache, gathering, Metrics(queue_length=lambda: 0), lambda: cluster.now)
    keys = [key for key in cluster.owner_keys() if key.kind == "Diode"]
    threads = [threading.Thread(target=made.reconcile, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(api.statuses) == ["hall", "vault"]
    ready = [c["status"] for status in api.statuses.values() for c in status["conditions"] if c["type"] == "Ready"]
    assert ready == ["True", "True"], "both are ready"
    assert sorted(len(status.get("active", ())) for status in api.statuses.values()) == [0, 1], (
        "and one has given a turn"
    )
