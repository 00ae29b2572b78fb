from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Resolved, resolve
from gapless_spark.archiving.restore.settings import RESTORE
from gapless_spark.settings.tables import AUDIT, CREATE, SCAN

PEER_CREATE = {
    "bootstrapServers",
    "topic",
    "groupID",
    "logLevel",
    "logFileName",
    "certFile",
    "keyFile",
    "caFile",
    "keyPasswordFile",
    "limit",
    "resendFileName",
}


def properties(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "create.properties"
    file.write_text(text)
    return file


def create(file: Path | None = None, environment: dict[str, str] | None = None, **options: str) -> Resolved:
    return resolve(CREATE, file=file, environment=environment or {}, options=dict(options))


def test_create_has_the_settings_of_the_peer_and_the_choice_of_what_reads() -> None:
    assert {setting.name for setting in CREATE.settings} == {*PEER_CREATE, "engine"}
    assert create(bootstrapServers="k:1", topic="gaps").values["engine"] == "auto"
    assert create(bootstrapServers="k:1", topic="gaps", engine="Spark").values["engine"] == "spark"


def test_scan_has_the_settings_of_create_under_the_same_variables() -> None:
    assert CREATE.prefix == SCAN.prefix == "AIRGAP_CREATE_"
    assert {setting.name for setting in SCAN.settings} >= PEER_CREATE


def test_the_key_password_has_a_variable_which_the_peer_lacks() -> None:
    environment = {
        "AIRGAP_CREATE_BOOTSTRAP_SERVERS": "k:1",
        "AIRGAP_CREATE_TOPIC": "gaps",
        "AIRGAP_CREATE_GROUP_ID": "g",
        "AIRGAP_CREATE_KEY_PASSWORD_FILE": "/p",
        "AIRGAP_CREATE_RESEND_FILE_NAME": "/b",
        "AIRGAP_CREATE_LOG_LEVEL": "debug",
    }
    values = create(environment=environment).values
    assert (values["keyPasswordFile"], values["resendFileName"], values["logLevel"]) == (
        Path("/p"),
        Path("/b"),
        "DEBUG",
    )
    assert (values["groupID"], values["limit"]) == ("g", "all")


def test_a_file_that_serves_the_peers_other_programs_is_understood(tmp_path: Path) -> None:
    file = properties(tmp_path, "bootstrapServers=k:1\ntopic=gaps\ntargetIP=10.0.0.1\neps=5\nprivateKeyFiles=*.pem\n")
    found = create(file, limit="FIRST")
    assert found.values["limit"] == "first"
    assert set(found.ignored) == {"targetIP", "eps", "privateKeyFiles"}


def test_a_name_that_nobody_knows_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    file = properties(tmp_path, "bootstrapServers=k:1\ntopic=gaps\nresendFileNane=x\n")
    with pytest.raises(ConfigurationError, match=r"Unknown setting resendFileNane .*did you mean resendFileName"):
        create(file)


@pytest.mark.parametrize(
    ("name", "text"),
    [("limit", "some"), ("logLevel", "loud"), ("driverMemory", "2t"), ("connectTimeout", "0"), ("master", "moon")],
)
def test_a_wrong_value_is_refused_with_what_it_must_be(name: str, text: str) -> None:
    options = {"bootstrapServers": "k:1", "topic": "g", name: text}
    with pytest.raises(ConfigurationError, match=rf"The setting {name} is '{text}' .*it must be "):
        resolve(SCAN, file=None, environment={}, options=options)


def test_which_ends_are_inferred_is_nothing_without_inferring() -> None:
    from gapless_spark.scan.command import job_of  # noqa: PLC0415 -- others must not load it

    given = {"bootstrapServers": "k:1", "topic": "gaps", "inferTails": "all"}
    with pytest.raises(ConfigurationError, match=r"has no effect without infer; give --infer, or delete inferTails\."):
        job_of(resolve(SCAN, file=None, environment={}, options=given))
    job_of(resolve(SCAN, file=None, environment={}, options={**given, "infer": "true"}))


def test_audit_takes_a_list_of_topics_and_expectations() -> None:
    options = {"bootstrapServers": "k:1", "topics": "a, b,a", "expect": "a:0:0-1,a:1:0-1"}
    values = resolve(AUDIT, file=None, environment={"GAPLESS_AUDIT_LIMIT": "first"}, options=options).values
    assert values["topics"] == ("a", "b")
    assert values["expect"] == ("a:0:0-1", "a:1:0-1")
    assert values["limit"] == "first"


@pytest.mark.parametrize(
    "command", ["archive", "compact", "restore", "scan", "create", "audit", "verify", "verify-copy"]
)
def test_help_loads_neither_spark_nor_kafka(command: str) -> None:
    program = (
        "import sys; sys.argv = ['gapless', sys.argv[1], '--help']\n"
        "from gapless_api.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "slow = {'pyspark', 'pyarrow', 'confluent_kafka', 'cryptography', 'structlog', 'rich', 'pydantic'}\n"
        "slow &= set(sys.modules)\n"
        "assert not slow, slow"
    )
    ended = subprocess.run([sys.executable, "-c", program, command], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Usage: gapless" in ended.stdout


def test_the_settings_of_a_restore_speak_of_what_is_written() -> None:
    texts = {setting.name: setting.help for setting in RESTORE.settings}
    assert [name for name in ("engine", "parallelism", "allowedTopics") if "writ" not in texts[name]] == []
