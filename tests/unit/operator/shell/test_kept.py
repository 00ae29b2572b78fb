"""Cached state is dropped with its object, and a bundle, which is not cached, is read only when it is needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gapless_api.v1alpha1.resend import Resend
from gapless_operator.common.settings import OperatorSettings
from gapless_operator.shell.api.errors import ConflictError
from gapless_operator.shell.api.kinds import RESEND
from gapless_operator.shell.cache.store import Cache, Key
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.service import Service

TEXT = '{"type": "all", "results": []}'


def body(text: str = TEXT, *, version: int = 1, status: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": str(version), "generation": 1}
    spec = {"diodeRef": {"name": "d"}, "kafkaRef": {"name": "k"}, "bundle": {"inline": text}}
    head = {"apiVersion": "gapless.dev/v1alpha1", "kind": "Resend"}
    return {**head, "metadata": metadata, "spec": spec, "status": status or {}}


class Server:
    """Holds one Resend and counts how often it is read."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held, self.reads = held, 0

    def get(self, *_: Any) -> dict[str, Any]:
        self.reads += 1
        return self.held


def world_of(given: dict[str, Any]) -> tuple[Observer, Server, dict[str, Any]]:
    server, cache = Server(given), Cache()
    cache.store(given)
    kept = cache.get(RESEND, "n", "a")
    assert kept is not None
    return Observer(cache, server, None), server, kept  # type: ignore[arg-type]


def test_a_bundle_is_read_while_it_is_not_known_which_one_it_is() -> None:
    world, server, kept = world_of(body())
    found = world.with_inline_bundle(world.resource(Resend, kept))
    assert found.spec.bundle is not None
    assert found.spec.bundle.inline == TEXT
    assert server.reads == 1


def test_an_inspected_bundle_is_not_read_again() -> None:
    world, server, kept = world_of(body(status={"bundleSha256": "0" * 64}))
    resend = world.resource(Resend, kept)
    assert world.with_inline_bundle(resend) is resend
    assert server.reads == 0


def test_a_manifest_gets_the_bundle_and_no_other_manifest_costs_a_read() -> None:
    world, server, kept = world_of(body())
    inline = kept["spec"]["bundle"]["inline"]
    manifest = {"kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"bundle": inline, "other": "x"}}
    assert world.with_bundle(kept, manifest)["data"] == {"bundle": TEXT, "other": "x"}
    assert server.reads == 1
    for other in ({"kind": "ConfigMap", "data": {"report.json": "{}"}}, {"kind": "Job", "spec": {}}):
        assert world.with_bundle(kept, other) is other
    assert server.reads == 1


def test_a_changed_resend_is_reconciled_again_before_its_bundle_is_used() -> None:
    world, server, kept = world_of(body())
    server.held = body("another bundle")
    with pytest.raises(ConflictError):
        world.with_inline_bundle(world.resource(Resend, kept))


def test_what_is_kept_about_an_object_goes_with_it() -> None:
    key = Key("Resend", "n", "a")

    async def run() -> Service:
        service = Service(OperatorSettings(metrics_port=0), connect=lambda **_: Server(body()))  # type: ignore[arg-type,return-value]
        service._health.is_ready = True
        service._cache.store(body())
        service._observer.resource(Resend, body())
        service._apply_change("DELETED", body(version=2))
        for _ in range(100):
            await asyncio.sleep(0.01)
            if key not in service._observer._models:
                break
        await service._queue.close()
        return service

    service = asyncio.run(run())
    assert key not in service._observer._models
    assert key not in service._enqueuer._seen_specs
    assert key not in service._queue._items
