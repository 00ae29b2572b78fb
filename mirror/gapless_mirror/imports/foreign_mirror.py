"""What all readers of other programs' files return: the properties of MirrorMaker 2, and what is beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gapless_mirror.settings.java_properties import Property


class SecretEntry(NamedTuple):
    """An entry of a Secret of Kubernetes."""

    name: str
    key: str


@dataclass(slots=True)
class ForeignMirror:
    """A mirror of another program."""

    program: str
    """Its name, for people."""
    properties: dict[str, Property] = field(default_factory=dict)
    """As in mm2.properties."""
    secrets: dict[str, SecretEntry] = field(default_factory=dict)
    """By path in `properties`: the entry of a Secret that the file names instead of a path."""
    not_carried: list[str] = field(default_factory=list)
    """Sentences: fields that have no property, and why they are not carried over."""
    without_meaning: dict[str, str] = field(default_factory=dict)
    """Fields without a property that a mirror has no need of, with the reason."""
    texts: dict[str, str] = field(default_factory=dict)
    """Settings that are known without properties."""

    def add(self, each: Property) -> None:
        """Add a property with a value; the last one of a name counts."""
        if each.raw_value:
            self.properties[each.key] = each
