"""Leases in memory, with the versions and conflicts of an API server."""

from __future__ import annotations

import copy
from typing import Any

from gapless_operator.shell.api.errors import ConflictError
from gapless_operator.shell.leases import Leases


class LeaseStore:
    """Keeps Leases as the API server does: a version for each write, and no write over another one."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.error: Exception | None = None

    def get(self, _kind: Any, namespace: str, _name: str) -> dict[str, Any] | None:
        self._fail()
        return copy.deepcopy(self.bodies.get(namespace))

    def create_if_absent(self, manifest: Any) -> dict[str, Any] | None:
        self._fail()
        return None if manifest["metadata"]["namespace"] in self.bodies else self._write(manifest)

    def replace(self, manifest: Any) -> dict[str, Any]:
        self._fail()
        known = self.bodies[manifest["metadata"]["namespace"]]["metadata"]
        if known["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise ConflictError("another version")
        return self._write(manifest)

    def _write(self, manifest: Any) -> dict[str, Any]:
        self.writes += 1
        body = copy.deepcopy(manifest)
        body["metadata"]["resourceVersion"] = str(self.writes)
        self.bodies[body["metadata"]["namespace"]] = body
        return copy.deepcopy(body)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


def held_leases(*namespaces: str) -> Leases:
    """Return Leases of namespaces, all held by one operator."""
    leases = Leases(LeaseStore(), namespaces, "one")  # type: ignore[arg-type]
    leases.renew()
    return leases
