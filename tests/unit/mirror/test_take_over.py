"""The settings that let lanes of a dead worker move within 10 s; a test of the time would measure the machine."""

from __future__ import annotations

from confluent_kafka import Consumer

from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.workers.membership import HEARTBEAT_SECONDS, SESSION_SECONDS, member_options
from gapless_mirror.workers.worker import _TICK_SECONDS

TAKE_OVER_SECONDS = 10.0
LEAST_SESSION_SECONDS = 6.0
"""group.min.session.timeout.ms, which brokers have by default."""
OPTIONS = member_options(MirrorIdentity("m"))


def test_the_others_hear_of_a_dead_worker_with_seconds_to_spare() -> None:
    session, heartbeat = OPTIONS["session.timeout.ms"] / 1000, OPTIONS["heartbeat.interval.ms"] / 1000
    assert (session, heartbeat) == (SESSION_SECONDS, HEARTBEAT_SECONDS)
    assert session >= LEAST_SESSION_SECONDS
    # The others join again with one heartbeat, and get their lanes with the next one; the loop serves the group.
    assert session + 2 * heartbeat + 2 * _TICK_SECONDS <= TAKE_OVER_SECONDS
    # Three lost heartbeats in a row do not look like a death.
    assert 3 * heartbeat < session


def test_workers_keep_the_lanes_that_they_have_when_another_one_dies() -> None:
    assert OPTIONS["partition.assignment.strategy"] == "cooperative-sticky"
    # A static member keeps its lanes until its session ends also when it leaves in good order.
    assert "group.instance.id" not in OPTIONS
    assert OPTIONS.get("group.protocol", "classic") == "classic"  # with the other one, brokers set these times


def test_the_client_takes_these_settings() -> None:
    Consumer({**OPTIONS, "bootstrap.servers": "127.0.0.1:1"}).close()
