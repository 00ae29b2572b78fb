"""What messages show of a value: nothing if the name of its setting or property may belong to a secret."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"secret|pass|token|jaas|key|credential|assertion|private|certificates|oauthbearer\.config", re.IGNORECASE
)
_MAX_SHOWN = 200
"""Maximum characters of a name or a value in a message."""
HIDDEN = "(value not shown)"


def may_be_secret(name: str) -> bool:
    """Whether the value of a setting, a property or a variable of this name may be a secret.

    All names of secrets in Kafka's clients match: passwords, passphrases, client secrets, tokens, JAAS
    configurations, and keys of certificates.
    """
    return _SECRET.search(name) is not None


def shown_value(name: str, value: str) -> str:
    """Return `value` for a message: quoted, escaped and shortened, or `HIDDEN`."""
    if may_be_secret(name):
        return HIDDEN
    return repr(value[:_MAX_SHOWN]) + ("…" if len(value) > _MAX_SHOWN else "")


def shown_name(name: str) -> str:
    """Return the name of a setting for a message: escaped and shortened, and without what follows a separator.

    A line such as ``password: x=y`` of a file that uses another syntax has the secret in what looks like its name.
    """
    stem, separator, _ = re.sub(r"[\s:].*", "\0", name, count=1, flags=re.DOTALL).partition("\0")
    text, ending = (stem, "…") if separator and may_be_secret(name) else (name, "")
    if text.isprintable() and len(text) <= _MAX_SHOWN:
        return text + ending
    return repr(text[:_MAX_SHOWN]) + "…"
