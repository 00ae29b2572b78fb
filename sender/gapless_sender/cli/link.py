"""The command ``gapless link``; must not know how a link is checked or measured: see `link_test`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gapless_api.base.errors import ConfigurationError, LinkError
from gapless_api.cli.settings_command import AliasedOption
from gapless_sender.link_test.form import MAX_STEPS, MIN_PAYLOAD_BYTES, PORT
from gapless_sender.link_test.steps import (
    DEFAULT_FROM,
    DEFAULT_STEPS,
    DEFAULT_TO,
    MAX_PAUSE_SECONDS,
    MAX_STEP_SECONDS,
    between,
    rate,
)
from gapless_sender.settings.values import address, code_point

_MIN_IDLE_SECONDS = 25.0
"""Longer than the longest pause of a test."""


class _Parsed(click.ParamType[Any]):
    """An option that a function of the settings parses."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse `value`, unless it was parsed before."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(f"{value!r} is invalid: it must be {error}", param, ctx)


_RATE = _Parsed("rate", rate)


@click.group()
def link() -> None:
    """Check the one-way link of this machine, and measure its capacity."""


@link.command()
@click.option("--nic", default="", help="Network interface to send from. [default: the one the routing table gives]")
@click.option(
    "--target-ip",
    "--target",
    "target",
    cls=AliasedOption,
    required=True,
    metavar="HOST",
    help="Address or name of the receiver.",
)
@click.option(
    "--target-port",
    "--port",
    "port",
    cls=AliasedOption,
    required=True,
    type=click.IntRange(1, 65535),
    help="UDP port of the receiver.",
)
@click.option(
    "--payload-size",
    default=0,
    type=click.IntRange(0),
    help="Largest UDP payload to send; 0 for what fits the MTU.",
)
@click.option("--source-address", default="", metavar="IP", help="IP address to send from.")
@click.option(
    "--require-neighbour",
    is_flag=True,
    help="Require a permanent neighbour (ARP, NDP) entry: no ARP reply comes back through a diode.",
)
def preflight(  # noqa: PLR0913 -- the options
    nic: str, target: str, port: int, payload_size: int, source_address: str, *, require_neighbour: bool
) -> None:
    """Check whether this machine can send to the receiver, without sending anything.

    Prints one JSON line: whether the interface exists, is up and has a carrier, its MTU and the largest payload, the
    route, and the neighbour entry. Needs no privileges. Exit codes: 0 no problem found, 5 a problem found, with a
    message.
    """
    from gapless_api.wire.preflight import PREFLIGHT_LINE  # noqa: PLC0415 -- not needed for --help
    from gapless_sender.link_test.preflight import check_link  # noqa: PLC0415 -- not needed for --help

    found = check_link(
        nic, target, port, payload_size=payload_size, source_address=source_address, require_neighbour=require_neighbour
    )
    click.echo(PREFLIGHT_LINE.to_line(found.as_line()))
    if found.message:
        raise LinkError(found.message)


