"""`gapless cluster` shows and controls everything, with a real API server, an operator, and without one."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.operator.test_suspended_namespace import running_pods, start_work
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from kit.cluster.kubelet import Runs, as_lines
from kit.story import messages
from unit.docs.command_tree import help_examples

pytestmark = pytest.mark.integration

ROLE = "gapless.dev/role"
PLUGIN = Path(sys.executable).with_name("kubectl-gapless")


def call(place: Any, *arguments: str, code: int = 0, config: Path | None = None) -> tuple[str, str]:
    """Run the plugin; what it printed on standard output and on standard error."""
    environment = {**os.environ, "KUBECONFIG": str(config or place.api.kubeconfig)}
    ended = subprocess.run([PLUGIN, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == code, ended.stderr
    return ended.stdout, ended.stderr


def write(file: Path, offsets: list[int]) -> None:
    """Write a bundle of some offsets."""
    gaps = PartitionGaps("transfer", 0, 0, 10**9, OffsetRanges.of_offsets(offsets))
    created = datetime(2026, 11, 20, tzinfo=UTC)
    write_bundle(file, BundleKind.ALL, [gaps], created=created, source={"command": "gapless scan"})


def kubeconfig(place: Any, folder: Path, **changed: dict[str, str]) -> Path:
    """The administrator's kubeconfig with another cluster or another user."""
    config = yaml.safe_load(place.api.kubeconfig.read_text())
    for part, content in changed.items():
        config[f"{part}s"][0][part] = content
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def shown(place: Any) -> dict[str, dict[str, Any]]:
    """What `status -o json` says of each object of the namespace, by kind and name."""
    printed, _ = call(place, "status", "-n", place.name, "-o", "json")
    objects = {f"{line['kind']}/{line['name']}": line for line in json.loads(printed)["objects"]}
    printed, _ = call(place, "status", "-n", place.name, "-o", "jsonl")
    lines = [json.loads(line) for line in printed.splitlines()]  # the figures may have changed
    assert [f"{line['kind']}/{line['name']}" for line in lines] == list(objects)
    return objects


def test_everything_is_stopped_shown_and_resumed(place: Any, operator: Callable[..., Any]) -> None:
    operator()
    start_work(place)
    assert shown(place)["Resend/again"]["state"] == "Sending"
    assert "3 of 7 events sent" in shown(place)["Resend/again"]["what"]
    _, said = call(place, "stop", "-n", place.name)
    assert said == f"The namespace {place.name} is stopped: nothing runs.\n"
    assert running_pods(place) == []
    place.until("Resend", "again", "Ready", "False", "Suspended")
    page, _ = call(place, "status", "-n", place.name)
    assert page.startswith(f"Namespace {place.name} is stopped: gapless.dev/suspend=true.\n")
    assert "Resend/again" in page
    call(place, "stop", "-n", place.name)
    call(place, "resume", "-n", place.name)
    place.until("Resend", "again", "Ready", "False", "Sending", seconds=60)
    call(place, "resume", "-n", place.name)
    assert "is stopped" not in call(place, "status", "-n", place.name)[0]


def test_without_an_operator_what_runs_is_named_and_then_deleted(place: Any, operator: Callable[..., Any]) -> None:
    running = operator()
    start_work(place)
    running.kill()
    _, said = call(place, "stop", "-n", place.name, "--wait=1", code=4)
    assert said.startswith("Still running after 1 s: ")
    assert said.endswith("If the operator is down, add --without-operator.\n")
    assert re.search(r"\bjob/again-\S+", said)
    assert re.search(r"\bpod/again-\S+", said)
    _, said = call(place, "stop", "-n", place.name, "--without-operator")
    assert said.endswith("is stopped: nothing runs.\n")
    assert running_pods(place) == []


def test_a_plan_is_approved_and_a_resend_retried(place: Any, operator: Callable[..., Any]) -> None:
    usual, planned = place.behave, as_lines(messages.plan(7))
    place.behave = lambda pod: Runs(planned) if pod["metadata"]["labels"].get(ROLE) == "plan" else usual(pod)
    operator()
    place.diode()
    place.resend(mode="Plan")
    place.until("Resend", "again", "Ready", "True", "Planned")
    assert "approve it to send" in shown(place)["Resend/again"]["what"]
    text, said = call(place, "plan", "again", "-n", place.name)
    assert text.startswith("events:       7 in 1 ranges\nunavailable:  0\n")
    assert said.startswith("Would send 7 events; nothing was sent. Kafka's retention deletes none")
    plan = json.loads(call(place, "plan", "resend/again", "-n", place.name, "-o", "json")[0])
    assert plan == place.read("Resend", "again")["status"]["plan"]
    assert "sends as soon as" in call(place, "approve", "again", "-n", place.name)[1]
    place.until("Resend", "again", "Succeeded", "True", "Sent")
    assert "nothing to approve" in call(place, "approve", "resend/again", "-n", place.name)[1]
    _, said = call(place, "retry", "resend/again", "-n", place.name)
    assert place.read("Resend", "again")["spec"]["retry"] in said


