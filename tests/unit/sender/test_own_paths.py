"""No file of a resend is overwritten by another of its files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_sender.base.own_paths import _READ, _WRITTEN, check_paths
from gapless_sender.base.sharding import UNSHARDED, FileOrFolder, with_own_files
from gapless_sender.settings.resend import RESEND
from gapless_sender.workers.resend import run


def settings(**given: Any) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys((*_WRITTEN, *_READ))
    return values | given


def test_every_setting_that_names_a_file_is_looked_at() -> None:
    files = {setting.name for setting in RESEND.settings if "FILE" in setting.value_text}
    assert files == {*_WRITTEN, *_READ}


@pytest.mark.parametrize("spelling", ["same", "dots", "symlink", "hard link"])
def test_what_is_written_and_anything_else_are_not_one_file(spelling: str, tmp_path: Path) -> None:
    one = tmp_path / "one"
    two = {"same": one, "dots": tmp_path / "folder" / ".." / "one"}.get(spelling, tmp_path / "two")
    (tmp_path / "folder").mkdir()
    if spelling == "symlink":
        two.symlink_to(one)  # Nothing is there yet.
    if spelling == "hard link":
        one.touch()
        os.link(one, two)
    for name, other in itertools.product(_WRITTEN, (*_READ, *_WRITTEN)):
        if name != other:
            with pytest.raises(ConfigurationError, match=r"are the same file \(.*\); give each its own"):
                check_paths(settings(**{name: one, other: two}), None)
            check_paths(settings(**{name: one, other: tmp_path / "three"}), None)


def test_the_settings_file_is_not_written_to(tmp_path: Path) -> None:
    file = tmp_path / "resend.properties"
    file.touch()
    with pytest.raises(ConfigurationError, match="report and the settings file itself are the same file"):
        check_paths(settings(report=file), file)


@pytest.mark.parametrize("name", ["c.lock", "c.shard-0", "c.shard-12"])
def test_what_a_checkpoint_has_beside_it_is_not_written_to(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"report is .*{name}, a name that the checkpoint .* reserves"):
        check_paths(settings(report=tmp_path / name, checkpoint=tmp_path / "c"), None)
    check_paths(settings(report=tmp_path / f"{name}.json", checkpoint=tmp_path / "c"), None)


def test_devices_rules_and_folders_are_no_files_of_anybody(tmp_path: Path) -> None:
    check_paths(settings(report=Path("/dev/null"), checkpoint=tmp_path / "c", logFileName=Path("/dev/null")), None)
    check_paths(settings(report=tmp_path / "r", inputFilterRules="deny:" + "x" * 10_000), None)
    check_paths(settings(report=tmp_path / "r", inputFilterRules="deny:\0"), None)
    folder = FileOrFolder(tmp_path, is_folder=True)
    check_paths(with_own_files(settings(report=folder, checkpoint=folder), UNSHARDED), None)


@pytest.mark.parametrize("plan", ["false", "true"])
def test_a_report_over_the_bundle_is_refused_and_the_bundle_stays(plan: str, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.json"
    bundle.write_text('{"type":"all","results":[]}')
    given = {"report": bundle, "resendFileName": bundle, "logFileName": bundle, "targetIP": "::1", "targetPort": 9}
    texts = {name: str(value) for name, value in given.items()} | {"bootstrapServers": "127.0.0.1:1", "plan": plan}
    for without in ({"logFileName": None}, {"report": None}):
        with pytest.raises(ConfigurationError, match="are the same file"):
            run(resolve(RESEND, file=None, environment={"AIRGAP_RESEND_X": "1"}, options={**texts, **without}))
        assert bundle.read_text() == '{"type":"all","results":[]}'
