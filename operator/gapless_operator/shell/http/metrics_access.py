"""Owns who may read the metrics: whoever Kubernetes knows by the token and lets ``get /metrics``.

Must not know what is served, nor how. Metrics name every topic that loses events and how fast they are sent again,
which is nothing for everybody on the network. Tokens are kept as digests, and only for as long as an answer is good.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gapless_operator.shell.api.errors import ApiError
from gapless_operator.shell.api.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_operator.shell.api.client import ClusterApi

METRICS_PATH = "/metrics"
_GOOD_FOR_SECONDS, _BAD_FOR_SECONDS = 60.0, 10.0
"""How long an answer is relied on; a token that is taken back works for a minute more."""
_MOST_ANSWERS = 1000
_LONGEST_TOKEN = 16 * 1024
_SCHEME = "bearer "


class MetricsAccess:
    """Asks the API server and remembers the answer for a while. Safe to use from several threads."""

    def __init__(self, api: ClusterApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._answers: OrderedDict[bytes, tuple[HTTPStatus, float]] = OrderedDict()
        self._lock = threading.Lock()

    def status(self, authorization: str) -> HTTPStatus:
        """What to answer a request with that header: OK, or why not. Blocks.

        Args:
            authorization: the header; empty for none.
        """
        token = authorization[len(_SCHEME) :].strip() if authorization[: len(_SCHEME)].lower() == _SCHEME else ""
        if not token or len(token) > _LONGEST_TOKEN:
            return HTTPStatus.UNAUTHORIZED
        digest, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock()
        with self._lock:
            known = self._answers.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        try:
            found = self._review(token)
        except ApiError:
            return HTTPStatus.SERVICE_UNAVAILABLE
        until = now + (_GOOD_FOR_SECONDS if found is HTTPStatus.OK else _BAD_FOR_SECONDS)
        with self._lock:
            self._answers[digest] = (found, until)
            self._answers.move_to_end(digest)
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        return found

    def _review(self, token: str) -> HTTPStatus:
        who = self._api.review(TOKEN_REVIEW, {"token": token})
        if not who.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user: dict[str, Any] = who.get("user") or {}
        asked = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": METRICS_PATH, "verb": "get"},
        }
        allowed = self._api.review(SUBJECT_ACCESS_REVIEW, asked).get("allowed")
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN
