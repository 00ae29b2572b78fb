"""The reader of Strimzi's KafkaMirrorMaker2, in the versions v1beta2 and v1 of its API.

Must not know what the properties mean that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.imports.foreign_mirror import ForeignMirror, SecretEntry
from gapless_mirror.imports.structured import Node
from gapless_mirror.settings.java_properties import Property

KIND = "KafkaMirrorMaker2"
_MECHANISMS = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
_EXPRESSIONS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_CONNECT = ("groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic")
_NO_NEED = {
    "connectCluster": "there is no cluster of Kafka Connect",
    "replicas": "give workers; each one copies many partitions",
    "version": "the installation has its own images",
    "image": "the installation has its own images",
    "metricsConfig": "metrics are served with metricsPort",
    "externalConfiguration": "a KafkaConnection names the Secrets",
    "autoRestart": "a Mirror is always restarted",
}
"""Fields of the resource and its connectors without an effect on what is copied or how its pods run."""
_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")


def read_strimzi(document: Mapping[str, Any], file: Path, files_folder: str) -> ForeignMirror:
    """Read the resource.

    Args:
        document: the resource.
        file: for messages.
        files_folder: where the settings look for the entries of its Secrets.

    Raises:
        ConfigurationError: a field is missing or has another type.
    """
    spec = Node.of(file, "", document).node("spec")
    found = ForeignMirror(f"Strimzi's {KIND}")
    clusters = {each.required("alias"): each for each in spec.nodes("clusters")}
    mirrors = spec.nodes("mirrors")
    if not mirrors:
        raise ConfigurationError(f"spec.mirrors in {file} is empty; add the mirror to import.")
    for mirror in mirrors:
        source = _alias(mirror, "sourceCluster", mirror, "source", clusters)
        target = _alias(mirror, "targetCluster", spec, "target", clusters)
        _add_flow(found, mirror, f"{source}->{target}")
    found.properties["clusters"] = Property("clusters", ",".join(clusters), f"in {file}, spec")
    for alias, cluster in clusters.items():
        _add_cluster(found, alias, cluster, files_folder)
    _add_others(found, spec, "set what the pods need in the Mirror, or in the values of the chart")
    return found


def _add_others(found: ForeignMirror, node: Node, reason: str) -> None:
    """Add the fields of a node that were not asked for; `reason` is for those that have an effect."""
    for path in node.others():
        name = path.rpartition(".")[2]
        if name in _NO_NEED:
            found.without_meaning[path] = _NO_NEED[name]
        else:
            found.not_carried.append(f"{path}: {reason}.")


def _alias(mirror: Node, old: str, parent: Node, new: str, clusters: dict[str, Node]) -> str:
    """Return the alias of one side: a name, or since v1 a cluster at its place of use, which is added."""
    if not mirror.has(old) and parent.has(new):
        cluster = parent.node(new)
        alias = cluster.required("alias")
        clusters[alias] = cluster
        return alias
    alias = mirror.required(old)
    if alias not in clusters:
        raise ConfigurationError(
            f"{mirror.place(old)} in {mirror.file} names a cluster that spec.clusters does not list; correct it."
        )
    return alias


def _add_flow(found: ForeignMirror, mirror: Node, flow: str) -> None:
    found.add(Property(f"{flow}.enabled", "true", f"in {mirror.file}, {mirror.path}"))
    for name, key in _EXPRESSIONS.items():
        found.add(mirror.property(name, f"{flow}.{key}"))
    for name in _CONNECTORS:
        connector = mirror.node(name)
        if name == "heartbeatConnector" and mirror.has(name):
            found.add(Property(f"{flow}.emit.heartbeats.enabled", "true", f"in {mirror.file}, {mirror.place(name)}"))
        config = connector.node("config")
        for key in config.content:
            found.add(config.property(key, f"{flow}.{key}"))
        found.add(connector.property("tasksMax", f"{flow}.tasks.max"))
        _add_others(found, connector, "spec.suspend stops a Mirror, and startAtGroup says where it begins")
    _add_others(found, mirror, "a mirror has no such setting")
    syncs = found.properties.get(f"{flow}.sync.group.offsets.enabled")
    if mirror.has("groupsPattern") and (syncs is None or syncs.raw_value.lower() != "true"):
        found.without_meaning[mirror.place("groupsPattern")] = (
            "sync.group.offsets.enabled is not true, so no offsets of groups are committed; give groupPattern if they "
            "are to be"
        )


def _add_cluster(found: ForeignMirror, alias: str, cluster: Node, folder: str) -> None:
    found.add(cluster.property("bootstrapServers", f"{alias}.bootstrap.servers"))
    config = cluster.node("config")
    for key in config.content:
        found.add(config.property(key, f"{alias}.{key}"))
    has_tls, has_login = cluster.has("tls"), False
    if has_tls:
        _add_ca(found, cluster.node("tls"), "trustedCertificates", f"{alias}.ssl.truststore", folder)
    if cluster.has("authentication"):
        has_login = _add_login(found, alias, cluster.node("authentication"), folder)
    protocol = ("SASL_" if has_login else "") + ("SSL" if has_tls else "PLAINTEXT")
    found.add(Property(f"{alias}.security.protocol", protocol, f"in {cluster.file}, {cluster.path}"))
    cluster.read.update(("alias", *_CONNECT))
    _add_others(found, cluster, "a connection has no such setting")


def _add_ca(found: ForeignMirror, parent: Node, name: str, prefix: str, folder: str) -> None:
    listed = parent.nodes(name)
    for each in listed[:1]:
        if not each.has("certificate"):
            found.not_carried.append(
                f"{each.path}: a pattern of entries cannot be used; put the certificates into one entry of the Secret."
            )
            return
        _add_entry(found, each, ("secretName", "certificate"), f"{prefix}.location", folder)
        found.add(Property(f"{prefix}.type", "PEM", f"in {each.file}, {each.path}"))
    found.not_carried += [
        f"{each.path}: one entry of one Secret has the CA certificates; add this one to it." for each in listed[1:]
    ]


def _add_login(found: ForeignMirror, alias: str, login: Node, folder: str) -> bool:
    """Add a login; return whether it is one of SASL."""
    kind = login.text("type")
    if kind == "tls":
        pair = login.node("certificateAndKey")
        _add_entry(found, pair, ("secretName", "certificate"), f"{alias}.ssl.certificate.location", folder)
        _add_entry(found, pair, ("secretName", "key"), f"{alias}.ssl.key.location", folder)
    elif kind in _MECHANISMS:
        place = f"in {login.file}, {login.place('type')}"
        found.add(Property(f"{alias}.sasl.mechanism", _MECHANISMS[kind], place))
        found.add(login.property("username", f"{alias}.sasl.username"))
        secret = login.node("passwordSecret")
        _add_entry(found, secret, ("secretName", "password"), f"{alias}.sasl.password", folder, is_content=True)
    elif kind == "oauth":
        _add_oauth(found, alias, login, folder)
    else:
        config = login.node("config")  # of the type custom
        login.text("sasl")
        for key in config.content:
            found.add(config.property(key, f"{alias}.{key}"))
        if not config.content:
            found.not_carried.append(f"{login.place('type')}: a connection has no such login.")
    _add_others(found, login, "a connection has no such setting")
    return kind in _MECHANISMS or kind == "oauth" or (kind == "custom" and login.text("sasl") == "true")


def _add_oauth(found: ForeignMirror, alias: str, login: Node, folder: str) -> None:
    prefix = f"{alias}.sasl.oauthbearer"
    found.add(Property(f"{alias}.sasl.mechanism", "OAUTHBEARER", f"in {login.file}, {login.place('type')}"))
    found.add(login.property("tokenEndpointUri", f"{prefix}.token.endpoint.url"))
    found.add(login.property("clientId", f"{prefix}.client.credentials.client.id"))
    found.add(login.property("scope", f"{prefix}.scope"))
    if login.has("clientSecret"):
        secret, key = login.node("clientSecret"), f"{prefix}.client.credentials.client.secret"
        _add_entry(found, secret, ("secretName", "key"), key, folder, is_content=True)
    for each in login.nodes("tlsTrustedCertificates")[:1]:
        if each.has("certificate"):
            _add_entry(found, each, ("secretName", "certificate"), f"{alias}.https.ca.location", folder)


def _add_entry(  # noqa: PLR0913 -- an entry, its property, and where it is expected
    found: ForeignMirror, node: Node, names: tuple[str, str], key: str, folder: str, *, is_content: bool = False
) -> None:
    """Add the property that names the file of an entry of a Secret, or that is a reference to its content."""
    entry = SecretEntry(*(node.required(name) for name in names))
    path = f"{folder}/{entry.name}/{entry.key}"
    found.secrets[path] = entry
    value = f"${{dir:{folder}/{entry.name}:{entry.key}}}" if is_content else path
    found.add(Property(key, value, f"in {node.file}, {node.path}"))
