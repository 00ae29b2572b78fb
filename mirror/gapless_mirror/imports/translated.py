"""Which kind of file another mirror's is, and its translation to settings of a mirror.

Must not know how the settings are printed.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.base.redaction import shown_name, shown_value
from gapless_mirror.imports.connect import CLASS, connectors_of, read_connectors
from gapless_mirror.imports.foreign_mirror import ForeignMirror, SecretEntry
from gapless_mirror.imports.strimzi import KIND, read_strimzi
from gapless_mirror.imports.structured import documents_of
from gapless_mirror.imports.topic_lists import (
    is_datastream,
    is_topic_list,
    read_datastream,
    read_lines,
    read_topic_list,
    topic_lines,
)
from gapless_mirror.settings.client_properties import mirror_name_of_group
from gapless_mirror.settings.java_properties import read_java_properties
from gapless_mirror.settings.mm2 import FlowName, collect_mm2, is_mm2
from gapless_mirror.settings.mm2_properties import COMBINED
from gapless_mirror.settings.table import MIRROR
from gapless_mirror.settings.translation import Translation

if TYPE_CHECKING:
    from gapless_api.base.settings import Setting

_KINDS = (
    f"a {KIND} of Strimzi, a mirror connector of Kafka Connect as JSON, an mm2.properties, a datastream of Brooklin, "
    f"or a list of topics"
)


@dataclass(frozen=True, slots=True)
class ImportedMirror:
    """The settings of a mirror that another program's file describes."""

    program: str
    flow: FlowName
    """The names of both clusters."""
    texts: Mapping[str, str]
    """By setting, in the order of ``--help``; all can be parsed."""
    not_carried: tuple[str, ...]
    """Sentences: what has an effect there and is not in `texts`, and why."""
    without_meaning: Mapping[str, str]
    """Properties that a mirror has no need of, with the reason."""
    secrets: Mapping[str, SecretEntry]
    """By path in `texts`: the entry of a Secret that the file names."""
    to_write: Mapping[str, str]
    """By path in `texts`: the content that a file must get."""


def import_mirror(file: Path, flow: str | None, servers: Mapping[str, str], files_folder: str) -> ImportedMirror:
    """Read and translate a file.

    Args:
        file: of another program.
        flow: ``A->B``; ``None`` for the only one.
        servers: bootstrap servers by setting, for files that name none; they take precedence.
        files_folder: where files are expected that the file of the other program does not name.

    Raises:
        ConfigurationError: the file is none of those, is invalid, has several flows, or does not name the brokers.
    """
    found = _read(file, files_folder)
    if not found.properties:
        chosen = FlowName("source", "target")
        texts = {"name": mirror_name_of_group(file.stem), **found.texts, **servers}
        return _checked(found, chosen, texts, Translation(), file)
    properties = {key: each._replace(resolves=False) for key, each in found.properties.items()}
    translation, chosen = collect_mm2(properties, flow, file=file, given=servers, files_folder=files_folder)
    found.not_carried += translation.refusals.sentences
    found.not_carried += [
        f"The property {shown_name(each.key)} ({each.origin}) is not known." for each in translation.unknown
    ]
    texts = {**{name: text for name, (text, _) in translation.texts.items()}, **servers}
    return _checked(found, chosen, texts, translation, file)


def _read(file: Path, files_folder: str) -> ForeignMirror:
    try:
        text = read_small(file).removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"The file {file} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    except UnicodeDecodeError:
        text = ""  # properties may be Latin-1
    properties = read_java_properties(file, strict=False)
    if is_mm2(properties):
        return ForeignMirror("MirrorMaker 2", read_java_properties(file))
    if CLASS in properties and not text.lstrip().startswith(("{", "[")):  # of a standalone worker
        properties = read_java_properties(file)
        return read_connectors([{key: each.raw_value for key, each in properties.items()}], file)
    if (lines := topic_lines(text)) is not None:
        return read_lines(lines)
    return _read_documents(documents_of(text, file), file, files_folder)


def _read_documents(documents: list[Any], file: Path, files_folder: str) -> ForeignMirror:
    """Read JSON or YAML. Raises ConfigurationError if it describes no mirror."""
    strimzi = [each for each in documents if isinstance(each, dict) and each.get("kind") == KIND]
    first = documents[0] if documents else None
    listed = first if isinstance(first, list) and len(documents) == 1 else documents
    if len(strimzi) > 1:
        raise ConfigurationError(f"The file {file} has {len(strimzi)} {KIND}s; give a file with one of them.")
    if strimzi:
        return read_strimzi(strimzi[0], file, files_folder)
    connectors = [connectors_of(each) for each in listed]
    if listed and all(connectors):
        return read_connectors([each for found in connectors for each in found], file)
    if isinstance(first, dict) and is_datastream(first):
        return read_datastream(first, file)
    if isinstance(first, list) and is_topic_list(first):
        return read_topic_list(first, file)
    raise ConfigurationError(f"The file {file} is not {_KINDS}; give the file of another mirror.")


def _checked(
    found: ForeignMirror,
    flow: FlowName,
    texts: Mapping[str, str],
    translation: Translation,
    file: Path,
) -> ImportedMirror:
    """Return the settings that can be parsed, and the others as not carried over."""
    not_carried, valid = list(found.not_carried), {}
    for setting in MIRROR.settings:
        if setting.name not in texts:
            if setting.required:
                side = "source" if setting.name.startswith("source") else "target"
                raise ConfigurationError(
                    f"The file {file} does not name the brokers of the {side}; give "
                    f"--{side}-bootstrap-servers=HOST:PORT."
                )
            continue
        text = texts[setting.name]
        problem = _problem(setting, text)
        if problem:
            shown = shown_value(setting.name, text)
            not_carried.append(f"The setting {setting.name} would be {shown} and must be {problem}.")
        else:
            valid[setting.name] = text
    return ImportedMirror(
        found.program,
        flow,
        valid,
        tuple(dict.fromkeys(not_carried)),
        found.without_meaning | {name: why for name, why in translation.ignored.items() if name not in COMBINED},
        found.secrets,
        translation.to_write,
    )


def _problem(setting: Setting, text: str) -> str:
    """Return the end of the sentence "it must be …" for a text that a line of a settings file cannot have, else ""."""
    if not text.isprintable():
        return "a text of one line without control characters"
    try:
        setting.parse(text)
    except ValueError as error:
        return str(error)
    return ""
