"""The settings that name files of Kafka's own mirrors, and how these files are merged with other settings.

The environment and the command line take precedence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.properties_file import read_properties
from gapless_api.base.quantities import boolean
from gapless_api.base.redaction import shown_value
from gapless_api.base.refusals import Refusals
from gapless_api.base.settings import IGNORE_UNKNOWN, Resolved, Setting, SettingsTable, resolve
from gapless_mirror.settings.client_properties import pattern_of_whitelist
from gapless_mirror.settings.java_properties import Property, read_java_properties
from gapless_mirror.settings.mm2 import is_mm2, translate_mm2
from gapless_mirror.settings.old_mirror import translate_old_mirror
from gapless_mirror.settings.translation import Translation

_GROUP = "Files of Kafka's own mirrors"
PEER_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "consumerConfig",
        "Consumer properties of Kafka's first mirror: the source.",
        parse=Path,
        aliases=("consumer.config",),
        group=_GROUP,
    ),
    Setting(
        "producerConfig",
        "Producer properties of Kafka's first mirror: the target.",
        parse=Path,
        aliases=("producer.config",),
        group=_GROUP,
    ),
    Setting(
        "whitelist",
        "Topics in the syntax of Kafka's first mirror: a regular expression of Java, in which a comma also means or, "
        "and spaces have no meaning.",
        aliases=("include",),
        metavar="REGEX",
        group=_GROUP,
    ),
    Setting(
        "flow",
        "Flow to use if FILE is the mm2.properties of MirrorMaker 2 and has several flows.",
        metavar="A->B",
        group=_GROUP,
    ),
    Setting(
        IGNORE_UNKNOWN,
        "List unknown names in FILE and these files, and continue; otherwise they are an error.",
        parse=boolean,
        default=False,
        group=_GROUP,
    ),
)


def resolved_with_peer_files(
    table: SettingsTable,
    file: Path | None,
    options: Mapping[str, str | None],
    environment: Mapping[str, str] = os.environ,
) -> Resolved:
    """Resolve settings like `resolve`, with the files of Kafka's own mirrors instead of defaults.

    FILE may be the mm2.properties of MirrorMaker 2.

    Raises:
        ConfigurationError: like `resolve`; or such a file cannot be read, or is invalid for a mirror.
    """
    flows = _mm2(file)
    given = _given(table, None if flows else file, options, environment)
    translation = _translate(file, flows, given)
    by_name = {setting.name: setting for setting in table.settings}
    merged = dict(options)
    refusals = Refusals()
    for name, (text, origin) in translation.texts.items():
        if name not in by_name or name in given:
            continue
        try:
            by_name[name].parse(text)
        except ValueError as error:
            shown = shown_value(name, text)
            refusals.sentences.append(f"The setting {name} is {shown} ({origin}): it must be {error}.")
        merged[name] = text
    refusals.settle()
    resolved = resolve(table, file=None if flows else file, environment=environment, options=merged)
    table.check_files(resolved.values, file)
    return replace(resolved, ignored={**translation.ignored, **resolved.ignored})


def _given(
    table: SettingsTable, file: Path | None, options: Mapping[str, str | None], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that are given in the usual ways, which take precedence."""
    given = {name: text for name, text in options.items() if text}
    for variable, name in table.variables.items():
        if environment.get(variable, "").strip():
            given.setdefault(name, environment[variable])
    spellings = table.by_name()
    for _, key, text in read_properties(file) if file is not None else ():
        if key in spellings and text:
            given.setdefault(spellings[key].name, text)
    return given


def _translate(file: Path | None, flows: Mapping[str, Property], given: Mapping[str, str]) -> Translation:
    translation = Translation()
    ignoring = _is_true(given.get(IGNORE_UNKNOWN, ""))
    if file is not None and flows:
        translation = translate_mm2(flows, given.get("flow"), file=file, given=given, ignore_unknown=ignoring)
    elif given.get("flow"):
        raise ConfigurationError("The setting flow needs the mm2.properties of MirrorMaker 2 as FILE; give that file.")
    elif given.get("consumerConfig") or given.get("producerConfig"):
        consumer, producer = (_path(given.get(name)) for name in ("consumerConfig", "producerConfig"))
        translation = translate_old_mirror(consumer, producer, given=given, ignore_unknown=ignoring)
    if given.get("whitelist"):
        try:
            pattern = pattern_of_whitelist(given["whitelist"])
        except ValueError as error:
            raise ConfigurationError(f"The setting whitelist must be {error}.") from None
        translation.texts["topicPattern"] = (pattern, "given with whitelist")
    return translation


def _is_true(text: str) -> bool:
    """Whether a boolean setting is true; `resolve` refuses a text that is no boolean."""
    try:
        return boolean(text)
    except ValueError:
        return False


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _mm2(file: Path | None) -> Mapping[str, Property]:
    """Return the properties of `file` if they are those of MirrorMaker 2."""
    if file is None or not is_mm2(read_java_properties(file, strict=False)):
        return {}
    return read_java_properties(file)
