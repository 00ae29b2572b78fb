"""The names of environment variables: the prefixes that a command accepts, and which variables are mistakes."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Mapping

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.redaction import shown_name

PEER_PREFIX, OWN_PREFIX = "AIRGAP_", "GAPLESS_"
"""How names of environment variables begin; every command accepts both, and ours takes precedence."""
_SERVICE_LINK = re.compile(
    r"\w+_(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)=|\w+_PORT=\w+://"
)
"""Variables that Kubernetes sets in pods for a Service, such as ``GAPLESS_RESEND_SERVICE_HOST``."""


def with_both_prefixes(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return prefixes of commands, such as ``AIRGAP_RESEND_``, each as the peer's and as ours, the peer's first."""
    stems = [prefix.removeprefix(PEER_PREFIX).removeprefix(OWN_PREFIX) for prefix in prefixes if prefix]
    return tuple(first + stem for first in (PEER_PREFIX, OWN_PREFIX) for stem in stems)


def unknown_variables(
    environment: Mapping[str, str], *, prefixes: tuple[str, ...], known: Collection[str]
) -> tuple[str, ...]:
    """Return the variables with one of the `prefixes` that are not `known`.

    Raises:
        ConfigurationError: one of them has a prefix of ours, so that it can only be a mistake.
    """
    unknown = sorted(
        name
        for name, value in environment.items()
        if name.startswith(prefixes) and name not in known and not _SERVICE_LINK.match(f"{name}={value}")
    )
    if own := [name for name in unknown if name.startswith(OWN_PREFIX)]:
        ours = [name for name in known if name.startswith(OWN_PREFIX)]
        shown = ", ".join(f"{shown_name(name)}{similar_name(name, ours)}" for name in own)
        one = len(own) == 1
        raise ConfigurationError(
            f"Unknown environment variable{'' if one else 's'} {shown}; correct or unset {'it' if one else 'them'}."
        )
    return tuple(unknown)


def similar_name(name: str, known: Iterable[str]) -> str:
    """Return a question for the most similar of the `known` names; empty if there is none.

    What all names begin with does not count.
    """
    choices = sorted(known)
    stem = os.path.commonprefix([choices[0], choices[-1], name])  # noqa: RUF071 - names, not paths
    close = difflib.get_close_matches(name[len(stem) :], [each[len(stem) :] for each in choices], n=1, cutoff=0.75)
    return f" (did you mean {stem}{close[0]}?)" if close else ""
