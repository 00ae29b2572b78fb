"""Owns the way from a job's YAML file to the command line; must not know any setting.

A cluster starts jobs as modules with ``--spec job.yaml``. The file's keys are the settings' names, its values texts,
numbers, booleans or lists, and everything behind that is the same as from a shell.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from gapless_api.cli import main as gapless
from gapless_api.errors import ConfigurationError
from gapless_api.exit_codes import ExitCode


def main(command: str) -> None:
    """Run ``gapless COMMAND`` with the settings of ``--spec FILE``, and end the process as it does."""
    parser = argparse.ArgumentParser(prog=f"python -m gapless_spark.{command}")
    parser.add_argument("--spec", type=Path, required=True, help="YAML file of settings")
    try:
        arguments = arguments_of(parser.parse_args().spec)
    except ConfigurationError as error:
        sys.stderr.write(f"gapless: {error}\n")
        sys.exit(ExitCode.BAD_CONFIGURATION)
    sys.argv = ["gapless", command, *arguments]
    gapless()


def arguments_of(spec: Path) -> list[str]:
    """Turn the settings of the file `spec` into options.

    Raises:
        ConfigurationError: the file cannot be read or is not a mapping of names to plain values.
    """
    try:
        settings = yaml.safe_load(spec.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not YAML text"
        raise ConfigurationError(f"The spec {spec} cannot be read ({reason}); give a YAML file of settings.") from None
    if not isinstance(settings, dict):
        raise ConfigurationError(f"The spec {spec} is not a mapping; give a YAML file with lines name: value.")
    return [f"--{name}={_text(spec, name, value)}" for name, value in settings.items() if value is not None]


def _text(spec: Path, name: Any, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return ",".join(map(str, value))
    raise ConfigurationError(f"The setting {name} in {spec} is no text, number, boolean or list of these; correct it.")
