"""A stand-in for a node: it binds pods, reports their status, and serves their logs.

Must not know the product. No container runs: a test defines the behaviour of each pod, and the stand-in reports the
same status to the API server as a real kubelet would.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from kit.cluster.api_server import ApiError, ApiServer

NODE = "stand-in"
_TURN_SECONDS = 0.1


@dataclass(frozen=True)
class Runs:
    """A pod that runs, logs and ends."""

    log: str = ""
    exit_code: int = 0
    seconds: float = 0.3
    """Duration; negative to run until the pod is deleted."""
    reason: str = ""


@dataclass(frozen=True)
class Waits:
    """A pod whose first container does not start."""

    reason: str
    message: str = ""


Behaviour = Runs | Waits


@dataclass
class _Pod:
    behaviour: Behaviour
    began: float = 0.0
    reported: str = ""


@dataclass
class _State:
    pods: dict[str, _Pod] = field(default_factory=dict)
    logs: dict[tuple[str, str], str] = field(default_factory=dict)


class Kubelet:
    """Simulates the node for all pods of an API server; a context manager."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._state = _State()
        self._stop = threading.Event()
        self.behave: Callable[[dict[str, Any]], Behaviour | None] = lambda _pod: Runs()
        """Returns the behaviour of a new pod; None leaves it unscheduled for now."""
        self.silent: set[str] = set()
        """Namespaces whose log requests are never answered, as if the node were unreachable."""
        self.begun: list[dict[str, Any]] = []
        """All pods that have run, in order."""
        self.errors: list[BaseException] = []

    def __enter__(self) -> Self:
        self._serve()
        port = self._server.server_port
        self._register(port)
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._server.shutdown()
        self._server.server_close()

    # ---------------------------------------------------------------------------------------------------- the node

    def _register(self, port: int) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"diode": "north"}}}
        with contextlib.suppress(ApiError):
            self._api.request("POST", "/api/v1/nodes", node)
        status = {
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
            }
        }
        self._patch(f"/api/v1/nodes/{NODE}/status", status)

    def is_ready(self, *, ready: bool) -> None:
        """Set the node's condition Ready to True, or to Unknown."""
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "reason": "Test", "message": ""}
        self._patch(f"/api/v1/nodes/{NODE}/status", {"status": {"conditions": [condition]}})

    def _work(self) -> None:
        while not self._stop.wait(_TURN_SECONDS):
            try:
                # From the API server's cache, not from etcd, because this runs ten times a second.
                for pod in self._api.request("GET", "/api/v1/pods?resourceVersion=0")["items"]:
                    self._turn(pod)
            except (ApiError, OSError):
                continue  # the API server is unavailable, or another client was faster
            except BaseException as error:  # noqa: BLE001 -- the test reads it
                self.errors.append(error)

    def _turn(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            with contextlib.suppress(ApiError):
                self._api.request("DELETE", path, {"gracePeriodSeconds": 0})
            return
        pod_state = self._state.pods.get(metadata["uid"])
        if pod_state is None:
            behaviour = self.behave(pod)
            if behaviour is None:
                return
            pod_state = self._state.pods[metadata["uid"]] = _Pod(behaviour)
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
            self._api.request("POST", f"{path}/binding", binding)
            return
        if isinstance(pod_state.behaviour, Waits):
            self._report(pod, pod_state, "waiting", _waiting(pod, pod_state.behaviour))
        else:
            self._run(pod, pod_state, pod_state.behaviour)

    def _run(self, pod: dict[str, Any], pod_state: _Pod, behaviour: Runs) -> None:
        if not pod_state.began:
            pod_state.began = time.monotonic()
            self.begun.append(pod)
            self._state.logs[pod["metadata"]["namespace"], pod["metadata"]["name"]] = behaviour.log
            self._report(pod, pod_state, "running", _running(pod))
            return
        if behaviour.seconds >= 0 and time.monotonic() - pod_state.began >= behaviour.seconds:
            self._report(pod, pod_state, "ended", _ended(pod, behaviour))

    def _report(self, pod: dict[str, Any], pod_state: _Pod, what: str, status: dict[str, Any]) -> None:
        if pod_state.reported == what:
            return
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._patch(path, {"status": status})
        pod_state.reported = what

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        self._api.request("PATCH", path, body, content="application/merge-patch+json")

    # ------------------------------------------------------------------------------------------------------- logs

    def _serve(self) -> None:
        state, silent = self._state, self.silent

        class Logs(http.server.BaseHTTPRequestHandler):
            """Answers GET /containerLogs/NAMESPACE/POD/CONTAINER as a kubelet does."""

            def do_GET(self) -> None:
                address = urlsplit(self.path)
                parts = address.path.strip("/").split("/")
                while parts[1] in silent:
                    time.sleep(0.2)
                text = state.logs.get((parts[1], parts[2])) if parts[0] == "containerLogs" else None
                tail = parse_qs(address.query).get("tailLines")
                if text is not None and tail:
                    text = "".join(text.splitlines(keepends=True)[-int(tail[0]) :])
                content = b"" if text is None else text.encode()
                self.send_response(404 if text is None else 200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Logs)
        self._server.daemon_threads = True
        security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        security.load_cert_chain(self._api.keys / "kubelet.crt", self._api.keys / "kubelet.key")
        self._server.socket = security.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, name="kubelet-logs", daemon=True).start()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _container_statuses(
    containers: Iterable[dict[str, Any]], state: dict[str, Any], *, ready: bool
) -> list[dict[str, Any]]:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in containers
    ]


def _completed_init_containers(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the status of init containers that have completed."""
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}}
    statuses = _container_statuses(pod["spec"].get("initContainers") or (), state, ready=True)
    return {"initContainerStatuses": statuses} if statuses else {}


def _waiting(pod: dict[str, Any], behaviour: Waits) -> dict[str, Any]:
    state = {"waiting": {"reason": behaviour.reason, "message": behaviour.message}}
    return {"phase": "Pending", "containerStatuses": _container_statuses(pod["spec"]["containers"], state, ready=False)}


def _running(pod: dict[str, Any]) -> dict[str, Any]:
    state = {"running": {"startedAt": _now()}}
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": conditions,
        "containerStatuses": _container_statuses(pod["spec"]["containers"], state, ready=True),
        **_completed_init_containers(pod),
    }


def _ended(pod: dict[str, Any], behaviour: Runs) -> dict[str, Any]:
    reason = behaviour.reason or ("Error" if behaviour.exit_code else "Completed")
    started = pod["status"].get("startTime", _now())
    terminated = {"exitCode": behaviour.exit_code, "reason": reason, "startedAt": started, "finishedAt": _now()}
    return {
        "phase": "Failed" if behaviour.exit_code else "Succeeded",
        "containerStatuses": _container_statuses(pod["spec"]["containers"], {"terminated": terminated}, ready=False),
    }


def as_lines(*entries: dict[str, Any]) -> str:
    """Return a log with one JSON line per entry."""
    return "".join(json.dumps(entry) + "\n" for entry in entries)
