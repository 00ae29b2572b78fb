"""How a Spark session starts and stops: local and fast by default, without output, and without leftover files.

Must not know what a job does with it. In local mode this process starts the JVM, so that its output goes to a separate
log file; under spark-submit the JVM runs already, and the session is used as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, GaplessError, LocalStorageError
from gapless_api.base.extras import not_installed
from gapless_spark.runtime.gateway_log import silence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SUPPORTED = (17, 21)
_HOW = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"


def check_java() -> None:
    """Check that Spark supports the ``java`` that it will start.

    Raises:
        ConfigurationError: there is none, it does not run, or it has another version.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if program is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise ConfigurationError(f"Spark needs Java 17 or 21, but there is no java {place}; {_HOW}.")
    version = _version_of_release_file(Path(program)) or _version_of_program(program)
    if version not in _SUPPORTED:
        found = f"{program} is Java {version}" if version else f"the version of {program} is unknown"
        raise ConfigurationError(f"Spark needs Java 17 or 21, but {found}; {_HOW}.")


def _version_of_release_file(program: Path) -> int | None:
    """Read the version from the file ``release`` of a JDK, which is faster than starting a JVM."""
    try:
        text = (program.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return _major(text, r'^JAVA_VERSION="([0-9.]+)')


def _version_of_program(program: str) -> int | None:
    try:
        ended = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(ended.stderr, r'version "([0-9.]+)')


def _major(text: str, pattern: str) -> int | None:
    """Return the major version; 1 for Java 8 and older, which call themselves 1.x."""
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1].split(".")[0]) if match else None


_ONE_COLLECTOR = "-XX:+UseSerialGC"
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1", _ONE_COLLECTOR)
"""The JVM only distributes the work to Python and librdkafka: the second compiler, further threads of the first and a
concurrent collector cost more than they gain."""
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
"""The signals that a command may take for a stop."""
_CANCEL_SECONDS = 5.0
"""How long a signal waits for Java to cancel the jobs."""
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set if spark-submit has started this process."""
_SECRETS = r"(?i)secret|password|token|access[.]?key|jaas|ssl[.](key|trust)store"


@dataclass(frozen=True, slots=True)
class Engine:
    """The options of a session."""

    name: str
    master: str = "local[*]"
    driver_memory: str = "1g"
    computes: bool = False
    """Whether the JVM computes much itself, and for long: it then optimizes its code like other programs."""
    archive_to: Path | None = None
    """Where to write the class archive that speeds up later starts."""


def startup_archive() -> Path:
    """Return the path of the class archive, in the installation. It need not exist."""
    return Path(sys.prefix) / "share" / "gapless" / "startup.jsa"


def is_local(master: str) -> bool:
    """Whether Spark would run on this machine only; under spark-submit it may have others."""
    return master.startswith("local") and _SUBMITTED not in os.environ


def is_installed() -> bool:
    """Whether PySpark is: an extra of the package `gapless`."""
    return find_spec("pyspark") is not None


@contextlib.contextmanager
def session(engine: Engine) -> Iterator[SparkSession]:
    """Start a session, and stop it and its JVM and delete its files after the block; an active session is reused.

    Raises:
        ConfigurationError: PySpark is not installed, Spark does not support this Java, or Java does not start.
        LocalStorageError: the folder for temporary files cannot be created.
    """
    if not is_installed():
        raise not_installed("pyspark")
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- slow to import

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    silence()
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in _STOPPING}
    if _SUBMITTED in os.environ:
        submitted = _tuned(SparkSession.builder.appName(engine.name)).getOrCreate()
        submitted.sparkContext.setLogLevel("ERROR")
        try:
            with _stoppable(submitted, handlers):
                yield submitted
        finally:
            submitted.stop()
        return
    check_java()
    folder = temporary_folder()
    try:
        with _own_java(engine, folder) as started, _stoppable(started, handlers):
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _stoppable(started: SparkSession, handlers: Mapping[int, Any]) -> Iterator[None]:
    """Cancel the jobs of a session if a handler of the command raises an exception.

    PySpark waits until a job has ended before an exception goes on, however long that takes. Its own handler of SIGINT
    gives way to the command's: it asks Java in the thread that may be waiting for an answer of Java already.

    Args:
        started: the session.
        handlers: those of the command, by the number of the signal.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException:
            cancelling = threading.Thread(target=_cancel_jobs, args=(started,), daemon=True)
            cancelling.start()  # each thread has a connection to Java of its own
            cancelling.join(_CANCEL_SECONDS)
            raise

    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread
        return
    for number, handler in handlers.items():
        signal.signal(number, handle if callable(handler) else handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _cancel_jobs(started: SparkSession) -> None:
    with contextlib.suppress(Exception):  # Java has ended, and its jobs with it
        started.sparkContext.cancelAllJobs()


def temporary_folder() -> Path:
    """Create a folder for the temporary files of Spark and Java. Raises LocalStorageError."""
    try:
        return Path(tempfile.mkdtemp(prefix="gapless-spark-"))
    except OSError as error:
        raise LocalStorageError(
            f"Spark cannot create a folder for its temporary files ({error.strerror}); set TMPDIR to a folder that "
            f"this user may write to."
        ) from None


@contextlib.contextmanager
def _own_java(engine: Engine, folder: Path) -> Iterator[SparkSession]:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    conf = _tuned(SparkConf(loadDefaults=False))
    conf.set("spark.app.name", engine.name).set("spark.master", engine.master)
    conf.set("spark.driver.memory", engine.driver_memory)
    conf.set("spark.local.dir", str(folder)).set("spark.sql.warehouse.dir", str(folder / "warehouse"))
    conf.set("spark.driver.extraJavaOptions", " ".join(_java_options(engine, folder)))
    conf.set("spark.driver.extraClassPath", _jars())
    if is_local(engine.master):
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    log = folder / "java.log"
    gateway = None
    with log.open("wb") as stream:
        try:
            with _environment(SPARK_LAUNCHER_OPTS=" ".join(_QUICK_START), PYSPARK_PYTHON=sys.executable):
                # Spark creates a folder in the JVM's working directory, whatever its settings.
                gateway = launch_gateway(conf, {"stdout": stream, "stderr": stream, "cwd": folder})
                started = SparkSession(SparkContext(conf=conf, gateway=gateway))
        except PySparkRuntimeError as error:
            if gateway is not None:
                _end(gateway)
            raise ConfigurationError(
                f"Spark cannot start Java ({_reason(log)}); check JAVA_HOME, JAVA_TOOL_OPTIONS and driverMemory."
            ) from error
        try:
            yield started
        finally:
            _stop(started, gateway)


def machine_failure(text: str, engine: Engine) -> GaplessError | None:
    """Return the error of this machine that the text of an exception of Spark reports; ``None`` for other errors."""
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return LocalStorageError(
            f"There is no space for Spark's temporary files in {tempfile.gettempdir()}; free some space, or set TMPDIR "
            f"to a larger folder."
        )
    if "java.lang.OutOfMemoryError" in text:
        return ConfigurationError(f"Spark needs more memory than driverMemory={engine.driver_memory}; increase it.")
    return None


def _tuned(conf: Any) -> Any:
    """Set the options of all sessions; `conf` is a SparkConf or a session's builder."""
    set_option = conf.set if hasattr(conf, "set") else conf.config
    cores = os.cpu_count() or 2
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": _SECRETS,
        "spark.executor.syncLogLevel.enabled": "true",  # the driver's level, which hides records, holds there as well
        "spark.speculation": "false",  # do not read a slice twice at the same time
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.heartbeatInterval": "2s",  # reports the progress of tasks; the default is 10 s
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",  # of bitmaps of up to 128 KiB
        "spark.sql.codegen.wholeStage": "false",  # few rows reach the JVM
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.python.daemon.module": "gapless_spark.runtime.worker_daemon",
    }
    for name, value in options.items():
        set_option(name, value)
    return conf


