"""What a tenant may not do is possible as soon as the guards are removed, so that their tests prove something.

The e2e tests show that an installation refuses each attempt with its sentence. Here the API server has no admission
policies, the user has all rights, and the definitions have types alone: each attempt must be accepted, or else it would
be refused for another reason, such as a field that is misspelt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.cluster.api_server import ApiServer
from kit.cluster.attempts import ATTEMPTS, CHANGES, held_archive, running_mirror

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

MANIFESTS = Path(__file__).parents[3] / "crds" / "manifests"
GUARDS = {"x-kubernetes-validations", "pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems"}
STRICT = "dryRun=All&fieldValidation=Strict"
"""A field that the definition does not have is an error."""


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A real API server with the fields of our kinds, without a rule about them, and the objects of `CHANGES`."""
    folder = tmp_path_factory.mktemp("definitions")
    with ApiServer() as server:
        for manifest in MANIFESTS.glob("*.yaml"):
            definition = without_guards(yaml.safe_load(manifest.read_text()))
            (folder / manifest.name).write_text(json.dumps(definition))
        server.apply(*sorted(folder.glob("*.yaml")), server_side=True)
        for manifest in MANIFESTS.glob("*.yaml"):
            server.wait_for("crd", f"{manifest.stem}.gapless.dev", "Established")
        objects = (held_archive(), running_mirror())
        for namespace in {each["metadata"]["namespace"] for each in (*objects, *(each for each, _ in ATTEMPTS))}:
            server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for each in objects:
            server.request("POST", path_of(each["kind"], each["metadata"]["namespace"]), each)
        yield server


def without_guards(schema: Any) -> Any:
    """Return a schema without what refuses a value; `fieldValidation` still knows its fields."""
    if isinstance(schema, dict):
        return {key: without_guards(each) for key, each in schema.items() if key not in GUARDS or is_field(each)}
    return [without_guards(each) for each in schema] if isinstance(schema, list) else schema


def is_field(schema: Any) -> bool:
    """Whether this is a field that has the name of a guard."""
    return isinstance(schema, dict) and "type" in schema


def holds(made: Any, tried: Any) -> bool:
    """Whether an object has everything that was tried, beside defaults."""
    if isinstance(tried, dict):
        return isinstance(made, dict) and all(holds(made.get(key), each) for key, each in tried.items())
    return bool(made == tried)


def path_of(kind: str, namespace: str) -> str:
    return f"/apis/gapless.dev/v1alpha1/namespaces/{namespace}/{kind.lower()}s"


@pytest.mark.parametrize("number", range(len(ATTEMPTS)))
def test_without_the_guards_the_attempt_succeeds(unguarded: ApiServer, number: int) -> None:
    attempt, _ = ATTEMPTS[number]
    path = path_of(attempt["kind"], attempt["metadata"]["namespace"])
    made = unguarded.request("POST", f"{path}?{STRICT}", attempt)
    assert holds(made["spec"], attempt["spec"])


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_without_the_guards_the_change_succeeds(unguarded: ApiServer, number: int) -> None:
    kind, name, namespace, change, _ = CHANGES[number]
    path = f"{path_of(kind, namespace)}/{name}?{STRICT}"
    before = unguarded.fetch(path.partition("?")[0])
    made = unguarded.request("PATCH", path, {"spec": change}, content="application/merge-patch+json")
    assert before is not None
    assert made["spec"] != before["spec"]