def test_a_plan_that_is_not_known_is_neither_empty_nor_waited_for_without_end(
    place: Any, operator: Callable[..., Any]
) -> None:
    place.diode()
    place.resend(mode="Plan")
    _, said = call(place, "plan", "again", "-n", place.name, "--wait=0", code=4)
    assert said == "The Resend again has no plan: the operator has not seen it yet.\n"
    place.resend("typed", mode="Send")
    _, said = call(place, "plan", "typed", "-n", place.name, code=2)
    assert said == "gapless: The Resend typed is not a plan: it sends without one. Create it with spec.mode: Plan.\n"
    place.resend("lost", diodeRef={"name": "absent"}, mode="Plan")
    operator()
    assert "absent" in call(place, "plan", "lost", "-n", place.name, "--wait=5", code=4)[1]


def test_a_support_bundle_has_objects_events_and_logs_and_no_secret(
    place: Any, operator: Callable[..., Any], tmp_path: Path
) -> None:
    canary = "sesame-open-4711"
    place.api.kubectl("create", "secret", "generic", "login", f"--from-literal=password={canary}", "-n", place.name)
    place.api.kubectl("create", "configmap", "notes", f"--from-literal=token={canary}", "-n", place.name)
    place.kafka("up", sasl={"username": "u", "passwordSecret": {"name": "login"}})
    operator()
    start_work(place)
    inline = json.dumps({"type": "all", "results": [], "note": canary})
    spec = {"diodeRef": {"name": "north"}, "kafkaRef": {"name": "up"}, "bundle": {"inline": inline}}
    place.apply("Resend", "typed", **spec)
    file = tmp_path / "support.tar.gz"
    _, said = call(place, "support-bundle", "-n", place.name, "-o", str(file))
    assert said.startswith("Wrote ")
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        found = {entry.name: archive.extractfile(entry).read().decode() for entry in archive}  # type: ignore[union-attr]
    assert canary not in "".join(found.values())
    names = {name.removeprefix("gapless-support/").replace(place.name, "NS") for name in found}
    assert {"versions.json", "status.txt", "events/NS.json", "objects/NS/Resend/again.json"} <= names
    assert "objects/NS/KafkaConnection/up.json" in names
    logs = "".join(text for name, text in found.items() if name.endswith(".log"))
    assert "gaplessProgress" in logs
    assert json.loads(found["gapless-support/versions.json"])["kubernetes"].startswith("v1.")
    assert json.loads(found[f"gapless-support/events/{place.name}.json"])


def test_the_examples_of_help_work_as_they_are_printed(
    place: Any, operator: Callable[..., Any], tmp_path: Path
) -> None:
    usual, planned = place.behave, as_lines(messages.plan(7))
    place.behave = lambda pod: Runs(planned) if pod["metadata"]["labels"].get(ROLE) == "plan" else usual(pod)
    operator()
    place.diode("hall")
    place.kafka("kafka-up")
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    place.diode()
    place.resend("hall-0417", mode="Plan")
    place.until("Resend", "hall-0417", "Ready", "True", "Planned")
    examples = ["gapless cluster status", *(each for each in help_examples() if each.startswith("gapless cluster "))]
    assert len(examples) == 11
    files = {name: str(tmp_path / name) for name in ("support.tar.gz", "night.json.gz", "night.html")}
    own = {"gapless-sender": place.name, "gapless-scan": place.name, **files}
    for example in examples:
        words = [own.get(word, word) for word in example.split()[2:]]
        call(place, *words)
    assert place.read("Resend", "hall-0417")["spec"]["mode"] == "Send"


