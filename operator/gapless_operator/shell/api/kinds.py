"""The kinds of objects that the operator watches and writes, and their API paths; must not know any object.

The table is fixed instead of discovered: the operator touches no other kind, and the RBAC roles allow no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from gapless_api.v1alpha1.resource import API_VERSION
from gapless_operator.common.observed import KIND_LABEL


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of namespaced object."""

    api_version: str
    name: str
    plural: str
    selector: str = ""
    """Label selector of the relevant objects; empty for all."""

    @property
    def group(self) -> str:
        """Return the API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """Return the version within the group."""
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of the list of a namespace or, without one, of the list of the cluster."""
        parts = ["apis" if self.group else "api", self.api_version]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/" + "/".join(parts)


ARCHIVE = Kind(API_VERSION, "Archive", "archives")
DIODE = Kind(API_VERSION, "Diode", "diodes")
GAP_SCAN = Kind(API_VERSION, "GapScan", "gapscans")
KAFKA_CONNECTION = Kind(API_VERSION, "KafkaConnection", "kafkaconnections")
MIRROR = Kind(API_VERSION, "Mirror", "mirrors")
RESEND = Kind(API_VERSION, "Resend", "resends")
RESTORE = Kind(API_VERSION, "Restore", "restores")
JOB = Kind("batch/v1", "Job", "jobs", KIND_LABEL)
POD = Kind("v1", "Pod", "pods", KIND_LABEL)
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps", KIND_LABEL)
VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", KIND_LABEL)
NODE = Kind("v1", "Node", "nodes")
"""Cluster-scoped; read by name, if that is allowed."""
NAMESPACE = Kind("v1", "Namespace", "namespaces")
"""Cluster-scoped; read by name, which a role in that namespace can permit."""
SECRET = Kind("v1", "Secret", "secrets")
"""Created, never read: not among `CHILDREN`."""
DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", KIND_LABEL)
"""Written, and read by name: not among `CHILDREN`, because nothing depends on it."""
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
TOKEN_REVIEW = Kind("authentication.k8s.io/v1", "TokenReview", "tokenreviews")
SUBJECT_ACCESS_REVIEW = Kind("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
EVENT = Kind("events.k8s.io/v1", "Event", "events")
SPARK_APPLICATION = Kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications", KIND_LABEL)
"""Exists only where the Spark operator is installed."""

STORAGE_LOCATION = Kind(API_VERSION, "StorageLocation", "storagelocations")

OWNERS = (ARCHIVE, DIODE, GAP_SCAN, KAFKA_CONNECTION, MIRROR, RESEND, RESTORE)
"""Kinds that have a reconciler."""
NAMED = (KAFKA_CONNECTION, STORAGE_LOCATION)
"""Kinds of the platform team that they refer to."""
CHILDREN = (JOB, POD, CONFIG_MAP, VOLUME_CLAIM, SPARK_APPLICATION)
"""Kinds of objects that they own."""
WATCHED = tuple(dict.fromkeys((*OWNERS, *NAMED, *CHILDREN)))
"""All that is listed and watched."""
DEPENDENCIES = {
    ARCHIVE: (*NAMED, JOB, POD, CONFIG_MAP, SPARK_APPLICATION),
    DIODE: (RESEND, JOB, POD, CONFIG_MAP, VOLUME_CLAIM),
    GAP_SCAN: (*NAMED, JOB, POD, CONFIG_MAP, SPARK_APPLICATION),
    KAFKA_CONNECTION: (JOB, POD, CONFIG_MAP),
    MIRROR: (KAFKA_CONNECTION, JOB, POD, CONFIG_MAP, SPARK_APPLICATION),
    RESEND: (*NAMED, ARCHIVE, DIODE, JOB, POD, CONFIG_MAP),
    RESTORE: (*NAMED, ARCHIVE, JOB, POD, CONFIG_MAP, SPARK_APPLICATION),
}
"""Kinds that the reconciler of each kind needs to know completely; otherwise it would create an object twice."""
KINDS = {(kind.api_version, kind.name): kind for kind in (*WATCHED, SECRET, EVENT, LEASE, DISRUPTION_BUDGET)}


def kind_of(api_version: str, name: str) -> Kind:
    """Find a kind by the apiVersion and kind of a manifest.

    Raises:
        KeyError: the operator does not use it.
    """
    return KINDS[api_version, name]
