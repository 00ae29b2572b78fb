"""Owns how a command's settings are found: defaults, then a properties file, the environment, the command line.

This is the peer's order and the peer's file syntax, so that a person who has files and scripts for the peer changes
only the program's name. Must not know which settings a command has: each command brings a `SettingsTable`.
"""

from __future__ import annotations

import codecs
import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


_MOST_SHOWN = 200
"""Characters of a key or a value in a message."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a command."""

    name: str
    """As files and the command line spell it, in camelCase."""
    help: str
    """What it does, for ``--help``."""
    parse: Callable[[str], Any] = str
    """Turns the text into the value; raises ValueError with the end of the sentence "it must be …"."""
    default: Any = None
    """The value when it is not set."""
    shown_default: str = ""
    """The default as ``--help`` shows it; empty for none."""
    metavar: str = "TEXT"
    environment: str = ""
    """The variable's name after the prefix; empty to derive it from the name (payloadSize -> PAYLOAD_SIZE)."""
    aliases: tuple[str, ...] = ()
    """Other names that files and the command line may use."""
    switch: bool = False
    """Whether the bare option (``--encryption``) means "true"."""
    required: bool = False
    repeatable: bool = False
    """Whether the option may be given several times; the texts are then joined with commas, as a file has them."""
    own: bool = False
    """True for a setting that the peer does not have."""
    group: str = ""
    """The heading under which ``--help`` lists it."""

    @property
    def variable(self) -> str:
        """The environment variable's name after the prefix."""
        return self.environment or snake(self.name).upper()

    @property
    def variables(self) -> tuple[str, ...]:
        """All names after the prefix, `variable` last, so that it wins when several are set."""
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
    """What the environment variables begin with, such as ``AIRGAP_RESEND_``."""
    settings: tuple[Setting, ...]
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Settings of the peer's other programs that may stand in the same file, with why they do not matter here.

    A name that ends with ``*`` stands for all that begin so.
    """
    old_prefix: str = ""
    """What the environment variables began with under an older name of the command, still accepted; empty for none."""

    @property
    def variables(self) -> dict[str, str]:
        """Every environment variable that is accepted, with its setting's name; the last one that is set wins."""
        return {
            prefix + variable: setting.name
            for prefix in filter(None, (self.old_prefix, self.prefix))
            for setting in self.settings
            for variable in setting.variables
        }

    def why_foreign(self, key: str) -> str | None:
        """Why a `key` of a file does not matter here; ``None`` when it is not one of the peer's."""
        for name, why in self.foreign.items():
            if key == name or (name.endswith("*") and key.startswith(name[:-1])):
                return why
        return None

    def by_name(self) -> dict[str, Setting]:
        """Every spelling that a file may use, with its setting."""
        return {
            spelling: setting
            for setting in self.settings
            for name in (setting.name, *setting.aliases)
            for spelling in (name, kebab(name))
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """What `resolve` found."""

    values: dict[str, Any]
    """The value of every setting of the table, by its name."""
    sources: dict[str, str]
    """Where a value that is not the default came from, for messages."""
    ignored: dict[str, str]
    """Keys of the file that do not matter here, with why."""
    unknown_variables: tuple[str, ...]
    """Environment variables with the command's prefix that mean nothing."""
    file: Path | None = None
    """The properties file, if there is one."""


def resolve(
    table: SettingsTable, *, file: Path | None, environment: Mapping[str, str], options: Mapping[str, str | None]
) -> Resolved:
    """Find every setting's value; a later source wins: default, `file`, `environment`, `options`.

    An empty text (``from=``) in the file or on the command line unsets the setting, so that it has its default again.
    An empty variable counts as none, as it does for the peer: service files and container templates leave such behind.

    Args:
        table: the command's settings.
        file: a properties file of this program or of the peer's, or ``None``.
        environment: all environment variables of the process.
        options: the command line's values by setting name; ``None`` for one that was not given.

    Raises:
        ConfigurationError: an unknown or malformed key, a value of the wrong type, or a required setting missing.
    """
    texts: dict[str, tuple[str, str]] = {}
    ignored: dict[str, str] = {}
    if file is not None:
        texts, ignored = _from_file(table, file)
    variables = table.variables
    for variable, name in variables.items():
        if environment.get(variable, "").strip():
            texts[name] = (environment[variable], f"from {variable}")
    for name, option in options.items():
        if option is not None:
            texts[name] = (option, f"given with --{kebab(name)}")
    values = {}
    sources = {}
    for setting in table.settings:
        text, place = texts.get(setting.name, ("", ""))
        if text.strip():
            values[setting.name] = _parsed(setting, text.strip(), place)
            sources[setting.name] = place
        elif setting.required:
            raise ConfigurationError(
                f"The setting {setting.name} is missing; give {setting.options[0]}=…, the variable "
                f"{table.prefix}{setting.variable}, or a line {setting.name}=… in the properties file."
            )
        else:
            values[setting.name] = setting.default
    prefixes = tuple(filter(None, (table.prefix, table.old_prefix)))
    unknown = tuple(sorted(v for v in environment if v.startswith(prefixes) and v not in variables))
    return Resolved(values, sources, ignored, unknown, file)


def _from_file(table: SettingsTable, file: Path) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Sort the lines of `file` into texts of this command's settings (with their place) and keys that do not matter."""
    names = table.by_name()
    texts, ignored = {}, {}
    for number, key, text in read_properties(file):
        place = f"in {file}, line {number}"
        if key in names:
            texts[names[key].name] = (text, place)
        elif (why := table.why_foreign(key)) is not None:
            ignored[key] = why
        else:
            close = difflib.get_close_matches(key, names, n=1, cutoff=0.75)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ConfigurationError(f"Unknown setting {_shown(key)} {place}{hint}; correct or delete the line.")
    return texts, ignored


def _parsed(setting: Setting, text: str, place: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        shown = repr(text[:_MOST_SHOWN]) + ("…" if len(text) > _MOST_SHOWN else "")
        raise ConfigurationError(f"The setting {setting.name} is {shown} ({place}): it must be {error}.") from None


def _shown(key: str) -> str:
    """A key for a message, which must stay one short line whatever the file holds."""
    return key if key.isprintable() and len(key) <= _MOST_SHOWN else repr(key[:_MOST_SHOWN]) + "…"


def read_properties(file: Path) -> list[tuple[int, str, str]]:
    """Read `file` as (line number, key, value), split at the first ``=`` and trimmed; ``#`` begins a comment line.

    A comment may be in any encoding, because the peer does not look into it; keys and values are UTF-8, with or without
    the byte order mark that editors on Windows write.

    Raises:
        ConfigurationError: the file is missing, not text, or has a line without ``=``.
    """
    try:
        content = read_small(file)
    except OSError as error:
        raise ConfigurationError(
            f"The properties file {file} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    found = []
    for number, line in enumerate(re.split(rb"\r\n|\n|\r", content.removeprefix(codecs.BOM_UTF8)), start=1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:  # which UTF-16 is full of
            raise ConfigurationError(
                f"Line {number} of the properties file {file} is not UTF-8 text; save the file as UTF-8."
            )
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(
                f"Line {number} of {file} is not key=value: {text.strip()[:60]!r}; correct it or start it with #."
            )
        found.append((number, key.strip(), value.strip()))
    return found


def kebab(name: str) -> str:
    """``payloadSize`` -> ``payload-size``, ``targetIP`` -> ``target-ip``, ``groupID`` -> ``group-id``."""
    return snake(name).replace("_", "-")


def snake(name: str) -> str:
    """``payloadSize`` -> ``payload_size``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser of integers from `least` to `most`, both inclusive."""

    def parse(text: str) -> int:
        expected = f"an integer of {least} or more" if most is None else f"an integer from {least} to {most}"
        try:
            number = int(text)
        except ValueError:
            raise ValueError(expected) from None
        if number < least or (most is not None and number > most):
            raise ValueError(expected)
        return number

    return parse


def seconds(least: float, most: float) -> Callable[[str], float]:
    """A parser of durations from `least` to `most` seconds, both inclusive."""

    def parse(text: str) -> float:
        expected = f"a number of seconds from {least:g} to {most:g}"
        try:
            found = float(text)
        except ValueError:
            raise ValueError(expected) from None
        if not least <= found <= most:
            raise ValueError(expected)
        return found

    return parse


def boolean(text: str) -> bool:
    """Read true or false, as the peer spells them."""
    if text.lower() in {"true", "yes", "1"}:
        return True
    if text.lower() in {"false", "no", "0"}:
        return False
    raise ValueError("true or false")


@dataclass(frozen=True, slots=True)
class Choice:
    """A parser of one of `allowed`, whatever the case."""

    allowed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Read one of the words. Raises ValueError."""
        for word in self.allowed:
            if text.lower() == word.lower():
                return word
        raise ValueError("one of " + ", ".join(self.allowed))


def choice(*allowed: str) -> Choice:
    """A parser of one of `allowed`, whatever the case."""
    return Choice(allowed)