@link.command()
@click.option(
    "--target-ip",
    "--target",
    "target",
    cls=AliasedOption,
    required=True,
    metavar="HOST",
    help="Address or name of the other side.",
)
@click.option(
    "--target-port",
    "--port",
    "port",
    cls=AliasedOption,
    default=PORT,
    type=click.IntRange(1, 65535),
    help="UDP port of gapless link receive; not the port of the receiver, which logs an error for each probe.",
    show_default=True,
)
@click.option("--nic", default="", help="Network interface to send from. [default: the one the routing table gives]")
@click.option("--source-address", type=_Parsed("IP", address), metavar="IP", help="IP address to send from.")
@click.option(
    "--dscp",
    type=_Parsed("dscp", code_point),
    metavar="0-63|NAME",
    help="Differentiated services code point of every datagram, by number or name (EF, AF21, CS1).",
)
@click.option("--ttl", type=click.IntRange(1, 255), help="Time to live (IPv6: hop limit) of every datagram.")
@click.option(
    "--payload-size",
    default=1400,
    type=click.IntRange(0),
    help=f"UDP payload of every datagram, {MIN_PAYLOAD_BYTES} or more; 0 for what fits the MTU.",
    show_default=True,
)
@click.option(
    "--from",
    "first",
    type=_RATE,
    default=DEFAULT_FROM,
    metavar="RATE",
    help="Lowest rate: datagrams per second (500, 5k), or bits per second including IP and UDP headers (20Mbit).",
    show_default=True,
)
@click.option("--to", "last", type=_RATE, default=DEFAULT_TO, metavar="RATE", help="Highest rate.", show_default=True)
@click.option(
    "--steps",
    type=click.IntRange(1, MAX_STEPS),
    default=DEFAULT_STEPS,
    help="Number of rates, each higher than the one before by the same factor.",
    show_default=True,
)
@click.option("--rates", metavar="RATE,…", help="List of rates, instead of --from, --to and --steps.")
@click.option(
    "--duration",
    type=click.FloatRange(0.1, MAX_STEP_SECONDS),
    default=5.0,
    help="Duration of each step in seconds.",
    show_default=True,
)
@click.option(
    "--pause",
    type=click.FloatRange(0, MAX_PAUSE_SECONDS),
    default=1.0,
    help="Seconds between steps, so that queues drain.",
    show_default=True,
)
@click.option(
    "--strict-link",
    is_flag=True,
    help="End with exit code 5 when a host replies that no program listens at the target; else that is a warning.",
)
@click.option("--yes", is_flag=True, help="Send more than 1,000 datagrams or 10 Mbit per second without confirmation.")
def test(**given: Any) -> None:
    """Send numbered probes at rising rates, to measure the capacity of the link on the other side.

    Start gapless link receive on the other side first. The test loads a live link: above 1,000 datagrams or 10 Mbit per
    second it requires a confirmation, or --yes. Prints what was sent in each step, as a table on a terminal and as JSON
    lines elsewhere.

    \b
      gapless link test --nic=diode0 --target-ip=10.0.0.2 --from=1Mbit --to=500Mbit --steps=10
      gapless link test --nic=diode0 --target-ip=10.0.0.2 --rates=1k,2k,5k,10k --duration=30 --yes

    Exit codes: 0 everything was sent, 2 the options are invalid or were not confirmed, 5 link failed, 130/143 stopped
    by a signal.
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_sender.link_test.send import SendOptions, send  # noqa: PLC0415 -- not needed for --help

    ctx = click.get_current_context()
    if given["rates"] is not None:
        if any(ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in _RANGE):
            raise ConfigurationError("--rates replaces --from, --to and --steps; give one or the other.")
        rates = tuple(_RATE.convert(part, None, ctx) for part in given["rates"].split(","))
    else:
        rates = between(given["first"], given["last"], given["steps"])
    send(
        SendOptions(
            target=given["target"],
            port=given["port"],
            nic=given["nic"],
            source_address=given["source_address"] or "",
            dscp=given["dscp"],
            ttl=given["ttl"],
            payload_bytes=given["payload_size"],
            rates=rates,
            step_seconds=given["duration"],
            pause_seconds=given["pause"],
            confirmed=given["yes"],
            strict=given["strict_link"],
        )
    )


_RANGE = ("first", "last", "steps")


@link.command()
@click.option(
    "--address",
    "listen",
    default="0.0.0.0",  # noqa: S104 -- probes may come through any interface, as the receiver's events do
    metavar="IP",
    help="Own address to listen on, :: for all of IPv6 and IPv4, or a multicast group to join.",
    show_default=True,
)
@click.option("--port", default=PORT, type=click.IntRange(1, 65535), help="UDP port to listen on.", show_default=True)
@click.option("--nic", default="", help="Network interface to listen on. [default: all]")
@click.option(
    "--runs", default=0, type=click.IntRange(0), help="End after this number of tests; 0 for no end.", show_default=True
)
@click.option(
    "--wait",
    default=0.0,
    type=click.FloatRange(0),
    help="End after this number of seconds without any probe; 0 for never.",
    show_default=True,
)
@click.option(
    "--idle-timeout",
    default=30.0,
    type=click.FloatRange(_MIN_IDLE_SECONDS),
    help="Seconds of silence after which a test ends although its last datagram did not arrive.",
    show_default=True,
)
@click.option(
    "--margin",
    default=20.0,
    type=click.FloatRange(0, 90),
    help="Safety margin in per cent: how far the recommended rate is below the fastest one without loss.",
    show_default=True,
)
@click.option(
    "--accept-loss",
    default=0.0,
    type=click.FloatRange(0, 0.5),
    help="Share of lost probes, such as 0.0001, up to which a step counts as clean.",
    show_default=True,
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File for all counts as JSON, written after every test.",
)
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File for the link profile, which gapless resend --link-profile and profileRef of a Diode use: rates, payload "
    "size and copies that follow from the last test with a safe step.",
)
def receive(**given: Any) -> None:
    """Count what arrives of gapless link test: loss, disorder, duplicates, damage, goodput; and recommend a rate.

    Listens until Ctrl-C, --runs or --wait ends it. Drops by this machine's own socket are counted separately from
    losses of the link. Other datagrams on the port are counted and otherwise ignored. Prints a table on a terminal and
    JSON lines elsewhere.

    \b
      gapless link receive --profile=link-profile.json
      gapless link receive --address=239.1.2.3 --nic=eth1 --runs=1 --wait=600 --report=link.json

    Exit codes: 0 done, 2 bad configuration, 4 the last test supports no link profile, 5 no probe arrived, 130/143
    stopped by a signal, after all output.
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_sender.link_test.receive import ReceiveOptions  # noqa: PLC0415 -- not needed for --help
    from gapless_sender.link_test.receive import receive as receive_probes  # noqa: PLC0415 -- not needed for --help

    receive_probes(
        ReceiveOptions(
            address=given["listen"],
            port=given["port"],
            nic=given["nic"],
            runs=given["runs"],
            wait_seconds=given["wait"],
            idle_seconds=given["idle_timeout"],
            margin=given["margin"] / 100,
            accepted_loss=given["accept_loss"],
            report=given["report"],
            profile=given["profile"],
        )
    )
