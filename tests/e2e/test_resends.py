"""What a Resend promises besides sending: a plan first, never the same twice, pauses, and one key for all shards."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.certificates import make_receiver_keys
from kit.cluster.product import POD_TEMPLATES, SENDER_NAMESPACE, SENDER_TEMPLATE, Site

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.timeout(400)


def patch(cluster: Cluster, name: str, **spec: Any) -> None:
    change = json.dumps({"spec": spec})
    cluster.kubectl("patch", "resend", name, f"--namespace={SENDER_NAMESPACE}", "--type=merge", "-p", change)


def wait(cluster: Cluster, name: str, condition: str = "Succeeded") -> dict[str, Any]:
    """Wait for a condition and return the status."""
    found = cluster.wait_for("resend", name, condition, namespace=SENDER_NAMESPACE, timeout_seconds=120)
    status: dict[str, Any] = found["status"]
    return status


def reason(status: dict[str, Any], kind: str = "Ready") -> str | None:
    return next((str(each["reason"]) for each in status.get("conditions", ()) if each["type"] == kind), None)


@pytest.fixture
def ready(cluster: Cluster, site: Site) -> Site:
    """A site whose Diode is ready, with some events."""
    cluster.apply(site.diode(podTemplate="batch"))
    site.fill(4000)
    cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
    return site


@pytest.fixture
def encrypted_site(cluster: Cluster, make_site: SiteFactory, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Make a site whose Diode is ready and encrypts, with some events; arguments are more fields of encryption."""
    with contextlib.ExitStack() as after:

        def make(**encryption: Any) -> Site:
            keys = make_receiver_keys(tmp_path)
            site = make_site(private_keys=keys.private_key_glob)
            site.fill(4000)
            secret = f"{site.name}-certificate"
            after.callback(cluster.delete, "secret", secret, SENDER_NAMESPACE)
            certificate = f"--from-file=tls.crt={keys.certificate}"
            cluster.kubectl("create", "secret", "generic", secret, f"--namespace={SENDER_NAMESPACE}", certificate)
            cluster.apply(site.diode(encryption={"certificateSecret": {"name": secret}, **encryption}))
            cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
            return site

        yield make


def test_a_plan_sends_nothing_and_becomes_a_resend_that_is_never_done_twice(cluster: Cluster, ready: Site) -> None:
    name = f"{ready.name}-once"
    wanted = ready.everything(name, mode="Plan")
    cluster.apply(wanted)
    planned = wait(cluster, name, "Ready")
    assert reason(planned) == "Planned"
    plan = planned["plan"]
    assert plan["events"] == 4000
    assert plan["unavailable"] == 0
    assert plan["bytes"] > 4000 * 100
    assert ready.datagrams() == 0

    patch(cluster, name, mode="Send")
    sent = wait(cluster, name)
    assert reason(sent) == "Sent"
    assert sent["progress"]["sent"] == sent["progress"]["planned"] == 4000
    assert sent["progress"]["percent"] == 100
    assert ready.compare().complete
    once = ready.datagrams()
    assert once == pytest.approx(plan["datagrams"], rel=0.25)

    cluster.delete("resend", name, SENDER_NAMESPACE)
    cluster.apply(ready.everything(name))
    again = wait(cluster, name)
    assert reason(again) == "AlreadySent"
    assert name in next(each["message"] for each in again["conditions"] if each["type"] == "Ready")
    assert ready.datagrams() == once
    assert not cluster.list("job", SENDER_NAMESPACE, f"gapless.dev/name={name}")

    patch(cluster, name, force="because the receiver lost its disk")
    cluster.wait_for(
        "resend",
        name,
        lambda it: reason(it["status"]) == "Sent" and it["status"].get("force") == "because the receiver lost its disk",
        namespace=SENDER_NAMESPACE,
        timeout_seconds=120,
    )
    assert ready.datagrams() == pytest.approx(2 * once, abs=10)


def test_a_resend_that_is_suspended_stops_and_goes_on_where_it_was(cluster: Cluster, ready: Site) -> None:
    name = f"{ready.name}-paused"
    cluster.apply(ready.everything(name, eps=250))
    cluster.wait_for(
        "resend",
        name,
        lambda it: it.get("status", {}).get("progress", {}).get("sent", 0) > 500,
        namespace=SENDER_NAMESPACE,
        timeout_seconds=120,
    )
    added(cluster, f"gapless.dev/name={name}")
    patch(cluster, name, suspend=True)
    cluster.wait_for("resend", name, lambda it: reason(it.get("status", {})) == "Suspended", namespace=SENDER_NAMESPACE)
    no_pods(cluster, name)
    before = ready.datagrams()
    time.sleep(3)
    assert ready.datagrams() == before

    patch(cluster, name, suspend=False, eps=0)
    ended = wait(cluster, name)
    assert ended["progress"]["sent"] == 4000
    truth = ready.compare()
    assert truth.complete
    assert truth.duplicates == 0, "a pod that is asked to stop notes in the checkpoint what it has sent"


