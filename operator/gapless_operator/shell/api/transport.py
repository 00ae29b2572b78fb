"""The connection to the API server: requests, responses and timeouts; must not know which objects exist.

The official client handles connections, certificates and tokens. Everything blocks, so it is called from threads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from gapless_api.base.errors import ConfigurationError
from gapless_operator.shell.api.errors import UnavailableError, error_of
from gapless_operator.shell.api.server_clock import ServerClock

if TYPE_CHECKING:
    from gapless_operator.common.plan import Manifest

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 30.0


def is_in_pod() -> bool:
    """Whether the cluster is the one that this pod runs in, and not that of KUBECONFIG."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def api_client() -> ApiClient:
    """Return a client for the cluster that this pod runs in, or for the one of KUBECONFIG.

    Raises:
        ConfigurationError: there is neither.
    """
    settings = Configuration()
    try:
        if is_in_pod():
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            # Without a file, the library uses the value that the variable had when it was imported.
            file = os.environ.get("KUBECONFIG") or None
            config.load_kube_config(config_file=file, client_configuration=settings)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise ConfigurationError(
            f"No cluster is configured ({error}); run the operator in a pod with a service account, or set KUBECONFIG."
        ) from None
    # The work queue retries requests; only a connection that cannot be opened is retried at once.
    settings.retries = urllib3.Retry(
        total=2, connect=2, read=False, redirect=0, status=0, other=0, respect_retry_after_header=False
    )
    settings.connection_pool_maxsize = 16
    return ApiClient(settings)


class Transport:
    """Sends requests and reads their responses."""

    def __init__(
        self,
        client: ApiClient,
        *,
        instance: str = "gapless-operator",
        clock: ServerClock | None = None,
        on_request: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare it; nothing is sent.

        Args:
            client: with connections and credentials.
            instance: name of this process in events.
            clock: updated with the time of the API server.
            on_request: called with the method of every request.
        """
        self._client = client
        self._instance = instance
        self._clock = clock or ServerClock()
        self._on_request = on_request

    @classmethod
    def connect(cls, *, instance: str, clock: ServerClock, on_request: Callable[[str], None]) -> Self:
        """Connect to the cluster that `api_client` finds.

        Raises:
            ConfigurationError: there is none.
        """
        return cls(api_client(), instance=instance, clock=clock, on_request=on_request)

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        response = self._request(method, path, query, body, headers)
        content = json.loads(response.data)
        return content if isinstance(content, dict) else {}

    def _request(  # noqa: PLR0913 -- the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        read_seconds: float = _READ_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        self._on_request(method)
        usual = {"Accept": "application/json, */*"} | ({"Content-Type": "application/json"} if body is not None else {})
        address = f"{path}?{urlencode(query)}" if query else path
        request = self._client.param_serialize(
            method, address, header_params=usual | dict(headers or {}), auth_settings=["BearerToken"]
        )
        timeout = (_CONNECT_SECONDS, read_seconds)
        try:
            response = self._client.call_api(*request[:3], body, _request_timeout=timeout).response
            self._clock.update(response.headers.get("Date"))
            if response.status < 300:
                return response  # type: ignore[no-any-return]
            content = response.data
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            raise UnavailableError(f"The API server cannot be reached ({_cause(error)}); retrying.") from None
        raise error_of(method, path, response.status, content)


def _cause(error: Exception) -> str:
    """Return the last part of an error of the HTTP library."""
    reason = getattr(error, "reason", None) or error
    return str(reason).rpartition(": ")[2][:200] or type(reason).__name__
