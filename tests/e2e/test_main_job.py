"""The main job on a real cluster, from nothing installed to every event there, each step as a person does it.

The record of it is a page of the documentation: `python -m kit.story.walkthrough build/e2e/walkthrough.md
docs/procedures/operator-walkthrough.md` brings the page up to date.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kit.cluster.product import (
    SCAN_NAMESPACE,
    SENDER_NAMESPACE,
    SIGNING_SECRET,
    Installation,
    Site,
    as_yaml,
    condition_of,
    has_answered,
)
from kit.signing import key_pair
from kit.story.walkthrough import Walkthrough

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster

ROOT = Path(__file__).parents[2]
EVENTS, FEW_EVENTS = 20_000, 5_000
LOSS = 0.03
MOST_ROUNDS = 5
LOOK = ("get", "diodes,gapscans,resends", "--all-namespaces")

pytestmark = pytest.mark.timeout(600)

INTRODUCTION = f"""# A walk through the operator

The output of `kubectl` at each stage of the main job: {EVENTS:,} events cross a link that loses {LOSS:.0%} of its
datagrams, until none is missing. This page is recorded by an end-to-end test (`tests/e2e/test_main_job.py`) with real
pods, a real Kafka on both sides, and a link that drops datagrams. Ages, dates and addresses are replaced.

