from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gapless_api.base.errors import (
    ConfigurationError,
    GaplessError,
    LocalStorageError,
    SourceStalledError,
    SourceUnreachableError,
)
from gapless_spark.runtime.session import Engine, check_java, machine_failure, temporary_folder
from gapless_spark.runtime.task_reading import decode_failure, encode_failure


def java_home(folder: Path, version: str, *, release_file: bool) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if release_file:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


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


@pytest.mark.parametrize("kind", [SourceUnreachableError, SourceStalledError, ConfigurationError])
def test_an_error_of_ours_passes_from_a_task_through_spark(kind: type[GaplessError]) -> None:
    class NearerError(kind):  # type: ignore[misc, valid-type]
        pass

    sentence = 'Kafka at kafka:9092 denies access to "the topic {t}"; grant …'
    trace = f"PythonException: …\n  File x\nRuntimeError: {encode_failure(NearerError(sentence))}\n\n\tat java"
    meant = decode_failure(trace)
    assert type(meant) is kind
    assert str(meant) == sentence


def test_what_spark_says_about_itself_is_left_alone() -> None:
    assert decode_failure("java.lang.OutOfMemoryError: Java heap space") is None


def test_a_full_disk_and_too_little_memory_are_told_apart_from_defects() -> None:
    engine = Engine("audit", driver_memory="2g")
    full = machine_failure("Job aborted: java.io.IOException: No space left on device", engine)
    assert isinstance(full, LocalStorageError)
    assert "set TMPDIR" in str(full)
    assert "driverMemory=2g" in str(machine_failure("java.lang.OutOfMemoryError: Java heap space", engine))
    assert machine_failure("NullPointerException", engine) is None


def test_no_place_for_temporary_files_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(LocalStorageError, match=r"^Spark cannot create a folder .*; set TMPDIR to"):
        temporary_folder()
