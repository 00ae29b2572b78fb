"""Java processes with Spark that outlive a command, so that the next command with Spark need not start one.

A command finds the process as it does under spark-submit: by the port and the secret of a gateway in its environment.
The product's own start of Java is left out by that; it is tested wherever nothing is lent. Must not know what runs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_OPTIONS = "-Xlog:disable -XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -XX:+UseSerialGC"
_idle: list[SparkJava] = []


class SparkJava:
    """A Java process in which one command after the other has a session, with two cores. It ends with this process."""

    def __init__(self) -> None:
        from pyspark import SparkConf  # noqa: PLC0415 -- slow to import, and few tests need it
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

        self._folder = Path(tempfile.mkdtemp(prefix="gapless-kit-spark-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        conf = SparkConf(loadDefaults=False)
        for name, value in {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{_OPTIONS} -Djava.io.tmpdir={self._folder}",
            "spark.local.dir": str(self._folder),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }.items():
            conf.set(name, value)
        null = subprocess.DEVNULL
        self._gateway: Any = launch_gateway(conf, {"stdout": null, "stderr": null, "cwd": self._folder})
        parameters = self._gateway.gateway_parameters
        self.environment = {
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
            "PYSPARK_PYTHON": sys.executable,
        }
        """What a command needs in its environment to use it."""

    @property
    def is_free(self) -> bool:
        """Whether it runs, and no command left a session in it."""
        if self._gateway.proc.poll() is not None:
            return False
        contexts = getattr(getattr(self._gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        return not contexts.getActive().isDefined()

    def end(self) -> None:
        """Kill it; its tasks end with it."""
        self._gateway.proc.kill()
        self._gateway.proc.wait()
        self._gateway.proc.stdin.close()


def borrow(arguments: Sequence[str | os.PathLike[str]]) -> SparkJava | None:
    """Return a process for a command with these arguments; ``None`` if they do not say that it uses Spark."""
    if "--engine=spark" not in map(str, arguments):
        return None
    return _idle.pop() if _idle else SparkJava()


def give_back(java: SparkJava | None) -> None:
    """Keep the process for the next command if the last one has stopped its session, and end it if it was killed."""
    if java is None:
        return
    if java.is_free:
        _idle.append(java)
    else:
        java.end()


@contextlib.contextmanager
def lent(arguments: Sequence[str | os.PathLike[str]]) -> Iterator[dict[str, str]]:
    """Lend a process to a command while the block runs it; yield what to add to its environment."""
    java = borrow(arguments)
    try:
        yield java.environment if java is not None else {}
    finally:
        give_back(java)
