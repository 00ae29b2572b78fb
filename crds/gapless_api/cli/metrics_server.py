"""Owns the port at which a program serves its metrics to Prometheus; must not know which metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable


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
