from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from gapless_api.base.errors import ConfigurationError, LocalStorageError, SourceStalledError, SourceUnreachableError
from gapless_kafka.connection import KafkaConnection
from gapless_spark.runtime.jars import connector_jars, jars_folder, startup_archive
from gapless_spark.runtime.java import check_java
from gapless_spark.runtime.kafka_source import failure_of_kafka, java_options
from gapless_spark.runtime.session import Engine, failure_of_machine, temporary_folder

if TYPE_CHECKING:
    from pathlib import Path

JARS = [
    "spark-sql-kafka-0-10_2.13-4.0.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.0.jar",
    "commons-pool2-2.12.0.jar",
]
CONNECTION = KafkaConnection(bootstrap_servers="kafka:9092")


def java_home(folder: Path, version: str, *, release_file: bool) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if release_file:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_the_jars_are_found_in_the_folder_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_SPARK_JARS", str(tmp_path))
    for name in [*JARS, "other.jar"]:
        (tmp_path / name).touch()
    assert [jar.name for jar in connector_jars()] == JARS
    assert startup_archive().parent == jars_folder() == tmp_path


def test_a_missing_jar_is_one_sentence_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_SPARK_JARS", str(tmp_path))
    for name in JARS[:-1]:
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"commons-pool2-\*\.jar is missing\); run make spark-jars"):
        connector_jars()


def test_two_versions_of_a_jar_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_SPARK_JARS", str(tmp_path))
    for name in [*JARS, "kafka-clients-4.0.0.jar"]:
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"there are 2 kafka-clients"):
        connector_jars()


@pytest.mark.parametrize("release_file", [True, False])
@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_java_17_and_21_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, release_file: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk", version, release_file=release_file)))
    check_java()


@pytest.mark.parametrize("release_file", [True, False])
@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_402", "1"), ("25", "25")])
def test_another_java_is_refused_with_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: str, *, release_file: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk", version, release_file=release_file)))
    with pytest.raises(ConfigurationError, match=rf"is Java {major}; install one \(Debian: apt-get install openjdk-17"):
        check_java()


def test_no_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="there is no java on the PATH; install one"):
        check_java()


def test_javas_client_reads_committed_records_only() -> None:
    options = java_options(CONNECTION)
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["kafka.security.protocol"] == "PLAINTEXT"
    assert "kafka.group.id" not in options


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", "plain.Plain"), ("SCRAM-SHA-512", "scram.Scram")])
def test_a_password_with_quotes_and_backslashes_stays_one_value(tmp_path: Path, mechanism: str, module: str) -> None:
    (tmp_path / "password").write_text('a"b\\c; d=e\n')
    connection = KafkaConnection(
        bootstrap_servers="kafka:9092",
        tls=True,
        sasl_mechanism=mechanism,  # type: ignore[arg-type] -- one of the words it takes
        sasl_username="o'mega",
        sasl_password_file=tmp_path / "password",
    )
    options = java_options(connection)
    assert options["kafka.sasl.jaas.config"] == (
        f"org.apache.kafka.common.security.{module}LoginModule required "
        r"""username="o'mega" password="a\"b\\c; d=e";"""
    )
    assert options["kafka.security.protocol"] == "SASL_SSL"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("…org.apache.kafka.common.errors.TopicAuthorizationException: …", SourceUnreachableError, "denies access"),
        ("… Some data may have been lost … [KAFKA_DATA_LOSS.X] …", SourceUnreachableError, "has deleted records"),
        ("org.apache.kafka.common.errors.TimeoutException: …", SourceStalledError, "stopped answering"),
    ],
)
def test_what_spark_says_about_kafka_is_said_in_one_sentence(
    text: str, kind: type[SourceUnreachableError], words: str
) -> None:
    meant = failure_of_kafka(text, CONNECTION, ["gaps"])
    assert type(meant) is kind
    assert words in str(meant)


def test_what_spark_says_about_itself_is_left_alone() -> None:
    assert failure_of_kafka("java.lang.OutOfMemoryError: Java heap space", CONNECTION, ["gaps"]) is None


def test_a_full_disk_and_too_little_memory_are_told_apart_from_defects() -> None:
    engine = Engine("audit", driver_memory="2g")
    full = failure_of_machine("Job aborted: java.io.IOException: No space left on device", engine)
    assert isinstance(full, LocalStorageError)
    assert "set TMPDIR" in str(full)
    assert "driverMemory=2g" in str(failure_of_machine("java.lang.OutOfMemoryError: Java heap space", engine))
    assert failure_of_machine("NullPointerException", engine) is None


def test_no_place_for_temporary_files_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(LocalStorageError, match=r"^Spark has no place .*; set TMPDIR to"):
        temporary_folder()
