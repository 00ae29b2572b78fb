"""The liveness of the process, and the canary, a ConfigMap whose changes the watches must deliver.

Must not know how watches work or how probes are served.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog

from gapless_operator.common.observed import KIND_LABEL
from gapless_operator.shell.api.errors import RefusedError

if TYPE_CHECKING:
    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.shell.api.client import ClusterApi

_LOG = structlog.get_logger("gapless.health")
CANARY_NAME = "gapless-operator-canary"


class Canary:
    """A ConfigMap that the operator changes to detect silent watches."""

    def __init__(self, api: ClusterApi, instance: str) -> None:
        """Prepare it.

        Args:
            api: to write with.
            instance: name of this process.
        """
        self._api, self._instance = api, instance
        self.is_written = True
        """Whether it may be written; otherwise silent watches cannot be detected."""

    def touch(self, namespace: str) -> None:
        """Change the ConfigMap in a namespace whose ConfigMaps are watched. Blocks."""
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": CANARY_NAME,
                "namespace": namespace,
                "labels": {KIND_LABEL: "Canary", "app.kubernetes.io/managed-by": "gapless-operator"},
            },
            "data": {"touched": datetime.now(UTC).isoformat(), "by": self._instance},
        }
        try:
            self._api.apply(manifest)
        except RefusedError as error:
            if self.is_written:
                _LOG.warning("cannot detect silent watches: the canary may not be written", error=str(error))
            self.is_written = False
        else:
            self.is_written = True


class Health:
    """The state behind the liveness probe.

    It fails when the watches are silent, when the work loop is stuck, or when no list has been compared with the cache.
    """

    def __init__(self, settings: OperatorSettings, canary: Canary, watch_age: Callable[[], float | None]) -> None:
        """Prepare it.

        Args:
            settings: how long watches may be silent.
            canary: without it, silent watches do not count.
            watch_age: seconds since the last event of the watch of ConfigMaps; ``None`` before it has started.
        """
        self._settings, self._canary, self._watch_age = settings, canary, watch_age
        self._beat = self._listed = time.monotonic()
        self.is_ready = False
        """Whether the cluster has been listed."""

    def beat(self) -> None:
        """Record that the work loop runs."""
        self._beat = time.monotonic()

    def note_list(self) -> None:
        """Record that the lists of the cluster were compared with the cache, or could not be read."""
        self._listed = time.monotonic()

    def alive(self) -> tuple[HTTPStatus, str]:
        """Return the status of the liveness probe and a message."""
        if not self.is_ready:
            return HTTPStatus.SERVICE_UNAVAILABLE, "The operator is starting: it has not listed the cluster yet."
        stale, age = self._settings.stale_seconds, self._watch_age()
        stuck, unlisted = time.monotonic() - self._beat, time.monotonic() - self._listed
        problem = ""
        if self._canary.is_written and age is not None and age > stale:
            problem = f"No watch event has been received for {age:.0f} seconds."
        elif stuck > stale + self._settings.resync_seconds:
            problem = f"The work loop has been stuck for {stuck:.0f} seconds."
        elif unlisted > stale + self._settings.relist_seconds:
            problem = f"The cache was last compared with a list of the cluster {unlisted:.0f} seconds ago."
        if problem:
            _LOG.warning("not alive", reason=problem)
            return HTTPStatus.INTERNAL_SERVER_ERROR, problem
        return HTTPStatus.OK, "ok"