def _java_options(engine: Engine, folder: Path) -> list[str]:
    quiet = resources.files("gapless_spark.runtime") / "log4j2.properties"
    options = ["-Xlog:disable", f"-Dlog4j2.configurationFile={quiet}", f"-Djava.io.tmpdir={folder}"]
    options += (_ONE_COLLECTOR,) if engine.computes else _QUICK_START
    if engine.archive_to is not None:
        options.append(f"-XX:ArchiveClassesAtExit={engine.archive_to}")
    elif startup_archive().is_file():
        # Java ignores an archive that was made by another Java or for another Spark.
        options.append(f"-XX:SharedArchiveFile={startup_archive()}")
    return options


def _jars() -> str:
    """Return the jar files of Spark by name; Spark adds the folder of them after it.

    Java only uses a class archive with the jar files in the order of when it was made, and the order of a folder is
    another one on each file system: on another node than where the image was made, for example.
    """
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415

    return os.pathsep.join(map(str, sorted(Path(_find_spark_home(), "jars").glob("*.jar"))))


def _stop(started: Any, gateway: Any) -> None:
    """Stop the session and the JVM without waiting a second for the accumulator server, as PySpark would."""
    server = started.sparkContext._accumulatorServer  # noqa: SLF001
    started.sparkContext._accumulatorServer = None  # noqa: SLF001
    try:
        started.stop()
    except Exception:
        if gateway.proc.poll() is None:
            raise
        # Java has ended before, and the session with it.
    server.handle_error = lambda *_: None  # the JVM has closed its connection
    _end(gateway)
    threading.Thread(target=server.shutdown, daemon=True).start()


def _end(gateway: Any) -> None:
    """Let the JVM exit, which it does when its input is closed; it may have to write a class archive."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    # PySpark would reuse both for the next session of this process, although they are closed.
    from pyspark import SparkContext  # noqa: PLC0415

    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001


def _reason(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith(("WARNING:", "at ", "..."))]
    reasons = [line for line in messages if "rror" in line or "xception" in line or "Could not" in line]
    return "; ".join((reasons or messages[-1:] or ["no output"])[:2])[:200]


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables that are not set yet, for the programs that are started inside the block."""
    missing = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
