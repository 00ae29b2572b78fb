"""The readers of files that choose topics and name at most the source: those of uReplicator and Brooklin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.imports.foreign_mirror import ForeignMirror
from gapless_mirror.imports.structured import Node
from gapless_mirror.settings.client_properties import translated_expression

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SOURCE = re.compile(r"kafka(?P<tls>ssl)?://(?P<servers>[^/]+)/(?P<topics>.+)")
_CONNECTOR = "connectorName"


def topic_lines(text: str) -> list[tuple[int, list[str]]] | None:
    """Return the lines of a list of topics as (number, names), or ``None`` if this is none."""
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not all(map(_TOPIC.fullmatch, words)):
            return None
        if words:
            lines.append((number, words))
    return lines or None


def read_lines(lines: Iterable[tuple[int, list[str]]]) -> ForeignMirror:
    """Read a list of topics: one in a line, or several with commas or spaces between them."""
    return _of_topics("a list of topics", (topic for _, topics in lines for topic in topics))


def is_topic_list(document: object) -> bool:
    """Whether this is a list of topics, or of what uReplicator's controller takes for each."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(each, str) or (isinstance(each, dict) and "topic" in each) for each in document)
    )


def read_topic_list(document: list[Any], file: Path) -> ForeignMirror:
    """Read such a list. Raises ConfigurationError for a name that no topic can have."""
    names = [
        each if isinstance(each, str) else Node.of(file, f"[{index}]", each).required("topic")
        for index, each in enumerate(document)
    ]
    for index, name in enumerate(names):
        if _TOPIC.fullmatch(name) is None:
            raise ConfigurationError(f"[{index}] in {file} is not a name that a topic can have; correct it.")
    return _of_topics("a list of topics", names)


def is_datastream(document: object) -> bool:
    """Whether this is a datastream of Brooklin."""
    return isinstance(document, dict) and _CONNECTOR in document and "source" in document


def read_datastream(document: Mapping[str, Any], file: Path) -> ForeignMirror:
    """Read a datastream of Brooklin's Kafka mirroring.

    Raises:
        ConfigurationError: its source is not Kafka, or its expression cannot be translated.
    """
    top = Node.of(file, "", document)
    source = top.node("source")
    match = _SOURCE.fullmatch(source.required("connectionString"))
    if match is None:
        raise ConfigurationError(
            f"source.connectionString in {file} is not kafka://HOST:PORT,…/EXPRESSION; give the datastream of a mirror "
            f"of Kafka."
        )
    found = ForeignMirror("a datastream of Brooklin")
    try:
        found.texts["topicPattern"] = translated_expression(unquote(match["topics"]))
    except ValueError as error:
        raise ConfigurationError(f"source.connectionString in {file} must have {error}.") from None
    found.texts["sourceBootstrapServers"] = match["servers"]
    if match["tls"]:
        found.texts["sourceTls"] = "true"
    top.read.update(("name", _CONNECTOR))
    metadata = top.node("metadata")
    paths = [*top.others(), *source.others(), *metadata.others()]
    found.without_meaning |= dict.fromkeys(paths, "it steers Brooklin")
    return found


def _of_topics(program: str, names: Iterable[str]) -> ForeignMirror:
    found = ForeignMirror(program)
    found.texts["topics"] = ",".join(dict.fromkeys(names))
    return found
