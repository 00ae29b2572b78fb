"""The syntax of properties files, which is that of the peer; must not know which settings a command has."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.base.redaction import shown_value


def read_properties(file: Path) -> list[tuple[int, str, str]]:
    """Read `file` as (line number, key, value), split at the first ``=`` and trimmed; ``#`` starts a comment line.

    Comments may have any encoding, because the peer ignores them; keys and values are UTF-8, with or without a byte
    order mark.

    Raises:
        ConfigurationError: the file is missing, is not text, or has a line without ``=``.
    """
    try:
        content = read_small(file)
    except OSError as error:
        raise ConfigurationError(
            f"The properties file {file} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    entries = []
    for number, line in enumerate(re.split(rb"\r\n|\n|\r", content.removeprefix(codecs.BOM_UTF8)), start=1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:  # as in UTF-16
            raise ConfigurationError(
                f"Line {number} of the properties file {file} is not UTF-8 text; save the file as UTF-8."
            )
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            shown = shown_value(text, text.strip()[:60])
            raise ConfigurationError(
                f"Line {number} of {file} is not key=value: {shown}; correct it or start it with #."
            )
        entries.append((number, key.strip(), value.strip()))
    return entries
