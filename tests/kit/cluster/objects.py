"""Owns how tests handle objects of a cluster: apply, look, wait, read logs, with errors that say what went on.

Must not know which cluster it is, nor any kind of object in particular.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.cluster.places import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_POLL_SECONDS = 0.3
_EVENTS_SHOWN = 15


class Objects:
    """What a cluster holds, by way of kubectl."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl and return what it printed; `ClusterError` with its last words if it failed."""
        raise NotImplementedError

    def apply(
        self,
        *documents: Mapping[str, Any] | str | Path,
        namespace: str | None = None,
        server_side: bool = False,
    ) -> str:
        """Apply objects, YAML texts and files or folders, as a user would.

        Raises:
            ClusterError: the API server refused one; with its words.
        """
        options = ["--server-side", "--force-conflicts"] if server_side else []
        said = ""
        for document in documents:
            if isinstance(document, Path):
                said += self.kubectl(*_in(namespace), "apply", *options, "-f", str(document))
                continue
            text = document if isinstance(document, str) else json.dumps(document)
            said += self.kubectl(*_in(namespace), "apply", *options, "-f", "-", stdin=text)
        return said

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Return an object, or None if there is none of that name."""
        said = self.kubectl(*_in(namespace), "get", kind, name, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] | None = json.loads(said) if said.strip() else None
        return found

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind, in the namespace if one is named, else in all."""
        where = _in(namespace) or ["--all-namespaces"]
        said = self.kubectl("get", kind, *where, f"--selector={selector}", "-o", "json")
        items: list[dict[str, Any]] = json.loads(said)["items"]
        return items

    def delete(self, kind: str, name: str, namespace: str | None = None, *, wait: bool = True) -> None:
        """Delete an object if it is there."""
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
        """Wait until an object is there and is as wanted; return it.

        Args:
            kind: as kubectl takes it.
            name: of the object.
            condition: the type of a condition that shall be "True" (or "TYPE=STATUS"), or a function of the object.
            namespace: where it is.
            timeout_seconds: how long to wait.

        Raises:
            TimeoutError: it did not come to that; with the object's status, events, and the pods of its namespace.
        """
        met = _condition(condition) if isinstance(condition, str) else condition
        end = time.monotonic() + timeout_seconds
        while True:
            found = self.get(kind, name, namespace)
            if found is not None and met(found):
                return found
            if time.monotonic() > end:
                wanted = condition if isinstance(condition, str) else "as wanted"
                raise TimeoutError(
                    f"{kind}/{name} was not {wanted} within {timeout_seconds:.0f} s.\n{self.story(found, namespace)}"
                )
            time.sleep(_POLL_SECONDS)

    def wait_gone(self, kind: str, name: str, *, namespace: str | None = None, timeout_seconds: float = 90.0) -> None:
        """Wait until there is no object of that name.

        Raises:
            TimeoutError: it is still there.
        """
        end = time.monotonic() + timeout_seconds
        while (found := self.get(kind, name, namespace)) is not None:
            if time.monotonic() > end:
                raise TimeoutError(f"{kind}/{name} is still there.\n{self.story(found, namespace)}")
            time.sleep(_POLL_SECONDS)

    def logs(self, what: str, namespace: str | None = None, *, container: str | None = None) -> str:
        """Return the log of a pod, of "job/NAME", or of the like."""
        options = [f"--container={container}"] if container else []
        return self.kubectl(*_in(namespace), "logs", what, *options, "--tail=-1")

    def story(self, found: Mapping[str, Any] | None, namespace: str | None) -> str:
        """Tell what a person would look up after a failure."""
        status = json.dumps((found or {}).get("status", "there is no such object"), indent=1)
        parts = [f"status: {status}"]
        looks = [["get", "pods", "-o", "wide"], ["get", "events", "--sort-by=.lastTimestamp"]]
        for look in looks if namespace else []:
            try:
                lines = self.kubectl(*_in(namespace), *look).splitlines()
            except ClusterError as error:
                lines = [str(error)]
            parts.append("\n".join(lines[:1] + lines[1:][-_EVENTS_SHOWN:]))
        return "\n".join(parts)


def _in(namespace: str | None) -> list[str]:
    return [f"--namespace={namespace}"] if namespace else []


def _condition(wanted: str) -> Callable[[dict[str, Any]], bool]:
    name, _, status = wanted.partition("=")

    def met(found: dict[str, Any]) -> bool:
        conditions = found.get("status", {}).get("conditions", [])
        return any(each["type"] == name and each["status"] == (status or "True") for each in conditions)

    return met
