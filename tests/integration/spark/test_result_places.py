"""The proof that what a scan finds reaches object stores and logs, and that spark-submit runs the same program."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from gapless_api.bundle.reader import read_bundle, read_bundle_text
from gapless_api.cli import main
from gapless_api.wire.result_lines import find_result, unpack_gzip
from gapless_api.wire.scan_result import NamedBundle
from kit.object_store import ObjectStore

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BUCKET = "gap-bundles"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket(BUCKET)
        yield running


@pytest.fixture
def s3(store: ObjectStore, tmp_path: Path) -> list[str]:
    (tmp_path / "access").write_text(store.ACCESS_KEY)
    (tmp_path / "secret").write_text(store.SECRET_KEY)
    return [
        f"--s3-endpoint={store.endpoint}",
        f"--s3-access-key-id-file={tmp_path / 'access'}",
        f"--s3-secret-access-key-file={tmp_path / 'secret'}",
    ]


@pytest.fixture
def gaps(kafka: KafkaBroker, topic: TopicFactory) -> str:
    """A gaps topic of 150 partitions, in which partition n misses n events of the first thousand."""
    name = topic()
    chance = random.Random(4)
    keys, values = [], []
    for partition in range(150):
        bitmap = BitMap(sorted(chance.sample(range(1000), partition)))
        keys.append(f"transfer:{partition}:0".encode())
        values.append(struct.pack(">Bqq", 1, 0, 999) + bitmap.serialize())
    kafka.produce(name, values, keys=keys)
    return name


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gapless", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.usefixtures("spark")
def test_a_scan_writes_its_bundle_into_a_bucket(  # noqa: PLR0917 -- fixtures
    kafka: KafkaBroker,
    gaps: str,
    store: ObjectStore,
    s3: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    address, report = f"s3://{BUCKET}/site/scan.json", tmp_path / "report.json"
    source = [f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}"]
    assert run(monkeypatch, "scan", *source, f"--resend-file-name={address}", f"--report={report}", *s3) == 0
    kept = tmp_path / "kept"
    kept.write_bytes(store.content(BUCKET, "site/scan.json"))
    bundle = read_bundle(kept)
    assert bundle.missing == sum(range(150))
    assert bundle.metadata is not None
    said = json.loads(report.read_text())["bundle"]
    assert said == {
        "file": address,
        "id": bundle.metadata.id,
        "sha256": bundle.metadata.sha256,
        "missing": bundle.missing,
    }
    assert "11,175 events are missing" in capfd.readouterr().out


@pytest.mark.usefixtures("spark")
def test_a_bucket_that_takes_nothing_fails_the_scan_in_one_sentence(
    kafka: KafkaBroker, gaps: str, s3: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = [f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}", "--result-lines"]
    assert run(monkeypatch, "scan", *source, "--resend-file-name=s3://other/b", *s3) == 2
    said = capfd.readouterr()
    assert said.err.splitlines()[-1].startswith("gapless: The object s3://other/b at http")
    result = find_result(said.out.splitlines())
    assert (result.report.outcome, result.bundle_gzip) == ("bad-configuration", None)
    assert "(NoSuchBucket)" in result.report.message


@pytest.mark.usefixtures("spark")
def test_a_log_carries_the_whole_bundle_and_the_worst_partitions(
    kafka: KafkaBroker, gaps: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = [f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}"]
    assert run(monkeypatch, "scan", *source, "--resultLine=true") == 0
    said = capfd.readouterr()
    assert all(len(line) <= 12_000 for line in said.out.splitlines())
    assert '"results"' not in said.out, "the bundle is there in one form only"
    assert "11,175 events are missing" in said.err, "people read the other stream"
    result = find_result(said.out.splitlines())
    report = result.report
    found = report.findings
    assert found is not None
    assert (found.missing, report.outcome, report.exit_code) == (11_175, "gaps-found", 0)
    assert len(found.partitions) == 100
    assert (found.partitions_omitted, report.details["partitions_in_all"]) == (50, 150)
    assert report.details["partitions_incomplete"] == 149
    assert [each.partition for each in found.partitions] == list(range(149, 49, -1))
    assert result.bundle_gzip is not None
    bundle = read_bundle_text(unpack_gzip(result.bundle_gzip), name="of the log")
    assert bundle.missing == 11_175
    assert found.missing_ranges == sum(len(entry.ranges) for entry in bundle.results)
    assert bundle.metadata is not None
    assert found.bundle == NamedBundle(
        file=None, id=bundle.metadata.id, sha256=bundle.metadata.sha256, missing=11_175, omitted=False
    )


@pytest.mark.usefixtures("spark")
def test_a_bundle_that_is_too_large_for_the_log_is_left_out_and_said_so(
    kafka: KafkaBroker, gaps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = [
        f"--bootstrap-servers={kafka.bootstrap}",
        f"--topic={gaps}",
        "--result-lines",
        "--result-bundle-limit=5000",
    ]
    file = tmp_path / "bundle.json"
    assert run(monkeypatch, "scan", *source, f"--resend-file-name={file}") == 0
    result = find_result(capfd.readouterr().out.splitlines())
    assert result.bundle_gzip is None
    assert result.report.findings is not None
    named = result.report.findings.bundle
    assert named.omitted
    assert named.sha256 == getattr(read_bundle(file).metadata, "sha256", None)


def test_spark_submit_runs_the_commands_with_executors_of_their_own(
    kafka: KafkaBroker, gaps: str, tmp_path: Path
) -> None:
    """As a SparkApplication does: a main file somewhere, a properties file, and executors that are other programs."""
    import pyspark  # noqa: PLC0415 -- only for its folder

    # As in the image: spark-submit takes a program for Python only if its name ends so.
    main = tmp_path / "gapless.py"
    shutil.copy(Path(__file__).parents[3] / "images" / "bin" / "gapless", main)
    settings = tmp_path / "scan.properties"
    settings.write_text(f"bootstrapServers={kafka.bootstrap}\ntopic={gaps}\nresultLines=true\nparallelism=3\n")
    # Executors write into Spark's own folder, so it gets one of its own.
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    submit: list[Any] = [
        home / "bin" / "spark-submit", "--driver-memory", "512m",
        "--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # half of the processor time
    }
    done = subprocess.run(
        [*submit, "--master", "local-cluster[2,1,512]", main, "scan", settings],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = find_result(done.stdout.splitlines())
    assert result.report.findings is not None
    assert result.report.findings.missing == 11_175
    assert result.report.read_by == "spark"
    assert result.bundle_gzip is not None
    executors = list((home / "work").glob("app-*/*/stderr"))
    assert len(executors) == 2
    settings.write_text(f"bootstrapServers={kafka.bootstrap}\ntopic=no-such-topic\nresultLines=true\n")
    failed = subprocess.run(
        [*submit, "--master", "local[1]", main, "scan", settings],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert failed.returncode == 2, "the exit code passes through spark-submit"
    assert find_result(failed.stdout.splitlines()).report.outcome == "topic-missing"