def added(cluster: Cluster, selector: str) -> None:
    """Look for what the platform team adds: to all pods among senders, and by the template that the Diode names."""
    [pod] = cluster.list("pod", SENDER_NAMESPACE, selector)
    labels = {name: value for name, value in pod["metadata"]["labels"].items() if name.startswith("example.com/")}
    assert labels == {**SENDER_TEMPLATE["labels"], **POD_TEMPLATES["batch"]["labels"]}
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert SENDER_TEMPLATE["env"].items() <= variables.items()


def no_pods(cluster: Cluster, name: str) -> None:
    """Wait until no pod of a Resend is left."""
    deadline = time.monotonic() + 60
    while cluster.list("pod", SENDER_NAMESPACE, f"gapless.dev/name={name}"):
        assert time.monotonic() < deadline, cluster.describe(None, SENDER_NAMESPACE)
        time.sleep(0.5)


def test_the_shards_of_an_encrypted_resend_share_one_key(cluster: Cluster, encrypted_site: Callable[..., Site]) -> None:
    vault = encrypted_site()
    name = f"{vault.name}-secret"
    cluster.apply(vault.everything(name, parallelism=2, compressWhenLengthExceeds=1000))
    ended = wait(cluster, name)
    assert ended["progress"]["sent"] == 4000
    assert vault.compare().complete
    stats = vault.receiver.stats()
    assert not stats["unreadable"], stats
    assert stats["keys_installed"] >= 1
    job = cluster.get("job", ended["job"], SENDER_NAMESPACE)
    assert job is not None
    assert job["spec"]["completions"] == 2
    pods = cluster.list("pod", SENDER_NAMESPACE, f"gapless.dev/name={name}")
    assert {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods} == {"0", "1"}
    shares = [json.loads(line) for pod in pods for line in report_lines(cluster, pod["metadata"]["name"])]
    assert len(shares) == 2
    assert sum(share["ledger"]["sent"] for share in shares) == 4000
    assert all(share["ledger"]["sent"] for share in shares)


def test_the_pods_of_a_resend_replace_their_key_together(cluster: Cluster, encrypted_site: Callable[..., Site]) -> None:
    vault = encrypted_site(generateNewSymmetricKeyEverySeconds=3600)
    name = f"{vault.name}-rotated"
    cluster.apply(vault.everything(name, parallelism=2, eps=800, generateNewSymmetricKeyEverySeconds=2))
    ended = wait(cluster, name)
    pods = [pod["metadata"]["name"] for pod in cluster.list("pod", SENDER_NAMESPACE, f"gapless.dev/name={name}")]
    reports = [json.loads(line) for pod in pods for line in report_lines(cluster, pod)]
    assert ended["progress"]["sent"] == 4000
    assert vault.compare().complete
    assert len(reports) == 2
    stats = vault.receiver.stats()
    assert not stats["unreadable"], stats
    announced = sum(report["keysAnnounced"] for report in reports)
    assert 2 <= announced <= stats["keys_installed"], "each key by one of them, and the other one followed"


def test_an_open_end_a_time_filter_and_rules_of_a_config_map_decide_what_is_sent(cluster: Cluster, ready: Site) -> None:
    name, rules = f"{ready.name}-filtered", f"{ready.name}-rules"
    wanted = ready.resend(
        name,
        offsets={"topic": ready.topic, "partition": 0, "from": 3},
        timeFilter={"from": "1970-01-01T00:00:00Z"},
        inputFilter={"rulesFrom": {"configMap": {"name": rules}}},
        isolationLevel="ReadCommitted",
        clientId="e2e",
        groupId="e2e",
        stallTimeoutSeconds=30,
        logLevel="Debug",
    )
    cluster.apply(wanted)
    cluster.wait_for(
        "resend", name, lambda it: reason(it.get("status", {})) == "FilterRulesNotFound", namespace=SENDER_NAMESPACE
    )
    assert ready.datagrams() == 0
    with contextlib.ExitStack() as after:
        after.callback(cluster.delete, "configmap", rules, SENDER_NAMESPACE)
        literal = "--from-literal=filter.rules=# nothing passes\ndeny:(?s).*\n"
        cluster.kubectl("create", "configmap", rules, f"--namespace={SENDER_NAMESPACE}", literal)
        ended = wait(cluster, name)
    progress = ended["progress"]
    assert progress["planned"] == progress["filtered"] == ready.counts[0] - 3
    assert progress["sent"] == 0


def report_lines(cluster: Cluster, pod: str) -> list[str]:
    return [line for line in cluster.logs(pod, SENDER_NAMESPACE).splitlines() if line.startswith('{"event":"report"')]
