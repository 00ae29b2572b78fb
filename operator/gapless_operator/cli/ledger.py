"""``gapless ledger export`` and ``gapless ledger import``; must not know how a ledger is stored."""

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
from gapless_operator.cli.connection import cluster_api

if TYPE_CHECKING:
    from gapless_operator.cli.ledger_store import LedgerStore


@click.group()
def ledger() -> None:
    """Export and import the ledgers of Diodes, so that nothing is sent again after a restore.

    \b
    The ledger of a Diode records what was sent, in ConfigMaps gapless-ledger-DIODE-YYYY-MM of its namespace. The
    command uses the cluster of KUBECONFIG, or the one that this pod runs in:

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
    ledgers = _store(namespace).export(diode)
    text = json.dumps(LEDGER_EXPORT.to_json(LedgerExport(ledgers=ledgers)), indent=1) + "\n"
    target = None if output is None or str(output) == "-" else output
    with atomic_writer_or_stdout(target, what="ledger") as stream:
        stream.write(text.encode())
    if target is None:
        return
    count = sum(len(ledger.entries) for ledger in ledgers)
    click.echo(f"Wrote {count:,} entries of {len(ledgers)} Diodes to {output}.", err=True)


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
        exported = read_export(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The file {file} cannot be read ({error}); use a file that gapless ledger export wrote."
        ) from None
    except WireError as error:
        raise ConfigurationError(
            f"The file {file} is not an exported ledger ({error}); use a file that gapless ledger export wrote."
        ) from None
    added, existing = _store(namespace).extend(exported, diode)
    click.echo(f"Added {added:,} entries; {existing:,} existed already.", err=True)


def _store(namespace: str) -> LedgerStore:
    """Return the ledgers of a namespace in the cluster of the environment."""
    from gapless_operator.cli.ledger_store import LedgerStore as Store  # noqa: PLC0415 -- --help needs no client

    return Store(cluster_api(), namespace)
