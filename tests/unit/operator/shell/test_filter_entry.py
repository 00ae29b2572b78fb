"""A Resend's filter rules are read from the copy once it exists, and only while they are needed."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

import pytest

from gapless_api.v1alpha1.resend import Resend
from gapless_operator.sending.resend.filter_rules import copy_entry, rules_copy, with_rules
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.observer import Observer

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi
    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.pod_logs import PodLogs


class Store:
    """What an API server has of ConfigMaps."""

    def __init__(self, **maps: dict[str, Any]) -> None:
        self.maps = maps
        self.read: list[str] = []

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind.name, namespace) == ("ConfigMap", "senders")
        self.read.append(name)
        return self.maps.get(name)


def resend(**status: Any) -> Resend:
    spec = {
        "diodeRef": {"name": "hall"},
        "kafkaRef": {"name": "kafka"},
        "offsets": {"topic": "t", "partition": 0, "from": 0},
        "inputFilter": {"rulesFrom": {"configMap": {"name": "site"}}},
    }
    metadata = {"name": "repeat", "namespace": "senders", "uid": "u-1", "generation": 1, "resourceVersion": "1"}
    return Resend.from_resource({"metadata": metadata, "spec": spec, "status": status})


def entry(store: Store, cache: Cache, of: Resend) -> bytes | None:
    world = Observer(cache, cast("ClusterApi", store), cast("PodLogs", None))
    body = {"metadata": {"namespace": "senders"}, "spec": of.spec.to_dict()}
    return world.observe_resend(of, body).filter_entry


@pytest.mark.parametrize(
    "content", [{"data": {"filter.rules": "deny:a"}}, {"binaryData": {"filter.rules": base64.b64encode(b"deny:a")}}]
)
def test_rules_come_from_the_config_map_that_the_spec_names(content: dict[str, Any]) -> None:
    assert entry(Store(site=content), Cache(), resend()) == b"deny:a"
    assert entry(Store(other=content), Cache(), resend()) is None
    assert entry(Store(site={}), Cache(), resend()) is None


def test_the_copy_counts_once_it_is_there() -> None:
    mine = resend()
    copy = rules_copy(with_rules(mine, b"deny:a"))
    assert copy is not None
    copy["metadata"] |= {"uid": "c-1", "resourceVersion": "2"}
    store = Store(site={"data": {"filter.rules": "allow:."}}, **{copy_entry(mine).name: copy})
    assert entry(store, Cache(), mine) == b"allow:.", "somebody else's object of that name is not ours"
    cache = Cache()
    cache.store(copy)
    assert entry(store, cache, mine) == b"deny:a\n"
    del store.maps[copy_entry(mine).name]
    assert entry(store, cache, mine) == b"allow:.", "the copy was deleted, and the cache does not know yet"


def test_nothing_is_read_for_a_resend_that_has_ended() -> None:
    store = Store(site={"data": {"filter.rules": "deny:a"}})
    ended = resend(finishedAt="2026-11-20T10:00:00Z", observedGeneration=1)
    assert entry(store, Cache(), ended) is None
    assert store.read == []
