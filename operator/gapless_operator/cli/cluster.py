"""``gapless cluster``, which is also ``kubectl gapless``; must not know how objects are read or changed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import atomic_writer
from gapless_api.base.quantities import quantity
from gapless_api.cli.json_output import is_json, print_json, with_output
from gapless_api.cli.standard_input import readable
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
        gapless cluster plan hall-0417 -n gapless-sender
        gapless cluster approve hall-0417 -n gapless-sender
        gapless cluster retry resend/hall-0417 -n gapless-sender
        gapless cluster logs resend/hall-0417 -n gapless-sender
        gapless cluster export night -n gapless-scan -o night.json.gz     at the receiving side: the file to carry
        gapless cluster report night -n gapless-scan -o night.html        the same as a page for a browser
        gapless cluster import night.json.gz -n gapless-sender --diode=hall --kafka=kafka-up
        gapless cluster support-bundle -o support.tar.gz

    Uses the cluster of KUBECONFIG, or the one that this pod runs in, with your permissions.
    """  # noqa: D301 -- click's own paragraph mark


_MAX_LOG_BYTES = 8 << 20
_namespace = click.option("-n", "--namespace", required=True, metavar="NAME", help="Namespace of the objects.")


@cluster.command()
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace. Defaults to all.")
@with_output
def status(namespace: str | None) -> None:
    """Show every Diode, Resend, GapScan, Mirror, Archive, Restore and KafkaConnection on one page.

    What needs a change by a person is marked with ! and explained below the table.
    """
    from gapless_operator.cli.cluster_page import line_of, page  # noqa: PLC0415 -- --help needs no page

    store = _store()
    lines = [line_of(body) for body in store.objects(namespace)]
    suspended = store.suspended({line.namespace for line in lines} | ({namespace} if namespace else set()))
    if is_json():
        print_json({"suspendedNamespaces": suspended, "objects": [line.to_json() for line in lines]}, "objects")
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
@click.option(
    "--wait", type=click.FloatRange(min=0), default=60.0, show_default=True, metavar="SECONDS", help="For the plan."
)
@with_output
def plan(resend: str, namespace: str, wait: float) -> None:
    """Show what the planned RESEND would send, and until when Kafka keeps it; wait until that is known.

    Exit codes: 0 shown, 2 it is not a plan, 4 there is no plan yet, or it has failed.
    """
    from gapless_operator.cli.cluster_page import plan_text  # noqa: PLC0415 -- --help needs no page

    name = resend.removeprefix("resend/")
    found = _store().await_plan(namespace, name, wait)
    if found.plan is None:
        click.echo(f"The Resend {name} has no plan: {found.message or 'the operator has not seen it yet.'}", err=True)
        sys.exit(ExitCode.INCOMPLETE)
    if is_json():
        print_json(found.plan)
    else:
        sys.stdout.write(plan_text(found.plan))
        click.echo(found.message, err=True)


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


@cluster.command()
@click.argument("object_", metavar="KIND/NAME")
@_namespace
@click.option("--tail", type=click.IntRange(min=1), default=100, show_default=True, help="Last lines of each pod.")
def logs(object_: str, namespace: str, tail: int) -> None:
    """Print the logs of the pods of an object, such as resend/NAME or mirror/NAME, oldest pod first.

    Exit codes: 0 printed, 4 the object has no pod.
    """
    from gapless_operator.cli.cluster_store import KINDS  # noqa: PLC0415 -- --help needs no client

    kind, _, name = object_.partition("/")
    if kind.lower() not in KINDS or not name:
        raise ConfigurationError(f"{object_} has no logs; write KIND/NAME with one of the kinds {', '.join(KINDS)}.")
    store = _store()
    pods = store.pods_of(KINDS[kind.lower()], namespace, name)
    for pod in pods:
        container = pod["spec"]["containers"][0]["name"]
        click.echo(f"--- {pod['metadata']['name']} ({pod['status'].get('phase', 'Unknown')})", err=True)
        text = store.log(namespace, pod["metadata"]["name"], container, tail_lines=tail, max_bytes=_MAX_LOG_BYTES)
        click.echo(text, nl=not text.endswith("\n"))
    if not pods:
        click.echo(f"{object_} has no pod: none runs, and those that have ended are deleted.", err=True)
        sys.exit(ExitCode.INCOMPLETE)