Here, one cluster contains both sides, each in its own namespace, so that one `kubectl get` shows everything. In
production there are two clusters, and a person carries the file `carried.yaml` from one to the other.
"""
INSTALL = """\
helm install gapless charts/gapless --namespace gapless --create-namespace \\
    --set roles.downstream.enabled=true --set roles.upstream.enabled=true \\
    --set 'scan.namespaces={gapless-receiving}' --set scan.createNamespaces=true \\
    --set 'scan.signingKeySecrets={bundle-signing}'"""
KEYS = f"""\
openssl genpkey -algorithm ed25519 -out signing.pem
$ openssl pkey -in signing.pem -pubout -out public.pem
$ kubectl create secret generic {SIGNING_SECRET} -n {SCAN_NAMESPACE} --from-file=signing.pem"""


@pytest.mark.parametrize("reader", ["Spark", "Local"])
def test_what_a_lossy_link_swallowed_is_found_carried_and_sent_again_until_every_event_is_there(  # noqa: PLR0915
    cluster: Cluster, installed: Installation, make_site: SiteFactory, tmp_path: Path, reader: str
) -> None:
    # The page is the record of the default; what is read locally needs no second page, and fewer events.
    is_default = reader == "Spark"
    events = EVENTS if is_default else FEW_EVENTS
    name, live, missing, audit = (
        each if is_default else f"{each}-read-locally" for each in ("hall", "live", "missing", "audit")
    )
    engine = {"type": "Job"} if is_default else {"type": "Job", "reader": reader}
    hall = make_site(name=name)
    hall.fill(events)
    hall.link.change(drop=LOSS)
    page = "walkthrough" if is_default else "walkthrough-read-locally"
    person = Walkthrough(
        ROOT / "build" / "e2e" / f"{page}.md", tmp_path, lambda *typed, **options: of_release(cluster, typed, **options)
    )
    person.write(INTRODUCTION)
    person.stage("Install")
    person.type(INSTALL)
    person.kubectl("rollout", "status", f"deployment/{installed.deployment}", "-n=gapless")

    person.stage(
        "The platform team creates KafkaConnections",
        "GapScans and Resends refer to a KafkaConnection. They contain no brokers, users or Secrets; other topics are "
        "refused.",
    )
    for connection in hall.connections():  # sites come with them; here somebody creates them
        cluster.delete("kafkaconnection", connection["metadata"]["name"], connection["metadata"]["namespace"])
    person.file("kafka.yaml", "---\n".join(map(as_yaml, hall.connections())))
    person.kubectl("apply", "-f", "kafka.yaml")
    person.stage(
        "The receiving side creates a key for its bundles",
        "Its scans sign their bundles with it. The sending side gets the public key once, and refuses all other "
        "bundles.",
    )
    keys = key_pair(tmp_path)
    cluster.delete("secret", SIGNING_SECRET, SCAN_NAMESPACE)
    secret = ("create", "secret", "generic", SIGNING_SECRET, f"-n={SCAN_NAMESPACE}")
    person.type(KEYS, cluster.kubectl(*secret, f"--from-file=signing.pem={keys.private}"))

    person.stage(
        "The sending side creates a Diode",
        "The platform team does this once. The operator checks the node from a pod: does the interface exist, is it "
        "up, and is there a permanent neighbour entry for the receiver?",
    )
    signer = {"name": "receiving-side", "publicKey": keys.public.read_text()}
    person.file("diode.yaml", as_yaml(hall.diode(budget={"eventsPerSecond": 5000}, trustedKeys=[signer])))
    person.kubectl("apply", "-f", "diode.yaml")
    person.kubectl("wait", "--for=condition=Ready", f"diode/{name}", f"-n={SENDER_NAMESPACE}", "--timeout=90s")
    assert "LinkReady" in person.kubectl(*LOOK)
    preflight = status_of(cluster, "diode", name, SENDER_NAMESPACE)["preflight"]
    assert preflight["exists"]
    assert preflight["up"]
    assert preflight["mtu"] >= 1400

    person.stage(
        "Send everything once",
        f"This Resend takes the place of the live sender. The link loses {LOSS:.0%} of the datagrams, and the sending "
        "side cannot know which.",
    )
    person.file("live.yaml", as_yaml(hall.everything(live, eps=2500)))
    person.kubectl("apply", "-f", "live.yaml")
    cluster.wait_for("resend", live, lambda it: it.get("status", {}).get("progress"), namespace=SENDER_NAMESPACE)
    assert "Sending" in person.kubectl(*LOOK)
    succeeded(person, live)
    assert "Sent" in person.kubectl("get", "resend", live, f"-n={SENDER_NAMESPACE}")
    progress = status_of(cluster, "resend", live, SENDER_NAMESPACE)["progress"]
    assert progress["sent"] == progress["planned"] == events
    lost = hall.compare().missing
    assert lost > events * LOSS / 2

    person.stage(
        "The receiving side scans for missing events",
        "The gap detector writes missing offsets to the gaps topic. A GapScan reads this topic.",
    )
    hall.detector.drain()
    everything = {"gapTopic": {"topic": hall.gap_topic, "includeStale": True}}  # Most windows are old by now.
    of_topic = scan(person, cluster, hall, missing, everything, engine=engine)
    assert of_topic["readBy"] == reader.lower()
    person.stage(*AUDIT)
    audited = {"events": {"topics": [hall.topic], "expect": hall.expected}}
    before = scan(person, cluster, hall, audit, audited, engine=engine)
    assert before["readBy"] == reader.lower()
    assert before["missingEvents"] == lost
    assert condition_of(before, "GapsClosed") == ("Unknown", "NothingToCompareWith")

    person.stage("A person carries the bundle to the sending side", CARRY)
    status = close(person, cluster, hall, missing)
    assert 0 < status["missingEvents"] <= lost
    left = hall.compare().missing
    assert left < lost / 2

    for number in range(1, MOST_ROUNDS + 1):
        person.stage(*(AUDIT_AGAIN if number == 1 else ONCE_MORE))
        # Another number of copies is another spec, so the same GapScan looks once more.
        status = scan(person, cluster, hall, audit, audited, engine=engine, copies=2 + number)
        assert status["missingEvents"] == left
        listed = before["missingEvents"]
        counts = {"listed": listed, "closed": listed - left, "unavailable": 0, "open": left, "unknown": 0, "new": 0}
        assert status["comparison"] == {"bundleId": before["bundle"]["id"], **counts}
        assert condition_of(status, "GapsClosed") == (("False", "StillMissing") if left else ("True", "AllClosed"))
        assert status["closedEventsTotal"] == lost - left
        if not left:
            break
        before = close(person, cluster, hall, audit)
        left = hall.compare().missing

    assert status["missingEvents"] == 0
    assert "resendManifest" not in status
    assert "oldestGapSince" not in status
    person.kubectl("wait", "--for=condition=GapsClosed", f"gapscan/{audit}", f"-n={SCAN_NAMESPACE}", "--timeout=60s")
    truth = hall.compare()
    assert truth.complete, truth
    assert truth.expected == events
    person.stage(
        "Nothing is missing",
        f"The test compares all {events:,} events in both Kafka clusters byte by byte: all have arrived unchanged.",
    )
    final = person.kubectl(*LOOK)
    assert "NothingMissing" in final


CARRY = (
    "The status contains a manifest to apply on the sending side, with the list of missing events. (A list of more "
    "than 100 KiB is carried separately; the manifest explains how.)"
)
AUDIT = (
    "The receiving side audits the received events",
    (
        "The gap detector does not report losses at the end of a window, and resent events can be lost as well. An "
        "audit reads the keys of all received events. It takes longer, and its result is exact."
    ),
)
AUDIT_AGAIN = (
    "Audit again: have the gaps closed?",
    (
        "Each scan is compared with the previous bundle of its GapScan. The condition `GapsClosed` shows whether "
        "events of that bundle are still missing. A change of the spec starts another scan; in production, a GapScan "
        "has a `schedule`."
    ),
)
ONCE_MORE = (
    "Repeat until nothing is missing",
    "Resent events can be lost again. More `copies` make this less likely.",
)


def of_release(cluster: Cluster, arguments: tuple[str, ...], **options: Any) -> str:
    """Run kubectl, and of the objects of all namespaces leave out those of other tests, which run at the same time."""
    output = cluster.kubectl(*arguments, **options)
    if "--all-namespaces" not in arguments:
        return output
    tables = []
    for table in output.rstrip("\n").split("\n\n"):
        head, *rows = table.splitlines()
        begins = [word.start() for word in re.finditer(r"\S+(?: \S+)*", head)]
        cells = [
            [line[begin:end].rstrip() for begin, end in itertools.pairwise([*begins, None])] for line in (head, *rows)
        ]
        kept = [cells[0], *(row for row in cells[1:] if row[0] in (SCAN_NAMESPACE, SENDER_NAMESPACE))]
        widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
        lines = ["   ".join(map(str.ljust, row, widths)).rstrip() for row in kept]
        tables += ["\n".join(lines)] if len(lines) > 1 else []
    return "\n\n".join(tables) + "\n"


def status_of(cluster: Cluster, kind: str, name: str, namespace: str) -> dict[str, Any]:
    found = cluster.get(kind, name, namespace)
    assert found is not None
    status: dict[str, Any] = found["status"]
    return status


def scan(
    person: Walkthrough,
    cluster: Cluster,
    site: Site,
    name: str,
    source: dict[str, Any],
    *,
    engine: dict[str, str],
    copies: int = 2,
) -> dict[str, Any]:
    """Apply a GapScan, or change it, and wait for its answer; return its status."""
    wanted = site.gap_scan(name, source=source, engine=engine, signingKeySecret={"name": SIGNING_SECRET})
    wanted["spec"]["resend"]["copies"] = copies
    person.file(f"{name}.yaml", as_yaml(wanted))
    person.kubectl("apply", "-f", f"{name}.yaml")
    # Ready alone is not enough: while the next scan runs, it says how the last one ended.
    cluster.wait_for("gapscan", name, has_answered, namespace=SCAN_NAMESPACE, timeout_seconds=180)
    person.kubectl("wait", "--for=condition=Ready", f"gapscan/{name}", f"-n={SCAN_NAMESPACE}", "--timeout=60s")
    person.kubectl("get", "gapscan", name, f"-n={SCAN_NAMESPACE}")
    return status_of(cluster, "gapscan", name, SCAN_NAMESPACE)


def close(person: Walkthrough, cluster: Cluster, site: Site, name: str) -> dict[str, Any]:
    """Carry the bundle of a GapScan to the sending side and have it sent; return the GapScan's status."""
    status = status_of(cluster, "gapscan", name, SCAN_NAMESPACE)
    bundle = cluster.get("configmap", status["bundle"]["location"].rpartition("/")[2], SCAN_NAMESPACE)
    assert bundle is not None
    assert status["bundle"]["missing"] == status["missingEvents"]
    jsonpath = "-o=jsonpath={.status.resendManifest}"
    text = person.kubectl("get", "gapscan", name, f"-n={SCAN_NAMESPACE}", jsonpath, into="carried.yaml")
    resend = yaml.safe_load(text)["metadata"]["name"]
    person.kubectl("apply", "--server-side", "-f", "carried.yaml")
    succeeded(person, resend)
    person.kubectl(*LOOK)
    ended = status_of(cluster, "resend", resend, SENDER_NAMESPACE)
    assert ended["progress"]["sent"] == status["bundle"]["missing"]
    assert ended["bundleSha256"] == status["bundle"]["sha256"]
    site.settle()
    return status


def succeeded(person: Walkthrough, name: str) -> None:
    person.kubectl("wait", "--for=condition=Succeeded", f"resend/{name}", f"-n={SENDER_NAMESPACE}", "--timeout=120s")
