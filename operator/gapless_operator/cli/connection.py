"""How a command of a user reaches the API server, and with which exit code it ends when a request fails.

Must not know what is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_operator.shell.api.errors import ApiError, NotFoundError, RefusedError, UnauthorizedError

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi


def cluster_api() -> ClusterApi:
    """Return the API server of KUBECONFIG, or of the cluster that this pod runs in. Raises ConfigurationError."""
    from gapless_operator.shell.api.client import ClusterApi as Api  # noqa: PLC0415 -- --help needs no client
    from gapless_operator.shell.api.transport import api_client  # noqa: PLC0415

    return Api(api_client())


def as_ours(error: ApiError) -> ConfigurationError | SourceUnreachableError:
    """Return the error with the exit code for a failed request; a command does not retry it, as the operator does."""
    if isinstance(error, RefusedError | NotFoundError | UnauthorizedError):
        return ConfigurationError(str(error))
    return SourceUnreachableError(str(error).replace("; retrying", "; run this again"))
