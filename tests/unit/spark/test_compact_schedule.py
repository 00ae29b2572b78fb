"""Owns the proof of what ends a scheduled compaction, and what it outlives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gapless_api.base.errors import (
    ConfigurationError,
    GaplessError,
    StoppedError,
    StoreUnreachableError,
    UndeliveredError,
)
from gapless_api.base.schedule import Schedule
from gapless_api.base.settings import resolve
from gapless_archive.selection import selection_from
from gapless_spark.archiving.compact.command import _Compaction
from gapless_spark.settings.compact import COMPACT, CompactSettings
from gapless_spark.settings.typed import EngineSettings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "end", [StoppedError("Stopped by SIGTERM.", by_terminal=False), ConfigurationError("The archive is damaged.")]
)
def test_a_run_that_fails_is_tried_again_and_a_signal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: GaplessError
) -> None:
    values = resolve(COMPACT, file=None, environment={}, options={"archive": str(tmp_path)}).values
    compaction = _Compaction(CompactSettings.of(values), EngineSettings.of(values), selection_from(values))
    runs: list[GaplessError] = [StoreUnreachableError("no answer"), UndeliveredError("damaged"), end]

    def run() -> int:
        raise runs.pop(0)

    monkeypatch.setattr(compaction, "run", run)
    with pytest.raises(type(end)) as ended:
        compaction.run_by(Schedule.parse("* * * * * *", "Etc/UTC", seconds=True))
    assert ended.value is end
    assert runs == []
