"""The CustomResourceDefinitions: YAML generated from the models; must not know any kind by name.

``python -m gapless_api.v1alpha1.schema --output DIR`` writes one file for each kind; ``--check`` only lists files that
are out of date. Kubernetes requires structural schemas: JSON Schema without references or alternatives, and with bounds
on everything that a rule reads.
"""

import argparse
import copy
import sys
from pathlib import Path
from typing import Any

import yaml

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.kinds import KINDS
from gapless_api.v1alpha1.resource import CATEGORY, GROUP, VERSION, Column, Resource

HEADER = "# Made by `make crds` from crds/gapless_api/v1alpha1; do not edit.\n"
_AGE = Column("Age", "date", ".metadata.creationTimestamp", "Time since creation.")
_RULES = "x-kubernetes-validations"
_RULE_KEYS = ("rule", "message", "fieldPath")
_ORDER = (
    "description", "type", "format", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "minProperties", "maxProperties", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "required", "properties", "additionalProperties", "items", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)  # fmt: skip
"""All supported keywords, in the order of the output."""


def definition(kind: type[Resource]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of `kind`."""
    singular = kind.KIND.lower()
    narrow = [column for column in kind.COLUMNS if not column.wide]
    wide = [column for column in kind.COLUMNS if column.wide]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "gapless"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.KIND,
                "listKind": f"{kind.KIND}List",
                "plural": kind.PLURAL,
                "singular": singular,
                "shortNames": list(kind.SHORT_NAMES),
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if "status" in kind.model_fields else {}),
                    "additionalPrinterColumns": [_printer_column(column) for column in (*narrow, _AGE, *wide)],
                    "schema": {"openAPIV3Schema": root_schema(kind)},
                }
            ],
        },
    }


def root_schema(kind: type[Resource]) -> dict[str, Any]:
    """Return the structural schema of `kind`."""
    schema = kind.model_json_schema(by_alias=True)
    parts = {
        name: structural_schema(schema["properties"][name], schema["$defs"])
        for name in ("spec", "status")
        if name in kind.model_fields
    }
    _drop_defaults(parts.get("status", {}))
    return {
        "description": _unwrap(schema["description"]),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Always {GROUP}/{VERSION}.", "type": "string"},
            "kind": {"description": f"Always {kind.KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            **parts,
        },
    }


def structural_schema(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Convert a pydantic schema to a structural schema.

    Raises:
        ValueError: `schema` contains a construct that has no structural form.
    """
    result = dict(schema)
    while "$ref" in result or "anyOf" in result:
        result = _resolve(result, definitions)
    result = _drop_unsupported(result)
    if "description" in result:
        result["description"] = _unwrap(result["description"])
    if "properties" in result:
        properties = result["properties"].items()
        result["properties"] = {name: structural_schema(part, definitions) for name, part in properties}
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = structural_schema(result[key], definitions)
    unknown = set(result) - set(_ORDER)
    if unknown:
        raise ValueError(f"no structural form for {sorted(unknown)} of {schema}")
    # Copies, because PyYAML writes an object that occurs twice as an anchor and an alias.
    return {key: copy.copy(result[key]) for key in _ORDER if key in result}


def _resolve(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace one reference, or the alternatives of an optional field, by the schema; sibling keywords override it."""
    siblings = {key: value for key, value in schema.items() if key not in {"$ref", "anyOf"}}
    if "$ref" in schema:
        return {**definitions[schema["$ref"].rpartition("/")[2]], **siblings}
    alternatives = [alternative for alternative in schema["anyOf"] if alternative != {"type": "null"}]
    if len(alternatives) != 1:
        raise ValueError(f"no structural form for the alternatives of {schema}")
    return {**alternatives[0], **siblings}


def _drop_unsupported(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove keywords that Kubernetes does not support or that have no effect there."""
    dropped = {"title", "propertyNames"}
    if schema.get("additionalProperties") is False:
        dropped.add("additionalProperties")  # kubectl rejects unknown fields, and the API server prunes them
    if schema.get("maximum") == MAX_OFFSET:
        dropped.add("maximum")  # implied by the format; as a maximum, which is a float there, it would be 2^63
    result = {**schema, "default": _plain_value(schema.get("default"))}
    result |= {bound: _plain_value(result[bound]) for bound in ("minimum", "maximum") if bound in result}
    if result["default"] is None:
        dropped.add("default")
    if _RULES in result:  # new objects in a fixed order: YAML would write a shared one as an anchor and an alias
        result[_RULES] = [{key: rule[key] for key in _RULE_KEYS if key in rule} for rule in result[_RULES]]
    return {key: value for key, value in result.items() if key not in dropped}


def _plain_value(value: Any) -> Any:
    """Return a default or bound as Kubernetes writes it: whole numbers as integers, no nulls, no empty lists.

    Defaults of objects are complete, because the API server checks the rules on them before it applies more defaults.
    """
    if isinstance(value, dict):
        parts = {name: _plain_value(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not None}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if value == [] else value


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Remove all defaults: the API server must not add fields to a status."""
    schema.pop("default", None)
    for part in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            _drop_defaults(part)


def _unwrap(text: str) -> str:
    return " ".join(text.split())


def _printer_column(column: Column) -> dict[str, Any]:
    schema = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**schema, "priority": 1} if column.wide else schema


def manifests() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        f"{kind.PLURAL}.yaml": HEADER + yaml.safe_dump(definition(kind), sort_keys=False, width=120, allow_unicode=True)
        for kind in KINDS
    }


def main() -> None:
    """Write the CustomResourceDefinitions, or with ``--check`` list those that are out of date."""
    parser = argparse.ArgumentParser(prog="python -m gapless_api.v1alpha1.schema", description=main.__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the files")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    arguments = parser.parse_args()
    stale = []
    for name, text in manifests().items():
        path: Path = arguments.output / name
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
    if stale:
        sys.exit(f"Out of date: {', '.join(stale)}; run make crds.")


if __name__ == "__main__":
    main()