def test_a_bundle_is_exported_carried_and_imported_once(
    place: Any, operator: Callable[..., Any], tmp_path: Path
) -> None:
    usual, planned = place.behave, as_lines(messages.plan(7))
    place.behave = lambda pod: Runs(planned) if pod["metadata"]["labels"].get(ROLE) == "plan" else usual(pod)
    operator()
    place.diode()
    place.gap_scan()
    place.until("GapScan", "night", "Ready", "True", "GapsFound")
    file = tmp_path / "night.json.gz"
    _, said = call(place, "export", "gapscan/night", "-n", place.name, "-o", str(file))
    assert said == f"Wrote {file}: 7 missing events.\n"
    bundle = read_bundle(file)
    assert (bundle.missing, bundle.sha256) == (7, place.read("GapScan", "night")["status"]["bundle"]["sha256"])
    page = tmp_path / "night.html"
    _, said = call(place, "report", "gapscan/night", "-n", place.name, "-o", str(page))
    assert said == f"Wrote {page}: 7 missing events.\n"
    assert "The bundle lists 7 missing events" in page.read_text()

    there = ("import", str(file), "-n", place.name, "--diode=north", "--kafka=up")
    name = f"bundle-{bundle.sha256[:12]}"
    _, said = call(place, *there)
    plan, approve = (f"gapless cluster {word} {name} -n {place.name}" for word in ("plan", "approve"))
    assert said == f"Created the Resend {name} of 7 missing events; see {plan}, and then {approve}.\n"
    place.until("Resend", name, "Ready", "True", "Planned")
    _, said = call(place, *there)
    assert said == f"The Resend {name} of this bundle exists already; nothing was changed.\n"
    call(place, "approve", name, "-n", place.name)
    place.until("Resend", name, "Succeeded", "True", "Sent")
    printed, said = call(place, "logs", f"resend/{name}", "-n", place.name)
    assert "gaplessReport" in printed
    assert said.count("--- ") == 1, "the pod of the plan is deleted"

    plain = tmp_path / "night.json"
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    call(place, "import", str(plain), "-n", place.name, "--diode=north", "--kafka=up", "--name=again", "--send")
    place.until("Resend", "again", "Succeeded", "True", "AlreadySent")

    carried = tmp_path / "resend.yaml"
    call(place, "export", "night", "--resend", "-n", place.name, "-o", str(carried))
    resend = yaml.safe_load(carried.read_text())
    assert resend["spec"]["bundle"]["sha256"] == bundle.sha256
    place.api.kubectl("apply", "--server-side", "-n", place.name, "-f", str(carried))
    place.until("Resend", resend["metadata"]["name"], "Succeeded", "True", "AlreadySent")


def test_what_cannot_be_exported_or_imported_changes_nothing(
    place: Any, operator: Callable[..., Any], tmp_path: Path
) -> None:
    operator()
    place.gap_scan(schedule={"cron": "0 3 29 2 *"})
    file, out = tmp_path / "night.json.gz", ("-n", place.name, "-o", str(tmp_path / "night.json.gz"))
    place.until("GapScan", "night", "Ready", "Unknown", "NeverScanned")
    for word in ("export", "report"):
        assert "has no bundle: no scan has succeeded" in call(place, word, "night", *out, code=2)[1]
    place.gap_scan("day")
    place.until("GapScan", "day", "Ready", "True", "GapsFound")
    call(place, "export", "day", *out)
    there = ("import", str(file), "-n", place.name, "--kafka=up", "--diode=north")
    assert "There is no Diode north" in call(place, *there, code=2)[1]
    place.diode()
    assert "There is no KafkaConnection absent" in call(place, *there, "--kafka=absent", code=2)[1]
    assert "Invalid value" in call(place, *there, "--name=No_Name", code=2)[1]
    place.api.kubectl("create", "configmap", "taken", "--from-literal=a=b", "-n", place.name)
    assert "exists with other content" in call(place, *there, "--name=taken", code=2)[1]
    offsets = random.Random(1).sample(range(10**9), 400_000)
    for big, name in ((tmp_path / "big.json", "big"), (tmp_path / "big.json.gz", "packed")):
        write(big, offsets)
        told = call(place, "import", str(big), *there[2:], f"--name={name}", code=2)[1]
        assert "has more than the 921,600 bytes of a ConfigMap, also compressed" in told
    place.resend("other")
    assert "exists with another bundle" in call(place, *there, "--name=other", code=2)[1]
    file.write_bytes(file.read_bytes()[:-9])
    assert f"{file}" in call(place, *there, code=2)[1]
    maps = set(place.names("/api/v1 configmaps"))
    ours = {name for name in maps if name.startswith(("day-", "night-", "other-", "gapless-"))}
    assert maps - ours <= {"taken", "kube-root-ca.crt"}, "nothing of what was refused is left"

    reference = place.read("GapScan", "day")["status"]["bundle"]["location"]
    before = file.read_bytes()
    for other, sentence in ((b"{}", "in the ConfigMap"), (b'{"type": "all", "results": []}', "is another one than")):
        changed = json.dumps({"binaryData": {"bundle.json.gz": base64.b64encode(gzip.compress(other)).decode()}})
        place.api.kubectl("patch", "configmap", reference, "--type=merge", "-p", changed, "-n", place.name)
        for word in ("export", "report"):
            assert sentence in call(place, word, "day", *out, code=2)[1]
        assert file.read_bytes() == before
    assert "no logs" in call(place, "logs", "pod/x", "-n", place.name, code=2)[1]
    assert "has no pod" in call(place, "logs", "gapscan/night", "-n", place.name, code=4)[1]


