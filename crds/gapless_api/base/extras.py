"""What to install when an optional package is missing; must not know which program needs it."""

from __future__ import annotations

from importlib import metadata

from gapless_api.base.errors import ConfigurationError

EXTRAS = {
    "aws_msk_iam_sasl_signer": "msk",
    "cronsim": "",
    "jinja2": "",
    "obstore": "archive",
    "prometheus_client": "",
    "pyarrow": "archive",
    "pyspark": "spark",
    "segno": "qr",
    "tzdata": "",
}
"""By module: the extra of the package `gapless` that brings it; "" for what `gapless` brings without an extra."""


def how_to_install(extra: str = "") -> str:
    """Return what to run to install `gapless` with an extra.

    It names the folder of the release, and no index: nobody has registered our names, so that a package which a public
    index offers under one of them is somebody else's.
    """
    package = f"gapless[{extra}]" if extra else "gapless"
    return (
        f"pip install --no-index --find-links=WHEELS '{package}', where WHEELS is the folder wheels of "
        f"release {metadata.version('gapless-api')}"
    )


def not_installed(module: str) -> ConfigurationError:
    """Return the error for an optional module of `EXTRAS` that is not installed."""
    extra = EXTRAS[module]
    brings = f"the extra {extra} of gapless" if extra else "gapless"
    return ConfigurationError(
        f"not installed: this needs the Python package {module}, which {brings} brings; {how_to_install(extra)}."
    )
