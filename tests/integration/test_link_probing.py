"""The proof that a link test and its reception tell the truth, across networks and over a bad link."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kit.network.link import LossyLink
from kit.network.loss import Chances, Fate, LossPlan
from kit.network.private_networks import needs_private_networks, scenario

GAPLESS = Path(sys.executable).parent / "gapless"
ENDINGS = 4
"""Times that the end of a step is told behind it."""

pytestmark = pytest.mark.integration
probing = partial(scenario, Path(__file__).with_name("probing_scenarios.py"), timeout_seconds=200)


@needs_private_networks
@pytest.mark.parametrize(
    ("name", "dscp", "ttl"),
    [
        ("unicast", 46, 9),
        ("unicast_ipv6_with_a_zone", 18, 9),
        ("subnet_broadcast", 8, 64),
        ("limited_broadcast", 1, 64),
        ("multicast", 10, 4),
        ("multicast_by_source_address", 0, 1),
        ("multicast_ipv6", 10, 4),
        ("vlan", 0, 64),
    ],
)
def test_probes_arrive_with_their_marks_at_every_kind_of_target(name: str, dscp: int, ttl: int) -> None:
    told = probing(name)
    (run,) = told["runs"]
    assert run["endIsTold"]
    assert [step["sent"] for step in run["steps"]] == told["sent"] == [50, 100]
    for step in run["steps"]:
        assert step["lost"] == step["duplicates"] == step["disordered"] == step["damaged"] == 0
        assert step["received"] + step["ownDrops"] == step["sent"]
        assert (step["dscp"], step["ttl"]) == ([dscp], [ttl])


@needs_private_networks
def test_the_source_address_is_the_one_that_was_asked_for() -> None:
    assert probing("source_address")["source"] == "10.9.0.9"


@needs_private_networks
def test_the_safe_rate_of_a_slow_line_is_found() -> None:
    told = probing("slow_line")
    (run,) = told["runs"]
    lost = [step["lost"] for step in run["steps"]]
    assert lost[:2] == [0, 0]
    assert lost[3] > 0
    assert run["advice"]["safeStep"] in {2, 3}
    assert run["advice"]["bitsPerSecond"] < 5e6
    assert run["steps"][0]["ttl"] == [63], "a router was in between"


@needs_private_networks
def test_a_line_that_loses_doubles_and_reorders_is_seen_as_such() -> None:
    told = probing("bad_line")
    (run,) = told["runs"]
    (step,) = run["steps"]
    assert step["sent"] == told["sent"][0]
    assert step["lost"] > 0
    assert step["duplicates"] > 0
    assert step["disordered"] > 0
    assert run["advice"]["safeStep"] is None


@needs_private_networks
def test_what_a_sleeping_receiver_drops_is_not_blamed_on_the_link() -> None:
    told = probing("receiver_that_sleeps")
    (run,) = told["runs"]
    first, _ = run["steps"]
    assert first["sent"] == told["sent"][0]
    assert first["ownDrops"] > 0
    assert first["received"] > 0
    assert first["lost"] == 0
    assert first["missing"] > 0
    assert run["advice"]["safeStep"] is None
    assert "too fast for this machine" in " ".join(run["advice"]["sentences"])


@needs_private_networks
def test_two_runs_among_foreign_packets_are_counted_apart() -> None:
    told = probing("two_runs_among_strangers")
    assert len({run["run"] for run in told["runs"]}) == 2
    for run in told["runs"]:
        assert [step["received"] for step in run["steps"]] == [50, 100]
    assert told["end"]["foreign"] > 0
    assert told["end"]["damaged"] == 0


@contextmanager
def receiving(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [GAPLESS, "link", "receive", "--address=127.0.0.1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["port"]
    finally:
        process.kill()
        process.communicate()


def test_what_a_bad_link_did_to_each_step_is_counted_to_the_datagram(tmp_path: Path) -> None:
    chances = Chances(drop=0.05, duplicate=0.04, reorder=0.03)
    report = tmp_path / "report.json"
    with (
        receiving("--runs=1", f"--report={report}", "--port=24118") as (process, port),
        LossyLink(port, drop=0.05, duplicate=0.04, reorder=0.03, seed=11) as link,
    ):
        sent = subprocess.run(
            [GAPLESS, "link", "test", "--target=127.0.0.1", f"--port={link.port}", "--rates=500,800", "--duration=2"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        steps = [json.loads(line) for line in sent.stdout.splitlines()][1:]
        process.wait(120)
        assert link.stats().overflowed == 0
    (run,) = json.loads(report.read_bytes())["runs"]
    counts = [step["sent"] for step in steps]
    fates = LossPlan(11, chances).decide(sum(counts) + 2 * ENDINGS)
    first = 0
    for step, count in zip(run["steps"], counts, strict=True):
        own = fates[first : first + count]
        first += count + ENDINGS
        assert step["sent"] == count
        assert step["lost"] + step["ownDrops"] == own.count(Fate.DROP) > 0
        assert step["duplicates"] == own.count(Fate.DUPLICATE) > 0
        assert 0 < step["disordered"] <= own.count(Fate.HOLD_BACK)
        assert 0 < step["farthestDisorder"] <= LossPlan.longest_hold + own.count(Fate.HOLD_BACK)
    assert run["advice"]["safeStep"] is None


def test_a_test_that_is_stopped_says_what_was_sent_and_the_other_side_knows_it() -> None:
    with receiving("--runs=1", "--port=24119") as (process, port):
        options = ("--target=127.0.0.1", f"--port={port}", "--rates=200,201,202", "--duration=2", "--pause=5")
        sender = subprocess.Popen(
            [GAPLESS, "link", "test", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert sender.stdout is not None
        first = json.loads((sender.stdout.readline(), sender.stdout.readline())[1])
        sender.send_signal(signal.SIGTERM)
        said, complaint = sender.communicate(timeout=60)
        assert sender.returncode == 143
        assert "Stopped by SIGTERM" in complaint
        steps = [first, *(json.loads(line) for line in said.splitlines())]
        assert len(steps) < 3
        process.wait(60)
        assert process.stdout is not None
        run = next(json.loads(line) for line in process.stdout if '"event": "run"' in line)
        assert run["endIsTold"]
        assert [step["sent"] for step in run["steps"]] == [step["sent"] for step in steps]


def test_a_link_profile_is_written_from_the_last_run_with_a_safe_step(tmp_path: Path) -> None:
    profile = tmp_path / "link-profile.json"

    def measure(port: int) -> None:
        options = ("--target=127.0.0.1", f"--port={port}", "--rates=50,100", "--duration=1", "--pause=0")
        subprocess.run([GAPLESS, "link", "test", *options], capture_output=True, check=True)

    with receiving("--runs=2", "--port=24122", f"--profile={profile}", "--margin=50") as (process, port):
        with LossyLink(port, drop=0.3, seed=7) as link:
            measure(link.port)
        measure(port)
        process.wait(60)
        assert process.returncode == 0
    written = json.loads(profile.read_bytes())
    assert written["target"] == "127.0.0.1"
    assert (written["port"], written["payloadSize"], written["copies"]) == (24122, 1400, 1)
    step = written["measurement"]
    assert (step["step"], step["probes"], step["missing"], step["isLimitKnown"]) == (2, 100, 0, False)
    assert written["datagramsPerSecond"] == pytest.approx(step["datagramsPerSecond"] / 2, abs=1)

    before = profile.read_bytes()
    with receiving("--runs=1", "--port=24122", f"--profile={profile}") as (process, port):
        with LossyLink(port, drop=0.3, seed=7) as link:
            measure(link.port)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 4
    assert f"The link profile {profile} was not written" in complaint
    assert "no step of it is safe" in complaint
    assert profile.read_bytes() == before


def test_a_receiver_that_nobody_writes_to_ends_and_says_where_to_look() -> None:
    with receiving("--wait=0.5", "--port=24120") as (process, _):
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 5
        assert "No probe has arrived at 127.0.0.1 port 24120" in complaint


def test_ctrl_c_ends_a_receiver_with_everything_shown() -> None:
    with receiving("--port=24121") as (process, _):
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert json.loads(said.splitlines()[-1])["event"] == "end"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rates=2000",), "confirm with --yes"),
        (("--rates=20Mbit",), "confirm with --yes"),
        (("--rates=100", "--payload-size=63"), "the minimum is 64"),
        (("--rates=100", "--payload-size=65500"), "allows 65459"),
        (("--rates=100", "--from=50"), "one or the other"),
        (("--from=200", "--to=100"), "do not rise"),
        (("--from=200", "--to=1Mbit"), "different units"),
        (("--rates=fast",), "it must be datagrams per second"),
        (("--rates=100", "--nic=nowhere0"), "nowhere0"),
        (("--rates=100", "--dscp=64"), "from 0 to 63"),
        (("--rates=1", "--duration=5"), "the minimum is 10"),
    ],
)
def test_nonsense_is_refused_before_anything_is_sent(options: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        [GAPLESS, "link", "test", "--target=127.0.0.1", *options],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--address=somewhere",), "is not an IP address"),
        (("--address=192.0.2.1",), "Cannot listen on 192.0.2.1"),
        (("--nic=nowhere0",), "does not exist"),
    ],
)
def test_a_receiver_that_cannot_listen_says_why(options: tuple[str, ...], says: str) -> None:
    done = subprocess.run([GAPLESS, "link", "receive", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
