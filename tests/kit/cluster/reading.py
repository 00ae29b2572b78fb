"""Reading objects of a cluster without starting kubectl each time; must not know any particular kind.

Its start takes a tenth of a second of a CPU, and whoever waits for an object reads it three times a second.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from kit.cluster.places import ClusterError
from kit.machine.processes import end, start_bound, wait_until

if TYPE_CHECKING:
    import subprocess

_SECONDS = 60.0


class Proxy:
    """`kubectl proxy`: requests with the rights of a kubeconfig, from every network of this machine."""

    def __init__(self, kubectl: Path, environment: dict[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gapless-proxy-"))
        self._socket = self._folder / "socket"
        command = [str(kubectl), "proxy", f"--unix-socket={self._socket}"]
        with (self._folder / "log").open("wb") as log:
            self._process: subprocess.Popen[bytes] = start_bound(
                command, stdout=log, stderr=log, environment=environment
            )
        wait_until(self._socket.exists, timeout_seconds=_SECONDS, what="kubectl proxy")

    def fetch(self, path: str) -> dict[str, Any] | None:
        """Return the answer to a GET, or None if there is nothing of that name. Raises ClusterError."""
        connection = http.client.HTTPConnection("localhost", timeout=_SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_SECONDS)
        try:
            connection.sock.connect(str(self._socket))
            connection.request("GET", path)
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"GET {path} failed: {error!r}") from None
        finally:
            connection.close()
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK:
            raise ClusterError(f"GET {path} failed with status {response.status}: {text[:1000]}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def close(self) -> None:
        """End the proxy."""
        end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)


class Reader:
    """Reads objects by the names of kinds that kubectl takes."""

    def __init__(self, fetch: Callable[[str], dict[str, Any] | None]) -> None:
        self._fetch = fetch
        self._kinds: dict[str, _Kind] = {}

    def get(self, kind: str, name: str, namespace: str | None) -> dict[str, Any] | None:
        """Return an object, or None if it does not exist."""
        found = self._kind(kind)
        return self._fetch(f"{found.path(namespace or 'default')}/{quote(name)}")

    def list(self, kind: str, namespace: str | None, selector: str) -> list[dict[str, Any]]:
        """Return the objects of a kind, in one namespace or in all."""
        found = self._kind(kind)
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        answer = self._fetch(found.path(namespace) + query)
        if answer is None:
            raise ClusterError(f"The kind {kind} is no longer there.")
        # The API server leaves out of a list what is the same for all.
        return [{"apiVersion": found.version, "kind": found.kind, **item} for item in answer["items"]]

    def _kind(self, name: str) -> _Kind:
        if name.lower() not in self._kinds:  # maybe its definition is new
            self._kinds = self._discover()
        if name.lower() not in self._kinds:
            raise ClusterError(f"The cluster has no kind {name}.")
        return self._kinds[name.lower()]

    def _discover(self) -> dict[str, _Kind]:
        """Return the kinds of all groups by their names; of two with the same name the first one, as kubectl does."""
        groups = (self._fetch("/apis") or {})["groups"]
        versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
        kinds: dict[str, _Kind] = {}
        for version in versions:
            root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
            for each in (self._fetch(root) or {"resources": []})["resources"]:
                if "/" not in each["name"]:
                    kind = _Kind(root, version, each["kind"], each["name"], is_namespaced=each["namespaced"])
                    for name in (each["name"], each["singularName"], each["kind"].lower(), *each.get("shortNames", ())):
                        kinds.setdefault(name, kind)
        return kinds


class _Kind:
    """A kind of objects and where they are."""

    def __init__(self, root: str, version: str, kind: str, plural: str, *, is_namespaced: bool) -> None:
        self.version, self.kind = version, kind
        self._root, self._plural, self._is_namespaced = root, plural, is_namespaced

    def path(self, namespace: str | None) -> str:
        """Return the path of its objects, of one namespace or of all."""
        where = f"/namespaces/{namespace}" if namespace and self._is_namespaced else ""
        return f"{self._root}{where}/{self._plural}"
