"""The command ``gapless mirror import``; must not know how files of other programs are read."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_mirror.settings.subcommands import IMPORT


@click.command("import", cls=command_with(IMPORT), context_settings={"max_content_width": 110})
@with_settings(IMPORT)
def import_(file: Path | None, **options: str | None) -> int:
    """Print the settings file and the Kubernetes manifests that are equivalent to another program's mirror.

    FILE is a KafkaMirrorMaker2 of Strimzi (YAML), one or several mirror connectors of Kafka Connect (JSON),
    mm2.properties of MirrorMaker 2, a datastream of Brooklin (JSON), or a list of topics, as of uReplicator. Comments
    name what is not carried over and why. Secrets are never read: the comments say which files or Secrets they are
    expected in. Nothing is connected to or changed.

    \b
      gapless mirror import kafka-mirror-maker-2.yaml > mirror.txt
      gapless mirror import mm2.properties --flow='A->B' --print=properties > mirror.properties
      gapless mirror import connectors.json --print=manifests --namespace=mirrors > mirror.yaml
      gapless mirror import topics.txt --source-bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092

    Ends with 0 everything that has an effect is carried over, 2 FILE is invalid or is not such a file, 4 something is
    not carried over.
    """  # noqa: D301 -- click's own paragraph mark
    if file is None:
        raise ConfigurationError("The FILE of the other mirror is missing; give its path.")
    settings = resolve_settings(IMPORT, None, options)
    from gapless_mirror.imports.command import run  # noqa: PLC0415 -- the models load only when needed

    return run(file, dict(settings.values))
