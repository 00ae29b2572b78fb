"""``gapless link test`` from its options to its table; must not know how probes are made and paced."""

from __future__ import annotations

import json
import secrets
import sys
from typing import NamedTuple

import click

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.link.udp_link import UdpLink
from gapless_sender.link_test.form import MIN_PAYLOAD_BYTES
from gapless_sender.link_test.output import comparison_text, plan_json, plan_text, sent_header, sent_json, sent_row
from gapless_sender.link_test.sending import Run, SentStep
from gapless_sender.link_test.steps import HARMLESS_BITS_PER_SECOND, HARMLESS_DATAGRAMS_PER_SECOND, Plan, Rate, planned


class SendOptions(NamedTuple):
    """The options of the command."""

    target: str
    port: int
    nic: str
    source_address: str
    dscp: int | None
    ttl: int | None
    payload_bytes: int
    """0 for what fits the MTU."""
    rates: tuple[Rate, ...]
    step_seconds: float
    pause_seconds: float
    confirmed: bool
    """Whether no confirmation is needed."""
    strict: bool = False
    """Whether a reply "port unreachable" ends the test."""


def send(options: SendOptions) -> None:
    """Send the probes and print what was sent.

    Raises:
        ConfigurationError: the options are invalid, or the test was not confirmed.
        LinkError: the link accepts no datagrams.
        StoppedError: after a signal; what was sent was printed before.
    """
    shutdown = Shutdown(hint="what was sent so far is above, and was reported to the other side")
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
        link.is_strict = options.strict
        payload_bytes = _payload_bytes(options, link)
        plan = planned(
            options.rates,
            wire_bytes=payload_bytes + link.header_bytes,
            step_seconds=options.step_seconds,
            pause_seconds=options.pause_seconds,
        )
        run = Run(link, plan, number=secrets.randbits(64), payload_bytes=payload_bytes, clock=shutdown)
        on_terminal = sys.stdout.isatty()
        _confirm(options, plan, on_terminal=on_terminal)
        shutdown.listen()  # not before: Ctrl-C must end the question
        _print_start(options, plan, run.number, on_terminal=on_terminal)
        sent: list[SentStep] = []
        try:
            for step in run.go():
                sent.append(step)
                sys.stdout.write((sent_row(step) if on_terminal else json.dumps(sent_json(run.number, step))) + "\n")
                sys.stdout.flush()
        finally:
            if on_terminal:
                sys.stdout.write(f"\n{comparison_text(run.number, sent, options.port)}\n")
        for warning in link.warnings():
            sys.stderr.write(f"Warning: {warning}\n")


def _payload_bytes(options: SendOptions, link: UdpLink) -> int:
    mtu_size = link.mtu_payload_size()
    size = options.payload_bytes or mtu_size
    if not MIN_PAYLOAD_BYTES <= size <= mtu_size:
        raise ConfigurationError(
            f"A payload of {size} bytes is not possible: the minimum is {MIN_PAYLOAD_BYTES}, and the MTU of the route "
            f"to {options.target} allows {mtu_size}; correct --payload-size."
        )
    return size


def _confirm(options: SendOptions, plan: Plan, *, on_terminal: bool) -> None:
    """Print what will happen, and require a confirmation of high rates. Raises ConfigurationError."""
    if on_terminal:
        sys.stdout.write(f"{plan_text(plan, _target(options))}\n")
    if options.confirmed or plan.is_harmless:
        return
    if not (on_terminal and sys.stdin.isatty()):
        raise ConfigurationError(
            f"The test reaches {plan.highest:,.0f}/s and {plan.highest * plan.wire_bytes * 8 / 1e6:,.1f} Mbit/s, "
            f"which may disturb the live stream; confirm with --yes, or stay within "
            f"{HARMLESS_DATAGRAMS_PER_SECOND:,.0f}/s and {HARMLESS_BITS_PER_SECOND / 1e6:.0f} Mbit/s."
        )
    if not click.confirm("Continue?", default=False):
        raise ConfigurationError("Nothing was sent, because the rates were not confirmed; lower them, or confirm them.")


def _target(options: SendOptions) -> str:
    return f"{options.target} port {options.port}"


def _print_start(options: SendOptions, plan: Plan, run: int, *, on_terminal: bool) -> None:
    if on_terminal:
        sys.stdout.write(f"Run {run:016x}\n{sent_header()}\n")
    else:
        sys.stdout.write(json.dumps(plan_json(plan, run, _target(options))) + "\n")
    sys.stdout.flush()
