"""The operator as a program that can kill itself after any of its writes; started by its path, or forked.

With ``KILL_AFTER_WRITE=n`` the process kills itself directly after its n-th write, so that a test can cover a crash
between any two writes. Writes of the canary and of Leases depend on time and are not counted.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gapless_operator.main import main
from gapless_operator.shell.api.client import ClusterApi
from gapless_operator.shell.health import CANARY_NAME
from gapless_operator.shell.service import Service

if TYPE_CHECKING:
    from gapless_operator.common.plan import Manifest, Ref


class CrashingApi(ClusterApi):
    """Counts the writes of plans, and kills the process after one of them."""

    writes_left = 0
    _lock = threading.Lock()

    def create(self, manifest: Manifest) -> dict[str, Any]:
        """Create an object."""
        created = super().create(manifest)
        if manifest["kind"] != "Lease":
            self._count_write()
        return created

    def apply(self, manifest: Manifest) -> dict[str, Any]:
        """Write an object."""
        applied = super().apply(manifest)
        if manifest["metadata"]["name"] != CANARY_NAME:
            self._count_write()
        return applied

    def apply_status(self, body: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        """Write a status."""
        written = super().apply_status(body, status)
        self._count_write()
        return written

    def delete(self, namespace: str, ref: Ref, *, before_dependents: bool = False) -> bool:
        """Delete an object."""
        deleted = super().delete(namespace, ref, before_dependents=before_dependents)
        if deleted:
            self._count_write()
        return deleted

    def post_event(self, manifest: Manifest) -> None:
        """Create an event."""
        super().post_event(manifest)
        self._count_write()

    def _count_write(self) -> None:
        with self._lock:
            CrashingApi.writes_left -= 1
            if not CrashingApi.writes_left:
                os.kill(os.getpid(), signal.SIGKILL)


def run() -> None:
    """Run the operator until a signal, or until its n-th write."""
    if "KILL_AFTER_WRITE" in os.environ:
        CrashingApi.writes_left = int(os.environ["KILL_AFTER_WRITE"])
        # One worker, so that no other write is in progress when the process dies.
        main(functools.partial(Service, connect=CrashingApi.connect, workers=1))
    main()


if __name__ == "__main__":
    run()
