from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    Gapless = Callable[..., subprocess.CompletedProcess[str]]

DEFECT = """
import sys
from gapless_api.cli import main
def fail(**_):
    {fails}
main.gapless.main = fail
main.program()
"""
HEAVY = ("pydantic", "cryptography", "pyspark", "confluent_kafka", "rich", "structlog", "ijson", "yaml")
MODULES = {
    "resend": "gapless_sender.cli.resend",
    "bundle": "gapless_api.cli.bundle.group",
    "windows": "gapless_api.cli.windows",
}


def test_an_unknown_command_is_one_sentence_and_exit_2(gapless: Gapless) -> None:
    ended = gapless("resnd")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("gapless: No such command 'resnd'")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["resnd"], "resend"), (["help", "windws"], "windows"), (["bundle", "shw"], "show"), (["frobnicate"], "")],
)
def test_the_command_that_was_meant_is_named(gapless: Gapless, typed: list[str], meant: str) -> None:
    ended = gapless(*typed)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert f"No such command {typed[-1]!r}" in ended.stderr
    assert ended.stderr.partition("Did you mean ")[2].partition("?")[0] == (repr(meant) if meant else "")


@pytest.mark.parametrize("command", [[], ["resend"], ["bundle"], ["bundle", "show"], ["mirror", "status"], ["help"]])
def test_help_of_a_command_is_what_its_option_help_shows(gapless: Gapless, command: list[str]) -> None:
    shown = gapless("help", *command)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == gapless(*command, "--help").stdout
    assert shown.stdout.startswith(f"Usage: {' '.join(['gapless', *command])} ")


def test_a_bundle_can_be_the_only_argument_of_resend(gapless: Gapless, tmp_path: Path) -> None:
    where = ("--bootstrap-servers=127.0.0.1:1", "--target-ip=127.0.0.1", "--target-port=9", "--unlimited")
    for content in (b'\n {"results": []}', gzip.compress(b'{"results": []}')):
        bundle = tmp_path / "bundle"
        bundle.write_bytes(content)
        ended = gapless("resend", str(bundle), *where)
        assert (ended.returncode, ended.stdout + ended.stderr) == (0, "Nothing to do: no events are selected.\n")
    bundle.write_text('{"results": 5}')
    assert f"The bundle {bundle}: results is not a list" in gapless("resend", str(bundle), *where).stderr
    twice = gapless("resend", str(bundle), "--resend-file-name=other.json", *where)
    assert twice.stderr == (
        f"gapless: {bundle} is a bundle, and --resend-file-name names another one; give one bundle, and settings in a "
        "file of key=value lines.\n"
    )


def test_settings_can_come_from_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"noSuchSetting=1\n")
    os.close(writing)
    command = [sys.executable, "-c", "from gapless_api.cli.main import program; program()", "resend"]
    ended = subprocess.run(
        [*command, f"/dev/fd/{reading}"], pass_fds=[reading], check=False, capture_output=True, text=True
    )
    os.close(reading)
    assert ended.returncode == 2
    assert "noSuchSetting" in ended.stderr


def test_an_unknown_option_names_the_command_whose_help_to_read(gapless: Gapless) -> None:
    ended = gapless("windows", "check", "--fast", "x")
    assert ended.returncode == 2
    assert "see gapless windows check --help." in ended.stderr


def test_the_version_and_the_commands_are_told(gapless: Gapless) -> None:
    assert gapless("--version").stdout.startswith("gapless, version ")
    told = gapless("--help")
    assert told.returncode == 0
    for name in ("bundle", "completion", "windows"):
        assert f"\n  {name}" in told.stdout


def test_the_shells_get_a_completion_script(gapless: Gapless) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_GAPLESS_COMPLETE" in gapless("completion", shell).stdout


def test_no_command_shows_the_help_and_the_whole_first_sentence_of_each(gapless: Gapless) -> None:
    ended = gapless()
    assert ended.returncode == 2
    assert ended.stderr.startswith("Usage: gapless [OPTIONS] COMMAND")
    assert "..." not in ended.stderr.partition("Commands:")[2]
    assert ended.stderr == gapless("--help").stdout


def test_a_message_of_several_lines_becomes_one_sentence(gapless: Gapless) -> None:
    assert gapless("completion").stderr.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("gapless_sender") is None, reason="the sender is not installed")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("gapless resend --logLevel w", "plain,WARN"),
        ("gapless resend --log-level=", "plain,TRACE"),
        ("gapless resend --bundle b", "file,b"),
        ("gapless resend --report /tmp/", "file,/tmp/"),
        ("gapless resend ", "file,"),
    ],
)
def test_values_and_files_are_completed(words: str, completed: str) -> None:
    *_, begun = typed = words.split(" ")
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1), "_GAPLESS_COMPLETE": "bash_complete"}
    program = "import sys; sys.argv = ['gapless']; from gapless_api.cli.main import main; main()"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.splitlines()[0] == completed, begun


@pytest.mark.parametrize("command", MODULES)
def test_help_loads_nothing_heavy(command: str) -> None:
    if importlib.util.find_spec(MODULES[command]) is None:
        pytest.skip(f"{command} is not installed")
    program = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr))\n"
        f"sys.argv = ['gapless', {command!r}, '--help']\n"
        "from gapless_api.cli.main import main; main()"
    )
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    print(f"gapless {command} --help: {time.monotonic() - begun:.3f} s")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.strip() == "[]"


def test_a_thread_that_still_writes_does_not_abort_a_command_that_has_ended() -> None:
    program = (
        "import sys, threading\n"
        "from gapless_api.cli.main import program\n"
        "def write():\n"
        "    while True: sys.stderr.write('.' * 100)\n"
        "for _ in range(4): threading.Thread(target=write, daemon=True).start()\n"
        "sys.argv[1:] = ['--version']\n"
        "program()\n"
    )
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout[:8]) == (0, "gapless,")


@pytest.mark.parametrize(
    ("fails", "kind"),
    [
        ("raise KeyError('the content of a record')", "KeyError"),
        ("import json.the_content_of_a_record", "ModuleNotFoundError"),
    ],
)
def test_a_defect_is_one_sentence_without_the_text_of_the_exception(fails: str, kind: str) -> None:
    code = DEFECT.format(fails=fails)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        f"gapless: The command has ended: an unexpected error in Gapless ({kind} in <string>, line 5)"
    )
    assert "content of a record" not in ended.stderr.replace("no content of records", "")
    assert "Traceback" not in ended.stderr
