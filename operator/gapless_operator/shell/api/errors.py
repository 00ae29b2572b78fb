"""Owns the errors of the API server, which say whether trying again can help; must not know what was requested."""

from __future__ import annotations

import json

_LIST_EXPIRED = 410


class ApiError(Exception):
    """The API server did not do what was asked; the service tries again, so that no exit code stands for it."""


class UnavailableError(ApiError):
    """It cannot be reached, is overloaded or failed; the same again may go well."""


class ConflictError(ApiError):
    """The object has changed; read it again."""


class RefusedError(ApiError):
    """It will not do this: no right, a quota, an admission policy, or an object that is not valid."""


class NotFoundError(ApiError):
    """There is no such object, namespace or kind."""


class ExpiredError(ApiError):
    """The rest of a list has expired, because it took too long; list again."""


def error_of(method: str, path: str, status: int, content: bytes) -> ApiError:
    """The error that an answer of the API server stands for."""
    try:
        message = json.loads(content).get("message", "")
    except (ValueError, AttributeError):
        message = content[:200].decode("utf-8", "replace")
    sentence = f"The API server answers {method} {path} with {status}: {message.rstrip('.')}."
    if status == 404:
        return NotFoundError(sentence)
    if status == 409:
        return ConflictError(sentence)
    if status == _LIST_EXPIRED:
        return ExpiredError(sentence)
    if status in {408, 429} or status >= 500:
        return UnavailableError(sentence)
    return RefusedError(sentence)
