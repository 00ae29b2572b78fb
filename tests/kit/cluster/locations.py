"""Volumes and buckets for the product on a cluster, each with a StorageLocation of the same name.

Must not import the product: it uses kubectl, as a user would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.cluster.product import API_VERSION

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.object_store import ObjectStore


def volume(cluster: Cluster, name: str, namespace: str) -> None:
    """Create a PersistentVolumeClaim and its StorageLocation."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    cluster.apply(body, namespace=namespace)
    _create_location(cluster, name, namespace, persistentVolumeClaim={"claimName": name})


def bucket(cluster: Cluster, name: str, namespace: str, store: ObjectStore) -> None:
    """Create a bucket, a Secret of the same name with its access keys, and its StorageLocation."""
    keys = {"AWS_ACCESS_KEY_ID": store.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": store.SECRET_KEY}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": keys}
    cluster.apply(secret, namespace=namespace)
    s3 = {"endpoint": store.endpoint, "bucket": store.make_bucket(name), "credentialsSecret": {"name": name}}
    _create_location(cluster, name, namespace, s3=s3)


def _create_location(cluster: Cluster, name: str, namespace: str, **spec: Any) -> None:
    metadata = {"name": name, "namespace": namespace}
    cluster.apply({"apiVersion": API_VERSION, "kind": "StorageLocation", "metadata": metadata, "spec": spec})
