"""All values of the chart have a comment, and the schema contains exactly these values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import yaml

CHART = Path(__file__).parents[3] / "charts" / "gapless"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def properties(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the properties of an object schema; ``None`` for other schemas and free-form objects."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    found: dict[str, Any] | None = schema.get("properties")
    return found


def differences(values: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    known = properties(schema)
    if known is None or not isinstance(values, dict):
        return []
    if path.endswith((".resources", ".podTemplate")):  # the user's to name
        return []
    found = [f"{path}.{key}" for key in set(values) ^ set(known)]
    return found + [
        each for key in set(values) & set(known) for each in differences(values[key], known[key], f"{path}.{key}")
    ]


def test_the_schema_contains_exactly_the_values() -> None:
    assert differences(VALUES, SCHEMA) == [".global"]  # Helm's own


def test_the_defaults_obey_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_no_schema_object_accepts_unknown_keys() -> None:
    def open_objects(schema: Any, path: str) -> list[str]:
        if isinstance(schema, list):
            return [each for index, part in enumerate(schema) for each in open_objects(part, f"{path}[{index}]")]
        if not isinstance(schema, dict):
            return []
        found = (
            [path]
            if "properties" in schema
            and schema.get("type") == "object"
            and (schema.get("additionalProperties") is not False)
            else []
        )
        return found + [each for key, part in schema.items() for each in open_objects(part, f"{path}.{key}")]

    assert open_objects(SCHEMA, "") == []


def test_every_value_has_a_comment() -> None:
    """The comment may be above the value, above the preceding value of the same block, or above its group."""
    known_to_every_kubernetes_user = {"resources", "nodeSelector", "tolerations", "affinity", "podLabels"}
    has_comment: dict[int, bool] = {}
    undescribed = []
    comment = False
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        indent = len(line) - len(line.lstrip())
        found = re.match(r" *([\w./]+):(.*)", line)
        if not line.strip():
            comment, has_comment = False, {}
        elif line.lstrip().startswith("#"):
            comment = True
        elif found:
            above = any(has_comment.get(level, False) for level in range(0, indent + 1, 2))
            has_comment = {level: value for level, value in has_comment.items() if level < indent}
            has_comment[indent] = comment or above
            is_group = not found[2].strip()
            if not (has_comment[indent] or is_group or found[1] in known_to_every_kubernetes_user):
                undescribed.append(found[1])
            comment = False
    assert undescribed == []
