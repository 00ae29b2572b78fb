"""Owns a stand-in for a node: it takes pods, says in their status how they fare, and serves their logs.

Must not know the product. No container runs here; a test says what each pod does, and the API server, the Job
controller and whoever watches are told what a real kubelet would tell them.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from kit.cluster.api_server import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.cluster.api_server import ApiServer

NODE = "stand-in"
_TURN_SECONDS = 0.1


@dataclass(frozen=True)
class Runs:
    """A pod that runs, writes a log and ends."""

    log: str = ""
    exit_code: int = 0
    seconds: float = 0.3
    """How long it runs; a negative number for until it is deleted."""
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
    told: str = ""


@dataclass
class _Book:
    pods: dict[str, _Pod] = field(default_factory=dict)
    logs: dict[tuple[str, str], str] = field(default_factory=dict)


class Kubelet:
    """Plays a node for all pods of an API server; a context manager."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._book = _Book()
        self._stop = threading.Event()
        self.behave: Callable[[dict[str, Any]], Behaviour | None] = lambda _pod: Runs()
        """What a pod does, asked once when it is taken; ``None`` to leave it unscheduled for now."""
        self.silent: set[str] = set()
        """Namespaces of whose pods it never answers for a log, as when its node is cut off."""
        self.begun: list[dict[str, Any]] = []
        """All pods that ever ran, in order."""
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
        """Let the cluster see the node as ready, or as lost."""
        said = {"type": "Ready", "status": "True" if ready else "Unknown", "reason": "Test", "message": ""}
        self._patch(f"/api/v1/nodes/{NODE}/status", {"status": {"conditions": [said]}})

    def _work(self) -> None:
        while not self._stop.wait(_TURN_SECONDS):
            try:
                # From what the API server remembers, not from etcd: it is asked ten times a second.
                for pod in self._api.request("GET", "/api/v1/pods?resourceVersion=0")["items"]:
                    self._turn(pod)
            except (ApiError, OSError):
                continue  # the API server is away, or somebody was quicker
            except BaseException as error:  # noqa: BLE001 -- told to the test
                self.errors.append(error)

    def _turn(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            with contextlib.suppress(ApiError):
                self._api.request("DELETE", path, {"gracePeriodSeconds": 0})
            return
        known = self._book.pods.get(metadata["uid"])
        if known is None:
            behaviour = self.behave(pod)
            if behaviour is None:
                return
            known = self._book.pods[metadata["uid"]] = _Pod(behaviour)
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
            self._api.request("POST", f"{path}/binding", binding)
            return
        if isinstance(known.behaviour, Waits):
            self._tell(pod, known, "waiting", _waiting(pod, known.behaviour))
        else:
            self._run(pod, known, known.behaviour)

    def _run(self, pod: dict[str, Any], known: _Pod, behaviour: Runs) -> None:
        if not known.began:
            known.began = time.monotonic()
            self.begun.append(pod)
            self._book.logs[pod["metadata"]["namespace"], pod["metadata"]["name"]] = behaviour.log
            self._tell(pod, known, "running", _running(pod))
            return
        if behaviour.seconds >= 0 and time.monotonic() - known.began >= behaviour.seconds:
            self._tell(pod, known, "ended", _ended(pod, behaviour))

    def _tell(self, pod: dict[str, Any], known: _Pod, what: str, status: dict[str, Any]) -> None:
        if known.told == what:
            return
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._patch(path, {"status": status})
        known.told = what

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        self._api.request("PATCH", path, body, content="application/merge-patch+json")

    # --------------------------------------------------------------------------------------------------- its logs

    def _serve(self) -> None:
        book, silent = self._book, self.silent

        class Logs(http.server.BaseHTTPRequestHandler):
            """GET /containerLogs/NAMESPACE/POD/CONTAINER, as a kubelet answers it."""

            def do_GET(self) -> None:
                address = urlsplit(self.path)
                parts = address.path.strip("/").split("/")
                while parts[1] in silent:
                    time.sleep(0.2)
                text = book.logs.get((parts[1], parts[2])) if parts[0] == "containerLogs" else None
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


def _containers(pod: dict[str, Any], state: dict[str, Any], *, ready: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _before(pod: dict[str, Any]) -> dict[str, Any]:
    """What the status says of init containers once they have ended."""
    ending = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}}
    found = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": ending,
        }
        for container in pod["spec"].get("initContainers") or ()
    ]
    return {"initContainerStatuses": found} if found else {}


def _waiting(pod: dict[str, Any], behaviour: Waits) -> dict[str, Any]:
    state = {"waiting": {"reason": behaviour.reason, "message": behaviour.message}}
    return {"phase": "Pending", "containerStatuses": _containers(pod, state, ready=False)}


def _running(pod: dict[str, Any]) -> dict[str, Any]:
    state = {"running": {"startedAt": _now()}}
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": conditions,
        "containerStatuses": _containers(pod, state, ready=True),
        **_before(pod),
    }


def _ended(pod: dict[str, Any], behaviour: Runs) -> dict[str, Any]:
    reason = behaviour.reason or ("Error" if behaviour.exit_code else "Completed")
    started = pod["status"].get("startTime", _now())
    ending = {"exitCode": behaviour.exit_code, "reason": reason, "startedAt": started, "finishedAt": _now()}
    return {
        "phase": "Failed" if behaviour.exit_code else "Succeeded",
        "containerStatuses": _containers(pod, {"terminated": ending}, ready=False),
    }


def as_lines(*entries: dict[str, Any]) -> str:
    """Lines of JSON, as our programs log."""
    return "".join(json.dumps(entry) + "\n" for entry in entries)
