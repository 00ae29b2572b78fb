"""The operations on objects of a cluster: apply, get, wait, read logs, with errors that show status and events.

Must not know which cluster it is, or any particular kind.
"""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kit.cluster.places import ClusterError
from kit.cluster.reading import Reader

_POLL_SECONDS = 0.3
_EVENTS_SHOWN = 15


class Objects:
    """The objects of a cluster: changed with kubectl, as a user would, and read directly."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl and return its output. Raises ClusterError with the end of its output."""
        raise NotImplementedError

    def fetch(self, path: str) -> dict[str, Any] | None:
        """Return the answer to a GET, or None if there is nothing of that name. Raises ClusterError."""
        raise NotImplementedError

    @functools.cached_property
    def _reader(self) -> Reader:
        return Reader(self.fetch)

    def apply(
        self,
        *documents: Mapping[str, Any] | str | Path,
        namespace: str | None = None,
        server_side: bool = False,
    ) -> str:
        """Apply objects, YAML texts and files or folders, as a user would.

        Raises:
            ClusterError: the API server rejected an object; contains its message.
        """
        options = ["--server-side", "--force-conflicts"] if server_side else []
        output = ""
        for are_files, group in itertools.groupby(documents, key=lambda document: isinstance(document, Path)):
            if are_files:
                for file in group:
                    output += self.kubectl(*_in(namespace), "apply", *options, "-f", str(file))
            else:
                text = "\n---\n".join(each if isinstance(each, str) else json.dumps(each) for each in group)
                output += self.kubectl(*_in(namespace), "apply", *options, "-f", "-", stdin=text)
        return output

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Return an object, or None if it does not exist."""
        return self._reader.get(kind, name, namespace)

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind, in one namespace or in all."""
        return self._reader.list(kind, namespace, selector)

    def delete(self, kind: str, name: str, namespace: str | None = None, *, wait: bool = True) -> None:
        """Delete an object if it exists."""
        self.kubectl(*_in(namespace), "delete", kind, name, "--ignore-not-found", f"--wait={json.dumps(wait)}")

    def wait_for(
        self,
        kind: str,
        name: str,
        condition: str | Callable[[dict[str, Any]], object],
        *,
        namespace: str | None = None,
        timeout_seconds: float = 90.0,
    ) -> dict[str, Any]:
        """Wait until an object exists and fulfils a condition; return it.

        Args:
            kind: as for kubectl.
            name: of the object.
            condition: the type of a condition that must be "True" (or "TYPE=STATUS"), or a function of the object.
            namespace: of the object.
            timeout_seconds: limit of the wait.

        Raises:
            TimeoutError: the condition was not fulfilled; contains the object's status, and the namespace's events and
                pods.
        """
        is_met = _condition(condition) if isinstance(condition, str) else condition
        end = time.monotonic() + timeout_seconds
        while True:
            body = self.get(kind, name, namespace)
            if body is not None and is_met(body):
                return body
            if time.monotonic() > end:
                expected = condition if isinstance(condition, str) else "as expected"
                raise TimeoutError(
                    f"{kind}/{name} was not {expected} within {timeout_seconds:.0f} s.\n"
                    f"{self.describe(body, namespace)}"
                )
            time.sleep(_POLL_SECONDS)

    def logs(self, what: str, namespace: str | None = None, *, container: str | None = None) -> str:
        """Return the log of a pod, or of "job/NAME" and the like."""
        options = [f"--container={container}"] if container else []
        return self.kubectl(*_in(namespace), "logs", what, *options, "--tail=-1")

    def describe(self, body: Mapping[str, Any] | None, namespace: str | None) -> str:
        """Return an object's status, and the namespace's pods and latest events, for the message of a failure."""
        status = json.dumps((body or {}).get("status", "there is no such object"), indent=1)
        parts = [f"status: {status}"]
        commands = [["get", "pods", "-o", "wide"], ["get", "events", "--sort-by=.lastTimestamp"]]
        for command in commands if namespace else []:
            try:
                lines = self.kubectl(*_in(namespace), *command).splitlines()
            except ClusterError as error:
                lines = [str(error)]
            parts.append("\n".join(lines[:1] + lines[1:][-_EVENTS_SHOWN:]))
        return "\n".join(parts)


def _in(namespace: str | None) -> list[str]:
    return [f"--namespace={namespace}"] if namespace else []


def _condition(expected: str) -> Callable[[dict[str, Any]], bool]:
    name, _, status = expected.partition("=")

    def is_met(body: dict[str, Any]) -> bool:
        conditions = body.get("status", {}).get("conditions", [])
        return any(each["type"] == name and each["status"] == (status or "True") for each in conditions)

    return is_met
