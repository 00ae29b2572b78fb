"""Owns what every resource is around its spec: metadata, names of the kind, columns; must not know any one kind."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

from pydantic import Field

from gapless_api.v1alpha1.model import ApiModel, StatusModel, parsed

GROUP = "gapless.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "gapless"


class Column(NamedTuple):
    """A column of ``kubectl get``."""

    name: str
    type: str
    path: str
    """JSONPath, beginning with a dot."""
    description: str
    wide: bool = False
    """Whether it is shown only with ``-o wide``."""


class Metadata(StatusModel):
    """What Gapless reads of a resource's metadata."""

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    creation_timestamp: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    deletion_timestamp: datetime | None = None
    resource_version: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)

    @property
    def deleting(self) -> bool:
        """Whether the resource is on its way out."""
        return self.deletion_timestamp is not None


class Resource(ApiModel):
    """A resource as the API server has it. Subclasses add `spec` and `status`."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]]
    COLUMNS: ClassVar[tuple[Column, ...]]

    metadata: Metadata

    @classmethod
    def from_resource(cls, body: Mapping[str, Any]) -> Self:
        """Read an object.

        Raises:
            ConfigurationError: the spec is not as it must be; see `metadata_of` and `status_of` for what is still
                needed then to say so in the object's status.
        """
        metadata = metadata_of(body)
        owner = f"{cls.KIND} {metadata.namespace}/{metadata.name}"
        parts = {
            name: parsed(model, body.get(name) or {}, owner=owner, path=name)
            for name, model in get_type_hints(cls).items()
            if name in {"spec", "status"}
        }
        return cls(metadata=metadata, **parts)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def owner_reference(self) -> dict[str, Any]:
        """What makes another object of the same namespace go away with this one.

        It does not block the deletion of this one: clusters that enforce rights on owner references would ask for the
        right to update our finalizers, and nothing here needs it.
        """
        return {
            "apiVersion": API_VERSION,
            "kind": self.KIND,
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "controller": True,
        }


def metadata_of(body: Mapping[str, Any]) -> Metadata:
    """Read the metadata of any object."""
    metadata = body.get("metadata") or {}
    owner = f"{body.get('kind', 'Object')} {metadata.get('namespace')}/{metadata.get('name')}"
    return parsed(Metadata, metadata, owner=owner, path="metadata")
