"""After a conflict the changed object is cached and reported, because the watch will bring nothing new."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_operator.common.settings import OperatorSettings
from gapless_operator.shell.api.errors import ApiError, ConflictError, NotFoundError
from gapless_operator.shell.api.kinds import DIODE
from gapless_operator.shell.controller import Controller
from gapless_operator.shell.metrics import Metrics

SenderCluster = Any


class Api:
    """Has changed or deleted the object before its status is written."""

    def __init__(self, refusal: ApiError, now: dict[str, Any] | None) -> None:
        self.refusal, self.now = refusal, now

    def apply_status(self, *_: Any) -> dict[str, Any]:
        raise self.refusal

    def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "child", "resourceVersion": "1"}}

    def get(self, kind: Any, *_: Any) -> dict[str, Any] | None:
        return self.now if kind is DIODE else None


@pytest.mark.parametrize("news", ["changed", "gone"])
def test_a_diode_that_a_conflict_shows_as_changed_or_gone_is_news_to_its_resends(
    cluster: SenderCluster, news: str
) -> None:
    is_gone = news == "gone"
    cluster.diode("hall")
    cache, gathering = cluster.cache_and_observer()
    [key] = cluster.owner_keys()
    known = cache.get(DIODE, key.namespace, key.name)
    version = str(int(known["metadata"]["resourceVersion"]) + 1)
    newer = {**known, "metadata": {**known["metadata"], "resourceVersion": version}}
    refusal = NotFoundError("gone") if is_gone else ConflictError("another version")
    api: Any = Api(refusal, None if is_gone else newer)
    told: list[dict[str, Any]] = []
    controller = Controller(
        OperatorSettings(),
        api,
        cache,
        gathering,
        Metrics(queue_length=lambda: 0),
        lambda: cluster.now,
        on_change=told.append,
    )
    controller.reconcile(key)
    assert cache.get(DIODE, key.namespace, key.name) == (None if is_gone else newer)
    assert [body for body in told if body["kind"] == "Diode"] == [known if is_gone else newer]
