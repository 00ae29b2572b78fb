"""The proof that a rate file is understood, looked at when it should be, and harmless when it is wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_sender.base.lazy_log import configure_log
from gapless_sender.base.sharding import UNSHARDED, Shard
from gapless_sender.pace.rate_file import CHECK_SECONDS, RateFollower, read_rates, with_rates
from gapless_sender.pace.shared_pace import SharedPace
from gapless_sender.settings.pace import PaceSettings
from gapless_sender.settings.resend import RESEND


class HandClock:
    """Time that passes when it is told to."""

    seconds = 100.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rates.properties"


@pytest.fixture(autouse=True)
def own_hangup_and_log() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    configure_log("INFO", None)
    yield
    configure_log("INFO", None)
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", {}),
        ("# nothing yet\n\n", {}),
        ("eps=2.5", {"eps": 2.5}),
        ("eps=0\nbitsPerSecond=-1", {"eps": 0.0, "bitsPerSecond": 0.0}),
        ("eps = 1e9\r\nbps=80M\r\n", {"eps": 1e9, "bitsPerSecond": 8e7}),
        ("budgetEps=5\nbudgetBitsPerSecond=2k", {"budgetEps": 5.0, "budgetBitsPerSecond": 2000.0}),
        ("eps=1\neps=2", {"eps": 2.0}),
    ],
)
def test_what_may_stand_in_it(content: str, found: dict[str, float], file: Path) -> None:
    file.write_text(content)
    assert read_rates(file) == found


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("eps=fast", "eps in line 1 .* is 'fast'; it must be a number"),
        ("eps=nan", "finite"),
        ("eps=inf", "finite"),
        ("\nbitsPerSecond=1Q", "bitsPerSecond in line 2"),
        ("targetIP=10.0.0.1", "sets 'targetIP'; only eps, bitsPerSecond, budgetEps, budgetBitsPerSecond"),
        ("paceFile=/x", "sets 'paceFile'"),
        ("eps", "is not key=value"),
        ("e\0p\0s\0=\0", "not UTF-8 text"),
    ],
)
def test_what_may_not(content: str, complaint: str, file: Path) -> None:
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=complaint):
        read_rates(file)


def test_a_missing_file_is_an_error_at_the_start(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        with_rates(settings(rateFile=file, eps=5))


def test_what_it_does_not_name_stays_as_the_settings_say(file: Path) -> None:
    file.write_text("bitsPerSecond=1M")
    found = with_rates(settings(rateFile=file, eps=5, bitsPerSecond=7))
    assert (found["eps"], found["bitsPerSecond"]) == (5, 1e6)
    assert with_rates(settings(eps=5))["eps"] == 5


def settings(**given: Any) -> dict[str, Any]:
    target = {"bootstrapServers": "127.0.0.1:9", "targetIP": "127.0.0.1", "targetPort": "9"}
    options = {**target, **{name: str(value) for name, value in given.items()}}
    return resolve(RESEND, file=None, environment={}, options=options).values


class Followed:
    """A follower, with all that it told."""

    def __init__(self, file: Path) -> None:
        self.clock = HandClock()
        self.told: list[Mapping[str, float]] = []
        self.follower = RateFollower(file, self.clock, self.told.append)

    def later(self, seconds: float = CHECK_SECONDS) -> list[Mapping[str, float]]:
        """What it tells when it is asked after so long."""
        self.clock.seconds += seconds
        self.told.clear()
        self.follower.follow()
        return list(self.told)


def test_it_is_looked_at_once_a_second_and_read_when_it_changed(file: Path) -> None:
    file.write_text("eps=1")
    followed = Followed(file)
    assert followed.later(0) == [{"eps": 1.0}], "it may have changed since the settings were read"
    assert followed.later() == []
    file.write_text("eps=20")
    assert followed.later(CHECK_SECONDS / 2) == []
    assert followed.later(CHECK_SECONDS / 2) == [{"eps": 20.0}]
    assert followed.later() == []


def test_a_file_of_the_same_size_that_takes_its_place_is_noticed(file: Path) -> None:
    """As the kubelet does it: the folder behind a symbolic link is another one."""
    for name in ("1", "2"):
        folder = file.with_name(f"..{name}")
        folder.mkdir()
        (folder / file.name).write_text(f"eps={name}")
        os.utime(folder / file.name, (1, 1))
    link = file.with_name("..data")
    link.symlink_to("..1")
    file.symlink_to(f"..data/{file.name}")
    followed = Followed(file)
    assert followed.later(0) == [{"eps": 1.0}]
    new = file.with_name("..data_tmp")
    new.symlink_to("..2")
    new.rename(link)
    assert followed.later() == [{"eps": 2.0}]


def test_a_hangup_has_it_read_at_once(file: Path) -> None:
    file.write_text("eps=1")
    followed = Followed(file)
    followed.follower.listen()
    followed.later(0)
    assert followed.later(0) == []
    signal.raise_signal(signal.SIGHUP)
    assert followed.later(0) == [{"eps": 1.0}]


def test_a_mistake_is_said_once_and_changes_nothing(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text("eps=1")
    followed = Followed(file)
    followed.later(0)
    for mistake in ("eps=x", None, "eps=y"):
        capfd.readouterr()
        if mistake is None:
            file.unlink()
        else:
            file.write_text(mistake)
        for _ in range(3):
            assert followed.later() == []
        assert capfd.readouterr().err.count("the rates stay unchanged") == 1
    file.write_text("eps=7")
    assert followed.later() == [{"eps": 7.0}]


def test_one_that_rests_leaves_it_to_another_process(file: Path) -> None:
    file.write_text("eps=1")
    followed = Followed(file)
    followed.follower.stop()
    assert followed.later() == []


def test_a_pace_looks_while_it_waits(file: Path) -> None:
    """Between two events of a slow pace lie hours."""
    file.write_text("eps=0.0001")
    clock = HandClock()
    pace = SharedPace.of(PaceSettings.of(with_rates(settings(rateFile=file))), clock, UNSHARDED).pace
    pace.admit(1, 0)
    file.write_text("eps=1000")
    begun = clock.seconds
    pace.admit(1, 0)
    assert clock.seconds - begun < 10


@pytest.mark.parametrize("processes", [1, 3])
def test_each_rate_has_its_place(file: Path, processes: int, tmp_path: Path) -> None:
    given = {"parallelism": processes, "rateFile": file, "eps": 8, "budgetFile": tmp_path / "b", "budgetEps": 100}
    file.write_text("")
    clock = HandClock()
    shared = SharedPace.of(PaceSettings.of(with_rates(settings(**given))), clock, UNSHARDED)
    assert shared.pace.rates == (8, None)
    for content, rates in {
        "eps=0": (100, None),
        "eps=0\nbudgetEps=50\nbitsPerSecond=1M": (50, 1e6),
        "budgetBitsPerSecond=4k": (8, 4000),
        "budgetEps=0": (8, None),
        "eps=0\nbudgetEps=0": (None, None),
        "": (8, None),
    }.items():
        file.write_text(content)
        clock.seconds += CHECK_SECONDS
        shared.follow()
        assert shared.pace.rates == rates, content


def test_shards_without_a_common_file_take_equal_parts_of_a_new_rate_too(file: Path) -> None:
    file.write_text("eps=8")
    clock = HandClock()
    shared = SharedPace.of(PaceSettings.of(with_rates(settings(rateFile=file, shardCount=4))), clock, Shard(1, 4))
    assert shared.pace.rates == (2, None)
    file.write_text("eps=80")
    clock.seconds += CHECK_SECONDS
    shared.follow()
    assert shared.pace.rates == (20, None)


def test_a_budget_cannot_come_later(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text("eps=8")
    clock = HandClock()
    shared = SharedPace.of(PaceSettings.of(with_rates(settings(rateFile=file))), clock, UNSHARDED)
    file.write_text("eps=9\nbudgetEps=5")
    clock.seconds += CHECK_SECONDS
    shared.follow()
    assert shared.pace.rates == (8, None)
    assert "started without one" in capfd.readouterr().err