def test_an_import_whose_resend_is_refused_leaves_no_bundle_behind(place: Any, tmp_path: Path) -> None:
    place.diode()
    place.kafka("up")
    place.api.kubectl("create", "serviceaccount", "carrier", "-n", place.name)
    account = f"--serviceaccount={place.name}:carrier"
    for name, verbs, resource in (("reads", "get,list", "*.gapless.dev"), ("maps", "*", "configmaps")):
        place.api.kubectl("create", "role", name, f"--verb={verbs}", f"--resource={resource}", "-n", place.name)
        place.api.kubectl("create", "rolebinding", name, f"--role={name}", account, "-n", place.name)
    token = place.api.kubectl("create", "token", "carrier", "-n", place.name).strip()
    file = tmp_path / "night.json"
    write(file, [1, 2])
    before = place.names("/api/v1 configmaps")
    arguments = ("import", str(file), "-n", place.name, "--diode=north", "--kafka=up")
    assert "403" in call(place, *arguments, code=2, config=kubeconfig(place, tmp_path, user={"token": token}))[1]
    assert place.names("/api/v1 configmaps") == before
    assert "Created the Resend" in call(place, *arguments)[1]


def test_a_bundle_that_is_being_deleted_is_not_sent(place: Any, tmp_path: Path) -> None:
    place.diode()
    place.kafka("up")
    file = tmp_path / "night.json"
    write(file, [1, 2])
    arguments = ("import", str(file), "-n", place.name, "--diode=north", "--kafka=up", "--name=night")
    call(place, *arguments)
    holding = json.dumps({"metadata": {"finalizers": ["example.com/hold"]}})
    place.api.kubectl("patch", "configmap", "night", "--type=merge", "-p", holding, "-n", place.name)
    for kind in ("resend", "configmap"):
        place.api.kubectl("delete", kind, "night", "--wait=false", "-n", place.name)
    place.api.eventually(lambda: not place.names("/apis/gapless.dev/v1alpha1 resends"), what="the end of the Resend")
    assert "The ConfigMap night is being deleted: import the bundle again" in call(place, *arguments, code=2)[1]
    assert not place.names("/apis/gapless.dev/v1alpha1 resends")
    released = json.dumps({"metadata": {"finalizers": None}})
    place.api.kubectl("patch", "configmap", "night", "--type=merge", "-p", released, "-n", place.name)
    assert "Created the Resend" in call(place, *arguments)[1]


def test_what_is_wrong_is_one_sentence(place: Any, tmp_path: Path) -> None:
    for arguments, sentence in (
        (("plan", "absent"), "There is no Resend absent in the namespace"),
        (("approve", "absent"), "There is no Resend absent in the namespace"),
        (("retry", "mirror/copies"), "mirror/copies cannot be retried; write resend/NAME or restore/NAME."),
        (("retry", "restore/absent"), "There is no Restore absent in the namespace"),
    ):
        _, said = call(place, *arguments, "-n", place.name, code=2)
        assert sentence in said
    away = kubeconfig(place, tmp_path, cluster={"server": "https://127.0.0.1:1"})
    _, said = call(place, "stop", "-n", place.name, code=3, config=away)
    assert said.startswith("gapless: The API server cannot be reached (")
    assert said.count("\n") == 1
    assert call(place, "status", "-n", f"{place.name}-empty")[0] == "There are no objects of Gapless.\n"


def test_an_account_without_rights_is_told_so(place: Any, tmp_path: Path) -> None:
    """The page of all namespaces needs rights on all; `--namespace` needs those of one."""
    place.api.kubectl("create", "serviceaccount", "reader", "-n", place.name)
    token = place.api.kubectl("create", "token", "reader", "-n", place.name).strip()
    _, said = call(place, "status", code=2, config=kubeconfig(place, tmp_path, user={"token": token}))
    assert "403" in said
    assert "name a namespace with --namespace" in said
    rights = ("--verb=get,list", "--resource=*.gapless.dev")
    place.api.kubectl("create", "role", "reads", *rights, "-n", place.name)
    account = f"--serviceaccount={place.name}:reader"
    place.api.kubectl("create", "rolebinding", "reads", "--role=reads", account, "-n", place.name)
    place.diode()
    config = kubeconfig(place, tmp_path, user={"token": token})
    printed, _ = call(place, "status", "-n", place.name, config=config)
    assert printed.startswith(
        f"Whether the namespace {place.name} is stopped is unknown: this account may not read it."
    )
    assert "Diode/north" in printed
    assert "403" in call(place, "stop", "-n", place.name, code=2, config=config)[1]
