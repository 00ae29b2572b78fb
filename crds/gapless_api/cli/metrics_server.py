"""The HTTP server for the Prometheus metrics of a program; must not know which metrics."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from gapless_api.base.errors import ConfigurationError


class Dated(Protocol):
    """The status of a program at one time."""

    @property
    def now(self) -> float:
        """The time of the status, in seconds since 1970."""


Status = TypeVar("Status", bound=Dated)


class Collector(Protocol):
    """Creates metrics for each scrape."""

    def collect(self) -> Iterable[Any]:
        """Return the metric families."""


class MetricsServer:
    """Serves the metrics of a collector. The package of the caller must depend on ``gapless-api[metrics]``."""

    def __init__(self, port: int, collector: Collector) -> None:
        """Start listening. Raises ConfigurationError if the port cannot be used."""
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 -- rarely needed

        registry = CollectorRegistry()
        registry.register(collector)
        try:
            self._server, self._thread = start_http_server(port, registry=registry)
        except OSError as error:
            raise ConfigurationError(
                f"Metrics cannot be served on port {port} ({error.strerror}); use another metricsPort."
            ) from None

    @property
    def port(self) -> int:
        """The port."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class StatusMetrics(Generic[Status]):
    """Serves the metrics of the latest status; none before the first."""

    def __init__(self, port: int, *, now: Callable[[], float] = time.time) -> None:
        """Start listening. Raises ConfigurationError if the port cannot be used."""
        self._now = now
        self._status: Status | None = None
        self._server = MetricsServer(port, self)

    @property
    def port(self) -> int:
        """The port."""
        return self._server.port

    def show(self, status: Status) -> None:
        """Serve `status` from now on."""
        self._status = status

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def collect(self) -> Iterator[Any]:
        """Yield the metric families of the latest status."""
        status = self._status
        if status is not None:
            yield from self.families(status, max(self._now() - status.now, 0.0))

    @abstractmethod
    def families(self, status: Status, since: float) -> Iterator[Any]:
        """Yield the metric families of a status that is `since` seconds old."""
