"""What a program says when an optional package, or the package of a command, is not installed."""

from __future__ import annotations

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.extras import EXTRAS, how_to_install, not_installed

COMMANDS = {
    "gapless.commands": {
        **dict.fromkeys(("doctor", "mirror"), "gapless-mirror"),
        **dict.fromkeys(("inventory", "link", "manifest", "resend"), "gapless-sender"),
        **dict.fromkeys(
            ("archive", "audit", "compact", "create", "restore", "scan", "verify", "verify-copy"), "gapless-spark"
        ),
        **dict.fromkeys(("cluster", "ledger"), "gapless-operator"),
        "segments": "gapless-archive",
    },
    "gapless.bundle_commands": {"fetch": "gapless-archive"},
}
"""By group of entry points and command: the package that registers it."""


def missing_package(error: ModuleNotFoundError) -> ConfigurationError | None:
    """Return the error for an import of an optional package that is not installed; ``None`` for any other import."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return not_installed(module)


def missing_command(entry_points: str, path: str, name: str) -> ConfigurationError | None:
    """Return the error for a command whose package is not installed; ``None`` if no package of ours has it.

    Args:
        entry_points: the group of entry points.
        path: the commands before it, such as ``gapless bundle``.
        name: the command.
    """
    package = COMMANDS.get(entry_points, {}).get(name)
    if package is None:
        return None
    extra = "kubernetes" if package == "gapless-operator" else ""
    return ConfigurationError(
        f"not installed: {path} {name} is a command of {package}, a part of gapless; {how_to_install(extra)}."
    )
