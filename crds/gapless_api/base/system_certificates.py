"""Which CA certificates verify a server: those of a setting, or those of the system.

Must not know the server. OpenSSL's variable names the file of the system if it is not where distributions keep it; the
clients of Kafka and of object stores do not read the variable themselves.
"""

from __future__ import annotations

import os
from pathlib import Path

from gapless_api.base.errors import ConfigurationError

SYSTEM_CERTIFICATES = "SSL_CERT_FILE"
"""The variable."""


def trusted_certificates(file: Path | None) -> Path | None:
    """Return the file with the CA certificates (PEM); ``None`` for where distributions keep those of the system.

    Args:
        file: of the setting; ``None`` if it is not given.

    Raises:
        ConfigurationError: the file of the system cannot be read. Its content is the system's own, and not checked: it
            may well have certificates that are strange.
    """
    name = os.environ.get(SYSTEM_CERTIFICATES)
    if file is not None or not name:
        return file
    if not Path(name).is_file() or not os.access(name, os.R_OK):
        raise ConfigurationError(
            f"{SYSTEM_CERTIFICATES} names {name}, which is no file that can be read; correct it, or remove the "
            f"variable."
        )
    return Path(name)
