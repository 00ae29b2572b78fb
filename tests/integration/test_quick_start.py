"""The class archive, with which Spark's JVM starts in half the time, is used in any order of a folder's entries."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark
import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_spark.runtime import session as sessions
from gapless_spark.runtime.session import Engine, session

pytestmark = pytest.mark.integration


def count(engine: Engine) -> int:
    with session(engine) as spark:
        return spark.range(3).count()


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark with a folder of jar files of its own."""
    installed, home = Path(pyspark.__file__).parent, tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for jar in (installed / "jars").glob("*.jar"):
        (home / "jars" / jar.name).symlink_to(jar)
    (home / "bin").symlink_to(installed / "bin")
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # PySpark leaves the pipe to a Java that ends
def test_an_archive_is_used_after_the_folder_of_jar_files_has_another_order(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, jars = tmp_path / "startup.jsa", spark_home / "jars"
    assert count(Engine("make", archive_to=archive)) == 3
    monkeypatch.setattr(sessions, "startup_archive", lambda: archive)
    # Java ends if it would not use the archive.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xshare:on")
    before = [jar.name for jar in jars.iterdir()]
    for number in range(9):  # where names decide about the order, some of them come before others
        with zipfile.ZipFile(jars / f"zz-{number}.jar", "w"):
            pass
    for jar in sorted(jars.glob("*.jar"))[:3]:  # where times decide, these come last
        installed = jar.readlink()
        jar.unlink()
        jar.symlink_to(installed)
    assert [jar.name for jar in jars.iterdir()][: len(before)] != before
    assert count(Engine("use")) == 3

    min(jars.iterdir()).rename(jars / "zzz.jar")
    with pytest.raises(ConfigurationError, match="Spark cannot start Java"):
        count(Engine("refuse"))
