"""The health checks of Argo CD (Lua) and Flux (CEL), evaluated by real interpreters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import celpy
import pytest
import yaml
from lupa import lua51  # the version that Argo CD's engine speaks

from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.reason_meanings import MEANINGS
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.restore import Restore

FILES = Path(__file__).parents[3] / "charts" / "gapless" / "files"
KINDS = {kind.KIND: kind for kind in (Archive, Diode, GapScan, KafkaConnection, Mirror, Resend, Restore)}
NEVER_SUSPENDED = {Diode.KIND, KafkaConnection.KIND}
CASES = [
    pytest.param(kind, case, id=f"{kind}-{Path(case['inputPath']).stem}")
    for kind in KINDS
    for case in yaml.safe_load((FILES / "argocd" / kind / "health_test.yaml").read_text(encoding="utf-8"))["tests"]
]


def resource(kind: str, case: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FILES / "argocd" / kind / case["inputPath"]).read_text(encoding="utf-8"))
    return loaded


def as_lua(runtime: lua51.LuaRuntime, value: Any) -> Any:
    """Convert JSON as Argo CD does for Lua: tables, and all numbers as floats."""
    if isinstance(value, dict):
        return runtime.table_from({key: as_lua(runtime, item) for key, item in value.items()})
    if isinstance(value, list):
        return runtime.table_from([as_lua(runtime, item) for item in value])
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_argo_cd_shows_each_state_as_expected(kind: str, case: dict[str, Any]) -> None:
    runtime = lua51.LuaRuntime(unpack_returned_tuples=True)
    script = (FILES / "argocd" / kind / "health.lua").read_text(encoding="utf-8")
    health = runtime.execute(f"obj = ...\n{script}", as_lua(runtime, resource(kind, case)))
    assert dict(health) == case["healthStatus"]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_flux_waits_for_each_state_as_expected(kind: str, case: dict[str, Any]) -> None:
    assert flux(kind, resource(kind, case)) == case["kstatus"]


def flux(kind: str, body: dict[str, Any]) -> str:
    """Evaluate the expressions in the order of Flux's kustomize-controller (RFC 0009)."""
    [expressions] = [
        entry
        for entry in yaml.safe_load((FILES / "flux" / "healthCheckExprs.yaml").read_text(encoding="utf-8"))
        if (entry["apiVersion"], entry["kind"]) == (body["apiVersion"], kind)
    ]
    observed = body.get("status", {}).get("observedGeneration")
    if observed is not None and observed != body["metadata"]["generation"]:
        return "InProgress"
    if "status" not in body:
        return "InProgress"  # Flux's engine refuses a variable that is not there, and Flux then waits
    environment = celpy.Environment()
    activation = {name: celpy.json_to_cel(value) for name, value in body.items()}
    for name, answer in (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current")):
        program = environment.program(environment.compile(expressions[name]))
        if bool(program.evaluate(activation)):
            return answer
    return "InProgress"


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_test_states_are_valid_and_have_known_reasons(kind: str, case: dict[str, Any]) -> None:
    body = resource(kind, case)
    read = KINDS[kind].from_resource(body)  # raises when spec or status is not as the CRD says
    for condition in read.status.conditions:
        assert kind in MEANINGS[Reason(condition.reason)].kinds


@pytest.mark.parametrize("kind", KINDS)
def test_every_health_status_of_a_kind_has_a_test_state(kind: str) -> None:
    cases = yaml.safe_load((FILES / "argocd" / kind / "health_test.yaml").read_text(encoding="utf-8"))["tests"]
    shown = {case["healthStatus"]["status"] for case in cases}
    assert shown >= {"Progressing", "Healthy", "Degraded"}
    assert ("Suspended" in shown) == (kind not in NEVER_SUSPENDED)
    used = {FILES / "argocd" / kind / case["inputPath"] for case in cases}
    assert used == set((FILES / "argocd" / kind / "testdata").iterdir())
