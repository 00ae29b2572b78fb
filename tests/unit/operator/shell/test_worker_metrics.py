"""Metrics of mirror workers are read from their pods, and served with the labels of the pod by the operator alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gapless_operator.shell.http import endpoints as endpoints_module
from gapless_operator.shell.http import worker_metrics
from gapless_operator.shell.http.endpoints import Endpoints
from gapless_operator.shell.http.worker_metrics import WorkerPod, merged, read_workers, worker_pods
from kit.machine.processes import free_ports
from unit.operator.shell.test_metrics_access import MetricsAccess, Reviews, ServingCertificate, got

TEXT = """\
# HELP gapless_mirror_lanes Lanes of the mirror.
# TYPE gapless_mirror_lanes gauge
gapless_mirror_lanes{mirror="m",pod="forged"} 8.0
# HELP gapless_mirror_records_total Records.
# TYPE gapless_mirror_records_total counter
gapless_mirror_records_total{mirror="m"} 7.0
# HELP gapless_operator_errors_total Errors of somebody else.
# TYPE gapless_operator_errors_total counter
gapless_operator_errors_total 1.0
"""
NORTH, SOUTH = WorkerPod("n", "a-0", "127.0.0.1"), WorkerPod("s", "a-0", "127.0.0.2")


def samples(content: bytes) -> dict[tuple[str, str, str], float]:
    """By name, namespace and pod."""
    families = text_string_to_metric_families(content.decode())
    return {
        (each.name, each.labels["namespace"], each.labels["pod"]): each.value
        for family in families
        for each in family.samples
    }


def test_metrics_have_the_labels_of_their_pod_and_are_those_of_mirrors_only() -> None:
    assert samples(merged([NORTH, SOUTH], [TEXT, TEXT.replace("8.0", "4.0")])) == {
        ("gapless_mirror_worker_metrics_read", "n", "a-0"): 1,
        ("gapless_mirror_worker_metrics_read", "s", "a-0"): 1,
        ("gapless_mirror_lanes", "n", "a-0"): 8,
        ("gapless_mirror_lanes", "s", "a-0"): 4,
        ("gapless_mirror_records_total", "n", "a-0"): 7,
        ("gapless_mirror_records_total", "s", "a-0"): 7,
    }


@pytest.mark.parametrize("text", [None, "no metrics {", 'gapless_mirror_lanes{mirror="m" 8', "x y z q"])
def test_a_pod_that_returns_no_metrics_is_counted_and_hides_no_other(text: str | None) -> None:
    found = samples(merged([NORTH, SOUTH], [text, TEXT]))
    assert found["gapless_mirror_worker_metrics_read", "n", "a-0"] == 0
    assert found["gapless_mirror_lanes", "s", "a-0"] == 8
    assert ("gapless_mirror_lanes", "n", "a-0") not in found


def test_a_pod_cannot_say_that_it_was_read() -> None:
    text = '# TYPE gapless_mirror_worker_metrics_read gauge\ngapless_mirror_worker_metrics_read{pod="b"} 1\n'
    assert samples(merged([NORTH], [text])) == {("gapless_mirror_worker_metrics_read", "n", "a-0"): 1}


def pod(name: str, **changes: Any) -> dict[str, Any]:
    labels = {"gapless.dev/role": "mirror-workers"}
    status = {"phase": "Running", "podIP": "10.0.0.1"}
    metadata = {"namespace": "n", "name": name, "labels": labels}
    return {"metadata": metadata, "status": status} | changes


def test_only_workers_that_run_are_read() -> None:
    other = {"namespace": "n", "name": "other", "labels": {"gapless.dev/role": "driver"}}
    plain = {"namespace": "n", "name": "plain"}
    bodies = [
        pod("runs"),
        pod("waits", status={"phase": "Pending"}),
        pod("new", status=None),
        pod("other", metadata=other),
        pod("plain", metadata=plain),
    ]
    assert worker_pods(bodies) == [WorkerPod("n", "runs", "10.0.0.1")]


async def redirect(_: web.Request) -> web.Response:
    raise web.HTTPFound("http://127.0.0.1/metrics")


async def hang(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response(text=TEXT)


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(600):
        await response.write(b"#\n")
        await asyncio.sleep(0.1)
    return response


async def flood(_: web.Request) -> web.Response:
    return web.Response(text="#" * 20_000)


async def binary(_: web.Request) -> web.Response:
    return web.Response(body=b"\xff\xfe")


async def metrics(_: web.Request) -> web.Response:
    return web.Response(text=TEXT)


async def serve(handler: Callable[[web.Request], Awaitable[web.StreamResponse]], port: int) -> web.AppRunner:
    application = web.Application()
    application.router.add_get("/metrics", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def read_from(handler: Callable[[web.Request], Awaitable[web.StreamResponse]], *pods: WorkerPod) -> Any:
    [port] = free_ports(1)
    runner = await serve(handler, port)
    try:
        return await read_workers(pods, port)
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("handler", [redirect, hang, drip, flood, binary])
def test_a_pod_that_misbehaves_is_given_up(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_metrics, "_SECONDS", 0.5)
    monkeypatch.setattr(worker_metrics, "_MAX_BYTES", 10_000)
    assert asyncio.run(read_from(handler, NORTH)) == [None]


def test_all_pods_together_fit_into_the_memory_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_metrics, "_MAX_TOTAL_BYTES", 3 * len(TEXT))
    read = asyncio.run(read_from(metrics, *[NORTH] * 5))
    assert sorted(text is None for text in read) == [False, False, False, True, True]


@pytest.mark.parametrize("address", ["127.0.0.3", "", "evil.example", "127.0.0.1/other?"])
def test_a_pod_without_a_server_or_an_address_is_given_up(address: str) -> None:
    assert asyncio.run(read_from(metrics, NORTH._replace(address=address), NORTH)) == [None, TEXT]


def test_the_operator_serves_them_to_authorized_accounts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    access, certificate = MetricsAccess(Reviews()), ServingCertificate(None)  # type: ignore[arg-type]

    async def ask() -> list[tuple[int, str]]:
        (port, served), endpoints = free_ports(2), Endpoints()
        monkeypatch.setattr(endpoints_module, "read_workers", partial(read_workers, port=served))
        options = {"access": access, "security": certificate.context, "workers": lambda: [NORTH]}
        await endpoints.serve_metrics(port, CollectorRegistry(), **options)
        runner = await serve(metrics, served)
        try:
            tokens = ("", "other", "good")
            return await asyncio.to_thread(lambda: [got(port, each, "/metrics/workers") for each in tokens])
        finally:
            await runner.cleanup()
            await endpoints.close()

    without, other, good = asyncio.run(ask())
    assert [without[0], other[0], good[0]] == [401, 403, 200]
    assert 'gapless_mirror_lanes{mirror="m",namespace="n",pod="a-0"} 8.0' in good[1]
    assert "gapless_mirror" not in without[1] + other[1]
