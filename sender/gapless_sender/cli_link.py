"""Owns the command ``gapless link``; must not know what makes a link fit: see `preflight`."""

from __future__ import annotations

import json

import click

from gapless_api.errors import LinkError


@click.group()
def link() -> None:
    """Look at the one-way link of this machine."""


@link.command()
@click.option("--nic", default="", help="Network interface to send from. [default: the one the routing table gives]")
@click.option("--target", required=True, metavar="HOST", help="Address or name of the receiver.")
@click.option("--port", required=True, type=click.IntRange(1, 65535), help="UDP port of the receiver.")
@click.option(
    "--payload-size",
    default=0,
    type=click.IntRange(0),
    help="Largest UDP payload to be sent, 0 for what the MTU carries.",
)
@click.option("--source-address", default="", metavar="IP", help="IP address to send from.")
@click.option(
    "--require-neighbour",
    is_flag=True,
    help="Whether a permanent neighbour (ARP, NDP) entry is needed: behind a diode nobody answers.",
)
def preflight(  # noqa: PLR0913 -- the options
    nic: str, target: str, port: int, payload_size: int, source_address: str, *, require_neighbour: bool
) -> None:
    """Find out whether this machine can send to the receiver, without sending anything.

    Prints one JSON line: whether the interface exists, is up and has a carrier, its MTU and the largest payload, the
    route, and the neighbour entry. Needs no privileges. Ends with 0 when all is well and with 5 and one sentence when
    not.
    """
    from gapless_sender.preflight import look  # noqa: PLC0415 -- not needed for --help

    found = look(
        nic, target, port, payload_size=payload_size, source_address=source_address, require_neighbour=require_neighbour
    )
    click.echo(json.dumps({"event": "preflight", **found.as_json()}))
    if found.message:
        raise LinkError(found.message)
