"""Who may read the metrics: accounts that Kubernetes authenticates and authorizes for ``get /metrics``.

Must not know what is served, nor how. Metrics contain the names of topics that lose events, so not everyone on the
network may read them. Tokens are cached as digests, and only until an answer expires.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gapless_operator.shell.api.errors import ApiError
from gapless_operator.shell.api.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

METRICS_PATH = "/metrics"
_GOOD_FOR_SECONDS, _BAD_FOR_SECONDS = 60.0, 10.0
"""How long an answer is cached; a revoked token works for a minute more."""
_MAX_ANSWERS = 1000
"""Of each kind: granted ones are cached separately, so that a flood of bad tokens does not evict them."""
_MAX_TOKEN_LENGTH = 16 * 1024
_SCHEME = "bearer "


class _Answers(OrderedDict[bytes, tuple[HTTPStatus, float]]):
    """The latest answers of one kind by the digest of the token, each with its expiry."""

    def status(self, digest: bytes, now: float) -> HTTPStatus | None:
        """Return the answer for a token until it expires."""
        found, until = self.get(digest, (None, now))
        return found if now < until else None

    def remember(self, digest: bytes, found: HTTPStatus, until: float) -> None:
        """Add an answer, and evict the oldest."""
        self[digest] = (found, until)
        self.move_to_end(digest)
        while len(self) > _MAX_ANSWERS:
            self.popitem(last=False)


class MetricsAccess:
    """Asks the API server and caches the answers. Thread-safe."""

    def __init__(self, api: ClusterApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._granted, self._refused = _Answers(), _Answers()
        self._lock = threading.Lock()

    def status(self, authorization: str) -> HTTPStatus:
        """Return the HTTP status for a request: OK, or why it is refused. Blocks.

        Args:
            authorization: the header of that name; empty for none.
        """
        token = authorization[len(_SCHEME) :].strip() if authorization[: len(_SCHEME)].lower() == _SCHEME else ""
        if not token or len(token) > _MAX_TOKEN_LENGTH:
            return HTTPStatus.UNAUTHORIZED
        digest, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock()
        with self._lock:
            cached = self._granted.status(digest, now) or self._refused.status(digest, now)
        if cached is not None:
            return cached
        try:
            found = self._review(token)
        except ApiError:
            return HTTPStatus.SERVICE_UNAVAILABLE
        with self._lock:
            if found is HTTPStatus.OK:
                self._granted.remember(digest, found, now + _GOOD_FOR_SECONDS)
            else:
                self._refused.remember(digest, found, now + _BAD_FOR_SECONDS)
        return found

    def _review(self, token: str) -> HTTPStatus:
        review = self._api.review(TOKEN_REVIEW, {"token": token})
        if not review.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user: dict[str, Any] = review.get("user") or {}
        request = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": METRICS_PATH, "verb": "get"},
        }
        allowed = self._api.review(SUBJECT_ACCESS_REVIEW, request).get("allowed")
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN
