"""The metrics of mirror workers as the operator serves them: read from the pods, with their namespaces and names.

Must not know who may read them. What a pod returns comes from another namespace: its size and its time are limited, and
only metrics of mirrors are taken from it.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import aiohttp
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from gapless_operator.common.observed import ROLE_LABEL
from gapless_operator.mirroring.workers import METRICS_PORT, WORKERS_ROLE

_PREFIX = "gapless_mirror_"
_READ = f"{_PREFIX}worker_metrics_read"
_SECONDS = 3.0
"""Timeout of the request to a pod."""
_MAX_BYTES = 4 * 1024 * 1024
"""Of the metrics of one worker: those of some 3,000 partitions."""
_MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""Of all workers in one request, which the operator has in memory."""
_MAX_CONNECTIONS = 32
_CHUNK_BYTES = 64 * 1024
_IPV6 = 6


class WorkerPod(NamedTuple):
    """A pod of a mirror worker that runs."""

    namespace: str
    name: str
    address: str
    """An IP address."""


def worker_pods(bodies: Iterable[Mapping[str, Any]]) -> list[WorkerPod]:
    """Return the pods of mirror workers that run, of the pods in `bodies`."""
    found = []
    for body in bodies:
        metadata, status = body["metadata"], body.get("status") or {}
        if (metadata.get("labels") or {}).get(ROLE_LABEL) == WORKERS_ROLE and status.get("phase") == "Running":
            found.append(WorkerPod(metadata["namespace"], metadata["name"], status.get("podIP", "")))
    return found


async def read_workers(pods: Sequence[WorkerPod], port: int = METRICS_PORT) -> list[str | None]:
    """Return the text of each pod's metrics; ``None`` for a pod that does not return them."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        reader = _Reader(session, port)
        return await asyncio.gather(*map(reader.read, pods))


class _Reader:
    """Reads the metrics of pods, of which only some are read at the same time."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session, self._port = session, port
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._left = _MAX_TOTAL_BYTES

    async def read(self, pod: WorkerPod) -> str | None:
        """Return the text of one pod; ``None`` if it cannot be read."""
        async with self._free:
            try:
                async with asyncio.timeout(_SECONDS):
                    return await self._text(pod)
            except (aiohttp.ClientError, OSError, ValueError):  # a timeout is an OSError
                return None

    async def _text(self, pod: WorkerPod) -> str | None:
        address = ipaddress.ip_address(pod.address)
        host = f"[{address}]" if address.version == _IPV6 else str(address)
        async with self._session.get(f"http://{host}:{self._port}/metrics", allow_redirects=False) as response:
            if response.status != HTTPStatus.OK:
                return None
            content = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                content += chunk
                self._left -= len(chunk)
                if len(content) > _MAX_BYTES or self._left < 0:
                    return None
            return content.decode("utf-8")


def merged(pods: Sequence[WorkerPod], texts: Sequence[str | None]) -> bytes:
    """Return all metrics as one text, each with the labels namespace and pod.

    The metric gapless_mirror_worker_metrics_read is 0 for a pod whose metrics cannot be read, or are none of a mirror.
    """
    read = Metric(_READ, "Whether the metrics of a mirror worker could be read.", "gauge")
    families: dict[str, Metric] = {}
    for pod, text in zip(pods, texts, strict=True):
        labels = {"namespace": pod.namespace, "pod": pod.name}
        own = _families_of(text) if text is not None else None
        read.add_sample(_READ, labels, 0 if own is None else 1)
        for family in own or ():
            kept = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                kept.add_sample(sample.name, {**sample.labels, **labels}, sample.value)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families([read, *families.values()]))
    return generate_latest(registry)


def _families_of(text: str) -> list[Metric] | None:
    try:
        families = list(text_string_to_metric_families(text))
    except (ValueError, KeyError, IndexError):
        return None
    return [each for each in families if each.name.startswith(_PREFIX) and each.name != _READ]


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Return what was read."""
        return iter(self._families)
