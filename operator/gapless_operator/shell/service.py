"""Owns the operator as a running process: list, watch, wake, look again, stop; must not know any rule of a reconciler.

One event loop runs the work queue and the clocks; Kopf's watches have a thread of their own and hand over every change.
The watches make the operator quick. That it is right rests on looking at every resource every ten seconds and on
listing the cluster anew every minute, for watches are known to go silent and to pass over deletions.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_operator.common.observed import KIND_LABEL
from gapless_operator.common.references import names_of
from gapless_operator.shell.api.client import ApiError, ClusterApi, RefusedError, connected
from gapless_operator.shell.api.faults import FaultPoint
from gapless_operator.shell.api.kinds import (
    CONFIG_MAP,
    DIODE,
    GAP_SCAN,
    NAMED,
    OWNERS,
    POD,
    RESEND,
    SPARK_APPLICATION,
    Kind,
)
from gapless_operator.shell.api.server_clock import ServerClock
from gapless_operator.shell.cache.lists import Lists
from gapless_operator.shell.cache.nodes import Nodes
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.relations import diode_of, owner_of
from gapless_operator.shell.cache.store import Body, Cache, Key, key_of
from gapless_operator.shell.cache.watches import Watches
from gapless_operator.shell.controller import Controller
from gapless_operator.shell.http.endpoints import Endpoints
from gapless_operator.shell.http.metrics_access import MetricsAccess
from gapless_operator.shell.http.serving_certificate import ServingCertificate
from gapless_operator.shell.leases import TRY_SECONDS, Leases
from gapless_operator.shell.metrics import Metrics
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from gapless_operator.common.settings import OperatorSettings
    from gapless_operator.shell.http.endpoints import ProbeResult

_LOG = structlog.get_logger("gapless.service")
_WORKERS = 6
"""Resources that are reconciled at the same time; each waits for the API server most of the time."""
_LOG_READERS = 8
"""Nodes whose kubelets are asked for logs at the same time."""
_NODE_SECONDS = 10.0
"""How often the nodes of our pods are looked at; Kubernetes itself takes 40 seconds to call one lost."""
_CANARY = "gapless-operator-canary"
_NAMED_KINDS = {kind.name for kind in NAMED}
_PAUSE_SECONDS = 0.05
"""Between the few resources that are looked at together without a reason."""
_CERTIFICATE_SECONDS = 600.0
"""How often the certificate of the metrics port is read anew."""
_OWNER_KINDS = {kind.name: kind for kind in OWNERS}


class Service:
    """The operator."""

    def __init__(self, settings: OperatorSettings, api: ClusterApi | None = None) -> None:
        """Prepare it; nothing is sent yet.

        Raises:
            ConfigurationError: no cluster is known.
        """
        self._settings = settings
        self._cache = Cache()
        self._metrics = Metrics(self._cache, queue_length=lambda: self._queue.depth)
        self._clock = ServerClock()
        self._api = api or ClusterApi(
            connected(),
            FaultPoint(settings.fault_after_write),
            instance=settings.instance,
            clock=self._clock,
            asked=lambda method: self._metrics.requests.labels(method).inc(),
        )
        self._nodes = Nodes(self._api)
        self._readers = ThreadPoolExecutor(max_workers=_LOG_READERS, thread_name_prefix="logs")
        self._logs = PodLogs(
            self._api,
            start=self._readers.submit,
            changed=self._log_was_read,
            node=self._nodes.state,
            now=self._clock.now,
        )
        self._observer = Observer(self._cache, self._api, self._logs, self._nodes.state)
        self._controller = Controller(
            settings,
            self._api,
            self._cache,
            self._observer,
            self._metrics,
            self._clock.now,
            on_change=self._changed_here,
        )
        self._lists = Lists(
            self._api, self._cache, settings.namespaces, changed=self._changed_here, listed=self._heard_by_list
        )
        self._leases = Leases(
            self._api, settings.namespaces or (settings.own_namespace or "default",), settings.instance
        )
        self._endpoints = Endpoints()
        self._certificate = (
            ServingCertificate(settings.metrics_certificate)
            if settings.metrics_port and settings.metrics_authentication
            else None
        )
        # With a fault point nothing runs beside, so that no other write is on its way when the process ends.
        workers = _WORKERS if settings.fault_after_write is None else 1
        self._queue = WorkQueue[Key](self._work, workers=workers, failed=self._failed)
        self._watched: set[tuple[Kind, str | None]] = set()
        self._seen_diodes: dict[Key, object] = {}
        self._seen_specs: dict[Key, tuple[str, int]] = {}
        """Uid and generation of each resource when it was woken last."""
        self._ready = False
        self._watches: list[Watches] = []
        self._has_canary = True
        self._beat = time.monotonic()
        self._stopped = asyncio.Event()
        self._problem: BaseException | None = None

    async def run(self) -> int:
        """Run until a signal; return the exit code."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(max_workers=_WORKERS + 2, thread_name_prefix="worker"))
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self._stopped.set)
        await self._serve()
        _LOG.info("starting", namespaces=list(self._settings.namespaces) or "all", instance=self._settings.instance)
        clocks = [asyncio.create_task(self._run_all())]
        await self._stopped.wait()
        _LOG.info("stopping", because=repr(self._problem) if self._problem else "signal")
        for clock in clocks:
            clock.cancel()
        await asyncio.gather(*clocks, return_exceptions=True)
        await self._queue.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._leases.release)
        await asyncio.gather(*(asyncio.to_thread(watches.stop) for watches in self._watches))
        await self._endpoints.close()
        return 0 if self._problem is None else 1

    async def _serve(self) -> None:
        """Answer probes and Prometheus, from the start on."""
        settings = self._settings
        if settings.health_port:
            await self._endpoints.serve_probes(settings.health_port, healthy=self._healthy, ready=self._serves_all)
        if settings.metrics_port:
            access = MetricsAccess(self._api) if settings.metrics_authentication else None
            security = self._certificate.context if self._certificate is not None else None
            await self._endpoints.serve_metrics(
                settings.metrics_port, self._metrics.registry, access=access, security=security
            )

    async def _run_all(self) -> None:
        """Take the Leases, list, watch, then tick for ever."""
        try:
            await self._hold()
            await self._first_list()
            self._start_watches()
            self._ready = True
            self._wake_all()
            _LOG.info("serving", kinds=sorted({kind.name for kind, _ in self._lists.served}))
            await asyncio.gather(
                self._every(self._settings.resync_seconds / 2, self._resync),
                self._every(self._settings.relist_seconds, self._relist),
                self._every(self._settings.canary_seconds, self._touch_canary, at_once=True),
                self._every(_NODE_SECONDS, self._look_at_nodes, at_once=True),
                self._every(TRY_SECONDS, self._hold),
                self._every(_CERTIFICATE_SECONDS, self._renew_certificate),
            )
        except Exception as error:  # noqa: BLE001 -- a defect here must end the process, so that it is started anew
            _LOG.exception("failed")
            self._fail(error)

    def _fail(self, error: BaseException | None) -> None:
        self._problem = error
        self._stopped.set()

    # ------------------------------------------------------------------------------------------------- reading

    async def _first_list(self) -> None:
        """List everything, however long the API server or the definitions of our kinds take to be there."""
        while True:
            try:
                await self._list()
            except ApiError as error:
                _LOG.warning("waiting for the API server", error=str(error))
            else:
                if any(self._lists.serves(kind) for kind in OWNERS):
                    return
                _LOG.warning("waiting for a kind to serve: none is installed, or this account may not list any")
            await asyncio.sleep(3)
            await self._hold()

    async def _list(self, *kinds: Kind) -> None:
        """List `kinds`, or all, anew."""
        try:
            await (asyncio.to_thread(self._lists.list_all, kinds) if kinds else asyncio.to_thread(self._lists.list_all))
        finally:
            self._observer.spark_operator = self._lists.serves(SPARK_APPLICATION)
            self._logs.keep({body["metadata"]["uid"] for body in self._cache.all(POD)})

    def _heard_by_list(self, kind: Kind) -> None:
        if kind is not CONFIG_MAP:  # ConfigMaps have the canary, which says more
            self._metrics.heard(kind.name)

    def _start_watches(self) -> None:
        """Watch what is served: together the namespaces in which the same kinds are."""
        groups: dict[frozenset[Kind], list[str]] = {}
        for namespace in self._lists.namespaces:
            kinds = frozenset(kind for kind, place in self._lists.served if place == namespace)
            if kinds:
                groups.setdefault(kinds, []).extend([] if namespace is None else [namespace])
        for kinds, namespaces in groups.items():
            ordered = sorted(kinds, key=lambda kind: kind.name)
            self._watches.append(
                Watches(ordered, namespaces, changed=self._changed_elsewhere, ended=self._ended_elsewhere)
            )
            self._watched |= {(kind, namespace) for kind in kinds for namespace in (namespaces or (None,))}
        self._metrics.heard(CONFIG_MAP.name)
        for watches in self._watches:
            watches.start()

    def _changed_elsewhere(self, kind: Kind, what: str | None, body: Body) -> None:
        """Take a change from the watches' thread."""
        self._metrics.heard(kind.name)
        with contextlib.suppress(RuntimeError):  # the loop is closed: we are stopping
            self._loop.call_soon_threadsafe(self._changed, what, body)

    def _changed_here(self, body: Body) -> None:
        """Take our own change from a worker's thread: a Diode's turn is news to its Resends, whoever wrote it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_for, body)

    def _ended_elsewhere(self, problem: BaseException | None) -> None:
        if problem is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._fail, problem)

    def _changed(self, what: str | None, body: Body) -> None:
        if self._cache.remove(body) if what == "DELETED" else self._cache.store(body):
            self._wake_for(body)

    def _log_was_read(self, pod: Mapping[str, Any]) -> None:
        """Take news from a reader's thread: they matter to the owner of the pod."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_owner, pod)

    # -------------------------------------------------------------------------------------------------- waking

    def _wake_for(self, body: Body) -> None:
        """Wake everybody to whom the change of an object may matter, once all objects are known."""
        if not self._ready:
            return
        namespace = body["metadata"].get("namespace", "")
        if body["kind"] in _OWNER_KINDS:
            self._queue.wake(key_of(body), urgent=self._has_another_spec(body))
            if body["kind"] == RESEND.name:
                diode = ((body.get("spec") or {}).get("diodeRef") or {}).get("name")
                self._wake(DIODE, namespace, diode)
            elif body["kind"] == DIODE.name and self._matters_to_resends(body):
                self._wake_resends(body)
            return
        if body["kind"] in _NAMED_KINDS:
            self._wake_those_that_name(body["kind"], namespace, body["metadata"]["name"])
            return
        self._wake_owner(body)
        if (diode := diode_of(body, self._cache)) is not None:
            self._queue.wake(diode)

    def _wake_owner(self, child: Mapping[str, Any]) -> None:
        """Wake the resource to which a child belongs."""
        if (owner := owner_of(child, self._cache)) is not None:
            self._queue.wake(owner)

    def _wake_resends(self, diode: Body) -> None:
        """Wake the Resends that look at a Diode: those over it, and others while it uses a receiver of theirs."""
        name, is_shared = diode["metadata"]["name"], "encryption" in (diode.get("spec") or {})
        for resend in self._cache.all(RESEND, diode["metadata"]["namespace"]):
            over = ((resend.get("spec") or {}).get("diodeRef") or {}).get("name")
            if (is_shared or over == name) and not (resend.get("status") or {}).get("finishedAt"):
                self._queue.wake(key_of(resend))

    def _wake_those_that_name(self, kind: str, namespace: str, name: str) -> None:
        for body in (*self._cache.all(RESEND, namespace), *self._cache.all(GAP_SCAN, namespace)):
            if (kind, name) in names_of(body.get("spec")) and not (body.get("status") or {}).get("finishedAt"):
                self._queue.wake(key_of(body))

    def _has_another_spec(self, body: Body) -> bool:
        """Whether somebody has changed what a resource asks for; its status, which we write ourselves, is no news."""
        spec = (body["metadata"]["uid"], body["metadata"].get("generation", 0))
        known = self._seen_specs.get(key_of(body))
        self._seen_specs[key_of(body)] = spec
        return spec != known

    def _matters_to_resends(self, diode: Body) -> bool:
        """Whether a Diode has changed in what Resends look at; with hundreds in its queue most changes are no news."""
        metadata, status = diode["metadata"], diode.get("status") or {}
        ready = [(c["type"], c["status"]) for c in status.get("conditions") or ()]
        deleted = metadata.get("deletionTimestamp")
        view = (metadata.get("generation"), deleted, status.get("active"), ready)
        known = self._seen_diodes.get(key_of(diode))
        self._seen_diodes[key_of(diode)] = view
        return view != known

    def _wake(self, kind: Kind, namespace: str, name: str | None) -> None:
        if name and self._cache.get(kind, namespace, name) is not None:
            self._queue.wake(Key(kind.name, namespace, name))

    def _wake_all(self) -> None:
        for kind in OWNERS:
            for body in self._cache.all(kind):
                self._queue.wake(key_of(body))

    async def _work(self, key: Key) -> float | None:
        if self._cache.get(_OWNER_KINDS[key.kind], key.namespace, key.name) is None:
            self._queue.forget(key)
            self._seen_specs.pop(key, None)
            self._seen_diodes.pop(key, None)
            self._observer.forget(key)
            return None
        kind = _OWNER_KINDS[key.kind]
        if not self._leases.held(key.namespace) or self._lists.missing(kind, key.namespace):
            return self._settings.resync_seconds
        return await asyncio.to_thread(self._controller.reconcile, key)

    def _failed(self, key: Key, error: Exception, again_after: float) -> None:
        self._metrics.errors.labels(type(error).__name__).inc()
        names = {"resource": key.kind, "namespace": key.namespace, "name": key.name}
        again = round(again_after, 1)
        if isinstance(error, ApiError):
            _LOG.warning("reconcile failed", **names, error=str(error), again_after_seconds=again)
        else:
            _LOG.error("reconcile failed", **names, again_after_seconds=again, exc_info=error)

    # -------------------------------------------------------------------------------------------------- clocks

    async def _every(self, seconds: float, do: Callable[[], Awaitable[None]], *, at_once: bool = False) -> None:
        """Do something again and again; what fails is told and done again next time."""
        while True:
            if not at_once:
                await asyncio.sleep(seconds)
            at_once = False
            try:
                await do()
            except ApiError as error:
                self._metrics.errors.labels(type(error).__name__).inc()
                _LOG.warning("the API server does not answer", error=str(error))

    async def _resync(self) -> None:
        """Look at every resource, and list the kinds that are served and not watched.

        One after the other, over half of the time, so that what has changed need not wait behind all that has not.
        """
        self._beat = time.monotonic()
        unwatched = dict.fromkeys(kind for kind, place in self._lists.served if (kind, place) not in self._watched)
        try:
            if unwatched:
                await self._list(*unwatched)
        finally:
            keys = [key_of(body) for kind in OWNERS for body in self._cache.all(kind)]
            at_once = max(round(len(keys) * _PAUSE_SECONDS / (self._settings.resync_seconds / 2)), 1)
            for number, key in enumerate(keys, start=1):
                self._queue.wake(key)
                if number % at_once == 0:
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def _relist(self) -> None:
        await self._list()

    async def _hold(self) -> None:
        """Renew the Leases; what another operator did until now is listed before we go on where it stopped."""
        if await asyncio.to_thread(self._leases.renew) and self._ready:
            await self._list()
            self._wake_all()

    async def _renew_certificate(self) -> None:
        if self._certificate is None:
            return
        try:
            self._certificate.reload()
        except ConfigurationError as error:
            _LOG.warning("the certificate of before is served on", error=str(error))

    async def _look_at_nodes(self) -> None:
        """See how the nodes are on which our pods are, or the last look at a Diode's node was."""
        diodes = {
            ((body.get("status") or {}).get("preflight") or {}).get("node", "") for body in self._cache.all(DIODE)
        }
        names = diodes | {str((pod.get("spec") or {}).get("nodeName", "")) for pod in self._cache.all(POD)}
        changed = await asyncio.to_thread(self._nodes.read, names)
        if not changed:
            return
        for pod in self._cache.all(POD):
            if (pod.get("spec") or {}).get("nodeName") in changed:
                self._wake_for(pod)
        for diode in self._cache.all(DIODE):
            if ((diode.get("status") or {}).get("preflight") or {}).get("node") in changed:
                self._queue.wake(key_of(diode))

    async def _touch_canary(self) -> None:
        """Change the canary, which the watch of ConfigMaps must bring back."""
        place = next((namespace for kind, namespace in sorted(self._lists.served, key=str) if kind is CONFIG_MAP), None)
        namespace = place or self._settings.own_namespace
        if not namespace:
            return
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": _CANARY,
                "namespace": namespace,
                "labels": {KIND_LABEL: "Canary", "app.kubernetes.io/managed-by": "gapless-operator"},
            },
            "data": {"touched": datetime.now(UTC).isoformat(), "by": self._settings.instance},
        }
        try:
            await asyncio.to_thread(self._api.apply_unseen, manifest)
        except RefusedError as error:
            if self._has_canary:
                _LOG.warning("silent watches cannot be noticed: the canary may not be written", error=str(error))
            self._has_canary = False
        else:
            self._has_canary = True

    def _healthy(self) -> ProbeResult:
        """Whether the process is worth going on; when the watches are silent, a new one is worth a try."""
        if not self._ready:
            return HTTPStatus.SERVICE_UNAVAILABLE, "The operator is starting: it has not listed the cluster yet."
        stale = self._settings.stale_seconds
        age = self._metrics.age_seconds(CONFIG_MAP.name)
        still = time.monotonic() - self._beat
        problem = ""
        if self._has_canary and age is not None and age > stale:
            problem = f"Nothing was heard from the API server for {age:.0f} seconds."
        elif still > stale + self._settings.resync_seconds:
            problem = f"The work loop has not turned for {still:.0f} seconds."
        if problem:
            _LOG.warning("not alive", because=problem)
            return HTTPStatus.INTERNAL_SERVER_ERROR, problem
        return HTTPStatus.OK, "ok"

    def _serves_all(self) -> ProbeResult:
        """Whether every namespace is served: not while another operator serves one of them."""
        if not self._ready:
            return self._healthy()
        waiting = self._leases.waiting()
        return (HTTPStatus.SERVICE_UNAVAILABLE, waiting) if waiting else (HTTPStatus.OK, "ok")