@cluster.command()
@click.argument("scan")
@_namespace
@click.option("--resend", "as_resend", is_flag=True, help="Export the Resend to apply, with a small bundle inside.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE", help="The file."
)
def export(scan: str, namespace: str, output: Path, *, as_resend: bool) -> None:
    """Write the bundle that the GapScan SCAN found into one file, to carry to the sending side."""
    from gapless_operator.cli import carrying  # noqa: PLC0415 -- --help needs no client

    exported = carrying.export(_store(), namespace, scan.removeprefix("gapscan/"), as_resend=as_resend)
    with atomic_writer(output, what="bundle") as stream:
        stream.write(exported.content)
    click.echo(f"Wrote {output}: {exported.missing:,} missing events.", err=True)


@cluster.command()
@click.argument("scan")
@_namespace
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The page. Defaults to SCAN.html.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open the page in a browser.")
def report(scan: str, namespace: str, output: Path | None, *, is_opened: bool) -> None:
    """Write what the GapScan SCAN found as one HTML page, which loads nothing: where events are missing, what to do."""
    from gapless_api.page.pages import write_bundle_page  # noqa: PLC0415 -- --help needs no page
    from gapless_operator.cli import carrying  # noqa: PLC0415 -- --help needs no client

    name = scan.removeprefix("gapscan/")
    found = carrying.bundle_of(_store(), namespace, name)
    page = output or Path(f"{name}.html")
    write_bundle_page(found.bundle, f"{name}.json.gz", page)
    click.echo(f"Wrote {page}: {found.bundle.missing:,} missing events.", err=True)
    if is_opened and click.launch(str(page.resolve())):
        click.echo("No browser was found to open it.", err=True)


@cluster.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_namespace
@click.option("--diode", required=True, metavar="NAME", help="The Diode to send over.")
@click.option("--kafka", required=True, metavar="NAME", help="The KafkaConnection with the events.")
@click.option("--name", metavar="NAME", help="Name of the Resend. Defaults to one that follows from the bundle.")
@click.option("--send", is_flag=True, help="Send at once, without a plan that is approved.")
def import_(  # noqa: PLR0913 -- one for each option
    file: Path, namespace: str, diode: str, kafka: str, name: str | None, *, send: bool
) -> None:
    """Make a Resend of the bundle FILE that was carried here; it is planned, and sends once it is approved.

    The same bundle again makes no second one.
    """
    from gapless_operator.cli import carrying  # noqa: PLC0415 -- --help needs no client

    way = carrying.Way(diode, kafka, "Send" if send else "Plan", name)
    made = carrying.import_bundle(_store(), namespace, readable(file), way)
    if not made.is_new:
        click.echo(f"The Resend {made.resend} of this bundle exists already; nothing was changed.", err=True)
        return
    see = f"see gapless cluster plan {made.resend} -n {namespace}"
    follows = "it sends" if send else f"{see}, and then gapless cluster approve {made.resend} -n {namespace}"
    click.echo(f"Created the Resend {made.resend} of {made.missing:,} missing events; {follows}.", err=True)


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
    click.echo(f"Wrote {quantity(count, 'file')} to {output}.", err=True)


cluster.add_command(ledger)


def _store() -> ClusterStore:
    """Return the cluster of the environment."""
    from gapless_operator.cli.cluster_store import ClusterStore as Store  # noqa: PLC0415 -- --help needs no client

    return Store(cluster_api())
