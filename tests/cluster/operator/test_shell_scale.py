"""The shell with many and large objects, with a second operator beside it, and with metrics that not everybody reads.

The API server is a real one: its pages, Leases, tokens and rights are those of Kubernetes.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from gapless_operator.shell.api.client import ClusterApi
from gapless_operator.shell.api.kinds import RESEND
from gapless_operator.shell.cache.lists import Lists
from gapless_operator.shell.cache.store import Cache

pytestmark = pytest.mark.integration

ENTRY = {"topic": "transfer", "partition": 0, "window_min": 0, "window_max": 999_999_999}


def bundle(characters: int) -> str:
    """A bundle of about so many characters."""
    gaps = [[number] for number in range(0, characters // 13 * 10, 10)]
    return json.dumps({"type": "all", "results": [{**ENTRY, "gaps": gaps}]})


def resend(place: Any, name: str, characters: int, **spec: Any) -> str:
    """Apply a Resend with a bundle of so many characters; return the bundle."""
    text = bundle(characters)
    named = {"diodeRef": {"name": "north"}, "kafkaRef": {"name": "up"}}
    place.apply("Resend", name, bundle={"inline": text}, **named, **spec)
    return text


@pytest.fixture
def cluster(place: Any) -> tuple[ClusterApi, list[str]]:
    """The operator's own way to the API server, and the methods of its requests."""
    settings, asked = Configuration(), list[str]()
    config.load_kube_config(str(place.api.kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
    return ClusterApi(ApiClient(settings), on_request=asked.append), asked


def test_lists_come_in_pages_and_a_second_list_asks_only_for_what_is_new(
    place: Any, cluster: tuple[ClusterApi, list[str]]
) -> None:
    api, asked = cluster
    for number in range(60):
        resend(place, f"r{number:02}", 5000)
    cache, changed = Cache(), list[str]()

    def note(body: dict[str, Any]) -> None:
        changed.append(body["metadata"]["name"])

    lists = Lists(api, cache, [place.name], on_change=note, on_list=lambda _: None)
    lists.list_all([RESEND])
    assert sorted(changed) == [f"r{number:02}" for number in range(60)]
    assert len(asked) == 3, "three pages"
    kept = cache.get(RESEND, place.name, "r07")
    assert kept is not None
    assert len(json.dumps(kept)) < 2000
    changed.clear()
    asked.clear()
    lists.list_all([RESEND])
    assert (changed, len(asked)) == ([], 3)
    resend(place, "r30", 5000, suspend=True)
    place.api.request("DELETE", place.path("Resend", "r59"))
    asked.clear()
    lists.list_all([RESEND])
    assert sorted(changed) == ["r30", "r59"]
    assert len(asked) == 4, "the page with r30 was asked for once more, as a whole"
    assert cache.get(RESEND, place.name, "r59") is None
    assert cache.get(RESEND, place.name, "r30") is not None


def test_a_bundle_that_the_operator_does_not_keep_reaches_the_sender_whole(
    place: Any, operator: Callable[..., Any]
) -> None:
    operator()
    place.diode()
    text = resend(place, "again", 100_000)
    place.until("Resend", "again", "Succeeded", "True", "Sent")
    mounted = [m for m in place.objects("/api/v1 configmaps") if "bundle" in (m.get("data") or {})]
    assert [m["data"]["bundle"] for m in mounted] == [text]


@pytest.mark.parametrize("releases", [("", ""), ("a/gapless", "b/gapless"), ("a/gapless", "a/gapless")])
def test_of_two_operators_one_waits_says_so_and_takes_over(
    place: Any, operator: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, releases: tuple[str, str]
) -> None:
    """A standby of the same release is ready meanwhile; an operator of another one is not."""
    monkeypatch.setenv("POD_NAME", "first")
    first = operator(release=releases[0])
    place.api.eventually(first.ready, what="the first operator")
    monkeypatch.setenv("POD_NAME", "second")
    second = operator(release=releases[1])
    waits = f"Namespace {place.name} is not served by this operator: operator first serves it.\n"
    told = (200, f"standby: {waits}") if releases[0] == releases[1] != "" else (503, waits)
    place.api.eventually(lambda: second.probe("readyz") == told, what="the second one's waiting")
    assert second.healthy(), "who waits is not killed"
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    assert 'gapless_reconciles_total{kind="GapScan"' not in second.metrics()
    for each, scans, serving in ((first, 1, "1.0"), (second, 0, "0.0")):
        exported = each.metrics()
        assert exported.count("gapless_missing_events{") == scans, "sums over both would count it twice"
        assert f'gapless_serving{{namespace="{place.name}"}} {serving}' in exported
    assert first.stop() == 0
    place.gap_scan("next")
    place.until("GapScan", "next", "Ready", "True", "GapsFound")
    assert 'gapless_reconciles_total{kind="GapScan",outcome="ok"}' in second.metrics()
    place.api.eventually(lambda: second.probe("readyz") == (200, "ok\n"), what="the second one's readiness")


def scrape(port: int, token: str) -> tuple[int, str]:
    """What Prometheus gets that does not verify the certificate."""
    security = ssl.create_default_context()
    security.check_hostname, security.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=security, timeout=10)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def account(place: Any, name: str) -> str:
    """A token of a new account."""
    place.api.request("POST", f"/api/v1/namespaces/{place.name}/serviceaccounts", {"metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    made = place.api.request("POST", f"/api/v1/namespaces/{place.name}/serviceaccounts/{name}/token", request)
    return str(made["status"]["token"])


def test_metrics_are_given_to_accounts_that_may_get_them_and_to_nobody_else(
    place: Any, operator: Callable[..., Any]
) -> None:
    running = operator(metrics_authentication="kubernetes")
    reader, somebody = account(place, "prometheus"), account(place, "somebody")
    role = f"metrics-{place.name}"
    root = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    place.api.request("POST", f"{root}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    binding = {
        "metadata": {"name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": place.name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }
    place.api.request("POST", f"{root}/clusterrolebindings", binding)
    try:
        place.api.eventually(running.healthy, what="the start")
        place.api.eventually(lambda: scrape(running.metrics_port, reader)[0] == 200, what="the binding's effect")
        assert "gapless_watch_age_seconds" in scrape(running.metrics_port, reader)[1]
        assert scrape(running.metrics_port, "")[0] == 401
        assert scrape(running.metrics_port, "not-a-token")[0] == 401
        status, text = scrape(running.metrics_port, somebody)
        assert (status, "gapless_watch" in text) == (403, False)
    finally:
        place.api.request("DELETE", f"{root}/clusterrolebindings/{role}")
        place.api.request("DELETE", f"{root}/clusterroles/{role}")
