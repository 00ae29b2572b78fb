"""Settings that have a name in gapless.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.named_settings import known_names, named_settings
from gapless_api.base.settings import Resolved, SettingsTable, resolve
from gapless_mirror.settings.table import MIRROR
from gapless_spark.settings.tables import SCAN
from kit.story.commands import GAPLESS

CONTENT = """
[connections.north]
bootstrapServers = ["a:9092", "b:9092"]
ca-file = "/etc/north.pem"
tls = true

[connections.south]
bootstrapServers = "c:9092"

[scan.north]
connection = "north"
topic = "gaps"
detectorWindows = 7
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "gapless.toml").write_text(CONTENT, encoding="utf-8")
    return {"GAPLESS_CONFIG": str(tmp_path / "gapless.toml")}


def resolved(environment: dict[str, str], table: SettingsTable = SCAN, **options: str) -> Resolved:
    return resolve(table, file=None, environment=environment, options=options)


def test_a_connection_stands_for_settings_of_kafka(environment: dict[str, str]) -> None:
    found = resolved(environment, topic="gaps", connection="north")
    assert (found.values["bootstrapServers"], found.values["tls"]) == ("a:9092,b:9092", True)
    assert str(found.values["caFile"]) == "/etc/north.pem"
    assert found.sources["tls"] == f"in {environment['GAPLESS_CONFIG']}, connections.north"


def test_nothing_is_written_over_the_file_of_the_names(environment: dict[str, str], tmp_path: Path) -> None:
    log = str(tmp_path / "gapless.toml")
    with pytest.raises(ConfigurationError, match=r"logFileName and gapless\.toml are the same file"):
        resolved(environment, topic="gaps", connection="north", logFileName=log)


def test_all_other_sources_take_precedence_over_a_connection(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "scan.properties"
    file.write_text("connection=north\ntopic=gaps\ncaFile=/mine.pem\n")
    variables = {**environment, "GAPLESS_SCAN_TLS": "false"}
    found = resolve(SCAN, file=file, environment=variables, options={"bootstrapServers": "d:9092"}).values
    assert (found["bootstrapServers"], str(found["caFile"]), found["tls"]) == ("d:9092", "/mine.pem", False)


def test_both_clusters_of_a_mirror_have_connections(environment: dict[str, str]) -> None:
    found = resolved(environment, MIRROR, sourceConnection="north", targetConnection="south").values
    assert (found["sourceBootstrapServers"], found["targetBootstrapServers"]) == ("a:9092,b:9092", "c:9092")
    assert (str(found["sourceCaFile"]), found["targetCaFile"]) == ("/etc/north.pem", None)


def test_the_settings_of_a_command_have_a_name(environment: dict[str, str]) -> None:
    named = named_settings("scan", "north", environment)
    found = resolve(SCAN, file=named, environment={**environment, "AIRGAP_CREATE_TOPIC": "others"}, options={})
    assert (found.values["topic"], found.values["detectorWindows"]) == ("others", 7)
    assert found.values["bootstrapServers"] == "a:9092,b:9092"


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (CONTENT, {"connection": "nort"}, "has no [connections.nort]; it has north, south."),
        ("", {"connection": "north"}, "has no [connections.north]."),
        ("connections = 3", {"connection": "north"}, "connections in FILE must be a table of names"),
        ("[connections", {"connection": "north"}, "FILE is not TOML (Expected ']' at the end of a table"),
        (
            CONTENT + "\n[connections.x]\ncaFil = '1'",
            {"connection": "x"},
            "Unknown setting caFil in FILE, connections.x",
        ),
        (CONTENT + "\n[connections.x]\ntls = {}", {"connection": "x"}, "tls in FILE, connections.x must be a text"),
        (
            CONTENT + "\n[connections.x]\nbootstrapServers='a:1'\ntls = 'perhaps'",
            {"connection": "x"},
            "The setting tls is 'perhaps' (in FILE, connections.x): it must be true or false.",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_with_the_place(
    content: str, options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "gapless.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        resolved({"GAPLESS_CONFIG": str(file)}, topic="gaps", **options)
    assert sentence in str(error.value).replace(str(file), "FILE")


def test_without_a_file_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no gapless.toml with \[connections.north\]"):
        resolved({"HOME": str(tmp_path)}, topic="gaps", connection="north")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        resolved({"GAPLESS_CONFIG": str(tmp_path / "none")}, topic="gaps", connection="north")
    assert known_names("scan", {"HOME": str(tmp_path)}) == []


def test_the_file_of_the_user_is_found(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "gapless"
    folder.mkdir(parents=True)
    (folder / "gapless.toml").write_text(CONTENT, encoding="utf-8")
    assert known_names("scan", {"HOME": str(tmp_path)}) == ["north"]
    assert known_names("scan", {"XDG_CONFIG_HOME": str(tmp_path / ".config")}) == ["north"]


def test_a_name_is_typed_in_place_of_a_file_and_a_file_of_that_name_goes_first(
    environment: dict[str, str], tmp_path: Path
) -> None:
    known = {**environment, "PATH": ""}
    ended = GAPLESS.run("scan", "north", "--detector-windows=x", env=known, cwd=tmp_path)
    assert "detectorWindows is 'x'" in ended.stderr, ended.stderr
    ended = GAPLESS.run("scan", "nort", env=known, cwd=tmp_path)
    there = "There is no file nort, and gapless.toml has no [scan.nort]; it has north."
    assert ended.stderr == f"gapless: {there}\n"
    ended = GAPLESS.run("audit", "north", env=known, cwd=tmp_path)
    assert "The properties file north cannot be read" in ended.stderr
    (tmp_path / "north").write_text("topic\n", encoding="utf-8")
    ended = GAPLESS.run("scan", "north", env=known, cwd=tmp_path)
    assert "Line 1 of north is not key=value" in ended.stderr
