"""Owns where the product keeps files on a cluster: volumes and buckets, each opened by a StorageLocation of its name.

Must not import the product: it does with kubectl what a person does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.cluster.product import API_VERSION

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.object_store import ObjectStore


def volume(cluster: Cluster, name: str, namespace: str) -> None:
    """A volume."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    cluster.apply(body, namespace=namespace)
    _open(cluster, name, namespace, persistentVolumeClaim={"claimName": name})


def bucket(cluster: Cluster, name: str, namespace: str, store: ObjectStore) -> None:
    """A bucket, with a Secret of the same name that has the keys of its store."""
    keys = {"AWS_ACCESS_KEY_ID": store.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": store.SECRET_KEY}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": keys}
    cluster.apply(secret, namespace=namespace)
    s3 = {"endpoint": store.endpoint, "bucket": store.make_bucket(name), "credentialsSecret": {"name": name}}
    _open(cluster, name, namespace, s3=s3)


def _open(cluster: Cluster, name: str, namespace: str, **spec: Any) -> None:
    metadata = {"name": name, "namespace": namespace}
    cluster.apply({"apiVersion": API_VERSION, "kind": "StorageLocation", "metadata": metadata, "spec": spec})
