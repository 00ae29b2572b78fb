"""Owns the port at which a program serves its metrics to Prometheus; must not know which metrics."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Dated(Protocol):
    """What a program knows of its work at a moment."""

    @property
    def now(self) -> float:
        """The moment, in seconds since 1970."""


Status = TypeVar("Status", bound=Dated)


class Collector(Protocol):
    """What makes metrics when Prometheus asks."""

    def collect(self) -> Iterable[Any]:
        """The families of metrics."""


class MetricsServer:
    """Serves the metrics of a collector. The package of the caller depends on ``gapless-api[metrics]``."""

    def __init__(self, port: int, collector: Collector) -> None:
        """Listen. Raises ConfigurationError when the port cannot be used."""
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 -- rarely needed

        registry = CollectorRegistry()
        registry.register(collector)
        try:
            self._server, self._thread = start_http_server(port, registry=registry)
        except OSError as error:
            raise ConfigurationError(
                f"Metrics cannot be served at port {port} ({error.strerror}); give another one as metricsPort."
            ) from None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class StatusMetrics(Generic[Status]):
    """Serves the metrics of the last status that it was shown; none before there is one."""

    def __init__(self, port: int, *, now: Callable[[], float] = time.time) -> None:
        """Listen. Raises ConfigurationError when the port cannot be used."""
        self._now = now
        self._status: Status | None = None
        self._server = MetricsServer(port, self)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def show(self, status: Status) -> None:
        """Serve another status from now on."""
        self._status = status

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def collect(self) -> Iterator[Any]:
        """The families of metrics, which Prometheus's client turns into text."""
        status = self._status
        if status is not None:
            yield from self.families(status, max(self._now() - status.now, 0.0))

    @abstractmethod
    def families(self, status: Status, since: float) -> Iterator[Any]:
        """The families of metrics of a status that is `since` seconds old."""
