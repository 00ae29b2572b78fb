"""No file of a scan, an audit or a verification is overwritten by another of its files."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Resolved, SettingsTable
from gapless_archive.store.object_store import ObjectAddress
from gapless_spark.output.own_files import _OLDER, _READ, _WRITTEN, check_files
from gapless_spark.settings.tables import AUDIT, SCAN
from gapless_spark.verify.settings import VERIFY
from kit.story.commands import GAPLESS

BUNDLE = '{"type":"all","results":[]}'


def settings(file: Path | None = None, **values: object) -> Resolved:
    return Resolved(values, {}, {}, (), file)


@pytest.mark.parametrize("table", [SCAN, AUDIT, VERIFY])
def test_every_setting_that_names_a_file_is_looked_at(table: SettingsTable) -> None:
    files = {setting.name for setting in table.settings if "FILE" in setting.value_text}
    assert files <= {*_WRITTEN, *_READ, _OLDER}


def test_what_is_written_and_anything_else_are_not_one_file(tmp_path: Path) -> None:
    one, same = tmp_path / "one", tmp_path / "folder" / ".." / "one"
    (tmp_path / "folder").mkdir()
    for name, other in itertools.product(_WRITTEN, (*_READ, *_WRITTEN, _OLDER)):
        if name == other or (name, other) == ("resendFileName", _OLDER):
            continue
        for place in (same, (tmp_path / "two", same)):
            with pytest.raises(ConfigurationError, match=r"are the same file \(.*\); give each its own"):
                check_files(settings(**{name: one, other: place if other in _READ else same}))
        check_files(settings(**{name: one, other: tmp_path / "two"}))
        check_files(settings(**{name: one, other: ObjectAddress("bucket", "one")}))
    check_files(settings(resendFileName=one, compareWith=one))  # a new bundle may take the older one's place
    with pytest.raises(ConfigurationError, match="report and the settings file itself are the same file"):
        check_files(settings(one, report=one))
    with pytest.raises(ConfigurationError, match="html and OLD are the same file"):
        check_files(settings(html=one), OLD=same)


@pytest.mark.parametrize("written", ["report", "html", "log-file-name"])
@pytest.mark.parametrize("command", ["scan", "verify"])
def test_a_bundle_is_not_overwritten_by_what_tells_of_it(tmp_path: Path, command: str, written: str) -> None:
    bundle = tmp_path / "bundle.json"
    bundle.write_text(BUNDLE)
    nowhere = ("--bootstrap-servers=127.0.0.1:1", "--connect-timeout=0.1", "--engine=local")
    given = {
        "scan": ("--topic=gaps", f"--resend-file-name={bundle}"),
        "verify": (str(bundle), "--topics=t"),
    }
    done = GAPLESS.run(command, *given[command], *nowhere, f"--{written}={bundle}")
    assert done.returncode == 2
    assert "are the same file" in done.stderr
    assert bundle.read_text() == BUNDLE
