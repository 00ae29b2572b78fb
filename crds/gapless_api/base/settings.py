"""The resolution of settings: defaults, then a properties file, environment variables, the command line.

Order and file syntax are those of the peer, so that its files and scripts work with only the name of the program
changed. Must not know which settings a command has: each command passes a `SettingsTable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.named_settings import CONNECTIONS, NAME, Named, config_file, named_settings
from gapless_api.base.own_files import check_own_files
from gapless_api.base.properties_file import read_properties
from gapless_api.base.quantities import Choice, boolean
from gapless_api.base.redaction import shown_name, shown_value
from gapless_api.base.refusals import IGNORED, Refusals, UnknownName, refuse_unknown
from gapless_api.base.variables import PEER_PREFIX, similar_name, unknown_variables, with_both_prefixes

IGNORE_UNKNOWN = "ignoreUnknownSettings"
"""The setting with which unknown names in a file are listed and ignored, in the commands that have it."""
_Text = tuple[str, str, str]
"""A value, its source and its name as they are written."""
_NO_TEXT: _Text = ("", "", "")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a command."""

    name: str
    """In camelCase, as in files and on the command line."""
    help: str
    """What it does, for ``--help``."""
    parse: Callable[[str], Any] = str
    """Converts the text; raises ValueError with the end of the sentence "it must be …"."""
    default: Any = None
    """The value when it is not set."""
    shown_default: str | None = None
    """The default as ``--help`` shows it; empty for none, ``None`` to derive it from `default`."""
    metavar: str = ""
    """How ``--help`` shows the value; empty to derive it from `parse`."""
    environment: str = ""
    """The name of the environment variable after the prefix; empty to derive it (payloadSize -> PAYLOAD_SIZE)."""
    aliases: tuple[str, ...] = ()
    """Other accepted names, in files and on the command line."""
    switch: bool | None = None
    """Whether the bare option (``--encryption``) means "true"; ``None``: if the value is a boolean."""
    required: bool = False
    repeatable: bool = False
    """Whether the option may be repeated; the values are then joined with commas, as in a file."""
    peer: bool = False
    """Whether the peer has the setting as well."""
    group: str = ""
    """The heading under which ``--help`` lists it."""
    writes: bool = False
    """Whether it names a file that the command writes; all other files are read."""
    replaced_by: str = ""
    """Of a file that is read: the setting whose file may replace it, because it is written later."""
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """Of a setting that names a connection of gapless.toml: the settings of the command by their names there."""

    @property
    def default_text(self) -> str:
        """The default for ``--help``; empty for none."""
        if self.shown_default is not None:
            return self.shown_default
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, float):
            return f"{self.default:g}"
        return str(self.default) if isinstance(self.default, int | str) else ""

    @property
    def value_text(self) -> str:
        """The placeholder of the value for ``--help``."""
        if self.metavar:
            return self.metavar
        if isinstance(self.parse, Choice):
            return "|".join(self.parse.allowed)
        return {boolean: "true|false", Path: "FILE"}.get(self.parse, "TEXT")

    @property
    def is_switch(self) -> bool:
        """Whether the bare option means "true"."""
        return self.parse is boolean if self.switch is None else self.switch

    @property
    def variable(self) -> str:
        """The name of the environment variable after the prefix."""
        return self.environment or snake(self.name).upper()

    @property
    def variables(self) -> tuple[str, ...]:
        """All accepted variable names after the prefix; `variable` is last and takes precedence."""
        spellings = (*(snake(name).upper() for name in (*self.aliases, self.name)), self.variable)
        return tuple(dict.fromkeys(reversed(spellings)))[::-1]

    @property
    def options(self) -> tuple[str, ...]:
        """All spellings on the command line, kebab-case first."""
        spellings = [spelling for name in (self.name, *self.aliases) for spelling in (kebab(name), name)]
        return tuple(dict.fromkeys(f"--{spelling}" for spelling in spellings))


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """All settings of one command."""

    prefix: str
    """The documented prefix of the environment variables, such as ``AIRGAP_RESEND_``; see `prefixes`."""
    settings: tuple[Setting, ...]
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Settings of the peer's other programs that are ignored in a file, with the reason.

    A name that ends with ``*`` is a prefix.
    """
    other_prefixes: tuple[str, ...] = ()
    """Further accepted prefixes, such as the one of the command's own name if `prefix` is another command's."""
    siblings: tuple[Setting, ...] = ()
    """Settings of other commands with the same prefix; their environment variables have no effect."""
    bundle_setting: str = ""
    """The setting that the argument FILE stands for if it is a bundle and has no settings; empty for none."""
    common: tuple[str, ...] = ()
    """The settings that ``--help`` shows, in this order; all others need ``--help-all``. Empty to show all of them."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All accepted prefixes, those of the peer first; the last one takes precedence."""
        return with_both_prefixes((*self.other_prefixes, self.prefix))

    @property
    def other_prefixes_text(self) -> str:
        """The accepted prefixes except the documented one, for ``--help``."""
        return ", ".join(prefix for prefix in self.prefixes if prefix != self.prefix)

    @property
    def variables(self) -> dict[str, str]:
        """All accepted environment variables with their setting's name; the last one that is set takes precedence."""
        return {
            prefix + variable: setting.name
            for prefix in self.prefixes
            for setting in self.settings
            for variable in setting.variables
        }

    def unknown_variables(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables with one of the `prefixes` that belong to no setting.

        Raises:
            ConfigurationError: one of them has a prefix of ours, so that it can only be a mistake.
        """
        known = {*self.variables, *replace(self, settings=self.siblings).variables}
        return unknown_variables(environment, prefixes=self.prefixes, known=known)

    def why_foreign(self, key: str) -> str | None:
        """Return why `key` of a file is ignored; ``None`` if it is not a setting of the peer."""
        for name, why in self.foreign.items():
            if key == name or (name.endswith("*") and key.startswith(name[:-1])):
                return why
        return None

    def check_files(self, values: Mapping[str, Any], settings_file: Path | None, **read: Path) -> None:
        """Refuse settings of which one would overwrite the file of another; see `check_own_files`.

        `read` are further files that are read, by their names in messages.
        """
        written = [setting.name for setting in self.settings if setting.writes]
        replaced = {setting.name: setting.replaced_by for setting in self.settings if setting.replaced_by}
        check_own_files({**values, **read}, written, replaced, settings_file)

    def by_name(self) -> dict[str, Setting]:
        """Return the settings by every spelling that a file may use."""
        return {
            spelling: setting
            for setting in self.settings
            for name in (setting.name, *setting.aliases)
            for spelling in (name, kebab(name))
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result of `resolve`."""

    values: dict[str, Any]
    """The values of all settings of the table, by name."""
    sources: dict[str, str]
    """The source of each value that is not the default, for messages."""
    ignored: dict[str, str]
    """Keys of the file that are ignored, with the reason."""
    unknown_variables: tuple[str, ...]
    """Environment variables with the peer's prefix of the command that belong to no setting."""
    file: Path | None = None
    """The properties file, if any."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """The name of each of the `sources` as it was written; of a variable with the peer's prefix, the setting's name."""


def resolve(
    table: SettingsTable,
    *,
    file: Path | Named | None,
    environment: Mapping[str, str],
    options: Mapping[str, str | None],
    spelled: Mapping[str, str] | None = None,
) -> Resolved:
    """Resolve all settings; later sources take precedence.

    They are: default, connections of gapless.toml, `file`, `environment`, `options`. An empty value (``from=``) in the
    file or on the command line resets the setting to its default. An empty environment variable is ignored, as in the
    peer: service files and container templates often contain some.

    Args:
        table: the command's settings.
        file: a properties file, of ours or of the peer, or settings of gapless.toml, or ``None``.
        environment: the environment variables of the process.
        options: the values on the command line by setting name; ``None`` if not given.
        spelled: the names of `options` as they were written, if that is known.

    Raises:
        ConfigurationError: keys, or variables with our prefix, are unknown; a key is malformed, values are invalid,
            a required setting is missing, or one would overwrite the file of another. All unknown keys and invalid
            values are in one message.
    """
    texts: dict[str, _Text] = {}
    ignored: dict[str, str] = {}
    unknown: list[UnknownName] = []
    if isinstance(file, Path):
        texts, ignored, unknown = _from_file(table, file)
    elif file is not None:
        texts = _from_named(table.by_name(), file)
    texts |= _from_process(table, environment, options, spelled or {})
    for setting in table.settings:
        if setting.stands_for and (name := texts.get(setting.name, _NO_TEXT)[0].strip()):
            texts = _from_connection(setting, name, environment) | texts
    values = {}
    sources = {}
    spellings = {}
    refusals = Refusals()
    for setting in table.settings:
        text, source, spelling = texts.get(setting.name, _NO_TEXT)
        if text.strip():
            with refusals.collect():
                values[setting.name] = _parse(setting, text.strip(), source)
            sources[setting.name], spellings[setting.name] = source, spelling
        elif not setting.required:
            values[setting.name] = setting.default
    if values.get(IGNORE_UNKNOWN):
        ignored |= {shown_name(each.name): IGNORED for each in unknown}
    else:
        with refusals.collect():
            _refuse_unknown(table, unknown)
    refusals.settle()
    _refuse_missing(table, values)
    path, named = file if isinstance(file, Path) else None, config_file(environment)
    table.check_files(values, path, **({} if named is None else {NAME: named}))
    return Resolved(values, sources, ignored, table.unknown_variables(environment), path, spellings)


def _from_process(
    table: SettingsTable,
    environment: Mapping[str, str],
    options: Mapping[str, str | None],
    spelled: Mapping[str, str],
) -> dict[str, _Text]:
    """Return what variables and options say, by setting name."""
    texts: dict[str, _Text] = {}
    for variable, name in table.variables.items():
        if environment.get(variable, "").strip():
            spelling = name if variable.startswith(PEER_PREFIX) else variable
            texts[name] = (environment[variable], f"from {variable}", spelling)
    for name, option in options.items():
        if option is not None:
            texts[name] = (option, f"given with --{kebab(name)}", spelled.get(name, name))
    return texts


def _from_file(table: SettingsTable, file: Path) -> tuple[dict[str, _Text], dict[str, str], list[UnknownName]]:
    """Return values, sources and keys in `file` by setting name, the ignored keys with the reason, and unknown ones."""
    names = table.by_name()
    texts, ignored, unknown = {}, {}, []
    for number, key, text in read_properties(file):
        source = f"in {file}, line {number}"
        if key in names:
            texts[names[key].name] = (text, source, key)
        elif (why := table.why_foreign(key)) is not None:
            ignored[key] = why
        else:
            unknown.append(UnknownName(str(file), number, key))
    return texts, ignored, unknown


def _from_named(names: Mapping[str, Setting], named: Named) -> dict[str, _Text]:
    """Return the settings of gapless.toml by setting name. Raises ConfigurationError."""
    _refuse_unnamed(named, names)
    return {names[key].name: (text, named.where, key) for key, text in named.texts.items()}


def _from_connection(setting: Setting, name: str, environment: Mapping[str, str]) -> dict[str, _Text]:
    """Return the settings that a connection stands for, by setting name. Raises ConfigurationError."""
    found = named_settings(CONNECTIONS, name, environment)
    names = {spelling: stands for key, stands in setting.stands_for.items() for spelling in (key, kebab(key))}
    _refuse_unnamed(found, names)
    return {names[key]: (text, found.where, key) for key, text in found.texts.items()}


def _refuse_unnamed(named: Named, names: Collection[str]) -> None:
    unknown = next((key for key in named.texts if key not in names), None)
    if unknown is not None:
        raise ConfigurationError(
            f"Unknown setting {shown_name(unknown)} {named.where}{similar_name(unknown, names)}; correct or remove it."
        )


def _refuse_unknown(table: SettingsTable, unknown: list[UnknownName]) -> None:
    names = table.by_name()
    advice = f", or give --{kebab(IGNORE_UNKNOWN)}" if IGNORE_UNKNOWN in names else ""
    refuse_unknown(unknown, names, noun=("setting", "settings"), advice=advice)


def _refuse_missing(table: SettingsTable, values: Mapping[str, Any]) -> None:
    for setting in table.settings:
        if setting.name not in values:
            raise ConfigurationError(
                f"The setting {setting.name} is missing; give {setting.options[0]}=…, the variable "
                f"{table.prefix}{setting.variable}, or a line {setting.name}=… in the properties file."
            )


def _parse(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        shown = shown_value(setting.name, text)
        raise ConfigurationError(f"The setting {setting.name} is {shown} ({source}): it must be {error}.") from None


def kebab(name: str) -> str:
    """``payloadSize`` -> ``payload-size``, ``targetIP`` -> ``target-ip``, ``groupID`` -> ``group-id``."""
    return snake(name).replace("_", "-")


def snake(name: str) -> str:
    """``payloadSize`` -> ``payload_size``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
