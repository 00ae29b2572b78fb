"""Every value of the chart is described, and the schema knows exactly the values that there are."""

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
    """The properties of an object's schema; nothing for anything else and for free-form objects."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    found: dict[str, Any] | None = schema.get("properties")
    return found


def differences(values: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    known = properties(schema)
    if known is None or not isinstance(values, dict):
        return []
    if path.endswith(".resources"):  # requests and limits are the user's to name
        return []
    found = [f"{path}.{key}" for key in set(values) ^ set(known)]
    return found + [
        each for key in set(values) & set(known) for each in differences(values[key], known[key], f"{path}.{key}")
    ]


def test_the_schema_has_the_values_and_no_others() -> None:
    assert differences(VALUES, SCHEMA) == [".global"]  # Helm's own


def test_the_defaults_obey_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_no_object_of_the_schema_takes_unknown_keys_by_accident() -> None:
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


def test_every_value_stands_under_a_comment() -> None:
    """Its own, that of the value above it in the same breath, or that of the group that it is in."""
    known_to_every_kubernetes_user = {"resources", "nodeSelector", "tolerations", "affinity", "podLabels"}
    told: dict[int, bool] = {}
    undescribed = []
    comment = False
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        indent = len(line) - len(line.lstrip())
        found = re.match(r" *([\w./]+):(.*)", line)
        if not line.strip():
            comment, told = False, {}
        elif line.lstrip().startswith("#"):
            comment = True
        elif found:
            above = any(told.get(level, False) for level in range(0, indent + 1, 2))
            told = {level: is_told for level, is_told in told.items() if level < indent}
            told[indent] = comment or above
            is_group = not found[2].strip()
            if not (told[indent] or is_group or found[1] in known_to_every_kubernetes_user):
                undescribed.append(found[1])
            comment = False
    assert undescribed == []
