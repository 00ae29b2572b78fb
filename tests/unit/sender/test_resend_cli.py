"""The proof that the command starts fast, explains itself, and reads its line as people write it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit.story.commands import GAPLESS


def resend(*arguments: str) -> subprocess.CompletedProcess[str]:
    return GAPLESS.run("resend", *arguments, env={"PATH": "", "COLUMNS": "110"})


def test_help_names_every_group_and_where_settings_come_from() -> None:
    shown = resend("--help-all").stdout
    for heading in ("What to resend:", "Kafka:", "The link:", "Pace:", "Where settings come from:"):
        assert f"\n{heading}\n" in shown
    assert "AIRGAP_RESEND_RESULT_FILE_NAME" in shown
    assert "--payload-size BYTES|auto" in shown
    assert "--payloadSize" not in shown, "camelCase is understood and not repeated"


def test_help_loads_nothing_that_is_slow() -> None:
    slow = "confluent_kafka", "cryptography", "pydantic", "structlog", "rich", "re2", "isal", "ijson", "multiprocessing"
    program = (
        "import sys; sys.argv = ['gapless', 'resend', '--help']\n"
        "from gapless_api.cli.main import main\n"
        "try: main()\n"
        f"finally: print([name for name in {slow!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("switch", ["--plan", "--encryption"])
def test_a_bare_switch_does_not_swallow_the_file(switch: str, tmp_path: Path) -> None:
    done = resend(switch, str(tmp_path / "none.properties"))
    assert done.returncode == 2
    assert "none.properties cannot be read" in done.stderr


def test_a_missing_setting_is_named_in_all_three_spellings() -> None:
    done = resend("--topic", "t")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for spelling in ("--bootstrap-servers", "AIRGAP_RESEND_BOOTSTRAP_SERVERS", "bootstrapServers="):
        assert spelling in done.stderr
