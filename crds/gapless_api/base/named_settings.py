"""The file gapless.toml, in which connections and the settings of commands have names that people type.

Must not know any setting. Nobody needs the file, and no program of ours writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small

VARIABLE = "GAPLESS_CONFIG"
"""The variable with the path of the file."""
CONNECTIONS = "connections"
NAME = "gapless.toml"
_SYSTEM = Path("/etc/gapless") / NAME


class Named(NamedTuple):
    """Settings that have a name together."""

    where: str
    """As a message says it: ``in /etc/gapless/gapless.toml, connections.north``."""
    texts: Mapping[str, str]
    """By the names that the file uses."""


def named_settings(kind: str, name: str, environment: Mapping[str, str]) -> Named:
    """Return the settings under a name.

    Args:
        kind: ``connections``, or a command such as ``scan`` or ``mirror-status``.
        name: such as ``north``.
        environment: the variables of the process.

    Raises:
        ConfigurationError: there is no file, it cannot be read, or it does not have the name.
    """
    file = config_file(environment)
    if file is None:
        raise ConfigurationError(
            f"There is no {NAME} with [{kind}.{name}]; write it to ~/.config/gapless or /etc/gapless, or give its "
            f"path in the variable {VARIABLE}."
        )
    section = _section(file, kind)
    found = section.get(name)
    if not isinstance(found, dict):
        names = _names(section)
        has = f"; it has {', '.join(names)}" if names else ""
        raise ConfigurationError(f"{file} has no [{kind}.{name}]{has}.")
    where = f"in {file}, {kind}.{name}"
    return Named(where, {key: _text(value, f"{key} {where}") for key, value in found.items()})


def known_names(kind: str, environment: Mapping[str, str]) -> list[str]:
    """Return the names of a kind; none without a file. Raises ConfigurationError if it cannot be read."""
    file = config_file(environment)
    return [] if file is None else _names(_section(file, kind))


def _names(section: Mapping[str, Any]) -> list[str]:
    return sorted(name for name, content in section.items() if isinstance(content, dict))


def config_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the file; ``None`` if there is none."""
    if given := environment.get(VARIABLE, "").strip():
        return Path(given)
    home = environment.get("XDG_CONFIG_HOME") or (f"{environment['HOME']}/.config" if environment.get("HOME") else "")
    places = [Path(home) / "gapless" / NAME] if home else []
    return next((place for place in (*places, _SYSTEM) if place.is_file()), None)


def _section(file: Path, kind: str) -> Mapping[str, Any]:
    import tomllib  # noqa: PLC0415 -- most commands are run without names

    try:
        content = tomllib.loads(read_small(file).decode("utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read ({error.strerror}); make it readable, or correct {VARIABLE}."
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML ({error}); correct it.") from None
    section = content.get(kind, {})
    if not isinstance(section, dict):
        raise ConfigurationError(f"{kind} in {file} must be a table of names, such as [{kind}.north].")
    return section


def _text(value: Any, where: str) -> str:
    """Return a value as a properties file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        return ",".join(map(str, value))
    raise ConfigurationError(f"{where} must be a text, a number, true, false, or a list of texts.")
