"""The proof of what wins: our own settings over those of files of Kafka's mirrors, and those over defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.peer_settings import resolved_with_peer_files
from gapless_mirror.settings.subcommands import DIFF, GROUPS
from gapless_mirror.settings.table import MIRROR
from gapless_mirror.workers import groups_command

CONSUMER = "bootstrap.servers=a:1\ngroup.id=old\nmetadata.max.age.ms=120000\nnum.streams=2\nclient.rack=r\n"
PRODUCER = "bootstrap.servers=b:1\ncompression.type=zstd\n"
MM2 = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\nA->B.topics=t\n"


@pytest.fixture
def old_files(tmp_path: Path) -> dict[str, str | None]:
    (tmp_path / "consumer").write_text(CONSUMER)
    (tmp_path / "producer").write_text(PRODUCER)
    return {"consumerConfig": str(tmp_path / "consumer"), "producerConfig": str(tmp_path / "producer")}


def test_files_of_the_first_mirror_come_before_defaults(old_files: dict[str, str | None]) -> None:
    found = resolved_with_peer_files(MIRROR, None, {**old_files, "whitelist": "t,u"}, {})
    values = found.values
    assert (values["sourceBootstrapServers"], values["targetBootstrapServers"]) == ("a:1", "b:1")
    assert (values["name"], values["workers"], values["topicRefresh"]) == ("old", 2, 120.0)
    assert (values["compression"], values["topicPattern"].pattern) == ("zstd", "t|u")
    assert list(found.ignored) == ["client.rack"]


def test_what_is_given_in_our_own_ways_wins(old_files: dict[str, str | None], tmp_path: Path) -> None:
    own = tmp_path / "own.properties"
    own.write_text(f"workers=3\nconsumer-config={old_files['consumerConfig']}\n")
    options = {"producerConfig": old_files["producerConfig"], "name": "new", "topics": "t"}
    found = resolved_with_peer_files(MIRROR, own, options, {"GAPLESS_MIRROR_COMPRESSION": "gzip"}).values
    assert (found["name"], found["workers"], found["compression"]) == ("new", 3, "gzip")
    assert found["sourceBootstrapServers"] == "a:1"


def test_the_file_may_be_that_of_mirrormaker_2(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(MM2 + "replication.factor=3\n")
    found = resolved_with_peer_files(MIRROR, file, {"rename": "{topic}"}, {}).values
    assert (found["sourceBootstrapServers"], found["replicationFactor"]) == ("a:1", 3)
    assert (found["name"], found["sourceName"], found["rename"]) == ("a-b", "A", "{topic}")
    compared = resolved_with_peer_files(DIFF, file, {}, {}).values
    assert (compared["rename"], compared["topicPattern"].fullmatch("t") is not None) == ("{source}.{topic}", True)


def test_no_report_is_written_over_the_properties_of_a_mirrormaker(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(MM2)
    with pytest.raises(ConfigurationError, match="report and the settings file itself are the same file"):
        resolved_with_peer_files(MIRROR, file, {"report": str(file)}, {})


def test_a_value_that_a_setting_does_not_take_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(MM2 + "replication.factor=none\n")
    with pytest.raises(ConfigurationError, match=r"replication.factor \(in .*line 6\) must be an integer of 32 bits"):
        resolved_with_peer_files(MIRROR, file, {}, {})


def test_unknown_settings_are_listed_and_ignored_in_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, mm2 = tmp_path / "own.properties", tmp_path / "mm2.properties"
    own.write_text("sourceBootstrapServers=a:1\ntargetBootstrapServers=b:1\ntopics=t\nvendor.a=1\nvendor.b=2\n")
    mm2.write_text(MM2 + "vendor.a=1\nvendor.b=2\n")
    for file in (own, mm2):
        for table in (MIRROR, DIFF, GROUPS):
            with pytest.raises(
                ConfigurationError, match=r"vendor\.a in .*; vendor\.b line .*--ignore-unknown-settings"
            ):
                resolved_with_peer_files(table, file, {}, {})
            found = resolved_with_peer_files(table, file, {"ignoreUnknownSettings": "true"}, {})
            assert {"vendor.a", "vendor.b"} <= set(found.ignored)
    with pytest.raises(ConfigurationError, match="No consumer groups are chosen"):
        groups_command.run(resolved_with_peer_files(GROUPS, mm2, {"ignoreUnknownSettings": "yes"}, {}))
    assert capsys.readouterr().err == "Unknown settings are ignored: vendor.a, vendor.b.\n"


def test_a_flow_needs_the_file_that_has_it() -> None:
    with pytest.raises(ConfigurationError, match=r"needs the mm2\.properties"):
        resolved_with_peer_files(MIRROR, None, {"flow": "A->B"}, {})
