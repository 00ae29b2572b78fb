"""The operator as a program of its own; started by its path, or forked.

A crash can come between any two writes. With ``KILL_AFTER_WRITE=n`` the process kills itself right after its n-th
write, so that a test can go through all of them. The canary and the Leases, which are written by the
clock, are not counted.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from gapless_operator.main import main
from gapless_operator.shell.api.client import ClusterApi
from gapless_operator.shell.health import CANARY_NAME
from gapless_operator.shell.service import Service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_operator.common.plan import Manifest, Ref


class DyingApi(ClusterApi):
    """Counts the writes of plans, and ends the process after one of them."""

    writes_left = 0
    _lock = threading.Lock()

    def create(self, manifest: Manifest) -> dict[str, Any]:
        """Create an object."""
        created = super().create(manifest)
        if manifest["kind"] != "Lease":
            self._wrote()
        return created

    def apply(self, manifest: Manifest) -> dict[str, Any]:
        """Write an object."""
        applied = super().apply(manifest)
        if manifest["metadata"]["name"] != CANARY_NAME:
            self._wrote()
        return applied

    def apply_status(self, body: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        """Write a status."""
        written = super().apply_status(body, status)
        self._wrote()
        return written

    def delete(self, namespace: str, ref: Ref) -> bool:
        """Delete an object."""
        is_gone = super().delete(namespace, ref)
        if is_gone:
            self._wrote()
        return is_gone

    def post_event(self, manifest: Manifest) -> None:
        """Create an event."""
        super().post_event(manifest)
        self._wrote()

    def _wrote(self) -> None:
        with self._lock:
            DyingApi.writes_left -= 1
            if not DyingApi.writes_left:
                os.kill(os.getpid(), signal.SIGKILL)


def run() -> None:
    """Run the operator until a signal, or until its n-th write."""
    if "KILL_AFTER_WRITE" in os.environ:
        DyingApi.writes_left = int(os.environ["KILL_AFTER_WRITE"])
        # One worker, so that no other write is on its way when the process ends.
        main(functools.partial(Service, connect=DyingApi.connect, workers=1))
    main()


if __name__ == "__main__":
    run()
