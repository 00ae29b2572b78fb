"""Owns ``gapless ledger export`` and ``gapless ledger import``; must not know how a ledger is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import atomic_writer_or_stdout
from gapless_api.wire.form import WireError
from gapless_api.wire.ledger import LEDGER_EXPORT, LedgerExport, read_export

if TYPE_CHECKING:
    from gapless_operator.cli.ledger_store import LedgerStore


@click.group()
def ledger() -> None:
    """Export and import what was sent over a Diode, so that nothing is sent again after a restore.

    \b
    The ledger of a Diode is kept in ConfigMaps gapless-ledger-DIODE-YYYY-MM of its namespace. The cluster is the one
    that KUBECONFIG names, or the one that this pod runs in:

    \b
        gapless ledger export -n gapless-sender -o ledger.json
        kubectl exec -n gapless-system deploy/gapless-operator -- gapless ledger export -n gapless-sender > ledger.json
    """  # noqa: D301 -- click's own paragraph mark


_namespace = click.option("-n", "--namespace", required=True, metavar="NAME", help="Namespace of the Diodes.")
_diode = click.option("--diode", metavar="NAME", help="Only the ledger of this Diode. Defaults to all.")


@ledger.command("export")
@_namespace
@_diode
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Defaults to standard output.",
)
def export_ledger(namespace: str, diode: str | None, output: Path | None) -> None:
    """Write the ledgers of a namespace as one JSON document."""
    found = _store(namespace).export(diode)
    text = json.dumps(LEDGER_EXPORT.to_json(LedgerExport(ledgers=found)), indent=1) + "\n"
    target = None if output is None or str(output) == "-" else output
    with atomic_writer_or_stdout(target, what="ledger") as stream:
        stream.write(text.encode())
    if target is None:
        return
    count = sum(len(one.entries) for one in found)
    click.echo(f"{count:,} entries of {len(found)} Diodes are in {output}.", err=True)


@ledger.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_namespace
@_diode
def import_ledger(file: Path, namespace: str, diode: str | None) -> None:
    """Add the entries of FILE (- for standard input) that the ledgers do not have yet.

    The Diodes need not exist. Running it again changes nothing.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = read_export(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The file {file} cannot be read ({error}); give what gapless ledger export wrote."
        ) from None
    except WireError as error:
        raise ConfigurationError(
            f"The file {file} is no exported ledger ({error}); give what gapless ledger export wrote."
        ) from None
    added, known = _store(namespace).extend(found, diode)
    click.echo(f"{added:,} entries were added; {known:,} were known.", err=True)


def _store(namespace: str) -> LedgerStore:
    """The ledgers of a namespace in the cluster that the environment names."""
    from gapless_operator.cli.ledger_store import LedgerStore as Store  # noqa: PLC0415 -- --help needs no client
    from gapless_operator.shell.api.client import ClusterApi  # noqa: PLC0415
    from gapless_operator.shell.api.transport import api_client  # noqa: PLC0415

    return Store(ClusterApi(api_client()), namespace)
