"""Owns the CustomResourceDefinitions: YAML made from the models; must not know any kind by name.

``python -m gapless_api.v1alpha1.schema --output DIR`` writes one file for each kind; ``--check`` only says which are
not as the models have them. Kubernetes wants "structural" schemas, which are JSON Schema without references, without
alternatives, and with bounds on everything that a rule looks at.
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
_AGE = Column("Age", "date", ".metadata.creationTimestamp", "When it was created.")
_ORDER = (
    "description", "type", "format", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "minProperties", "maxProperties", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "required", "properties", "additionalProperties", "items", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)  # fmt: skip
"""All keywords that may occur, in the order in which a reader wants them."""


def definition(kind: type[Resource]) -> dict[str, Any]:
    """The CustomResourceDefinition of `kind`."""
    singular = kind.KIND.lower()
    shown = [column for column in kind.COLUMNS if not column.wide]
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
                    "additionalPrinterColumns": [_printer_column(column) for column in (*shown, _AGE, *wide)],
                    "schema": {"openAPIV3Schema": root_schema(kind)},
                }
            ],
        },
    }


def root_schema(kind: type[Resource]) -> dict[str, Any]:
    """The structural schema of an object of `kind`."""
    schema = kind.model_json_schema(by_alias=True)
    given = [name for name in ("spec", "status") if name in kind.model_fields]
    parts = {name: structural(schema["properties"][name], schema["$defs"]) for name in given}
    _drop_defaults(parts.get("status", {}))
    return {
        "description": _sentences(schema["description"]),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Always {GROUP}/{VERSION}.", "type": "string"},
            "kind": {"description": f"Always {kind.KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            **parts,
        },
    }


def structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Bring a schema of pydantic into the form that Kubernetes takes.

    Raises:
        ValueError: it holds something that has no such form.
    """
    found = dict(schema)
    while "$ref" in found or "anyOf" in found:
        found = _without_indirection(found, definitions)
    found = _without_the_needless(found)
    if "description" in found:
        found["description"] = _sentences(found["description"])
    if "properties" in found:
        found["properties"] = {name: structural(part, definitions) for name, part in found["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = structural(found[key], definitions)
    unknown = set(found) - set(_ORDER)
    if unknown:
        raise ValueError(f"no structural form for {sorted(unknown)} of {schema}")
    # Copies, because YAML would write an object that occurs twice as an anchor and an alias.
    return {key: copy.copy(found[key]) for key in _ORDER if key in found}


def _without_indirection(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Follow one reference, or take the one alternative that is not null; what stands beside goes first."""
    beside = {key: value for key, value in schema.items() if key not in {"$ref", "anyOf"}}
    if "$ref" in schema:
        return {**definitions[schema["$ref"].rpartition("/")[2]], **beside}
    alternatives = [one for one in schema["anyOf"] if one != {"type": "null"}]
    if len(alternatives) != 1:
        raise ValueError(f"no structural form for the alternatives of {schema}")
    return {**alternatives[0], **beside}


def _without_the_needless(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave away what Kubernetes does not take, and what says nothing there."""
    needless = {"title", "propertyNames"}
    if schema.get("additionalProperties") is False:
        needless.add("additionalProperties")  # unknown fields are refused by kubectl and pruned by the API server
    if schema.get("maximum") == MAX_OFFSET:
        needless.add("maximum")  # the format says it; as a maximum, which is a float there, it would be 2^63
    found = {**schema, "default": _told(schema.get("default"))}
    found |= {bound: _told(found[bound]) for bound in ("minimum", "maximum") if bound in found}
    if found["default"] is None:
        needless.add("default")
    if "x-kubernetes-validations" in found:
        found["x-kubernetes-validations"] = [
            {key: rule[key] for key in ("rule", "message", "fieldPath", "optionalOldSelf") if key in rule}
            for rule in found["x-kubernetes-validations"]
        ]
    return {key: value for key, value in found.items() if key not in needless}


def _told(default: Any) -> Any:
    """A default without what says nothing.

    Those of objects are told in full, because the API server tries the rules on them before it fills in more.
    """
    if isinstance(default, dict):
        told = {name: _told(part) for name, part in default.items()}
        return {name: part for name, part in told.items() if part is not None}
    if isinstance(default, float) and default.is_integer():
        return int(default)
    return None if default == [] else default


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Remove all defaults: the API server must not add fields to a status."""
    schema.pop("default", None)
    for part in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            _drop_defaults(part)


def _sentences(text: str) -> str:
    return " ".join(text.split())


def _printer_column(column: Column) -> dict[str, Any]:
    shown = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**shown, "priority": 1} if column.wide else shown


def manifests() -> dict[str, str]:
    """Every file by its name."""
    return {
        f"{kind.PLURAL}.yaml": HEADER + yaml.safe_dump(definition(kind), sort_keys=False, width=120, allow_unicode=True)
        for kind in KINDS
    }


def main() -> None:
    """Write the files, or with ``--check`` say which are not as the models have them."""
    parser = argparse.ArgumentParser(prog="python -m gapless_api.v1alpha1.schema", description=main.__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="where the files are")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    stale = []
    for name, text in manifests().items():
        path: Path = given.output / name
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
    if stale:
        sys.exit(f"Not as the models say: {', '.join(stale)}; run make crds.")


if __name__ == "__main__":
    main()
