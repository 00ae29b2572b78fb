"""The errors of the API server, by whether a retry can help; must not know what was requested."""

from __future__ import annotations

import json

_LIST_EXPIRED = 410


class ApiError(Exception):
    """A request to the API server failed; the service retries it, so it has no exit code."""


class UnavailableError(ApiError):
    """The API server cannot be reached, is overloaded or failed; a retry may succeed."""


class UnauthorizedError(UnavailableError):
    """The API server does not accept the credentials, which says nothing of the objects.

    The token of a pod is replaced in time, and an API server that starts may refuse a good one.
    """


class ConflictError(ApiError):
    """The object has changed; read it again."""


class RefusedError(ApiError):
    """The API server refused the request: no permission, a quota, an admission policy, or an invalid object."""


class NotFoundError(ApiError):
    """The object, namespace or kind does not exist."""


class ExpiredError(ApiError):
    """The rest of a list has expired, because it took too long; list again."""


def error_of(method: str, path: str, status: int, content: bytes) -> ApiError:
    """Return the error for a response of the API server."""
    try:
        message = json.loads(content).get("message", "")
    except (ValueError, AttributeError):
        message = content[:200].decode("utf-8", "replace")
    sentence = f"The API server answered {method} {path} with {status}: {message.rstrip('.')}."
    if status == 401:
        return UnauthorizedError(sentence)
    if status == 404:
        return NotFoundError(sentence)
    if status == 409:
        return ConflictError(sentence)
    if status == _LIST_EXPIRED:
        return ExpiredError(sentence)
    if status in {408, 429} or status >= 500:
        return UnavailableError(sentence)
    return RefusedError(sentence)
