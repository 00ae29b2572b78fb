from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import boolean, choice, integer
from gapless_api.base.settings import IGNORE_UNKNOWN, Setting, SettingsTable, kebab, resolve, snake

TABLE = SettingsTable(
    "AIRGAP_TEST_",
    (
        Setting("targetPort", "", integer(1, 65535), default=7),
        Setting("bootstrapServers", ""),
        Setting("encryption", "", boolean, default=False, switch=True),
        Setting("limit", "", choice("all", "first"), default="all"),
        Setting("resendFileName", "", environment="RESULT_FILE_NAME", aliases=("bundle",)),
    ),
    foreign={"sendingThreads": "it is the live sender's"},
)


def found(**given: object) -> dict[str, object]:
    arguments = {"file": None, "environment": {}, "options": {}, **given}
    return resolve(TABLE, **arguments).values  # type: ignore[arg-type]


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    return tmp_path / "resend.properties"


def test_a_later_source_wins(properties: Path) -> None:
    assert found()["targetPort"] == 7
    properties.write_text("targetPort=1\n")
    assert found(file=properties)["targetPort"] == 1
    environment = {"AIRGAP_TEST_TARGET_PORT": "2"}
    assert found(file=properties, environment=environment)["targetPort"] == 2
    assert found(file=properties, environment=environment, options={"targetPort": "3"})["targetPort"] == 3


def test_an_empty_value_of_a_later_source_brings_the_default_back(properties: Path) -> None:
    properties.write_text("targetPort=1\nbootstrapServers=\n")
    assert found(file=properties)["bootstrapServers"] is None
    assert found(file=properties, options={"targetPort": ""})["targetPort"] == 7


def test_an_empty_variable_counts_as_none(properties: Path) -> None:
    properties.write_text("targetPort=1\n")
    assert found(file=properties, environment={"AIRGAP_TEST_TARGET_PORT": "  "})["targetPort"] == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbftargetPort=5\r\n",
        b"  # indented, and with = in it\ntargetPort=5\n",
        b"# S\xf6dra l\xe4nken\ntargetPort=5\n",
        b"#!/x\r\n\r\ntargetPort\t=\t5   ",
    ],
    ids=["byte order mark", "indented comment", "Latin-1 comment", "tabs and CRLF"],
)
def test_files_as_people_have_them_are_understood(content: bytes, properties: Path) -> None:
    properties.write_bytes(content)
    assert found(file=properties)["targetPort"] == 5


def test_only_line_ends_end_a_line(properties: Path) -> None:
    properties.write_text("bootstrapServers=a\u2028b\x0bc\n")
    assert found(file=properties)["bootstrapServers"] == "a\u2028b\x0bc"


@pytest.mark.parametrize("content", ["targetPort=5\n".encode("utf-16"), b"bootstrapServers=\xe4\n"])
def test_what_is_no_utf_8_is_refused_with_its_line(content: bytes, properties: Path) -> None:
    properties.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"^Line 1 of the properties file .* is not UTF-8 text; save"):
        found(file=properties)


def test_the_file_is_trimmed_lines_split_at_the_first_equals_sign_with_comments_in_column_one(properties: Path) -> None:
    properties.write_text("# targetPort=9\n\n  targetPort = 5  \nbootstrapServers=a=b#c\r\n")
    assert found(file=properties) == {**found(), "targetPort": 5, "bootstrapServers": "a=b#c"}


def test_kebab_case_aliases_and_special_variables_mean_the_same(properties: Path) -> None:
    for line in ("resendFileName=x", "resend-file-name=x", "bundle=x"):
        properties.write_text(line)
        assert found(file=properties)["resendFileName"] == "x"
    assert found(environment={"AIRGAP_TEST_RESULT_FILE_NAME": "x"})["resendFileName"] == "x"
    assert TABLE.settings[4].options == ("--resend-file-name", "--resendFileName", "--bundle")


def test_variables_with_another_prefix_are_accepted_and_the_documented_one_wins() -> None:
    table = replace(TABLE, other_prefixes=("AIRGAP_OLD_",))
    given = {
        "AIRGAP_OLD_TARGET_PORT": "5",
        "AIRGAP_OLD_LIMIT": "first",
        "AIRGAP_TEST_LIMIT": "all",
        "AIRGAP_OLD_X": "1",
    }
    resolved = resolve(table, file=None, environment=given, options={})
    assert (resolved.values["targetPort"], resolved.values["limit"]) == (5, "all")
    assert resolved.unknown_variables == ("AIRGAP_OLD_X",)


def test_settings_of_other_programs_are_named_and_not_fatal(properties: Path) -> None:
    properties.write_text("sendingThreads=[]\n")
    assert resolve(TABLE, file=properties, environment={}, options={}).ignored == {
        "sendingThreads": "it is the live sender's"
    }


def test_our_prefix_and_the_peers_mean_the_same_and_ours_wins() -> None:
    assert found(environment={"GAPLESS_TEST_TARGET_PORT": "3"})["targetPort"] == 3
    both = {"GAPLESS_TEST_TARGET_PORT": "3", "AIRGAP_TEST_TARGET_PORT": "4"}
    assert found(environment=both)["targetPort"] == 3
    table = replace(TABLE, prefix="GAPLESS_TEST_")
    assert resolve(table, file=None, environment=both, options={}).values["targetPort"] == 3


