"""Owns what to install when an optional package is missing; must not know which program needs it."""

from __future__ import annotations

from gapless_api.base.errors import ConfigurationError

EXTRAS = {
    "cronsim": "gapless-api[schedule]",
    "obstore": "gapless-archive[s3]",
    "prometheus_client": "gapless-api[metrics]",
    "pyarrow": "gapless-archive[parquet]",
    "pyspark": "gapless-spark",
    "segno": "gapless-api[qr]",
    "tzdata": "gapless-api[schedule]",
}
"""By module: the package of ours, with its extra, that has it."""
WHERE = "from the release or the source that this program came from; no public index has it"
"""Nobody has registered our names: a package that a public index offers under one of them is somebody else's."""


def not_installed(module: str) -> ConfigurationError:
    """Return the error for an optional module of `EXTRAS` that is not installed."""
    return ConfigurationError(
        f"not installed: this needs the Python package {module}; install it, or {EXTRAS[module]} {WHERE}."
    )
