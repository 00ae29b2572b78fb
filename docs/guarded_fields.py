"""The table of the fields that users may write and the rules that bound them, and its reference page.

Must not know what a rule does: the policies are the chart's, and the tests that are named verify them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

import yaml
from pydantic import BaseModel

from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.restore import Restore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_api.v1alpha1.resource import Resource

KINDS: tuple[type[Resource], ...] = (GapScan, Resend, Archive, Restore, Mirror)
"""The kinds that users with gapless-edit write."""
_FILE = Path(__file__).parent / "guarded_fields.yaml"
_HEAD = """# Fields of users and the rules that bound them

Users with `gapless-edit` write GapScans, Resends, Archives, Restores and Mirrors. Each of their fields that chooses a
topic, a consumer group, a region, a place, an image or a size is bounded by a rule: by the API server where a policy is
named, and in any case by the operator or the pod. A new field cannot be added without an entry here.

| fields | bounded by | policy | test |
|---|---|---|---|
"""


class Guard(NamedTuple):
    """The rule that bounds some fields."""

    fields: tuple[str, ...]
    by: str
    test: str
    policy: str | None
    """The part of its name after that of the release; ``None`` if the API server cannot decide."""


def guards() -> list[Guard]:
    """Return the rules of the file."""
    return [Guard(tuple(each["fields"]), each["by"], each["test"], each.get("policy")) for each in _read()["guarded"]]


def unbounded() -> set[str]:
    """Return the fields that choose nothing that belongs to others."""
    return set(_read()["unbounded"])


def fields() -> set[str]:
    """Return the paths of all fields without parts of their own, of all kinds."""
    return {path for kind in KINDS for path in _leaves(kind.model_fields["spec"].annotation, f"{kind.KIND}.spec")}


def guarded_fields_page() -> str:
    """Return the page."""
    rows = []
    for guard in guards():
        names = ", ".join(f"`{field.replace('.spec.', ' spec.', 1)}`" for field in guard.fields)
        policy = f"`…-{guard.policy}`" if guard.policy is not None else ""
        rows.append(f"| {names} | {guard.by} | {policy} | `{guard.test}` |\n")
    return _HEAD + "".join(rows)


def _read() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found


def _leaves(model: object, path: str) -> Iterator[str]:
    parts = list(_models(model))
    if not parts:
        yield path
    for part in parts:
        for name, field in part.model_fields.items():
            yield from _leaves(field.annotation, f"{path}.{field.alias or name}")


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
