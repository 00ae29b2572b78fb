"""The parsed form of the objects that the reconciles of many others read; must not know these reconciles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from gapless_operator.shell.api.kinds import DIODE, KAFKA_CONNECTION, RESEND, STORAGE_LOCATION
from gapless_operator.shell.cache.store import Body, Key, key_of

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resource import Resource

_READ_BY_MANY = frozenset({DIODE.name, RESEND.name, KAFKA_CONNECTION.name, STORAGE_LOCATION.name})
"""Other objects are parsed by their own reconciles only, and take three times the memory of their bodies if kept."""
_MAX_FIELD_SETS = 1000
"""More are not shared: users choose which fields they write, and no set is forgotten with its object."""
_ResourceT = TypeVar("_ResourceT", bound="Resource")


class Models:
    """Objects in their parsed form; each version of what many read is parsed once."""

    def __init__(self) -> None:
        self._models: dict[Key, tuple[str, str, Resource]] = {}
        """By object: uid, version and model."""
        self._field_sets: dict[frozenset[str], set[str]] = {}

    def __contains__(self, key: Key) -> bool:
        """Return whether an object is kept."""
        return key in self._models

    def parsed(self, model: type[_ResourceT], body: Body) -> _ResourceT:
        """Return a body in its parsed form.

        Raises:
            ConfigurationError: the spec is invalid.
        """
        if body["kind"] not in _READ_BY_MANY:
            return model.from_resource(body)
        key, uid, version = key_of(body), body["metadata"]["uid"], str(body["metadata"].get("resourceVersion", ""))
        cached = self._models.get(key)
        if cached is not None and cached[:2] == (uid, version) and isinstance(cached[2], model):
            return cached[2]
        parsed = model.from_resource(body)
        self._share_field_sets([parsed])
        self._models[key] = (uid, version, parsed)
        return parsed

    def forget(self, key: Key) -> None:
        """Forget a deleted object."""
        self._models.pop(key, None)

    def _share_field_sets(self, values: Iterable[Any]) -> None:
        """Let equal models share the set of fields that they were made with: half of the memory of a parsed object.

        Nothing changes such a set in place: the models are immutable, and a changed copy has its own.
        """
        for value in values:
            if isinstance(value, BaseModel):
                fields = value.__pydantic_fields_set__
                if (shared := self._shared(fields)) is not fields:
                    object.__setattr__(value, "__pydantic_fields_set__", shared)
                self._share_field_sets(value.__dict__.values())
            elif isinstance(value, (tuple, list)):
                self._share_field_sets(value)
            elif isinstance(value, dict):
                self._share_field_sets(value.values())

    def _shared(self, fields: set[str]) -> set[str]:
        name = frozenset(fields)
        if len(self._field_sets) >= _MAX_FIELD_SETS:
            return self._field_sets.get(name, fields)
        return self._field_sets.setdefault(name, fields)
