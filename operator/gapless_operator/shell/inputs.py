"""Which referenced objects and pod logs the reconcilers get as input; must not know any reconciler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.storage_location import StorageLocation
from gapless_operator.common.observed import moment
from gapless_operator.common.references import ReferencedObjects, names_of
from gapless_operator.engines.sparkapplication import APPLICATION_LABEL
from gapless_operator.shell.api.kinds import ARCHIVE, KAFKA_CONNECTION, STORAGE_LOCATION, Kind

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.shell.cache.store import Body, Cache

_ResourceT = TypeVar("_ResourceT", bound="Resource")


class ModelOf(Protocol):
    """Parses a body into its model, as `Observer.resource` does."""

    def __call__(self, model: type[_ResourceT], body: Body, /) -> _ResourceT:
        """Return the model; raises ConfigurationError when the spec is invalid."""


def referenced_objects(owner: Body, cache: Cache, model_of: ModelOf) -> ReferencedObjects:
    """Return the Kafkas, storage and Archive that the spec of `owner` names, and the storage of that Archive.

    Invalid objects count as missing.
    """
    namespace, names = owner["metadata"]["namespace"], names_of(owner.get("spec"))

    def read(kind: Kind, model: type[_ResourceT]) -> list[_ResourceT]:
        models = []
        for name in sorted(name for kind_name, name in names if kind_name == kind.name):
            body = cache.get(kind, namespace, name)
            try:
                models += [] if body is None else [model_of(model, body)]
            except ConfigurationError:
                continue
        return models

    kafkas = tuple(read(KAFKA_CONNECTION, KafkaConnection))
    archive = next(iter(read(ARCHIVE, Archive)), None)
    if archive is not None:
        names.add((STORAGE_LOCATION.name, archive.spec.storage_ref.name))
    return ReferencedObjects(kafkas=kafkas, locations=tuple(read(STORAGE_LOCATION, StorageLocation)), archive=archive)


def is_driver(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is a driver, whose log has the result."""
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("spark-role", "driver")) == "driver"


def needs_log(last_attempts: Iterable[LastAttempt | None], pod: Mapping[str, Any]) -> bool:
    """Return whether a driver's log has to be read: its attempt has no outcome yet, or is newer than those known.

    Args:
        last_attempts: in the status of the pod's owner.
        pod: of an attempt.
    """
    labels = pod["metadata"].get("labels") or {}
    attempt = labels.get("batch.kubernetes.io/job-name") or labels.get(APPLICATION_LABEL)
    started: list[datetime] = []
    for last in last_attempts:
        if last is None or last.started is None:
            continue
        if attempt == last.name:
            return last.outcome is None
        started.append(last.started)
    created = moment(pod["metadata"].get("creationTimestamp"))
    return created is None or not started or created > max(started)
