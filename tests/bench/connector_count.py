"""A plain count() and a plain write of a topic with Spark's Kafka connector, as references for our jobs.

Only the benchmarks depend on the connector. It gets its best configuration: the newer of its two sources, a class
archive of its own, and Java's C2 compiler for more than a few seconds of work.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.topic_offsets import read_cut
from kit.machine.maven import file_lock, jars_of

if TYPE_CHECKING:
    from gapless_kafka.reading.cuts import TopicCut

_SHORT_WORK = 200_000
_HOTTEST_ONLY = [
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
]
"""C2 compiles ten times later than by default; otherwise it takes longer than the work itself."""
_NEEDED = ("spark-sql-kafka-0-10_", "spark-token-provider-kafka-0-10_", "kafka-clients-", "commons-pool2-")


def _jars() -> list[Path]:
    pom = Path(__file__).with_name("connector-pom.xml")
    jars = jars_of(pom, "spark-connector-4.2.0", "Spark's Kafka connector 4.2.0 (by Maven)")
    return [jar for jar in jars if jar.name.startswith(_NEEDED)]


def _archive(jars: list[Path]) -> Path:
    return jars[0].parent / "count.jsa"


def count(bootstrap: str, topic: str, *, master: str, cores: int, archive_to: Path | None = None) -> int:
    """Count the keys of all committed records."""
    cut = _cut(bootstrap, topic)
    spark = _session(cut.offsets <= _SHORT_WORK, master=master, cores=cores, archive_to=archive_to)
    counted = spark.read.format("kafka").options(**_kafka_options(bootstrap, cut, cores)).load().select("key").count()
    _end(spark)
    return int(counted)


def write(bootstrap: str, topic: str, folder: str, *, master: str, cores: int) -> int:
    """Write all columns of all committed records as Parquet with zstd, and return the bytes of the files."""
    cut = _cut(bootstrap, topic)
    spark = _session(short=False, master=master, cores=cores)
    options = {**_kafka_options(bootstrap, cut, cores), "includeHeaders": "true"}
    records = spark.read.format("kafka").options(**options).load()
    options = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
    records.write.options(**options).mode("overwrite").parquet(folder)
    _end(spark)
    return sum(file.stat().st_size for file in Path(folder).glob("*.parquet"))


def _cut(bootstrap: str, topic: str) -> TopicCut:
    (found,) = read_cut(KafkaConnection(bootstrap_servers=bootstrap), [topic], timeout_seconds=30).topics
    return found


def _session(short: bool, *, master: str, cores: int, archive_to: Path | None = None) -> SparkSession:  # noqa: FBT001
    jars = _jars()
    java = ["-Xlog:disable", "-XX:+UseSerialGC"]
    java.append(f"-XX:ArchiveClassesAtExit={archive_to}" if archive_to else f"-XX:SharedArchiveFile={_archive(jars)}")
    java += ["-XX:TieredStopAtLevel=1"] if short else _HOTTEST_ONLY
    options = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.adaptive.enabled": "false",
        # The older source, Spark's default, converts each record to a row twice and back.
        "spark.sql.sources.useV1SourceList": "",
        "spark.sql.codegen.wholeStage": str(not short).lower(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(master).appName("count")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _end(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # so that the usage of Java is added to this process


def _kafka_options(bootstrap: str, cut: TopicCut, cores: int) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({cut.topic: list(range(len(cut.end_offsets)))}),
        "startingOffsets": json.dumps({cut.topic: dict(enumerate(cut.first_offsets))}),
        "endingOffsets": json.dumps({cut.topic: dict(enumerate(cut.end_offsets))}),
        "minPartitions": str(cores),
    }


def prepare(bootstrap: str, topic: str, *, master: str, cores: int) -> None:
    """Download the connector and create its class archive, once per machine."""
    jars = _jars()
    archive = _archive(jars)
    with file_lock(archive.with_suffix(".lock")):
        if not archive.exists():
            count(bootstrap, topic, master=master, cores=cores, archive_to=archive)


def main() -> int:
    """Run `count`, `write` or `prepare`, as the first argument says."""
    action, bootstrap, topic, master, cores, *folder = sys.argv[1:]
    if action == "prepare":
        prepare(bootstrap, topic, master=master, cores=int(cores))
    elif action == "write":
        print(write(bootstrap, topic, folder[0], master=master, cores=int(cores)))
    else:
        print(count(bootstrap, topic, master=master, cores=int(cores)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
