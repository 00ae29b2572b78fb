"""Owns ``gapless cluster``, which is also ``kubectl gapless``; must not know how objects are read or changed."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import atomic_writer
from gapless_operator.cli.connection import cluster_api
from gapless_operator.cli.ledger import ledger

if TYPE_CHECKING:
    from gapless_operator.cli.cluster_store import ClusterStore


@click.group()
def cluster() -> None:
    """Show and control Gapless in a Kubernetes cluster; also called as kubectl gapless.

    \b
        gapless cluster status                           all that is configured, on one page
        gapless cluster stop -n gapless-sender           nothing is sent from here any more
        gapless cluster resume -n gapless-sender         it continues where it was
        gapless cluster approve hall-0417 -n gapless-sender
        gapless cluster retry resend/hall-0417 -n gapless-sender
        gapless cluster support-bundle -o support.tar.gz

    Uses the cluster of KUBECONFIG, or the one that this pod runs in, with your permissions.
    """  # noqa: D301 -- click's own paragraph mark


_namespace = click.option("-n", "--namespace", required=True, metavar="NAME", help="Namespace of the objects.")


@cluster.command()
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace. Defaults to all.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", help="Form of the page.")
def status(namespace: str | None, output: str) -> None:
    """Show every Diode, Resend, GapScan, Mirror, Archive, Restore and KafkaConnection on one page.

    What needs a change by a person is marked with ! and explained below the table.
    """
    from gapless_operator.cli.cluster_page import line_of, page  # noqa: PLC0415 -- --help needs no page

    store = _store()
    lines = [line_of(body) for body in store.objects(namespace)]
    suspended = store.suspended({line.namespace for line in lines} | ({namespace} if namespace else set()))
    if output == "json":
        found = {"suspendedNamespaces": suspended, "objects": [line.to_json() for line in lines]}
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(page(lines, suspended, datetime.now(UTC)))


@cluster.command()
@_namespace
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For the pods to end.",
)
@click.option("--without-operator", is_flag=True, help="Also delete what runs: the operator is down.")
def stop(namespace: str, wait: float, *, without_operator: bool) -> None:
    """Stop every sender, scan, archive, restore and mirror of a namespace, and wait until their pods have ended.

    Nothing is lost: all continues with gapless cluster resume.

    Exit codes: 0 nothing runs any more, 4 what still runs is named.
    """
    store = _store()
    store.switch(namespace, "true")
    if without_operator:
        click.echo(f"Deleted {store.delete_work(namespace):,} objects.", err=True)
    names = store.await_end(namespace, wait)
    if names:
        advice = "" if without_operator else " If the operator is down, add --without-operator."
        click.echo(f"Still running after {wait:g} s: {', '.join(names)}.{advice}", err=True)
        sys.exit(ExitCode.INCOMPLETE)
    click.echo(f"The namespace {namespace} is stopped: nothing runs.", err=True)


@cluster.command()
@_namespace
def resume(namespace: str) -> None:
    """Let everything in a namespace continue after gapless cluster stop."""
    _store().switch(namespace, None)
    click.echo(
        f"The namespace {namespace} is not stopped any more; the operator starts its work within seconds.", err=True
    )


@cluster.command()
@click.argument("resend")
@_namespace
def approve(resend: str, namespace: str) -> None:
    """Let the planned RESEND send."""
    name = resend.removeprefix("resend/")
    if _store().approve(namespace, name):
        click.echo(f"The Resend {name} sends as soon as its Diode is free.", err=True)
    else:
        click.echo(f"The Resend {name} is not a plan: there is nothing to approve.", err=True)


@cluster.command()
@click.argument("object_", metavar="KIND/NAME")
@_namespace
def retry(object_: str, namespace: str) -> None:
    """Start a new round of attempts of a Resend or a Restore (resend/NAME, restore/NAME) that has failed."""
    from gapless_operator.cli.cluster_store import RETRIED  # noqa: PLC0415 -- --help needs no client

    kind, _, name = object_.partition("/")
    if kind.lower() not in RETRIED or not name:
        raise ConfigurationError(f"{object_} cannot be retried; write resend/NAME or restore/NAME.")
    value = _store().retry(RETRIED[kind.lower()], namespace, name)
    click.echo(f"spec.retry of {object_} is {value}: a new round of attempts begins.", err=True)


@cluster.command("support-bundle")
@click.option(
    "-n", "--namespace", metavar="NAME", help="Only this namespace. Defaults to all that have objects of Gapless."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="gapless-support.tar.gz",
    show_default=True,
    metavar="FILE",
    help="The archive.",
)
def support_bundle(namespace: str | None, output: Path) -> None:
    """Collect objects, events, logs and versions into one archive, for a person who cannot see this cluster.

    No Secret and no ConfigMap is read. Values of environment variables and bundles in Resends are left out. Names of
    topics and addresses of brokers are in it.
    """
    from gapless_operator.cli import support_bundle as bundle  # noqa: PLC0415 -- --help needs no client

    with atomic_writer(output, what="support bundle", private=True) as stream:
        count = bundle.write(_store(), namespace, datetime.now(UTC), stream)
    click.echo(f"Wrote {count:,} files to {output}.", err=True)


cluster.add_command(ledger)


def _store() -> ClusterStore:
    """Return the cluster of the environment."""
    from gapless_operator.cli.cluster_store import ClusterStore as Store  # noqa: PLC0415 -- --help needs no client

    return Store(cluster_api())
