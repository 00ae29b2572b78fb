"""The proof that the limits of a mirror follow their file, and that memory is shared among lanes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_mirror.lanes.limits import Rates
from gapless_mirror.lanes.setup import LaneMemory
from gapless_mirror.settings import limits_file
from gapless_mirror.settings.limits_file import LimitsFile, read_rates
from gapless_mirror.settings.table import MIRROR
from gapless_mirror.watch.stall import STUCK_AFTER_SECONDS

DEFAULT = Rates(bytes_per_second=10.0, records_per_second=20.0)


def test_each_process_has_its_part_of_the_limits(tmp_path: Path) -> None:
    file = tmp_path / "limits"
    file.write_text("maxBytesPerSecond=1MiB\n")
    assert read_rates(file, DEFAULT, 4) == Rates(2**18, 20.0)
    file.write_text("maxRecordsPerSecond=100\n")
    assert read_rates(file, DEFAULT, 4) == Rates(10.0, 25.0)
    file.write_text("")
    assert read_rates(file, DEFAULT, 4) == DEFAULT


def test_a_file_is_read_when_it_changes_and_a_bad_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_file, "_CHECK_SECONDS", 0.0)
    failures: list[ConfigurationError] = []
    file = tmp_path / "limits"
    watched = LimitsFile(file, DEFAULT, 1, on_error=failures.append)
    assert watched.changed() is None
    assert watched.changed() is None
    assert len(failures) == 1
    file.write_text("maxBytesPerSecond=7\n")
    assert watched.changed() == Rates(7.0, 20.0)
    assert watched.changed() is None
    file.write_text("maxBytesPerSecond=fast\n")
    assert watched.changed() is None
    assert "maxBytesPerSecond is 'fast'" in str(failures[1])
    file.write_text("maxBytesPerSecond=77\n")
    assert watched.changed() == Rates(77.0, 20.0)


def test_many_lanes_share_what_a_process_may_hold() -> None:
    assert LaneMemory.of_process(1) == LaneMemory()
    for lanes in (1, 2, 8, 16):
        one = LaneMemory.of_process(lanes)
        assert one.queue_kib * lanes <= 24 * 1024
        assert one.transaction_bytes * lanes <= 64 * 1024 * 1024
    assert LaneMemory.of_process(1000) == LaneMemory(1024, 1024 * 1024)


def test_a_transaction_may_not_last_as_long_as_one_that_is_stuck() -> None:
    def interval(text: str) -> float:
        options = {"sourceBootstrapServers": "a:1", "targetBootstrapServers": "b:1", "commitInterval": text}
        found: float = resolve(MIRROR, file=None, environment={}, options=options).values["commitInterval"]
        return found

    assert interval("10s") < STUCK_AFTER_SECONDS
    with pytest.raises(ConfigurationError, match=r"it must be a duration from 0\.01 to 10 seconds"):
        interval("30s")
