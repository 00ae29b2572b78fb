"""``gapless mirror evaluate``: it answers workers until it is stopped, or until Java has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.log import configure_logging
from gapless_mirror.workers.process import StopSignals
from gapless_spark.mirror.evaluator import evaluator
from gapless_spark.runtime.session import Engine
from gapless_spark.settings.evaluate import EvaluateSettings

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved

_POLL_SECONDS = 0.2
log = structlog.get_logger("mirror")


def run(settings: Resolved) -> int:
    """Answer workers.

    Raises:
        StoppedError: a signal has stopped it.
        GaplessError: it cannot start, or Java has ended.
    """
    typed = EvaluateSettings.of(settings.values)
    configure_logging(typed.log_level, typed.log_file_name)
    for variable in settings.unknown_variables:
        log.warning("unknown environment variable", variable=variable)
    engine = Engine("gapless mirror evaluate", typed.master, typed.driver_memory, computes=True)
    with StopSignals() as signals, evaluator(engine, typed.transform_socket) as answers:
        log.info("evaluator listens", socket=str(typed.transform_socket))
        while signals.number is None and answers.is_alive:
            time.sleep(_POLL_SECONDS)
    if signals.number is None:
        raise ConfigurationError(
            f"Java has ended, probably because the machine or the container is out of memory; give it more than "
            f"driverMemory={typed.driver_memory} and what Python needs, and start it again."
        )
    raise signals.stopped()
