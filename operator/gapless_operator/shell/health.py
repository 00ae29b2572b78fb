"""Owns whether the process is worth keeping, and the canary, a ConfigMap whose changes the watches must bring back.

Must not know who watches or who asks.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog

from gapless_operator.common.observed import KIND_LABEL
from gapless_operator.shell.api.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.shell.api.client import ClusterApi

_LOG = structlog.get_logger("gapless.health")
CANARY_NAME = "gapless-operator-canary"


class Canary:
    """An object of our own."""

    def __init__(self, api: ClusterApi, instance: str) -> None:
        """Prepare it.

        Args:
            api: to write with.
            instance: name of this process.
        """
        self._api, self._instance = api, instance
        self.is_written = True
        """Whether it may be written; otherwise silent watches cannot be noticed."""

    def touch(self, namespace: str) -> None:
        """Change it, in a namespace whose ConfigMaps are watched. Blocks."""
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
    """Answers the liveness probe; when the watches are silent, a new process is worth a try."""

    def __init__(self, settings: OperatorSettings, canary: Canary, silence: Callable[[], float | None]) -> None:
        """Prepare it.

        Args:
            settings: how long silence may last.
            canary: whether it may be written at all.
            silence: for how many seconds nothing has come from the watch of ConfigMaps; ``None`` before it began.
        """
        self._settings, self._canary, self._silence = settings, canary, silence
        self._beat = time.monotonic()
        self.is_ready = False
        """Whether the cluster was listed."""

    def beat(self) -> None:
        """Take note that the work loop turns."""
        self._beat = time.monotonic()

    def alive(self) -> tuple[HTTPStatus, str]:
        """A status and a sentence."""
        if not self.is_ready:
            return HTTPStatus.SERVICE_UNAVAILABLE, "The operator is starting: it has not listed the cluster yet."
        stale, age = self._settings.stale_seconds, self._silence()
        still = time.monotonic() - self._beat
        problem = ""
        if self._canary.is_written and age is not None and age > stale:
            problem = f"No watch event came from the API server for {age:.0f} seconds."
        elif still > stale + self._settings.resync_seconds:
            problem = f"The work loop has been stuck for {still:.0f} seconds."
        if problem:
            _LOG.warning("not alive", because=problem)
            return HTTPStatus.INTERNAL_SERVER_ERROR, problem
        return HTTPStatus.OK, "ok"
