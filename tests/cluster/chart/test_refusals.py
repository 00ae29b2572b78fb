"""What the chart refuses, and in which words: windows as `gapless windows check` has them, the rest by its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.windows import PartitionWindow, check_disjoint

if TYPE_CHECKING:
    from conftest import Helm

pytestmark = pytest.mark.integration

UPSTREAM = {"roles.upstream.enabled": True}


def window(cluster: str, start: Any, count: Any) -> dict[str, Any]:
    return {"cluster": cluster, "start": start, "count": count}


@pytest.mark.parametrize(
    "windows",
    [
        [window("north", 0, 6), window("south", 5, 6)],
        [window("south", 3, 0), window("north", 0, 4)],
        [window("b", 7, 1), window("a", 7, 1)],
        [window("a", 0, 0), window("b", 2147483647, 1)],
        [window("a", 0, 1), window("b", 9, 3), window("c", 10, 1)],
        [window("a", 5, 0), window("b", 5, 0)],
    ],
)
def test_windows_that_overlap_are_refused_in_the_words_of_the_check(helm: Helm, windows: list[dict[str, Any]]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_disjoint({each["cluster"]: PartitionWindow(each["start"], each["count"]) for each in windows})
    for role in ("upstream", "downstream"):
        values = {f"roles.{role}.enabled": True, "windows": windows, "clusterName": "a"}
        assert str(refused.value) in helm.refusal(**values)


@pytest.mark.parametrize(
    "windows",
    [
        [window("north", 0, 6), window("south", 6, 0)],
        [window("south", 6, 0), window("north", 0, 6)],
        [window("north", 10, 6), window("south", 2, 8), window("ö", 100, 2147483548)],
        [window("north", 0, 0)],
        [window(f"c{number}", number * 10, 10) for number in range(100)] + [window("north", 1000, 1)],
    ],
)
def test_windows_that_do_not_meet_are_taken(helm: Helm, windows: list[dict[str, Any]]) -> None:
    check_disjoint({each["cluster"]: PartitionWindow(each["start"], each["count"]) for each in windows})
    [fleet] = helm.manifests(
        values={**UPSTREAM, "clusterName": "north", "windows": windows}, show="templates/fleet.yaml"
    )
    assert fleet["data"]["clusterName"] == "north"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "The values give this cluster no role; set roles.downstream.enabled=true"),
        (
            {**UPSTREAM, "clusterName": "nroth", "windows": [window("south", 6, 6), window("north", 0, 6)]},
            (
                "The clusterName nroth has no window; add one to the list windows, or give one of the names that it "
                "has: north, south."
            ),
        ),
        (
            {**UPSTREAM, "windows": [window("north", 0, 6)]},
            "The values install a sending cluster without a name; give it a clusterName, one of north.",
        ),
        (
            {**UPSTREAM, "clusterName": "north"},
            "The clusterName north has no window, because the list windows is empty",
        ),
        (
            {**UPSTREAM, "windows": [window("north", 0, 2), window("north", 4, 2)]},
            "The cluster north has two partition windows in the list windows; give it only one.",
        ),
        (
            {**UPSTREAM, "windows": [window("north", -1, 2)]},
            "The partition window of north (start=-1, count=2) is invalid: both must be 0 or more",
        ),
        ({**UPSTREAM, "windows": [window("north", 0, -2)]}, "The partition window of north (start=0, count=-2)"),
        ({**UPSTREAM, "windows": [window("north", 2147483647, 2)]}, "the last partition at most 2147483647"),
        ({**UPSTREAM, "windows": [window("north", 10**30, 0)]}, "the last partition at most 2147483647"),
        (
            {**UPSTREAM, "sender.namespace.name": "gapless-system"},
            "The namespace gapless-system would hold both the release and the senders;",
        ),
        (
            {**UPSTREAM, "roles.downstream.enabled": True, "scan.namespaces": ["a", "gapless-sender"]},
            "The namespace gapless-sender would hold both scans and senders;",
        ),
        (
            {"roles.downstream.enabled": True, "scan.namespaces": ["a", "gapless-system"]},
            "The namespace gapless-system would hold both the release and scans;",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(helm: Helm, values: dict[str, Any], sentence: str) -> None:
    said = helm.refusal(**values)
    assert sentence in said
    assert "Error: execution error at (gapless/templates/validate.yaml" in said


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"clustername": "north"}, "clustername"),
        ({"roles.both.enabled": True}, "/roles"),
        ({"roles.upstream.enabled": "yes"}, "/roles/upstream/enabled"),
        ({"windows": [{"cluster": "north", "start": 0}]}, "/windows/0"),
        ({"windows": [window("north", "0", 6)]}, "/windows/0/start"),
        ({"windows": [window("north", 1.5, 6)]}, "/windows/0/start"),
        ({"windows": [window("", 0, 6)]}, "/windows/0/cluster"),
        ({"windows": [{**window("north", 0, 6), "stop": 6}]}, "/windows/0"),
        ({"image.pullPolicy": "Sometimes"}, "/image/pullPolicy"),
        ({"images.spark.digest": "sha256:abc"}, "/images/spark/digest"),
        ({"images.spark.tag": "a b"}, "/images/spark/tag"),
        ({"imagePullSecrets": ["registry"]}, "/imagePullSecrets/0"),
        ({"operator.logLevel": "loud"}, "/operator/logLevel"),
        ({"operator.replicas": 0}, "/operator/replicas"),
        ({"operator.replicas": 4}, "/operator/replicas"),
        ({"scan.namespaces": ["Scans"]}, "/scan/namespaces/0"),
        ({"scan.namespaces": ["a", "a"]}, "/scan/namespaces"),
        ({"sender.namespace.name": ""}, "/sender/namespace/name"),
        ({"commonLabels.a": 1}, "/commonLabels/a"),
        ({"networkPolicy.apiServerPorts": []}, "/networkPolicy/apiServerPorts"),
        ({"metrics.serviceMonitor.interval": "often"}, "/metrics/serviceMonitor/interval"),
        ({"metrics.prometheusRule.runbookUrl": "docs"}, "/metrics/prometheusRule/runbookUrl"),
    ],
)
def test_the_schema_refuses_values_of_a_wrong_form_and_says_where(
    helm: Helm, values: dict[str, Any], place: str
) -> None:
    said = helm.refusal(**{**UPSTREAM, **values})
    assert "values don't meet the specifications of the schema" in said
    assert place in said
