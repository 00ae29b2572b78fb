"""What the platform team adds to the pods of a Diode: by the chart, and by the name in the Diode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gapless_operator.common.pod_template import PodTemplate, PodTemplates

SenderCluster = Any
SENDERS = PodTemplate(labels={"cost": "diodes"}, env={"TZ": "UTC"})
NAMED = {
    "north": PodTemplate(labels={"site": "north"}, spec={"imagePullSecrets": [{"name": "pull"}]}),
    "big": PodTemplate(spec={"tolerations": [], "affinity": {}}),
}


def listed(cluster: SenderCluster, **named: PodTemplate) -> None:
    templates = PodTemplates(senders=SENDERS, sender_namespaces=None, named=named)
    cluster.program = replace(cluster.program, pod_templates=templates)


def pod_template(cluster: SenderCluster, job: str) -> dict[str, Any]:
    template: dict[str, Any] = cluster.bodies["Job", job]["spec"]["template"]
    return template


def test_checks_and_senders_have_what_the_chart_and_the_diode_add(cluster: SenderCluster) -> None:
    listed(cluster, **NAMED)
    cluster.diode(podTemplate="north")
    cluster.settle()
    checked = pod_template(cluster, "hall-00000001-preflight-1")
    cluster.run_preflight()
    cluster.settle()
    for template in (checked, pod_template(cluster, cluster.begin())):
        labels = template["metadata"]["labels"]
        assert (labels["cost"], labels["site"], labels["gapless.dev/diode"]) == ("diodes", "north", "hall")
        spec = template["spec"]
        assert (spec["imagePullSecrets"], spec["hostNetwork"]) == ([{"name": "pull"}], True)
        assert {"name": "TZ", "value": "UTC"} in spec["containers"][0]["env"]


def test_a_template_that_is_not_listed_stops_the_diode_until_it_is(ready: SenderCluster) -> None:
    listed(ready, **NAMED)
    ready.diode(podTemplate="north")
    ready.settle()
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert ready.summary()[0] == "Sending"
    listed(ready)
    ready.settle()
    assert job not in ready.names("Job")
    sentence = "spec.podTemplate names north, which the platform team has not listed"
    for kind, name in (("Diode", "hall"), ("Resend", "repeat")):
        assert sentence in ready.condition("Ready", name, kind).message
    assert ready.summary()[0] == "DiodeInvalid"
    assert ready.condition("Stalled", "hall", "Diode").reason == "BadConfiguration"
    assert ready.a_resend().status.progress.sent == 400
    listed(ready, **NAMED)
    ready.advance(seconds=60)
    ready.settle()
    assert ready.summary()[0] in {"Starting", "Queued"}


def test_the_diode_stops_what_is_on_its_link_also_if_no_resend_does(ready: SenderCluster) -> None:
    listed(ready, **NAMED)
    ready.diode(podTemplate="north")
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    del ready.bodies["Resend", "repeat"]
    ready.reconcile("Diode", "hall")
    assert job in ready.names("Job")
    listed(ready)
    ready.reconcile("Diode", "hall")
    assert job not in ready.names("Job")


def test_a_template_that_chooses_a_node_is_refused(cluster: SenderCluster) -> None:
    listed(cluster, **NAMED)
    cluster.diode(podTemplate="big")
    cluster.settle()
    assert cluster.names("Job") == []
    message = cluster.condition("Stalled", "hall", "Diode").message
    assert "spec.podTemplate names big, which has affinity; in the namespace" in message
    assert "because a Diode chooses its node itself" in message
