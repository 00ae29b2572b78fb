"""A sender is told its rate before it sends anything: by settings, by a link profile, or by ``unlimited``."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.wire.link_profile import LINK_PROFILE
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

PEER = {"bootstrapServers": "127.0.0.1:1", "targetIP": "127.0.0.1", "targetPort": "9"}
"""No Kafka is there: a resend that would go on ends with exit code 3."""
OFFSETS = {"topic": "t", "partition": "0", "offsetFrom": "0", "offsetTo": "1"}
REFUSAL = "No rate above 0 is set"
GOES_ON = 3


def options(settings: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in settings.items()]


def resend(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return GAPLESS.run("resend", *arguments, env={"PATH": os.environ["PATH"], **environment})


def properties(folder: Path, **settings: str) -> str:
    file = folder / "resend.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in {**PEER, **OFFSETS, **settings}.items()))
    return str(file)


def profile(folder: Path, **changes: Any) -> Path:
    measurement = {
        "run": "0000000000000007", "step": 3, "probes": 5000, "missing": 0, "datagramsPerSecond": 1000.0,
        "bitsPerSecond": 8224000.0, "margin": 0.2, "acceptedLoss": 0.0, "isLimitKnown": True,
    }  # fmt: skip
    content = {
        LINK_PROFILE.marker: 1, "measuredAt": datetime.now(UTC).isoformat(timespec="seconds"),
        "measuredBy": "gapless link receive", "target": "127.0.0.1", "receiverNic": "", "port": 24117,
        "payloadSize": 1000, "headerBytes": 28, "copies": 1, "datagramsPerSecond": 800.0, "bitsPerSecond": 6579200.0,
        "measurement": measurement, **changes,
    }  # fmt: skip
    file = folder / "link-profile.json"
    file.write_text(json.dumps(content))
    return file


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    "rates", [(), ("--eps=0",), ("--eps=-1",), ("--bits-per-second=0",), ("--budget-file=budget",), ("--unlimited=no",)]
)
def test_without_a_rate_nothing_is_sent_and_three_ways_are_named(rates: tuple[str, ...], tmp_path: Path) -> None:
    rates = tuple(rate.replace("budget-file=", f"budget-file={tmp_path}/") for rate in rates)
    done = resend(*options(PEER | OFFSETS), *rates, "--connect-timeout=0.1")
    assert done.returncode == 2
    assert REFUSAL in done.stderr
    assert done.stderr.count("\n") == 1
    for way in ("gapless link test", "--link-profile=FILE", "--eps=1000", "--unlimited"):
        assert way in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "rates",
    [
        ("--eps=0.5",),
        ("--bits-per-second=1M",),
        ("--unlimited",),
        ("--budget-file={}/budget", "--budget-eps=5"),
        ("--budget-file={}/budget", "--budget-bits-per-second=5M"),
        ("--rate-file={}/rates",),
        ("--link-profile={}/link-profile.json",),
    ],
)
def test_with_a_rate_from_anywhere_the_resend_goes_on(rates: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "rates").write_text("eps=7\n")
    profile(tmp_path)
    done = resend(*options(PEER | OFFSETS), *(rate.format(tmp_path) for rate in rates), "--connect-timeout=0.1")
    assert done.returncode == GOES_ON
    assert "warning" not in done.stderr


def test_a_rate_file_without_a_rate_is_none(tmp_path: Path) -> None:
    (tmp_path / "rates").write_text("eps=0\n")
    done = resend(*options(PEER | OFFSETS), f"--rate-file={tmp_path}/rates")
    assert (done.returncode, REFUSAL in done.stderr) == (2, True)
    (tmp_path / "rates").write_text("eps=0\nunlimited=true\n")
    done = resend(*options(PEER | OFFSETS), f"--rate-file={tmp_path}/rates", "--connect-timeout=0.1")
    assert done.returncode == GOES_ON
    (tmp_path / "rates").write_text("eps=9\n")
    done = resend(*options(PEER | OFFSETS), f"--rate-file={tmp_path}/rates", "--unlimited", "--connect-timeout=0.1")
    assert done.returncode == GOES_ON, "its rate may change to none while the resend runs"


@pytest.mark.parametrize("line", ["", "eps=-1", "eps=0", "eps="])
def test_as_the_peers_program_with_its_file_the_default_stays_with_a_warning(line: str, tmp_path: Path) -> None:
    file = tmp_path / "resend.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in PEER.items()) + line)
    (tmp_path / "b.json").write_text(json.dumps({"type": "all", "results": []}))
    done = resend(str(file), f"--resendFileName={tmp_path}/b.json", "--eps=-1", AIRGAP_RESEND_LOG_LEVEL="INFO")
    assert done.returncode == 0, done.stderr
    (warning,) = [each for each in lines(done) if each["level"] == "warning"]
    assert "no rate is set, so events are sent as fast as possible" in warning["event"]
    assert "--link-profile=FILE" in warning["advice"]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--target-port=10",), {}),
        (("--checkpoint=c",), {}),
        (("--bundle=b",), {}),
        ((), {"GAPLESS_RESEND_TARGET_PORT": "10"}),
        ((), {"AIRGAP_RESEND_COPIES": "2"}),
    ],
)
def test_one_name_of_ours_asks_for_a_rate(
    arguments: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "b").write_text(json.dumps({"type": "all", "results": []}))
    given = (each.replace("=c", f"={tmp_path}/c").replace("=b", f"={tmp_path}/b") for each in arguments)
    file = properties(tmp_path, eps="-1")
    if "--bundle=b" in arguments:
        file = str(tmp_path / "resend.properties")
        (tmp_path / "resend.properties").write_text("".join(f"{name}={value}\n" for name, value in PEER.items()))
    done = resend(file, *given, **environment)
    assert (done.returncode, REFUSAL in done.stderr) == (2, True), done.stderr


def test_a_plan_needs_no_rate(tmp_path: Path) -> None:
    assert resend(*options(PEER | OFFSETS), "--plan", "--connect-timeout=0.1").returncode == GOES_ON
    assert resend(properties(tmp_path), "--plan", "--connect-timeout=0.1").returncode == GOES_ON


@pytest.mark.parametrize("other", ["--eps=5", "--bits-per-second=5M", "--link-profile={}/link-profile.json"])
def test_unlimited_and_a_rate_contradict_each_other(other: str, tmp_path: Path) -> None:
    profile(tmp_path)
    done = resend(*options(PEER | OFFSETS), "--unlimited", other.format(tmp_path))
    assert done.returncode == 2
    assert "contradict each other; remove one of the two." in done.stderr


def test_the_first_line_says_what_the_profile_sets_and_given_settings_win(tmp_path: Path) -> None:
    given = f"--link-profile={profile(tmp_path, copies=2)}"
    first = lines(resend(*options(PEER | OFFSETS), given, "--connect-timeout=0.1"))[0]
    assert first["event"] == "the link profile sets the rate"
    assert {name: first[name] for name in ("eps", "bitsPerSecond", "payloadSize", "copies")} == {
        "eps": 400.0, "bitsPerSecond": 6579200.0, "payloadSize": 1000, "copies": 2,
    }  # fmt: skip
    assert "given" not in first
    more = ("--eps=7", "--payload-size=1000", "--copies=4", "--connect-timeout=0.1")
    first = lines(resend(*options(PEER | OFFSETS), given, *more))[0]
    assert (first["eps"], first["bitsPerSecond"], first["copies"], first["given"]) == (7, 6579200.0, 4, "eps")
    first = lines(resend(properties(tmp_path, eps="-1"), given, "--connect-timeout=0.1"))[0]
    assert first["eps"] == 400.0, "no limit is no rate"


@pytest.mark.parametrize(
    ("changes", "options_", "says"),
    [
        ({"measuredAt": "2020-01-01T00:00:00Z"}, (), "days ago"),
        ({"target": "10.0.0.9"}, (), "it was measured to 10.0.0.9, and this sender sends to 127.0.0.1"),
        ({"headerBytes": 48, "target": "::1"}, (), "over IPv6"),
        ({}, ("--payload-size=1400",), "payloads of 1,000 bytes, and payloadSize is 1,400"),
    ],
)
def test_a_stale_or_foreign_profile_is_a_warning(
    changes: dict[str, Any], options_: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    given = f"--link-profile={profile(tmp_path, **changes)}"
    done = resend(*options(PEER | OFFSETS), given, *options_, "--connect-timeout=0.1")
    assert done.returncode == GOES_ON
    (warning,) = [each for each in lines(done) if each["level"] == "warning"]
    assert says in warning["message"]


def test_a_file_that_is_no_profile_ends_the_resend(tmp_path: Path) -> None:
    (tmp_path / "link.json").write_text('{"type": "gapless-link-report", "version": 1}')
    done = resend(*options(PEER | OFFSETS), f"--link-profile={tmp_path}/link.json")
    assert done.returncode == 2
    assert "it is not a link profile" in done.stderr


def inventory(*arguments: str) -> subprocess.CompletedProcess[str]:
    settings = ("--bootstrap-servers=127.0.0.1:1", "--topics=t", "--connect-timeout=0.1", "--target-port=9")
    return GAPLESS.run("inventory", *settings, "--target-ip=127.0.0.1", *arguments, env={"PATH": os.environ["PATH"]})


def test_an_inventory_has_a_rate_and_none_must_be_wanted(tmp_path: Path) -> None:
    assert inventory().returncode == GOES_ON
    refused = inventory("--eps=0")
    assert (refused.returncode, REFUSAL in refused.stderr) == (2, True)
    assert inventory("--unlimited").returncode == GOES_ON
    with_profile = inventory(f"--link-profile={profile(tmp_path)}")
    assert with_profile.returncode == GOES_ON
    first = lines(with_profile)[0]
    assert (first["eps"], first["payloadSize"], first["copies"]) == (800.0, 1000, 3)
