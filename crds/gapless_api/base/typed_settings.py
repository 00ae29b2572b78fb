"""Settings as fields of frozen dataclasses: each is declared once, with the type of its value.

Must not know any setting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import Field, field, fields
from typing import Any, ParamSpec, Self

from gapless_api.base.settings import Setting

_SETTING, _IS_DECLARED = "setting", "declared"
_P = ParamSpec("_P")


def _field_of(make: Callable[_P, Setting]) -> Callable[_P, Any]:
    def make_field(*values: _P.args, **options: _P.kwargs) -> Any:
        return include(make(*values, **options))

    return make_field


declare = _field_of(Setting)
"""Return a field that declares a setting, with the arguments of `Setting`, and holds its value."""


def include(setting: Setting) -> Any:
    """Return a field that declares what another command has, too."""
    return _field(setting, is_declared=True)


def value_of(setting: Setting) -> Any:
    """Return a field for the value of a setting that is in the table of the command anyway."""
    return _field(setting, is_declared=False)


def setting_of(each: Field[Any]) -> Setting:
    """Return the setting whose value a field holds."""
    found: Setting = each.metadata[_SETTING]
    return found


class TypedSettings:
    """Base class of the settings classes."""

    __slots__ = ()

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        """Return the settings that this class declares, in order, for the table of a command."""
        own = (each for each in fields(cls) if each.metadata[_IS_DECLARED])  # type: ignore[arg-type]  # a dataclass
        return tuple(setting_of(each) for each in own)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from resolved settings; one that the command does not have keeps its default.

        Raises:
            KeyError: a required setting is missing.
        """
        arguments = {}
        for each in fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
            setting = setting_of(each)
            if setting.name in values or setting.required:
                arguments[each.name] = values[setting.name]
        return cls(**arguments)


def _field(setting: Setting, *, is_declared: bool) -> Any:
    metadata = {_SETTING: setting, _IS_DECLARED: is_declared}
    if setting.required:
        return field(metadata=metadata)
    if isinstance(setting.default, Hashable):
        return field(default=setting.default, metadata=metadata)
    return field(default_factory=lambda: setting.default, metadata=metadata)
