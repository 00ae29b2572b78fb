"""Owns what the operator answers over HTTP: probes of the kubelet and the metrics of Prometheus.

Must not know what is healthy, ready or measured. Both run in the operator's own event loop: when that stands still,
nothing is answered, which is the right answer.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from gapless_operator.shell.metrics_access import METRICS_PATH

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from prometheus_client import CollectorRegistry

    from gapless_operator.shell.metrics_access import MetricsAccess

_SHUTDOWN_SECONDS = 1.0
Verdict = tuple[HTTPStatus, str]
"""A status and a sentence."""


class Endpoints:
    """HTTP servers that live as long as the operator."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []

    async def serve_probes(self, port: int, *, healthy: Callable[[], Verdict], ready: Callable[[], Verdict]) -> None:
        """Answer ``/healthz`` (is it worth going on?) and ``/readyz`` (does it serve what it should?)."""

        async def health(_: web.Request) -> web.Response:
            return _answer(healthy())

        async def readiness(_: web.Request) -> web.Response:
            return _answer(ready())

        await self._serve(port, {"/healthz": health, "/readyz": readiness}, None)

    async def serve_metrics(
        self,
        port: int,
        registry: CollectorRegistry,
        *,
        access: MetricsAccess | None = None,
        security: ssl.SSLContext | None = None,
    ) -> None:
        """Answer ``/metrics``.

        Args:
            port: to listen on.
            registry: what is measured.
            access: who may read it; ``None`` for everybody.
            security: to serve with; ``None`` for plain HTTP.
        """

        async def metrics(request: web.Request) -> web.Response:
            if access is not None:
                status = await asyncio.to_thread(access.status, request.headers.get("Authorization", ""))
                if status is not HTTPStatus.OK:
                    return _refusal(status)
            text = await asyncio.to_thread(generate_latest, registry)
            return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

        await self._serve(port, {METRICS_PATH: metrics}, security)

    async def close(self) -> None:
        """Answer nothing more."""
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(
        self,
        port: int,
        answers: dict[str, Callable[[web.Request], Awaitable[web.Response]]],
        security: ssl.SSLContext | None,
    ) -> None:
        application = web.Application(client_max_size=1024)
        for path, answer in answers.items():
            application.router.add_get(path, answer)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, None, port, ssl_context=security).start()


def _answer(verdict: Verdict) -> web.Response:
    status, sentence = verdict
    return web.Response(status=status, text=f"{sentence}\n")


def _refusal(status: HTTPStatus) -> web.Response:
    sentences = {
        HTTPStatus.UNAUTHORIZED: "Send a token of a Kubernetes account as Authorization: Bearer TOKEN.",
        HTTPStatus.FORBIDDEN: f"The account may not get {METRICS_PATH}; bind the metrics reader role to it.",
    }
    headers = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
    text = sentences.get(status, "The API server cannot say who may read the metrics; try again.")
    return web.Response(status=status, text=f"{text}\n", headers=headers)
