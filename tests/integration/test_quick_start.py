"""The class archive, with which Spark's JVM starts in half the time, is used in any order of a folder's entries."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.integration

PROGRAM = """
import sys
from pathlib import Path
from gapless_spark.runtime import session as sessions

task, archive = sys.argv[1], Path(sys.argv[2])
if task == "use":
    sessions.startup_archive = lambda: archive
with sessions.session(sessions.Engine(task, archive_to=archive if task == "make" else None)) as spark:
    print(spark.range(3).count())
"""


def count(task: str, archive: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Make the archive or use it, in a process without the session of other tests; Java ends if it cannot use it."""
    java = {"JAVA_TOOL_OPTIONS": "-Xshare:on"} if task == "use" else {}
    environment = {**os.environ, "SPARK_HOME": str(home), **java}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, task, str(archive)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Spark with a folder of jar files of its own."""
    installed, home = Path(pyspark.__file__).parent, tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for jar in (installed / "jars").glob("*.jar"):
        (home / "jars" / jar.name).symlink_to(jar)
    (home / "bin").symlink_to(installed / "bin")
    return home


def test_an_archive_is_used_after_the_folder_of_jar_files_has_another_order(spark_home: Path, tmp_path: Path) -> None:
    archive, jars = tmp_path / "startup.jsa", spark_home / "jars"
    made = count("make", archive, spark_home)
    assert made.stdout == "3\n", made.stderr
    before = [jar.name for jar in jars.iterdir()]
    for number in range(9):  # where names decide about the order, some of them come before others
        with zipfile.ZipFile(jars / f"zz-{number}.jar", "w"):
            pass
    for jar in sorted(jars.glob("*.jar"))[:3]:  # where times decide, these come last
        installed = jar.readlink()
        jar.unlink()
        jar.symlink_to(installed)
    assert [jar.name for jar in jars.iterdir()][: len(before)] != before
    used = count("use", archive, spark_home)
    assert used.stdout.endswith("3\n"), used.stderr

    min(jars.iterdir()).rename(jars / "zzz.jar")
    refused = count("use", archive, spark_home)
    assert refused.returncode == 1
    assert "Spark cannot start Java" in refused.stderr
