"""The start of the operator: settings, logs, exit code; must not know what the operator does."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.log import configure_logging
from gapless_operator.common.settings import OperatorSettings, read_settings

if TYPE_CHECKING:
    from gapless_operator.shell.service import Service

_LEVELS = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}
_MAX_MESSAGE_LENGTH = 500
_MALLOC = {-1: 128 * 1024, -3: 64 * 1024, -8: 2}
"""mallopt(3): M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX. Lists with bundles of 100 KB are read by many threads;
glibc would keep the freed memory in an arena per thread."""


class _ToStructlog(logging.Handler):
    """Writes log records of libraries as warnings in our own format; only our own code logs errors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        log = structlog.get_logger(record.name)
        problem: Any = record.exc_info or None
        log.warning("library", logger=record.name, message=record.getMessage()[:_MAX_MESSAGE_LENGTH], exc_info=problem)


def main(make_service: Callable[[OperatorSettings], Service] | None = None) -> None:
    """Run the operator until a signal, then exit.

    Args:
        make_service: creates the service; ``None`` for `Service`.
    """
    settings = read_settings(sys.argv[1:], os.environ)
    with contextlib.suppress(AttributeError, OSError):  # The C library is not glibc.
        libc = ctypes.CDLL(None)
        for parameter, value in _MALLOC.items():
            libc.mallopt(parameter, value)
    try:
        configure_logging(_LEVELS[settings.log_level], None, json=True)
        # Of Kopf only the warnings are of interest.
        logging.basicConfig(handlers=[_ToStructlog()], level=logging.WARNING, force=True)
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # It expects the main thread.
        logging.getLogger("urllib3").setLevel(logging.ERROR)  # Callers log failed requests.
        logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # Failed probes are expected.
        logging.captureWarnings(capture=True)
        if make_service is None:
            from gapless_operator.shell.service import Service  # noqa: PLC0415 -- Kopf is slow to import; --help is not

            make_service = Service
        sys.exit(asyncio.run(make_service(settings).run()))
    except GaplessError as error:
        sys.stderr.write(f"gapless-operator: {error}\n")
        sys.exit(ExitCode.BAD_CONFIGURATION)
