"""Metrics are for accounts that Kubernetes authorizes for get /metrics; its answers are cached for a while."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from gapless_api.base.errors import ConfigurationError
from gapless_operator.shell.api.errors import UnavailableError
from gapless_operator.shell.api.kinds import TOKEN_REVIEW
from gapless_operator.shell.http.endpoints import MAX_REQUESTS, THREADS, Endpoints
from gapless_operator.shell.http.metrics_access import MetricsAccess
from gapless_operator.shell.http.serving_certificate import ServingCertificate
from kit.machine.processes import free_ports


class Reviews:
    """Answers as the API server would that knows two accounts, of which one may read metrics."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.away = False
        self.readers = {"prometheus"}

    def review(self, kind: Any, spec: Any) -> dict[str, Any]:
        self.asked.append((kind.name, spec))
        if self.away:
            raise UnavailableError("away")
        if kind is TOKEN_REVIEW:
            name = {"good": "prometheus", "other": "somebody"}.get(spec["token"])
            return {"authenticated": name is not None, "user": {"username": name, "groups": ["g"]}}
        assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        assert spec["groups"] == ["g"]
        return {"allowed": spec["user"] in self.readers}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", 401),
        ("Bearer ", 401),
        ("Basic good", 401),
        ("good", 401),
        ("Bearer wrong", 401),
        ("Bearer " + "x" * 100_000, 401),
        ("Bearer other", 403),
        ("Bearer good", 200),
        ("bearer good", 200),
    ],
)
def test_only_who_may_get_metrics_gets_them(header: str, status: int) -> None:
    assert MetricsAccess(Reviews()).status(header) == status  # type: ignore[arg-type]


def test_a_grant_is_cached_for_a_minute_and_a_refusal_for_seconds() -> None:
    reviews, clock = Reviews(), Clock()
    access = MetricsAccess(reviews, clock=clock)  # type: ignore[arg-type]
    for header in ("Bearer good", "Bearer other"):
        access.status(header)
        asked = len(reviews.asked)
        access.status(header)
        assert len(reviews.asked) == asked
    reviews.readers = {"somebody"}
    clock.now = 11
    assert access.status("Bearer other") == 200
    assert access.status("Bearer good") == 200
    clock.now = 61
    assert access.status("Bearer good") == 403


def test_a_flood_of_bad_tokens_does_not_push_out_a_good_one() -> None:
    reviews = Reviews()
    access = MetricsAccess(reviews)  # type: ignore[arg-type]
    access.status("Bearer good")
    for number in range(1100):
        assert access.status(f"Bearer bad-{number}") == 401
    asked = len(reviews.asked)
    assert access.status("Bearer good") == 200
    assert len(reviews.asked) == asked, "it was still known"
    access.status("Bearer bad-0")
    assert len(reviews.asked) == asked + 1, "bad ones are bounded"


def test_an_api_server_that_is_away_lets_nobody_in_and_is_asked_again() -> None:
    reviews = Reviews()
    access = MetricsAccess(reviews)  # type: ignore[arg-type]
    reviews.away = True
    assert access.status("Bearer good") == 503
    reviews.away = False
    assert access.status("Bearer good") == 200


def test_no_token_is_kept() -> None:
    access = MetricsAccess(Reviews())  # type: ignore[arg-type]
    access.status("Bearer good")
    assert "good" not in str(vars(access))


def served(**options: Any) -> list[tuple[int, str]]:
    """What a client gets over TLS: without a token, with another account's, with the right one."""
    registry = CollectorRegistry()
    Counter("gapless_things", "Things.", registry=registry).inc()

    async def ask() -> list[tuple[int, str]]:
        [port], endpoints = free_ports(1), Endpoints()
        await endpoints.serve_metrics(port, registry, **options)
        try:
            return await asyncio.to_thread(lambda: [got(port, token) for token in ("", "other", "good")])
        finally:
            await endpoints.close()

    return asyncio.run(ask())


def got(port: int, token: str, path: str = "/metrics") -> tuple[int, str]:
    security = ssl.create_default_context()
    security.check_hostname, security.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=security, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_metrics_are_served_over_https_only_to_authorized_accounts() -> None:
    access, certificate = MetricsAccess(Reviews()), ServingCertificate(None)  # type: ignore[arg-type]
    without, other, good = served(access=access, security=certificate.context)
    assert [without[0], other[0], good[0]] == [401, 403, 200]
    assert "gapless_things_total 1.0" in good[1]
    assert "gapless_things" not in without[1] + other[1]


class Hanging:
    """An API server that answers no review before it is told to, and counts how many wait."""

    def __init__(self) -> None:
        self.all_busy, self.go_on = threading.Event(), threading.Event()
        self.lock, self.waiting, self.most = threading.Lock(), 0, 0

    def review(self, _kind: Any, _spec: Any) -> dict[str, Any]:
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            if self.waiting >= THREADS:
                self.all_busy.set()
        self.go_on.wait(timeout=30)
        with self.lock:
            self.waiting -= 1
        return {"authenticated": False}


def test_a_flood_of_unknown_tokens_keeps_no_reconcile_waiting() -> None:
    reviews, requests = Hanging(), MAX_REQUESTS + 4

    async def flood() -> list[int]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=THREADS))
        clients = ThreadPoolExecutor(max_workers=requests + 1)
        [port], endpoints = free_ports(1), Endpoints()
        certificate, access = ServingCertificate(None), MetricsAccess(reviews)  # type: ignore[arg-type]
        await endpoints.serve_metrics(port, CollectorRegistry(), access=access, security=certificate.context)
        loop = asyncio.get_running_loop()
        asked = [loop.run_in_executor(clients, got, port, f"random-{number}") for number in range(requests)]
        try:
            assert await loop.run_in_executor(clients, reviews.all_busy.wait, 30)
            async with asyncio.timeout(5):
                # A reconcile runs in a thread of the default executor.
                assert await asyncio.to_thread(lambda: "reconciled") == "reconciled"
                for refused in itertools.islice(asyncio.as_completed(asked), requests - MAX_REQUESTS):
                    await refused
        finally:
            reviews.go_on.set()
            answers = await asyncio.gather(*asked)
            await endpoints.close()
            clients.shutdown()
        return sorted(status for status, _ in answers)

    answers = asyncio.run(flood())
    assert reviews.most == THREADS
    assert answers == [401] * MAX_REQUESTS + [429] * (requests - MAX_REQUESTS)


def test_a_folder_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not contain a certificate tls\.crt with its key tls\.key"):
        ServingCertificate(tmp_path)
