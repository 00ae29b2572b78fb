"""The definitions are generated from the models and valid in Kubernetes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.kinds import KINDS
from gapless_api.v1alpha1.model import ApiModel, Rule
from gapless_api.v1alpha1.schema import definition, manifests, root_schema, structural_schema

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resource import Resource

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
REJECTED = sorted((ROOT / "tests" / "e2e" / "rejected").glob("*.yaml"))
EXPECTED = "gapless.dev/refused-with"
BY_KIND = {kind.KIND: kind for kind in KINDS}


def objects(file: Path) -> list[dict[str, Any]]:
    found = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    for thing in found:
        thing["metadata"].setdefault("namespace", "gapless")
    return found


def first_mistakes() -> list[Any]:
    """Return the objects that are invalid on creation, not only on an update."""
    return [
        pytest.param(thing, thing["metadata"]["annotations"][EXPECTED], id=file.stem)
        for file in REJECTED
        for thing in objects(file)[:1]
        if EXPECTED in thing["metadata"].get("annotations", {})
    ]


def parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return `schema` and all schemas below it."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from parts(schema[key], f"{path}[]")


def all_parts() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in KINDS:
        for name in {"spec", "status"} & set(kind.model_fields):
            yield from parts(root_schema(kind)["properties"][name], f"{kind.KIND}.{name}")


def _int64(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _all_different(_validator: object, kind: str, given: object, _schema: object) -> Iterator[Exception]:
    if kind == "set" and isinstance(given, list) and len(set(given)) < len(given):
        yield jsonschema.ValidationError("duplicates")


def validator(kind: type[Resource]) -> Any:
    """Return a JSON Schema validator with the Kubernetes keywords for values."""
    formats = jsonschema.FormatChecker(formats=())
    formats.checks("int64")(_int64)
    formats.checks("date-time")(lambda value: not isinstance(value, str) or value[-1] == "Z" or value[-6] in "+-")
    extended = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"x-kubernetes-list-type": _all_different})
    return extended(root_schema(kind), format_checker=formats)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return manifests()


@pytest.mark.parametrize("folder", ["crds/manifests", "charts/gapless/files/crds"])
def test_the_checked_in_definitions_are_up_to_date(made: dict[str, str], folder: str) -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / folder).iterdir()}
    assert there.keys() == made.keys()
    assert [name for name, text in there.items() if made[name] != text] == [], "run make crds"


def test_no_definition_has_an_anchor_or_an_alias(made: dict[str, str]) -> None:
    """Text tools, such as a search or a patch of one rule, do not resolve them."""
    tokens = {name: list(yaml.scan(text)) for name, text in made.items()}
    assert [
        name
        for name, found in tokens.items()
        if any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in found)
    ] == []


def test_the_command_accepts_its_own_output_and_reports_changed_files(tmp_path: Path, made: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "gapless_api.v1alpha1.schema", "--output", tmp_path]
    subprocess.run(command, check=True)
    assert {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()} == made
    (tmp_path / "diodes.yaml").write_text("changed", encoding="utf-8")
    checked = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 1
    assert "diodes.yaml" in checked.stderr
    assert "make crds" in checked.stderr


def test_everything_has_bounds_so_that_rules_stay_cheap_and_objects_small() -> None:
    bounded = {
        "string": {"maxLength", "enum", "format"},
        "array": {"maxItems"},
        "integer": {"format"},
        "number": {"minimum"},
        "boolean": {"type"},
        "object": {"properties", "maxProperties"},
    }
    assert [path for path, schema in all_parts() if not set(schema) & bounded[schema["type"]]] == []


def test_every_field_is_described_in_full_sentences() -> None:
    described = {path: schema["description"] for path, schema in all_parts() if not path.endswith("[]")}
    assert [path for path, text in described.items() if not text[0].isupper()] == []
    assert [path for path, text in described.items() if not text.endswith((".", "{.status.resendManifest}"))] == []


def test_every_rule_has_a_message_and_an_existing_field() -> None:
    for path, schema in all_parts():
        for rule in schema.get("x-kubernetes-validations", ()):
            assert len(rule["message"].split()) > 5, path
            assert not rule["message"].endswith("."), path
            assert rule.get("fieldPath", ".")[1:] in {"", *schema["properties"]}, path


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "status" in kind.model_fields])
def test_a_status_has_no_defaults(kind: type[Resource]) -> None:
    status = root_schema(kind)["properties"]["status"]
    assert [path for path, schema in parts(status, "status") if "default" in schema] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_has_a_category_and_few_printer_columns(kind: type[Resource]) -> None:
    spec = definition(kind)["spec"]
    version = spec["versions"][0]
    columns = version["additionalPrinterColumns"]
    narrow = [column["name"] for column in columns if "priority" not in column]
    assert spec["names"]["categories"] == ["gapless"]
    assert version.get("subresources", {}) == ({"status": {}} if "status" in kind.model_fields else {})
    assert narrow[-1] == "Age"
    assert len(narrow) <= 7
    assert len({column["name"] for column in columns}) == len(columns)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_is_valid_and_survives_a_round_trip(file: Path) -> None:
    for thing in objects(file):
        kind = BY_KIND[thing["kind"]]
        validator(kind).validate(thing)
        read = kind.from_resource(thing)
        spec = read.spec.to_dict()  # type: ignore[attr-defined]
        assert kind.from_resource({**thing, "spec": spec}) == read
        validator(kind).validate({**thing, "spec": spec})


def test_there_is_an_example_of_every_kind_and_every_selection() -> None:
    specs = [thing["spec"] for file in EXAMPLES for thing in objects(file)]
    used = {key for spec in specs for part in ("bundle", "source", "output") for key in spec.get(part, {})}
    assert used >= {"inline", "configMap", "storageRef", "gapTopic", "events"}
    assert {key for spec in specs for key in spec} >= {"s3", "persistentVolumeClaim", "allowedTopics", "kafkaRef"}
    assert {key for spec in specs for key in spec} >= {"bundle", "offsets", "timeRange", "encryption", "schedule"}


@pytest.mark.parametrize(("thing", "expected"), first_mistakes())
def test_the_model_refuses_every_rejected_example(thing: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        BY_KIND[thing["kind"]].from_resource(thing)
    message = str(caught.value)
    assert message.endswith(".")
    assert message.startswith(f"{thing['kind']} ")
    if "spec." in expected:
        where = expected.removeprefix("unknown field ").strip('"').removesuffix("[1]: Duplicate value")
        assert where.partition(":")[0] in message
    elif "supported values" not in expected:
        assert expected in message


@pytest.mark.parametrize(("thing", "expected"), first_mistakes())
def test_the_schema_refuses_invalid_values_without_rules(thing: dict[str, Any], expected: str) -> None:
    errors = list(validator(BY_KIND[thing["kind"]]).iter_errors(thing))
    by_value = expected.startswith(("spec.", "supported values"))
    assert bool(errors) == by_value


LINES = ("Archive", "KafkaConnection", "Mirror", "Restore", "StorageLocation")
BY_RULE = {
    "Archive.spec.compaction.schedule.cron",
    "Archive.spec.schedule.cron",
    "KafkaConnection.spec.bootstrapServers",
    "Mirror.spec.transform",  # whose line breaks become spaces
    "StorageLocation.spec.s3.endpoint",
}


def test_strings_in_settings_cannot_contain_line_breaks() -> None:
    """A second line would be another setting, such as the address to which a pod sends its password."""
    texts = {
        path: schema
        for kind in LINES
        for path, schema in parts(root_schema(BY_KIND[kind])["properties"]["spec"], f"{kind}.spec")
        if schema["type"] == "string" and not set(schema) & {"enum", "format"}
    }
    breaks = [f"a{end}bootstrapServers=b:1" for end in ("\n", "\r")]
    taken = {
        path
        for path, schema in texts.items()
        if any(re.search(schema.get("pattern", "").replace("$", r"\Z"), text) for text in breaks)
    }
    assert taken == BY_RULE


def test_every_rule_of_every_model_has_a_rejected_example() -> None:
    shown = [
        thing["metadata"]["annotations"][EXPECTED]
        for file in REJECTED
        for thing in objects(file)
        if EXPECTED in thing["metadata"].get("annotations", {})
    ]
    messages = {
        rule["message"]
        for kind in KINDS
        for _, schema in parts(root_schema(kind), kind.KIND)
        for rule in schema.get("x-kubernetes-validations", ())
    }
    assert messages, "no rules were found"
    assert [message for message in messages if not any(fragment in message for fragment in shown)] == []


def test_an_unsupported_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="no structural form"):
        structural_schema({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {})
    with pytest.raises(ValueError, match="no structural form for \\['exclusiveMinimum'\\]"):
        structural_schema({"type": "integer", "exclusiveMinimum": 0}, {})


def test_a_rule_has_the_same_message_in_cel_and_in_the_model() -> None:
    class Pair(ApiModel):
        RULES = (Rule("self.low <= self.high", "write the lower one as low", lambda pair: pair.low <= pair.high),)
        low: int
        high: int

    assert Pair.model_json_schema()["x-kubernetes-validations"] == [
        {"rule": "self.low <= self.high", "message": "write the lower one as low"}
    ]
    with pytest.raises(ValueError, match="write the lower one as low"):
        Pair(low=2, high=1)
