"""The ledger outlives what Git brings back, can be carried to another cluster, and takes several writers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from unit.docs.command_tree import help_examples

pytestmark = pytest.mark.integration

GAPLESS = Path(sys.executable).with_name("gapless")


def ledger(place: Any, *arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
    """Run the command; what it printed on standard output and on standard error."""
    ended = subprocess.run(
        [GAPLESS, "ledger", *arguments, f"--namespace={place.name}"],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(place.api.kubeconfig)},
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout, ended.stderr


def delete(place: Any, path: str) -> None:
    place.api.request("DELETE", path)


def is_gone(place: Any, kind: str, name: str) -> bool:
    return name not in place.names(f"/apis/gapless.dev/v1alpha1 {kind.lower()}s")


def an_export(diode: str, numbers: range) -> str:
    figures = {"sent": 1, "filtered": 0, "filled": 0, "unavailable": 0}
    head = {"resend": "old", "bundleId": None, "force": None, "finishedAt": "2026-10-01T00:00:00Z"}
    entries = [{"identity": f"{number:064x}", "resendUid": f"uid-{number}", **head, **figures} for number in numbers]
    return json.dumps({"gaplessLedgerExport": 1, "ledgers": [{"diode": diode, "entries": entries}]})


def test_what_git_brings_back_is_not_sent_again(place: Any, operator: Callable[..., Any]) -> None:
    operator()
    place.diode()
    place.resend()
    place.until("Resend", "again", "Succeeded", "True", "Sent")
    exported, _ = ledger(place, "export")
    assert [entry["resend"] for entry in json.loads(exported)["ledgers"][0]["entries"]] == ["again"]
    for kind, name in (("Resend", "again"), ("Diode", "north")):
        delete(place, place.path(kind, name))
        place.api.eventually(lambda kind=kind, name=name: is_gone(place, kind, name), what="the deletion")
    place.diode()
    place.resend()
    place.until("Resend", "again", "Succeeded", "True", "AlreadySent")
    (kept,) = (name for name in place.names("/api/v1 configmaps") if name.startswith("gapless-ledger-north-"))
    delete(place, f"/api/v1/namespaces/{place.name}/configmaps/{kept}")
    assert ledger(place, "import", "-", stdin=exported)[1] == "Added 1 entries; 0 existed already.\n"
    place.resend("another")
    place.until("Resend", "another", "Succeeded", "True", "AlreadySent")
    assert ledger(place, "import", "-", stdin=exported)[1] == "Added 0 entries; 1 existed already.\n"


def test_the_example_of_help_exports_a_ledger(place: Any, tmp_path: Path) -> None:
    (example,) = (each for each in help_examples() if each.startswith("gapless ledger "))
    ledger(place, "import", "-", stdin=an_export("north", range(1)))
    words = [place.name if word == "gapless-sender" else word for word in shlex.split(example)[1:]]
    environment = {**os.environ, "KUBECONFIG": str(place.api.kubeconfig)}
    subprocess.run([GAPLESS, *words], check=True, cwd=tmp_path, env=environment)
    (entry,) = json.loads((tmp_path / "ledger.json").read_text())["ledgers"][0]["entries"]
    assert entry["resendUid"] == "uid-0"


def test_writers_at_the_same_time_lose_nothing_of_each_other(place: Any) -> None:
    exports = [an_export("north", range(10 * writer, 10 * writer + 10)) for writer in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda text: ledger(place, "import", "-", stdin=text), exports))
    found = json.loads(ledger(place, "export")[0])["ledgers"][0]["entries"]
    assert {entry["resendUid"] for entry in found} == {f"uid-{number}" for number in range(60)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "no version (gaplessLedgerExport)"),
        ('{"gaplessLedgerExport":7,"ledgers":[]}', "version 7, and this program reads version 1"),
        (
            an_export("north", range(1)).replace("2026-10-01T00:00:00Z", "yesterday"),
            "'yesterday', which is not a valid time",
        ),
    ],
)
def test_a_file_that_is_no_ledger_is_refused(place: Any, text: str, said: str) -> None:
    _, error = ledger(place, "import", "-", stdin=text, code=2)
    assert said in error
    assert place.names("/api/v1 configmaps") == [
        name for name in place.names("/api/v1 configmaps") if "ledger" not in name
    ]


def test_a_config_map_of_somebody_else_is_not_written(place: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gapless-ledger-north-2026-10"}}
    place.api.request("POST", f"/api/v1/namespaces/{place.name}/configmaps", {**body, "data": {"mine": "1"}})
    _, error = ledger(place, "import", "-", stdin=an_export("north", range(1)), code=2)
    assert "gapless-ledger-north-2026-10 exists and belongs to" in error
