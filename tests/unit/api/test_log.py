from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.hangup import on_hangup
from gapless_api.base.log import LEVELS, configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)
    structlog.reset_defaults()


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_elsewhere_than_on_a_terminal_a_line_is_a_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging()
    structlog.get_logger().info("resend finished", topic="ü", events=3)
    (line,) = lines(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "resend finished", "topic": "ü", "events": 3, "level": "info"}


def test_on_a_terminal_a_line_is_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging()
    structlog.get_logger().info("resend finished", events=3)
    assert "resend finished" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_the_shape_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(json=True)
    structlog.get_logger().info("started")
    assert lines(stream.getvalue())[0]["event"] == "started"


@pytest.mark.parametrize(
    ("level", "wanted"), [("TRACE", 5), ("debug", 5), ("Info", 4), ("WARN", 3), ("ERROR", 2), ("FATAL", 1)]
)
def test_the_peers_levels_are_understood_in_any_case(monkeypatch: pytest.MonkeyPatch, level: str, wanted: int) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(level)
    log = structlog.get_logger()
    for write in (log.debug, log.info, log.warning, log.error, log.critical):
        write("x")
    assert len(lines(stream.getvalue())) == wanted


def test_an_unknown_level_is_one_sentence() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'LOUD' is unknown; give one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL"
    ):
        configure_logging("LOUD")
    assert list(LEVELS.values()) == sorted(LEVELS.values())


def test_an_error_is_logged_with_its_traceback_in_one_line(tmp_path: Path) -> None:
    configure_logging(file=tmp_path / "log")
    try:
        int("none")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = lines((tmp_path / "log").read_text())
    assert "ValueError: invalid literal" in line["exception"]


def test_a_file_is_appended_to_and_reopened_after_sighup(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"event": "of yesterday"}\n')
    configure_logging(file=path)
    log = structlog.get_logger()
    log.info("one")
    path.rename(tmp_path / "rotated")
    log.info("two")
    os.kill(os.getpid(), signal.SIGHUP)
    log.info("three")
    assert [line["event"] for line in lines((tmp_path / "rotated").read_text())] == ["of yesterday", "one", "two"]
    assert [line["event"] for line in lines(path.read_text())] == ["three"]


def test_a_log_that_takes_no_more_does_not_end_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    (tmp_path / "log").symlink_to("/dev/full")
    configure_logging(file=tmp_path / "log")
    structlog.get_logger().info("still logged")
    assert [line["event"] for line in lines(stream.getvalue())] == ["still logged"]


def test_a_log_folder_that_vanished_does_not_end_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    configure_logging(file=folder / "log")
    (folder / "log").unlink()
    folder.rmdir()
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    os.kill(os.getpid(), signal.SIGHUP)
    structlog.get_logger().info("still logged")
    assert [line["event"] for line in lines(stream.getvalue())] == ["still logged"]


def test_a_log_file_that_could_not_be_reopened_is_tried_again_and_no_line_goes_to_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    configure_logging(file=folder / "log")
    folder.rename(tmp_path / "rotated")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    os.kill(os.getpid(), signal.SIGHUP)
    log = structlog.get_logger()
    log.info("one")
    log.info("two")
    folder.mkdir()
    log.info("three")
    assert [line["event"] for line in lines(stream.getvalue())] == ["one", "two"]
    assert [line["event"] for line in lines((folder / "log").read_text())] == ["three"]
    assert (tmp_path / "rotated" / "log").read_text() == ""


def test_a_log_file_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"The log file .* cannot be opened \(No such file or directory\); give"
    ):
        configure_logging(file=tmp_path / "missing" / "log")


def test_every_registered_method_is_called_at_a_hangup(tmp_path: Path) -> None:
    class Listening:
        heard = 0

        def hear(self) -> None:
            self.heard += 1

    before, after, gone = Listening(), Listening(), Listening()
    on_hangup(before.hear)
    configure_logging(file=tmp_path / "log")
    on_hangup(gone.hear)
    on_hangup(after.hear)
    del gone
    (tmp_path / "log").rename(tmp_path / "rotated")
    os.kill(os.getpid(), signal.SIGHUP)
    structlog.get_logger().info("reopened")
    assert (before.heard, after.heard) == (1, 1)
    assert [line["event"] for line in lines((tmp_path / "log").read_text())] == ["reopened"]
