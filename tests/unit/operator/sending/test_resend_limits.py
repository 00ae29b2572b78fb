"""The limits of a Diode for its Resends, and bundles that must be signed with a trusted key."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.v1alpha1.conditions import ConditionType as Type
from kit.signing import KeyPair, key_pair

SenderCluster = Any
SOUTH = {"partitionWindow": {"start": 6, "count": 12}}
OFFSETS = {"topic": "transfer", "partition": 8, "from": 0, "to": 9}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return key_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return key_pair(tmp_path_factory.mktemp("foreign"))


def bundle(signing_key: Path | None = None) -> str:
    held = io.BytesIO()
    gaps = PartitionGaps("transfer", 0, 0, 9, OffsetRanges([(3, 5)]))
    with redirect_stdout(io.TextIOWrapper(held, write_through=True)) as stream:
        created = datetime(2026, 11, 20, tzinfo=UTC)
        write_bundle(None, BundleKind.ALL, [gaps], created=created, source={}, signing_key=signing_key)
        text = held.getvalue().decode()
        stream.detach()
    return text


def trusted(keys: KeyPair) -> dict[str, Any]:
    return {"trustedKeys": [{"name": "receiving-side", "publicKey": keys.public.read_text()}]}


def refusal(cluster: SenderCluster, reason: str = "BadConfiguration") -> str:
    """The sentence with which the Resend is refused; nothing was begun."""
    cluster.settle()
    assert cluster.summary() == (reason, "False", "False", "True", "False")
    assert [name for name in cluster.names("Job") if name.startswith("repeat")] == []
    return str(cluster.condition(Type.STALLED).message)


# ------------------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize("window", [{"start": 0, "count": 6}, {"start": 7, "count": 3}, {"start": 6}, {}])
def test_a_window_that_the_diode_does_not_list_is_refused(cluster: SenderCluster, window: dict[str, int]) -> None:
    cluster.diode(**SOUTH)
    cluster.resend(offsets={**OFFSETS, "partition": 8}, partitionWindow=window)
    said = refusal(cluster)
    start, count = window.get("start", 0), window.get("count", 0)
    assert f"spec.partitionWindow (start {start}, count {count}) is none of those that Diode hall allows" in said
    assert "limits.partitionWindows" in said


@pytest.mark.parametrize(
    ("limits", "window"),
    [
        ({}, {"start": 6, "count": 12}),
        ({}, {"start": 6, "count": 3}),
        ({"partitionWindows": [{"start": 40, "count": 4}, {"start": 0, "count": 12}]}, {"start": 0, "count": 12}),
        ({"partitionWindows": [{"start": 0}]}, {"start": 0, "count": 12}),
    ],
)
def test_a_window_that_the_diode_lists_is_what_the_sender_is_told(
    ready: SenderCluster, limits: dict[str, Any], window: dict[str, int]
) -> None:
    ready.diode(**SOUTH, limits=limits)
    ready.settle()
    job = ready.begin(offsets=OFFSETS, partitionWindow=window)
    command = ready.bodies["Job", job]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert f"--partition-start-value={window['start']}" in command
    assert f"--partition-stop-value={window['count']}" in command


# ------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("limits", "spec", "sentence"),
    [
        (
            {"maxEps": 5_000_000.0},
            {"eps": 6_000_000.0},
            "spec.eps is 6,000,000 and Diode hall allows at most 5,000,000; write a lower one.",
        ),
        ({"maxEps": 0.5}, {"eps": 0.75}, "spec.eps is 0.75 and Diode hall allows at most 0.5; write a lower one."),
        (
            {"maxParallelism": 2},
            {"parallelism": 3},
            "spec.parallelism is 3 and Diode hall allows at most 2; write it in a new Resend.",
        ),
        ({"maxPriority": 10}, {"priority": 11}, "spec.priority is 11 and Diode hall allows -1000 to 10; write one of"),
        ({"minPriority": 1, "maxPriority": 9}, {}, "spec.priority is 0 and Diode hall allows 1 to 9; write one of"),
        (
            {"allowForce": False},
            {"force": "again"},
            "Diode hall does not allow spec.force (limits.allowForce), which sends again what was sent before;",
        ),
        ({"bundlesOnly": True}, {}, "Diode hall sends only bundles (limits.bundlesOnly); name one in spec.bundle."),
    ],
)
def test_what_a_diode_does_not_allow_is_refused_in_a_sentence(
    cluster: SenderCluster, limits: dict[str, Any], spec: dict[str, Any], sentence: str
) -> None:
    cluster.diode(limits=limits)
    cluster.resend(**spec)
    assert sentence in refusal(cluster)


def test_values_at_the_limits_are_allowed(ready: SenderCluster) -> None:
    limits = {"maxEps": 100.0, "maxParallelism": 2, "minPriority": 3, "maxPriority": 3, "bundlesOnly": True}
    ready.diode(limits=limits)
    ready.settle()
    ready.resend(without=("offsets",), bundle={"inline": bundle()}, eps=100.0, parallelism=2, priority=3)
    ready.settle()
    assert ready.condition(Type.RECONCILING).status == "True"
    assert [name for name in ready.names("Job") if name.startswith("repeat")]


@pytest.mark.parametrize(("own", "pace"), [({}, "100.0"), ({"eps": 0.0}, "100.0"), ({"eps": 7.0}, "7.0")])
def test_a_resend_without_a_rate_gets_the_maximum(ready: SenderCluster, own: dict[str, float], pace: str) -> None:
    ready.diode(limits={"maxEps": 100.0})
    ready.settle()
    job = ready.begin(**own)
    assert ready.bodies["ConfigMap", job]["data"]["rates.properties"] == f"eps={pace}\n"


# --------------------------------------------------------------------------------------------------- signatures


def test_a_bundle_without_a_signature_is_refused_before_anything_runs(cluster: SenderCluster, keys: KeyPair) -> None:
    cluster.diode(**trusted(keys))
    cluster.resend(without=("offsets",), bundle={"inline": bundle()})
    assert "The bundle spec.bundle.inline is not signed;" in refusal(cluster, "BadBundle")


def test_a_wrong_digest_is_refused_before_the_signature_is_checked(cluster: SenderCluster, keys: KeyPair) -> None:
    cluster.diode(**trusted(keys))
    cluster.resend(without=("offsets",), bundle={"inline": bundle(), "sha256": "0" * 64})
    assert f", but spec.bundle.sha256 is {'0' * 64};" in refusal(cluster, "BadBundle")


def test_a_bundle_with_an_untrusted_signature_is_refused_with_the_names_of_the_trusted_keys(
    cluster: SenderCluster, keys: KeyPair, foreign: KeyPair
) -> None:
    cluster.diode(**trusted(keys))
    cluster.resend(without=("offsets",), bundle={"inline": bundle(foreign.private)})
    said = refusal(cluster, "BadBundle")
    assert "The signature of the bundle spec.bundle.inline matches none of the trusted keys (receiving-side);" in said


def test_a_signed_bundle_is_sent_and_the_sender_gets_the_trusted_keys(
    ready: SenderCluster, keys: KeyPair, foreign: KeyPair
) -> None:
    both = [*trusted(foreign)["trustedKeys"], {"name": "second", "publicKey": keys.public.read_text()}]
    ready.diode(trustedKeys=both)
    ready.settle()
    job = ready.begin(without=("offsets",), bundle={"inline": bundle(keys.private)})
    command = ready.bodies["Job", job]["spec"]["template"]["spec"]["containers"][0]["command"]
    middle = [pair.public.read_text().splitlines()[1] for pair in (foreign, keys)]
    assert f"--trusted-keys=receiving-side:{middle[0]},second:{middle[1]}" in command


def test_senders_that_run_are_replaced_when_other_keys_are_trusted(
    ready: SenderCluster, keys: KeyPair, foreign: KeyPair
) -> None:
    ready.diode(**trusted(keys))
    ready.settle()
    job = ready.begin(without=("offsets",), bundle={"inline": bundle(keys.private)})
    before = ready.bodies["Job", job]["metadata"]["uid"]
    ready.diode(**trusted(foreign))
    ready.settle()
    ready.advance(seconds=60)
    ready.settle()
    now = ready.bodies["Job", ready.a_resend().status.job]
    assert now["metadata"]["uid"] != before
    command = now["spec"]["template"]["spec"]["containers"][0]["command"]
    assert f"--trusted-keys=receiving-side:{foreign.public.read_text().splitlines()[1]}" in command


def test_without_trusted_keys_any_bundle_is_sent_and_a_signature_does_no_harm(
    ready: SenderCluster, keys: KeyPair
) -> None:
    ready.resend(without=("offsets",), bundle={"inline": bundle(keys.private)})
    ready.settle()
    job = ready.a_resend().status.job
    command = ready.bodies["Job", job]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert not [argument for argument in command if "trusted" in argument]


def test_the_same_signed_bundle_under_another_name_is_not_sent_again(ready: SenderCluster, keys: KeyPair) -> None:
    ready.diode(**trusted(keys))
    ready.settle()
    text = bundle(keys.private)
    ready.finished(without=("offsets",), bundle={"inline": text})
    jobs = list(ready.created_jobs)
    ready.resend("replayed", without=("offsets",), bundle={"inline": text})
    ready.settle()
    assert ready.summary("replayed")[0] == "AlreadySent"
    assert ready.created_jobs == jobs