def test_unknown_variables_with_our_prefix_are_an_error_that_names_all_of_them() -> None:
    environment = {"GAPLESS_TEST_TARGT_PORT": "1", "GAPLESS_TEST_X": "1", "GAPLESS_TEST_LIMIT": "first"}
    sentence = r"variables GAPLESS_TEST_TARGT_PORT \(did you mean GAPLESS_TEST_TARGET_PORT\?\), GAPLESS_TEST_X; correct"
    with pytest.raises(ConfigurationError, match=sentence):
        resolve(TABLE, file=None, environment=environment, options={})


def test_variables_of_sibling_commands_and_of_kubernetes_services_are_left_alone() -> None:
    table = replace(TABLE, siblings=(Setting("onlyThere", ""),))
    links = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT_80_TCP", "PORT_80_TCP_ADDR")
    environment = dict.fromkeys(("GAPLESS_TEST_ONLY_THERE", *(f"GAPLESS_TEST_{link}" for link in links)), "1")
    environment["GAPLESS_TEST_PORT"] = "tcp://10.0.0.1:80"
    assert resolve(table, file=None, environment=environment, options={}).unknown_variables == ()


def test_unknown_variables_with_the_peers_prefix_are_reported() -> None:
    environment = {"AIRGAP_TEST_TARGT_PORT": "1", "AIRGAP_OTHER_X": "1", "AIRGAP_TEST_LIMIT": "first"}
    assert resolve(TABLE, file=None, environment=environment, options={}).unknown_variables == (
        "AIRGAP_TEST_TARGT_PORT",
    )


def test_the_source_of_a_value_is_known(properties: Path) -> None:
    properties.write_text("\nlimit=FIRST\n")
    resolved = resolve(TABLE, file=properties, environment={}, options={"targetPort": "1"})
    assert resolved.values["limit"] == "first"
    assert resolved.sources == {"limit": f"in {properties}, line 2", "targetPort": "given with --target-port"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"targtPort=1", r"Unknown setting targtPort in .*, line 1 \(did you mean targetPort\?\); correct or delete"),
        (b"\nnothing here", "Line 2 of .* is not key=value: 'nothing here'"),
        (b"targetPort=x", r"targetPort is 'x' \(in .*, line 1\): it must be an integer from 1 to 65535"),
        (b"targetPort=65536", "an integer from 1 to 65535"),
        (b"encryption=maybe", "must be true or false"),
        (b"limit=some", "must be one of all, first"),
        (b"limit=\xff", "is not UTF-8 text"),
    ],
)
def test_a_wrong_file_is_one_sentence(properties: Path, content: bytes, sentence: str) -> None:
    properties.write_bytes(content)
    with pytest.raises(ConfigurationError, match=sentence):
        found(file=properties)


def test_all_mistakes_of_a_file_are_named_at_once_with_their_lines(properties: Path) -> None:
    properties.write_text("targtPort=1\nlimit=some\nvendor.secret=hunter2\n\nencryption=maybe\nvendor.size=5\n")
    with pytest.raises(ConfigurationError) as raised:
        found(file=properties)
    message = str(raised.value)
    listed = f"targtPort in {properties}, line 1 (did you mean targetPort?); vendor.secret line 3; vendor.size line 6"
    assert f"Unknown settings: {listed}; correct or delete the lines." in message
    assert f"The setting limit is 'some' (in {properties}, line 2)" in message
    assert f"The setting encryption is 'maybe' (in {properties}, line 5)" in message
    assert "hunter2" not in message


def test_many_unknown_names_are_counted(properties: Path) -> None:
    properties.write_text("".join(f"vendor.setting.{number}=x\n" for number in range(1000)))
    with pytest.raises(
        ConfigurationError, match=r"vendor\.setting\.0 in .*, line 1; .*; and \d+ more; correct"
    ) as raised:
        found(file=properties)
    assert len(str(raised.value)) < 2000


def test_unknown_names_are_listed_and_ignored_where_a_command_can_ignore_them(properties: Path) -> None:
    table = SettingsTable("AIRGAP_TEST_", (Setting(IGNORE_UNKNOWN, "", parse=boolean, default=False),))
    properties.write_text("a=1\nb=2\n")
    with pytest.raises(ConfigurationError, match="or give --ignore-unknown-settings"):
        resolve(table, file=properties, environment={}, options={})
    given = resolve(table, file=properties, environment={}, options={IGNORE_UNKNOWN: "true"})
    assert given.ignored == {"a": "unknown", "b": "unknown"}


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read \(No such file or directory\); give the path"):
        found(file=tmp_path / "none")


def test_a_missing_required_setting_names_all_three_places() -> None:
    table = SettingsTable("AIRGAP_TEST_", (Setting("targetIP", "", required=True),))
    with pytest.raises(ConfigurationError, match=r"--target-ip=….* AIRGAP_TEST_TARGET_IP, or a line targetIP=…"):
        resolve(table, file=None, environment={}, options={})


@pytest.mark.parametrize(
    ("camel", "snaked"),
    [("payloadSize", "payload_size"), ("targetIP", "target_ip"), ("groupID", "group_id"), ("eps", "eps")],
)
def test_names_are_translated_as_the_peer_does(camel: str, snaked: str) -> None:
    assert snake(camel) == snaked
    assert kebab(camel) == snaked.replace("_", "-")
