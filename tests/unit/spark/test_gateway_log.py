"""What the library between Python and Java logs is kept from the log, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from gapless_spark.runtime import gateway_log

WAYS = {"root": logging.getLogger(), "own": logging.getLogger("py4j.clientserver")}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    level, filters = logging.getLogger("py4j").level, list(logging.getLogger().filters)
    yield
    logging.getLogger("py4j").setLevel(level)
    logging.getLogger().filters[:] = filters


def logged_from(path: str, logger: logging.Logger) -> None:
    code = compile("logger.error('secret')", path, "exec")
    exec(code, {"logger": logger})  # noqa: S102 -- the file that logs is what counts


@pytest.mark.parametrize("way", list(WAYS))
def test_the_library_logs_nothing(way: str, caplog: pytest.LogCaptureFixture) -> None:
    gateway_log.silence()
    gateway_log.silence()
    logged_from("/usr/lib/python3/py4j/java_gateway.py", WAYS[way])
    assert caplog.records == []


def test_others_log_as_before(caplog: pytest.LogCaptureFixture) -> None:
    gateway_log.silence()
    logged_from("/usr/lib/python3/site-packages/other/py4j.py", logging.getLogger())
    logged_from("/usr/lib/python3/gapless_spark/py4j/x/job.py", logging.getLogger("mirror"))
    assert len(caplog.records) == 2
    logging.getLogger().error("from here")
    assert caplog.records[-1].message == "from here"
