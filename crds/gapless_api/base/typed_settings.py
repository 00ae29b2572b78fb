"""Owns how resolved settings become frozen dataclasses, one for each heading of ``--help``.

Must not know any setting: each field of a class is the setting of its name, in camelCase, or of the one that it gives.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field
    from typing import Self

_SETTING = "setting"


def setting(name: str) -> Any:
    """A field with the value of the setting `name`."""
    return field(metadata={_SETTING: name})


def setting_of(each: Field[Any]) -> str:
    """The setting whose value a field has."""
    return str(each.metadata.get(_SETTING) or re.sub(r"_(\w)", lambda found: found[1].upper(), each.name))


class TypedSettings:
    """What the classes of settings have in common."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Take the values of resolved settings; one that a command does not have has the field's default."""
        found = {}
        for each in fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
            name = setting_of(each)
            if name in values or each.default is MISSING:
                found[each.name] = values[name]
        return cls(**found)
