"""The reader of the three mirror connectors of Kafka Connect, as its REST interface takes and returns them.

Must not know what the properties mean that it makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.imports.foreign_mirror import ForeignMirror
from gapless_mirror.imports.structured import Node
from gapless_mirror.settings.java_properties import Property

CLASS = "connector.class"
_PACKAGE = "org.apache.kafka.connect.mirror."
_HEARTBEATS = "MirrorHeartbeatConnector"
_CONNECTORS = ("MirrorSourceConnector", "MirrorCheckpointConnector", _HEARTBEATS)
_SIDES = ("source", "target")


def connectors_of(document: object) -> list[dict[str, Any]]:
    """Return the configurations of the connectors in a document; none if it has another content.

    That is a connector as it is posted to the REST interface, its configuration alone, what the interface returns for
    ``expand=info``, or a KafkaConnector of Strimzi.
    """
    if not isinstance(document, dict):
        return []
    if CLASS in document:
        return [document]
    if isinstance(config := document.get("config"), dict) and CLASS in config:
        return [config]
    if document.get("kind") == "KafkaConnector" and isinstance(spec := document.get("spec"), dict):
        config = spec.get("config")
        return [{**(config if isinstance(config, dict) else {}), CLASS: spec.get("class")}]
    infos = [each.get("info") if isinstance(each, dict) else None for each in document.values()]
    found = [connectors_of(info) for info in infos]
    return [connector for each in found for connector in each] if all(found) else []


def read_connectors(connectors: Sequence[dict[str, Any]], file: Path) -> ForeignMirror:
    """Read the configurations of connectors; those between the same two clusters become one flow.

    Raises:
        ConfigurationError: a connector of another class, or a value that is no text.
    """
    found = ForeignMirror("the mirror connectors of Kafka Connect")
    aliases: dict[str, None] = {}
    for index, connector in enumerate(connectors):
        config = Node.of(file, f"[{index}]" if len(connectors) > 1 else "", connector)
        name = config.required(CLASS)
        if name.removeprefix(_PACKAGE) not in _CONNECTORS:
            raise ConfigurationError(
                f"{config.place(CLASS)} in {file} is not one of {', '.join(_CONNECTORS)}, so it does not mirror; give "
                f"the file of a mirror."
            )
        source, target = (config.text(f"{side}.cluster.alias") or side for side in _SIDES)  # Kafka's defaults
        aliases |= dict.fromkeys((source, target))
        flow = f"{source}->{target}"
        found.add(Property(f"{flow}.enabled", "true", f"in {file}, {config.place(CLASS)}"))
        if name.endswith(_HEARTBEATS):
            found.add(Property(f"{flow}.emit.heartbeats.enabled", "true", f"in {file}, {config.place(CLASS)}"))
        for key in config.content:
            found.add(config.property(key, _scoped(key, source, target)))
    found.properties["clusters"] = Property("clusters", ",".join(aliases), f"in {file}")
    return found


def _scoped(key: str, source: str, target: str) -> str:
    """Return the name of a property in mm2.properties."""
    for side, alias in zip(_SIDES, (source, target), strict=True):
        prefix = f"{side}.cluster."
        if key.startswith(prefix) and key != f"{prefix}alias":
            return f"{alias}.{key.removeprefix(prefix)}"
    return f"{source}->{target}.{key}"
