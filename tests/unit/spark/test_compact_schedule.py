"""The proof of what ends a compaction, scheduled or not, and what it outlives."""

from __future__ import annotations

from pathlib import Path

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
from gapless_spark.settings.engine import EngineSettings
from unit.archive.archives import archived, chain


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


def test_what_is_left_beside_a_damaged_segment_of_a_higher_level_is_joined(tmp_path: Path) -> None:
    rules = {"minSegmentAge": "0s", "minSegmentCount": "2", "minSegmentSize": "0", "maxLevel": "1", "engine": "local"}
    options = {"archive": str(tmp_path), "gracePeriod": "0s", **rules}
    values = resolve(COMPACT, file=None, environment={}, options=options).values
    compaction = _Compaction(CompactSettings.of(values), EngineSettings.of(values), selection_from(values))
    place = selection_from(values).open()
    for first in (0, 10):
        archived(place, {0: (first, first + 10)})
    assert compaction.run() == 0
    (joined,) = chain(place).load().segments(0)
    for first in (20, 30):
        archived(place, {0: (first, first + 10)})
    (tmp_path / joined.object).write_bytes(b"no Parquet")
    with pytest.raises(UndeliveredError, match="1 joins failed because of a damaged segment"):
        compaction.run()
    assert [(one.level, one.first, one.end) for one in chain(place).load().segments(0)] == [(1, 0, 20), (1, 20, 40)]
