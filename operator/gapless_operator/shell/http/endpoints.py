"""The HTTP servers of the operator: probes for the kubelet and metrics for Prometheus.

Must not know what is healthy, ready or measured. Both run in the operator's own event loop: while that is blocked,
probes fail, as they should. Blocking calls have a few threads of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from gapless_operator.shell.http.metrics_access import METRICS_PATH, MetricsAccess
from gapless_operator.shell.http.worker_metrics import WorkerPod, merged, read_workers

if TYPE_CHECKING:
    import ssl

    from prometheus_client import CollectorRegistry


WORKERS_PATH = f"{METRICS_PATH}/workers"
THREADS = 2
"""For metrics and token reviews, separate from the reconciles: any client of the port can cause them."""
MAX_REQUESTS = 16
"""Maximum of concurrent requests for metrics; more are refused at once."""
_SHUTDOWN_SECONDS = 1.0
ProbeResult = tuple[HTTPStatus, str]
"""A status and a message."""


class Endpoints:
    """HTTP servers that live as long as the operator."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="metrics")
        self._requests = 0
        """Requests for metrics in progress."""

    async def serve_probes(
        self, port: int, *, healthy: Callable[[], ProbeResult], ready: Callable[[], ProbeResult]
    ) -> None:
        """Serve ``/healthz`` and ``/readyz``."""

        async def health(_: web.Request) -> web.Response:
            return _response(healthy())

        async def readiness(_: web.Request) -> web.Response:
            return _response(ready())

        await self._serve(port, {"/healthz": health, "/readyz": readiness}, None)

    async def serve_metrics(
        self,
        port: int,
        registry: CollectorRegistry,
        *,
        access: MetricsAccess | None = None,
        security: ssl.SSLContext | None = None,
        workers: Callable[[], Sequence[WorkerPod]] = tuple,
    ) -> None:
        """Serve ``/metrics``, and ``/metrics/workers`` with those of mirror workers.

        Args:
            port: to listen on.
            registry: of the metrics.
            access: who may read them; ``None`` for everyone.
            security: for TLS; ``None`` for plain HTTP.
            workers: returns the pods of mirror workers, whose metrics are read for each request.
        """

        async def own() -> bytes:
            return await asyncio.get_running_loop().run_in_executor(self._threads, generate_latest, registry)

        async def of_workers() -> bytes:
            pods = workers()
            texts = await read_workers(pods)
            return await asyncio.get_running_loop().run_in_executor(self._threads, merged, pods, texts)

        def guarded(text: Callable[[], Awaitable[bytes]]) -> Callable[[web.Request], Awaitable[web.Response]]:
            async def respond(request: web.Request) -> web.Response:
                if self._requests >= MAX_REQUESTS:
                    return _refusal(HTTPStatus.TOO_MANY_REQUESTS)
                self._requests += 1
                try:
                    status = await self._status(access, request.headers.get("Authorization", ""))
                    if status is not HTTPStatus.OK:
                        return _refusal(status)
                    return web.Response(body=await text(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
                finally:
                    self._requests -= 1

            return respond

        await self._serve(port, {METRICS_PATH: guarded(own), WORKERS_PATH: guarded(of_workers)}, security)

    async def _status(self, access: MetricsAccess | None, authorization: str) -> HTTPStatus:
        """Return whether a client may read the metrics."""
        if access is None:
            return HTTPStatus.OK
        return await asyncio.get_running_loop().run_in_executor(self._threads, access.status, authorization)

    async def close(self) -> None:
        """Stop all servers."""
        for runner in self._runners:
            await runner.cleanup()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(
        self,
        port: int,
        routes: dict[str, Callable[[web.Request], Awaitable[web.Response]]],
        security: ssl.SSLContext | None,
    ) -> None:
        application = web.Application(client_max_size=1024)
        for path, respond in routes.items():
            application.router.add_get(path, respond)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, None, port, ssl_context=security).start()


def _response(result: ProbeResult) -> web.Response:
    status, sentence = result
    return web.Response(status=status, text=f"{sentence}\n")


def _refusal(status: HTTPStatus) -> web.Response:
    sentences = {
        HTTPStatus.UNAUTHORIZED: "Send a token of a Kubernetes account as Authorization: Bearer TOKEN.",
        HTTPStatus.FORBIDDEN: f"The account may not get {METRICS_PATH}; bind the metrics reader role to it.",
        HTTPStatus.TOO_MANY_REQUESTS: "Too many requests for metrics at the moment; try again.",
    }
    headers = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
    text = sentences.get(status, "The API server could not check who may read the metrics; try again.")
    return web.Response(status=status, text=f"{text}\n", headers=headers)
