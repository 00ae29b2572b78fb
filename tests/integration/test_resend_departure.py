"""The proof that an event counts as sent only when its datagrams have left the machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kit.network.private_networks import needs_private_networks
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.story.resending import Resend

pytestmark = [pytest.mark.integration, needs_private_networks]

SCRIPT = Path(__file__).with_name("departure_scenarios.py")
EVENTS = 400
COMMAND = "ip neigh replace 10.9.0.2 dev near lladdr HARDWARE-ADDRESS nud permanent"
EXPECTED: dict[str, tuple[int, tuple[str, ...]]] = {
    "absent": (5, ("Nothing leaves this machine for 10.9.0.2:5000", COMMAND)),
    "failed": (5, ("Nothing leaves this machine for 10.9.0.2:5000", COMMAND)),
    "wrong_address": (0, (f"Sent {EVENTS} of {EVENTS} events.",)),
    "neighbour_lost": (5, ("Nothing leaves this machine for 10.9.0.2:5000", COMMAND)),
    "carrier_lost": (5, ("near has no carrier",)),
    "link_down": (5, ("the interface near is down",)),
    "link_flaps": (0, (f"Sent {EVENTS} of {EVENTS} events",)),
    "route_removed": (5, ("has accepted no datagram for 30 seconds (Network is unreachable)", "check the interface")),
    "route_removed_behind_a_nic": (0, (f"Sent {EVENTS} of {EVENTS} events.",)),
    "route_elsewhere": (5, ("now leads through other and no longer through near",)),
    "mtu_lowered": (5, ("does not fit the MTU 600", "payloadSize")),
}


OTHERS = ("dropped", "dropped_strictly")
FORWARDER = """
import socket, sys
from kit.cluster.forward import serve_forwarding
port, *listeners = map(int, sys.argv[1:])
for listener in listeners:
    serve_forwarding(socket.socket(fileno=listener), port)
print(flush=True)
sys.stdin.read()
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}


class Started(NamedTuple):
    """A scenario."""

    process: subprocess.Popen[str]
    listener: int
    """For the broker, in the network of the scenario."""
    channel: socket.socket
    """The scenario begins when it is closed."""


def start(name: str, bootstrap: str, topic: str, folder: Path) -> Started:
    """Start a scenario."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with closing(theirs):
        command = ["unshare", "-rn", sys.executable, str(SCRIPT), name, str(theirs.fileno())]
        process = subprocess.Popen(
            [*command, bootstrap, topic, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            pass_fds=[theirs.fileno()],
        )
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    return Started(process, descriptors[0], ours)


@contextmanager
def forwarding(bootstrap: str, scenarios: Collection[Started]) -> Iterator[None]:
    """Forward the connections of the scenarios to the broker, and let them begin."""
    listeners = [scenario.listener for scenario in scenarios]
    port = bootstrap.rsplit(":", 1)[1]
    command = [sys.executable, "-c", FORWARDER, port, *map(str, listeners)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, pass_fds=listeners, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        for scenario in scenarios:
            os.close(scenario.listener)
            scenario.channel.close()
        yield
        process.stdin.close()


@pytest.fixture(scope="module")
def told(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each scenario tells; they run beside one another, because some wait until the link is given up."""
    topic = kafka.create_topic("departure", 2)
    for partition in (0, 1):
        kafka.produce(topic, [b"%04d" % number + bytes(600) for number in range(EVENTS)], partition=partition)
    started = {
        name: start(name, kafka.bootstrap, topic, tmp_path_factory.mktemp(name)) for name in (*EXPECTED, *OTHERS)
    }
    found: dict[str, dict[str, Any]] = {}
    with forwarding(kafka.bootstrap, started.values()):
        for name, (process, *_) in started.items():
            output, errors = process.communicate(timeout=280)
            found[name] = json.loads(output) if process.returncode == 0 else {"error": errors}
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_what_has_not_left_the_machine_is_neither_counted_nor_saved_as_sent(
    name: str, told: dict[str, dict[str, Any]]
) -> None:
    assert "error" not in told[name], told[name]["error"]
    first, second = told[name]["first"], told[name]["second"]
    exit_code, words = EXPECTED[name]
    assert first["exit_code"] == exit_code, first
    for word in words:
        assert word in first["last"]
    assert first["saved"] == first["sent"] <= first["arrived"], first
    assert (first["sent"] < EVENTS) == (exit_code == 5)
    assert second["exit_code"] == 0, second
    assert second["arrived"] == second["saved"] == EVENTS


def test_what_the_interface_drops_is_not_said_to_have_left_it(told: dict[str, dict[str, Any]]) -> None:
    found = told["dropped"]["first"]
    assert (found["exit_code"], found["arrived"]) == (0, 0)
    assert found["link"]["interfaceDrops"] == EVENTS
    assert found["link"]["leftInterface"] == found["link"]["datagrams"] - EVENTS == found["progress"]["leftInterface"]
    assert f"Warning: The interface near dropped {EVENTS} datagrams meanwhile" in found["last"]
    strict = told["dropped_strictly"]["first"]
    assert strict["exit_code"] == 5
    assert f"The interface near dropped {EVENTS} datagrams" in strict["last"]


def closed_port() -> int:
    """A UDP port at which no program listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
    return port


def test_a_closed_port_is_a_warning_in_the_last_line_and_an_error_where_the_link_is_strict(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, tmp_path: Path
) -> None:
    name = topic()
    kafka.produce(name, [b"%d" % number for number in range(EVENTS)])
    chosen: dict[str, Any] = {"topic": name, "partition": 0, "offsetFrom": 0, "checkpoint": tmp_path / "checkpoint"}
    chosen |= {"targetPort": closed_port()}
    strict = resend.run(**chosen, strictLink=True)
    assert strict.exit_code == 5
    assert "no program listens at the target (connection refused)" in strict.stderr.splitlines()[-1]
    assert strict.ledger["sent"] == 0
    lenient = resend.run(**chosen)
    assert lenient.exit_code == 0
    last = lenient.stderr.splitlines()[-1]
    assert last.startswith(f"Sent {EVENTS} of {EVENTS} events. Warning: A host replied ")
    assert lenient.report is not None
    assert lenient.report["message"] == last
    assert lenient.report["link"]["refused"] > 0


def test_an_inventory_and_a_link_test_tell_of_a_closed_port_too(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic()
    kafka.produce(name, [b"one"])
    target = ("--target-ip=127.0.0.1", f"--target-port={closed_port()}")
    for command in (
        ("inventory", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}"),
        ("link", "test", "--rates=100", "--duration=0.1"),
    ):
        lenient = GAPLESS.run(*command, *target)
        assert lenient.returncode == 0, lenient.stderr
        assert "Warning: A host replied " in lenient.stderr.splitlines()[-1]
        strict = GAPLESS.run(*command, *target, "--strict-link")
        assert strict.returncode == 5, strict.stderr
        assert "connection refused" in strict.stderr.splitlines()[-1]
