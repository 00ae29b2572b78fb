"""The proof that what earlier runs did is no part of this run's figures, whenever they are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless_api.wire.totals import Totals
from gapless_sender.base.lazy_log import configure_log
from gapless_sender.base.sharding import UNSHARDED
from gapless_sender.replay.progress import ProgressView
from gapless_sender.replay.report import Traffic

EARLIER = Totals(planned=10_000_000, sent=4_000_000, remaining=6_000_000)
NOW = Totals(planned=10_000_000, sent=4_000_010, remaining=5_999_990)


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "log"
    configure_log("INFO", path)
    yield path
    configure_log("INFO", None)


def statistics(log_file: Path) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, log_file.read_text().splitlines()) if line["event"] == "statistics"]


def progress(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_nothing_is_told_of_a_run_that_has_not_begun(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Workers of a resumed resend tell what they have planned, and so what was sent before, one after the other."""
    view = ProgressView(interval_seconds=1e-9, statistics_seconds=1, sender_id="a", shard=UNSHARDED)
    assert view._statistics is not None
    view._statistics._shown_at -= 5
    view.update(lambda: (EARLIER, Traffic()))
    view.begin(EARLIER)
    view._statistics._shown_at -= 5
    view.update(lambda: (NOW, Traffic(12, interface_drops=2)))
    view.end(NOW, Traffic(12, interface_drops=2))
    assert [(line["received"], line["sent"], line["total_received"]) for line in statistics(log_file)] == [
        (10, 12, 10),
        (0, 0, 10),
    ]
    lines = progress(capsys)
    assert len(lines) == 2
    assert [line["sent"] for line in lines] == [4_000_010, 4_000_010]
    assert [(line["datagrams"], line["leftInterface"]) for line in lines] == [(12, 10), (12, 10)]


def test_a_run_that_ends_before_it_begins_has_done_nothing(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = ProgressView(interval_seconds=5, statistics_seconds=1, sender_id="a", shard=UNSHARDED)
    view.end(EARLIER, Traffic())
    (line,) = statistics(log_file)
    assert (line["received"], line["total_received"]) == (0, 0)
    (shown,) = progress(capsys)
    assert (shown["eventsPerSecond"], shown["etaSeconds"], shown["sent"]) == (0.0, None, 4_000_000)
