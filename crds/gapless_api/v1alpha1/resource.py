"""The base class of all resources: metadata, names of the kind, printer columns; must not know any kind."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

from pydantic import Field

from gapless_api.v1alpha1.model import ApiModel, StatusModel, parse

GROUP = "gapless.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "gapless"


class Column(NamedTuple):
    """A column of ``kubectl get``."""

    name: str
    type: str
    path: str
    """JSONPath, with a leading dot."""
    description: str
    wide: bool = False
    """Whether the column is shown only with ``-o wide``."""


REASON_COLUMN = Column(
    "Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Reason of the Ready condition."
)
OBSERVED_COLUMN = Column(
    "Observed", "date", ".status.observedAt", "When progress had been read at the last change of the status.", wide=True
)
MESSAGE_COLUMN = Column(
    "Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Message of the Ready condition.", wide=True
)


class Metadata(StatusModel):
    """The metadata of a resource that Gapless reads."""

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
        """Whether the resource is being deleted."""
        return self.deletion_timestamp is not None


class Resource(ApiModel):
    """Base class of all kinds. Subclasses add `spec` and `status`."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]]
    COLUMNS: ClassVar[tuple[Column, ...]]

    metadata: Metadata

    @classmethod
    def from_resource(cls, body: Mapping[str, Any]) -> Self:
        """Parse an object of the API server.

        Raises:
            ConfigurationError: the spec or the status is invalid; `metadata_of` still reads the metadata.
        """
        metadata = metadata_of(body)
        owner = f"{cls.KIND} {metadata.namespace}/{metadata.name}"
        parts = {
            name: parse(model, body.get(name) or {}, owner=owner, path=name)
            for name, model in get_type_hints(cls).items()
            if name in {"spec", "status"}
        }
        return cls(metadata=metadata, **parts)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def owner_reference(self) -> dict[str, Any]:
        """Return the owner reference with which Kubernetes deletes a child together with this object.

        It has no blockOwnerDeletion: the OwnerReferencesPermissionEnforcement admission plugin would require the
        permission to update finalizers, and nothing here needs it.
        """
        return {
            "apiVersion": API_VERSION,
            "kind": self.KIND,
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "controller": True,
        }


def metadata_of(body: Mapping[str, Any]) -> Metadata:
    """Parse the metadata of any object."""
    metadata = body.get("metadata") or {}
    owner = f"{body.get('kind', 'Object')} {metadata.get('namespace')}/{metadata.get('name')}"
    return parse(Metadata, metadata, owner=owner, path="metadata")
