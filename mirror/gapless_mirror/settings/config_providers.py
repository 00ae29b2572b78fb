"""References to other files and to the environment in properties: Kafka's configuration providers.

A reference is resolved only where its value is used. Errors name the reference, never the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small

_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}]*):)?(?P<key>[^}:]*)\}")
"""``${provider:path:key}`` or ``${provider:key}``, as in ``ConfigTransformer`` of Kafka."""
_KINDS = {
    **dict.fromkeys(("file", "FileConfigProvider"), "file"),
    **dict.fromkeys(("dir", "directory", "DirectoryConfigProvider"), "dir"),
    **dict.fromkeys(("env", "EnvVarConfigProvider"), "env"),
}
_CURE = "write the value there, or a password to a file of its own and give that file with its option"


def resolve_references(
    text: str,
    *,
    origin: str,
    classes: Mapping[str, str],
    read: Callable[[Path], Mapping[str, str]],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Replace all references in a value.

    Args:
        text: the value.
        origin: the property with its file and line, for messages.
        classes: the class of each provider that ``config.providers.*.class`` names.
        read: reads a properties file, for the provider of files.
        environment: for the provider of environment variables.

    Raises:
        ConfigurationError: the provider is unknown, or has no such value.
    """

    def value_of(match: re.Match[str]) -> str:
        provider, path, key = match["provider"], match["path"] or "", match["key"]
        kind = _kind(provider, classes)
        value = None
        if kind == "file":
            value = read(Path(path)).get(key)
        elif kind == "dir":
            value = _content(Path(path, key), origin)
        elif kind == "env":
            value = environment.get(key)
        else:
            raise ConfigurationError(
                f"{origin} takes its value from the configuration provider {provider[:50]!r}, which only Kafka's own "
                f"programs have; {_CURE}."
            )
        if value is None:
            raise ConfigurationError(f"{origin} takes its value from {match[0][:200]}, which does not exist; {_CURE}.")
        return value

    return _REFERENCE.sub(value_of, text)


def has_reference(text: str) -> bool:
    """Whether a value has references."""
    return _REFERENCE.search(text) is not None


def referenced_file(text: str, classes: Mapping[str, str]) -> Path | None:
    """Return the file whose content a value is, if it is one reference to a file of a directory."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None or _kind(match["provider"], classes) != "dir":
        return None
    return Path(match["path"] or "", match["key"])


def _kind(provider: str, classes: Mapping[str, str]) -> str | None:
    return _KINDS.get(classes.get(provider, provider).rpartition(".")[2])


def _content(file: Path, origin: str) -> str:
    try:
        return read_small(file).decode("utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{origin} takes its value from {file}, which cannot be read ({error.strerror}); {_CURE}."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{origin} takes its value from {file}, which is not UTF-8 text; {_CURE}.") from None
