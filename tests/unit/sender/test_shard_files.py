"""No file of a resend is overwritten by another of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_sender.base.sharding import UNSHARDED, FileOrFolder, with_own_files
from gapless_sender.settings.own_files import check_shard_files
from gapless_sender.settings.resend import RESEND
from gapless_sender.workers.resend import run


def settings(**given: Any) -> dict[str, Any]:
    return dict.fromkeys(setting.name for setting in RESEND.settings) | given


def test_no_shard_writes_to_what_it_reads(tmp_path: Path) -> None:
    one = tmp_path / "one"
    for other in ("inputFilterRules", "checkpoint", "rateFile"):
        with pytest.raises(ConfigurationError, match="are the same file"):
            check_shard_files(
                settings(**{"report": one, other: str(one) if other == "inputFilterRules" else one}), None
            )
    with pytest.raises(ConfigurationError, match="report and the settings file itself are the same file"):
        check_shard_files(settings(report=one), one)


@pytest.mark.parametrize("name", ["c.lock", "c.shard-0", "c.shard-12"])
def test_what_a_checkpoint_has_beside_it_is_not_written_to(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"report is .*{name}, a name that the checkpoint .* reserves"):
        check_shard_files(settings(report=tmp_path / name, checkpoint=tmp_path / "c"), None)
    check_shard_files(settings(report=tmp_path / f"{name}.json", checkpoint=tmp_path / "c"), None)
    with pytest.raises(ConfigurationError, match=r"the settings file itself is .*, a name that the checkpoint"):
        check_shard_files(settings(checkpoint=tmp_path / "c"), tmp_path / name)
    with pytest.raises(ConfigurationError, match=r"inputFilterRules is .*, a name that the checkpoint"):
        check_shard_files(settings(checkpoint=tmp_path / "c", inputFilterRules=str(tmp_path / name)), None)


def test_devices_rules_and_folders_are_no_files_of_anybody(tmp_path: Path) -> None:
    devices = {"report": Path("/dev/null"), "logFileName": Path("/dev/null")}
    check_shard_files(settings(**devices, checkpoint=tmp_path / "c"), None)
    check_shard_files(settings(report=tmp_path / "r", inputFilterRules="deny:" + "x" * 10_000), None)
    check_shard_files(settings(report=tmp_path / "r", inputFilterRules="deny:\0"), None)
    folder = FileOrFolder(tmp_path, is_folder=True)
    check_shard_files(with_own_files(settings(report=folder, checkpoint=folder), UNSHARDED), None)
    both = {"report": f"{tmp_path}/", "checkpoint": f"{tmp_path}/"}
    required = {setting.name: "9" for setting in RESEND.settings if setting.required}
    assert resolve(RESEND, file=None, environment={}, options={**required, **both}).values["report"] == folder


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
