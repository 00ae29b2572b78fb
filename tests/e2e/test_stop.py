"""Whatever becomes wrong while events are sent: `suspend` ends the pods within 15 seconds, and nothing begins again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kit.cluster.places import ClusterError
from kit.cluster.product import API_VERSION, SENDER_NAMESPACE, Site, condition_of
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.timeout(900)

WITHIN_SECONDS = 15.0
PLACE = f"--namespace={SENDER_NAMESPACE}"


class Sending:
    """A Resend that sends over a Diode and from a KafkaConnection of its own, slowly."""

    def __init__(self, cluster: Cluster, site: Site, name: str) -> None:
        self.cluster, self.site, self.name = cluster, site, name

    def begin(self) -> None:
        """Have events go over the link, in a while."""
        connection = self.site.connections()[1]
        connection["metadata"]["name"] = self.name
        diode = self.site.diode(resources={"cpu": "50m"})  # all find room on a node beside those of other tests
        diode["metadata"]["name"] = self.name
        resend = self.site.everything(self.name, eps=5)
        resend["spec"] |= {"diodeRef": {"name": self.name}, "kafkaRef": {"name": self.name}}
        self.cluster.apply(connection, diode, resend)

    def wait_until_it_sends(self) -> None:
        """Wait until events go over the link."""
        self.cluster.wait_for(
            "resend",
            self.name,
            lambda it: it.get("status", {}).get("progress", {}).get("sent", 0) > 0,
            namespace=SENDER_NAMESPACE,
            timeout_seconds=120,
        )
        assert self.senders()

    def senders(self) -> list[str]:
        """Names of the pods that are not over, also of those that nobody owns any more."""
        found = self.cluster.list("pod", SENDER_NAMESPACE, f"gapless.dev/diode={self.name},gapless.dev/role=send")
        return [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] not in {"Succeeded", "Failed"}]

    def patch(self, kind: str, **spec: Any) -> None:
        """Change the spec of the Diode, the Resend or the KafkaConnection."""
        self.cluster.kubectl("patch", kind, self.name, PLACE, "--type=merge", "-p", json.dumps({"spec": spec}))

    def suspend(self) -> None:
        """Suspend what is there; what is being deleted may be gone at any time."""
        for kind in ("diode", "resend"):
            try:
                self.patch(kind, suspend=True)
            except ClusterError as error:
                if "(NotFound)" not in str(error):
                    raise

    def is_gone_or_suspended(self) -> bool:
        """Return whether the Resend is gone, or says that it is suspended."""
        resend = self.cluster.get("resend", self.name, SENDER_NAMESPACE)
        return resend is None or condition_of(resend["status"], "Ready") == ("False", "Suspended")

    def clear(self) -> None:
        """Take all of it away."""
        patch = ("--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        if self.cluster.get("diode", self.name, SENDER_NAMESPACE) is not None:
            self.cluster.kubectl("patch", "diode", self.name, PLACE, *patch)
        for kind in ("resend", "diode", "kafkaconnection"):
            self.cluster.delete(kind, self.name, SENDER_NAMESPACE, wait=False)
        self.cluster.kubectl("delete", "jobs,pods", PLACE, "--wait=false", f"--selector=gapless.dev/diode={self.name}")


def diode_is_deleted(sending: Sending) -> None:
    sending.cluster.delete("diode", sending.name, SENDER_NAMESPACE, wait=False)


def diode_is_kept_by_a_finalizer(sending: Sending) -> None:
    finalizers = json.dumps({"metadata": {"finalizers": ["example.com/kept"]}})
    sending.cluster.kubectl("patch", "diode", sending.name, PLACE, "--type=merge", "-p", finalizers)
    sending.cluster.delete("diode", sending.name, SENDER_NAMESPACE, wait=False)


def window_is_corrected(sending: Sending) -> None:
    sending.patch("diode", partitionWindow={"start": 900, "count": 4})


def receiver_is_shared_with_the_live_stream(sending: Sending) -> None:
    shared = {"certificateSecret": {"name": "nowhere"}, "sharedWithLiveStream": True}
    sending.patch("diode", encryption=shared, maxConcurrentResends=1)


def connection_is_deleted(sending: Sending) -> None:
    sending.cluster.delete("kafkaconnection", sending.name, SENDER_NAMESPACE)


def topic_is_no_longer_allowed(sending: Sending) -> None:
    sending.patch("kafkaconnection", allowedTopics=["another"])


def resend_is_deleted_without_its_job(sending: Sending) -> None:
    sending.cluster.kubectl("delete", "resend", sending.name, PLACE, "--cascade=orphan", "--wait=false")


def job_is_deleted_without_its_pods(sending: Sending) -> None:
    jobs = f"--selector=gapless.dev/diode={sending.name},gapless.dev/role=send"
    sending.cluster.kubectl("delete", "jobs", PLACE, jobs, "--cascade=orphan", "--wait=false")


WAYS: list[Callable[[Sending], None]] = [
    diode_is_deleted,
    diode_is_kept_by_a_finalizer,
    window_is_corrected,
    receiver_is_shared_with_the_live_stream,
    connection_is_deleted,
    topic_is_no_longer_allowed,
    resend_is_deleted_without_its_job,
    job_is_deleted_without_its_pods,
]


def test_suspend_ends_the_pods_whatever_became_wrong_while_they_sent(cluster: Cluster, make_site: SiteFactory) -> None:
    site = make_site()
    site.fill(4000)
    all_of_them = {way.__name__: Sending(cluster, site, f"{site.name}-{number}") for number, way in enumerate(WAYS)}
    try:
        # All begin together, for most of the time is that of starting pods; each goes wrong while it sends.
        for sending in all_of_them.values():
            sending.begin()
        for make_wrong, sending in zip(WAYS, all_of_them.values(), strict=True):
            sending.wait_until_it_sends()
            make_wrong(sending)
            sending.suspend()
            deadline = time.monotonic() + WITHIN_SECONDS
            while left := sending.senders():
                story = cluster.describe(cluster.get("resend", sending.name, SENDER_NAMESPACE), SENDER_NAMESPACE)
                assert time.monotonic() < deadline, f"{make_wrong.__name__}: {left} still there\n{story}"
                time.sleep(0.5)
        quiet = site.datagrams()
        time.sleep(2)
        began_again = {way: sending.senders() for way, sending in all_of_them.items() if sending.senders()}
        assert (began_again, site.datagrams()) == ({}, quiet)
        for way, sending in all_of_them.items():
            # One that was deleted is there until its dependents have no owner any more.
            wait_until(sending.is_gone_or_suspended, timeout_seconds=60, what=f"Suspended after {way}")
    finally:
        for sending in all_of_them.values():
            sending.clear()


def test_a_suspended_diode_stops_all_and_every_resend_goes_on_where_it_was(cluster: Cluster, site: Site) -> None:
    site.fill(2000)
    cluster.apply(site.diode(maxConcurrentResends=2))
    cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
    names = [f"{site.name}-{partition}" for partition in (0, 1)]
    for partition, name in enumerate(names):
        chosen = {"topic": site.topic, "partition": partition, "from": 0, "to": site.counts[partition] - 1}
        cluster.apply(site.resend(name, offsets=chosen, eps=50))
    for name in names:
        cluster.wait_for(
            "resend",
            name,
            lambda it: it.get("status", {}).get("progress", {}).get("sent", 0) > 20,
            namespace=SENDER_NAMESPACE,
            timeout_seconds=120,
        )
    suspend(cluster, site, wanted=True)
    labels = f"gapless.dev/diode={site.name},gapless.dev/role=send"
    deadline = time.monotonic() + WITHIN_SECONDS
    while cluster.list("pod", SENDER_NAMESPACE, labels):
        assert time.monotonic() < deadline, cluster.describe(None, SENDER_NAMESPACE)
        time.sleep(0.5)
    diode = cluster.get("diode", site.name, SENDER_NAMESPACE)
    assert diode is not None
    assert diode["apiVersion"] == API_VERSION
    assert condition_of(diode["status"], "Ready") == ("False", "Suspended")
    for name in names:
        cluster.wait_for(
            "resend",
            name,
            lambda it: condition_of(it["status"], "Ready") == ("False", "DiodeSuspended"),
            namespace=SENDER_NAMESPACE,
        )
        cluster.kubectl("patch", "resend", name, PLACE, "--type=merge", "-p", '{"spec":{"eps":0}}')
    suspend(cluster, site, wanted=False)
    for partition, name in enumerate(names):
        ended = cluster.wait_for("resend", name, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=180)
        assert ended["status"]["progress"]["sent"] == site.counts[partition]
    assert site.compare().duplicates == 0, "what was stopped noted in its checkpoint what it had sent"


def suspend(cluster: Cluster, site: Site, *, wanted: bool) -> None:
    change = json.dumps({"spec": {"suspend": wanted}})
    cluster.kubectl("patch", "diode", site.name, PLACE, "--type=merge", "-p", change)
