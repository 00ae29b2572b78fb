"""The conversion of resolved settings to frozen dataclasses, one for each heading of ``--help``.

Must not know any setting: a field belongs to the setting of the same name in camelCase, or to the one it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Self

_SETTING = "setting"


def setting(name: str) -> Any:
    """Declare a field that holds the value of the setting `name`."""
    return field(metadata={_SETTING: name})


def setting_of(each: Field[Any]) -> str:
    """Return the name of the setting that a field holds."""
    return str(each.metadata.get(_SETTING) or re.sub(r"_(\w)", lambda match: match[1].upper(), each.name))


class TypedSettings:
    """Base class of the settings classes."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from resolved settings; a missing one leaves the default of its field."""
        arguments = {}
        for each in fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
            name = setting_of(each)
            if name in values or each.default is MISSING:
                arguments[each.name] = values[name]
        return cls(**arguments)
