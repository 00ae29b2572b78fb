"""Owns ``gapless link test`` from its options to its table; must not know how probes are made and paced."""

from __future__ import annotations

import json
import secrets
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.link.udp_link import UdpLink
from gapless_sender.link_test.form import LEAST_PAYLOAD_BYTES
from gapless_sender.link_test.output import comparison_text, plan_json, plan_text, sent_header, sent_json, sent_row
from gapless_sender.link_test.sending import Run
from gapless_sender.link_test.steps import HARMLESS_BITS_PER_SECOND, HARMLESS_DATAGRAMS_PER_SECOND, planned

if TYPE_CHECKING:
    from gapless_sender.link_test.sending import SentStep
    from gapless_sender.link_test.steps import Plan, Rate


class SendOptions(NamedTuple):
    """What the command was told."""

    target: str
    port: int
    nic: str
    source_address: str
    dscp: int | None
    ttl: int | None
    payload_bytes: int
    """0 for what the MTU carries."""
    rates: tuple[Rate, ...]
    step_seconds: float
    pause_seconds: float
    agreed: bool
    """Whether nobody needs to be asked."""


def send(options: SendOptions) -> None:
    """Send the probes and say what was sent.

    Raises:
        ConfigurationError: the options make no sense, or nobody agrees.
        LinkError: the link takes no datagrams.
        StoppedError: someone asked; what was sent was said before.
    """
    shutdown = Shutdown(way_on="what was sent until then is above, and the other side was told")
    with UdpLink.open(
        options.target,
        options.port,
        nic=options.nic,
        source_address=options.source_address,
        order="strict",
        ttl=options.ttl,
        dscp=options.dscp,
        clock=shutdown,
    ) as link:
        payload_bytes = _payload_bytes(options, link)
        plan = planned(
            options.rates,
            wire_bytes=payload_bytes + link.header_bytes,
            step_seconds=options.step_seconds,
            pause_seconds=options.pause_seconds,
        )
        run = Run(link, plan, number=secrets.randbits(64), payload_bytes=payload_bytes, clock=shutdown)
        people = sys.stdout.isatty()
        _agree(options, plan, people=people)
        shutdown.listen()  # not before: a question must be answered, and Ctrl-C is an answer
        _begin(options, plan, run.number, people=people)
        sent: list[SentStep] = []
        try:
            for step in run.go():
                sent.append(step)
                sys.stdout.write((sent_row(step) if people else json.dumps(sent_json(run.number, step))) + "\n")
                sys.stdout.flush()
        finally:
            if people:
                sys.stdout.write(f"\n{comparison_text(run.number, sent, options.port)}\n")


def _payload_bytes(options: SendOptions, link: UdpLink) -> int:
    most = link.mtu_payload_size()
    size = options.payload_bytes or most
    if not LEAST_PAYLOAD_BYTES <= size <= most:
        raise ConfigurationError(
            f"The payload of {size} bytes is not possible; {LEAST_PAYLOAD_BYTES} is the least, and the MTU of the way "
            f"to {options.target} carries {most}: correct --payload-size."
        )
    return size


def _agree(options: SendOptions, plan: Plan, *, people: bool) -> None:
    """Say what will happen, and make sure that somebody agrees. Raises ConfigurationError."""
    if people:
        sys.stdout.write(f"{plan_text(plan, _place(options))}\n")
    agreed = options.agreed or plan.is_harmless
    if not agreed and people and sys.stdin.isatty():
        agreed = click.confirm("Go on?", default=False)
        if not agreed:
            raise ConfigurationError(
                "Nothing was sent, because the rates were not confirmed; lower them, or confirm them."
            )
    if not agreed:
        raise ConfigurationError(
            f"The test reaches {plan.highest:,.0f}/s and {plan.highest * plan.wire_bytes * 8 / 1e6:,.1f} Mbit/s, "
            f"which may hurt the live stream; add --yes if that is all right, or stay within "
            f"{HARMLESS_DATAGRAMS_PER_SECOND:,.0f}/s and {HARMLESS_BITS_PER_SECOND / 1e6:.0f} Mbit/s."
        )


def _place(options: SendOptions) -> str:
    return f"{options.target} port {options.port}"


def _begin(options: SendOptions, plan: Plan, run: int, *, people: bool) -> None:
    """Say that it begins."""
    if people:
        sys.stdout.write(f"Run {run:016x}\n{sent_header()}\n")
    else:
        sys.stdout.write(json.dumps(plan_json(plan, run, _place(options))) + "\n")
    sys.stdout.flush()
